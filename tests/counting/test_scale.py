"""Bookkeeping at scale: parts, a million shards, a million tiny documents, memory that stays flat."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import runs

from trimbed.counting.part import parse_part, shards_of_part
from trimbed.counting.queue import ShardQueue
from trimbed.counting.shards import Extent, ReadOptions, group_extents, make_shards, plan_hash
from trimbed.counting.worker import Outcome
from trimbed.errors import UsageError

JOBS = Path(__file__).parents[2] / "configs" / "jobs"
OPTIONS = ReadOptions("jsonl", "text")


@given(number=st.integers(0, 200), parts=st.integers(1, 50))
@settings(max_examples=100, deadline=None)
def test_every_shard_falls_to_exactly_one_part(number: int, parts: int) -> None:
    shards = make_shards("a", [(Extent("x", "x", n, n + 1),) for n in range(number)], OPTIONS)
    found = [shard.key for part in range(parts) for shard in shards_of_part(shards, f"{part}/{parts}")]
    assert sorted(found) == [shard.key for shard in shards]


@pytest.mark.parametrize("text", ["1", "a/b", "3/3", "-1/3", "1/0", "1/", ""])
def test_parts_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give it as i/n"):
        parse_part(text)


@given(sizes=st.lists(st.integers(0, 50)), target=st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_grouping_keeps_every_extent_once_and_in_order(sizes: list[int], target: int) -> None:
    extents = [Extent("x", "x", n, n + 1, size=size) for n, size in enumerate(sizes)]
    groups = list(group_extents(extents, target))
    assert [extent for group in groups for extent in group] == extents
    assert all(groups)
    assert all(sum(extent.size for extent in group) <= target or len(group) == 1 for group in groups)


def test_the_job_files_say_what_the_command_takes() -> None:
    text = (JOBS / "slurm-array.sbatch").read_text(encoding="utf-8")
    if shutil.which("bash"):
        subprocess.run(["bash", "-n", str(JOBS / "slurm-array.sbatch")], check=True)
    (last,) = re.findall(r"--array=0-(\d+)\n", text)
    (parts,) = re.findall(r"^parts=(\d+)$", text, re.MULTILINE)
    assert int(last) + 1 == int(parts)
    job = yaml.safe_load((JOBS / "kubernetes-indexed-job.yaml").read_text(encoding="utf-8"))["spec"]
    (container,) = job["template"]["spec"]["containers"]
    command = container["command"] + container["args"]
    assert command[command.index("--part") + 1].endswith(f"/{job['completions']}")
    from typer.testing import CliRunner

    help_text = CliRunner().invoke(counting_app(), ["--help"], terminal_width=200).output
    options = {word for word in [*command, *text.split()] if re.fullmatch(r"--(part|workers|config)", word)}
    assert options == {"--part", "--workers"}
    assert all(option in help_text for option in options)


def counting_app() -> Any:
    import typer

    from trimbed.cli.count import register

    app = typer.Typer()
    register(app)
    return app


@pytest.mark.slow
def test_a_million_shards_are_planned_and_kept_track_of_in_little_memory_and_time() -> None:
    before = psutil.Process().memory_info().rss
    groups = ((Extent(f"{n // 1000}.jsonl", f"/data/{n // 1000}.jsonl", n, n + 1, size=64),) for n in range(1_000_000))
    shards = make_shards("a", groups, OPTIONS)
    assert len(plan_hash(shards)) == 64
    queue = ShardQueue(shards)
    done = 0
    while (shard := queue.take()) is not None:
        queue.result(shard, Outcome("a", shard.key, 1, 1, 1))
        done += 1
    assert done == 1_000_000 and queue.finished
    assert psutil.Process().memory_info().rss - before < 1_500_000_000


@pytest.mark.slow
def test_a_million_tiny_documents_are_counted(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    corpora.write_text(tmp_path / "a.txt", ["the", "", "cat 1"] * 333_333 + ["end"])
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(tmp_path / "a.txt")}], shard_megabytes=1)
    assert result.documents == 1_000_000
    expected = runs.library_counts(tiny_bpe, ["the", "cat 1"]) * 333_333 + runs.library_counts(tiny_bpe, ["end"])
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), expected)


MEMORY = """
import json, resource, sys
import pyarrow as pa
from trimbed.counting.engine import EngineRecipe, load_engine
from trimbed.counting.readers import read_shard
from trimbed.counting.config import DatasetConfig
from trimbed.counting.sources import resolve_source
source = resolve_source(DatasetConfig(path=sys.argv[2]), shard_bytes=1 << 40)
engine = load_engine(EngineRecipe("reference", open(sys.argv[1], encoding="utf-8").read()))
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
(shard,) = source.shards
tally, size, marks = engine.tally(), 0, []
for batch in read_shard(shard):
    tally.add(batch.texts)
    size += batch.texts.nbytes
    marks.append((size, rss()))
total = marks[-1][0]
quarter = max(r for s, r in marks if s <= total / 4)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"quarter": quarter, "end": max(r for s, r in marks), "peak": peak}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [500, 10**9], ids=["row groups", "one row group"])
def test_memory_stays_flat_on_text_without_word_boundaries(
    tiny_metaspace_bpe: dict[str, Any], tmp_path: Path, rows: int
) -> None:
    """Documents that are all different, for a tokenizer without a pre-tokenizer, whose words are whole documents."""
    import random

    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(3, 12))) for _ in range(5000)]
    texts = [" ".join(chance.choices(words, k=2500)) for _ in range(int(os.environ.get("TRIMBED_MEMORY_DOCS", "6000")))]
    path = corpora.write_parquet(tmp_path / "a.parquet", texts, rows=rows)
    (tmp_path / "tokenizer.json").write_text(json.dumps(tiny_metaspace_bpe), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "tokenizer.json"), str(path)],
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["end"] <= found["quarter"] * 1.1
    assert found["peak"] < 600_000_000

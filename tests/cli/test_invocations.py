"""What the command line says to what it can't do: one clear message, exit code 2 for usage and 1 for failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer, a corpus and its counts."""
    place = tmp_path_factory.mktemp("invocations")
    (place / "model").mkdir()
    (place / "model" / "tokenizer.json").write_text(json.dumps(made.tiny("bpe")), encoding="utf-8")
    pq.write_table(pa.table({"text": made.SENTENCES, "n": range(len(made.SENTENCES))}), place / "corpus.parquet")
    (place / "unknown.yaml").write_text("selection: {coverag: 0.9}\n", encoding="utf-8")
    done = run(place, "count --model model --dataset corpus.parquet --cache counts --workers 1")
    assert done.returncode == 0, done.stderr
    return place


def run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trimbed", *line.split(" ")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


BAD = {
    "an unknown command": ("cuont", 2, "cuont"),
    "an unknown option": ("count --modle x", 2, "--modle"),
    "an unknown key in the file": ("select -c unknown.yaml --model model --cache counts", 2, "did you mean coverage"),
    "a negative top_k": ("select --model model --cache counts --top-k -3", 2, "top_k"),
    "an unknown preset": ("select --model model --keep-preset emojis", 2, "emoji"),
    "a cap below what must stay": ("select --model model --cache counts --max-vocab-size 20", 1, "20"),
    "a corpus without a cut": ("select --model model --cache counts", 2, "coverage"),
    "nothing to select by": ("select --model model", 2, "keep_presets"),
    "a cut without counts": ("select --model model --coverage 0.9", 2, "cache"),
    "a cache that isn't one": ("select --model model --cache model --coverage 0.9", 1, "model"),
    "a cache that isn't there": ("sql nowhere SELECT", 1, "nowhere"),
    "a file where a cache's folder is needed": (
        "count --model model --dataset corpus.parquet --cache corpus.parquet", 1, "corpus.parquet",
    ),
    "no tokenizer": ("select --keep-preset digits", 2, "--model"),
    "a tokenizer that isn't there": ("inspect nowhere-at-all", 1, "nowhere-at-all"),
    "a revision beside a local path": (
        "count --model model --revision main --dataset corpus.parquet --cache c2", 2, "revision",
    ),
    "no dataset": ("count --model model --cache c3", 2, "--dataset"),
    "a dataset that isn't there": ("count --model model --dataset missing.parquet --cache c4", 2, "missing.parquet"),
    "a missing text column": (
        "count --model model --dataset corpus.parquet --text-column body --cache c5", 1, "body",
    ),
    "a column that isn't text": ("count --model model --dataset corpus.parquet --text-column n --cache c6", 1, "n"),
    "an engine that doesn't exist": (
        "count --model model --dataset corpus.parquet --cache c7 --engine warp", 2, "engine",
    ),
    "two formats at once": ("sweep --model model --cache counts --coverage 0.9 --json --format csv", 2, "--json"),
    "a sweep of nothing": ("sweep --model model --cache counts", 2, "coverage"),
    "no output folder": ("trim --model model --cache counts --coverage 0.9", 2, "output"),
    "an override that isn't one": ("select --model model --cache counts coverage", 2, "key.path=value"),
    "a config that isn't there": ("count -c nothing.yaml", 2, "nothing.yaml"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_it_is_told_in_one_message_with_the_right_exit_code(case: str, folder: Path) -> None:
    line, code, said = BAD[case]
    done = run(folder, line)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_another_tokenizer_for_a_cache_is_refused_with_what_differs(folder: Path) -> None:
    (folder / "other").mkdir(exist_ok=True)
    (folder / "other" / "tokenizer.json").write_text(json.dumps(made.tiny("wordlevel")), encoding="utf-8")
    for line in (
        "count --model other --dataset corpus.parquet --cache counts",
        "select --model other --cache counts --coverage 0.9",
        "trim --model other --cache counts --coverage 0.9 --output never",
    ):
        done = run(folder, line)
        assert done.returncode == 1, line
        assert "tokenizer" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (folder / "never").exists()


def test_debug_shows_the_traceback(folder: Path) -> None:
    done = run(folder, "--debug inspect nowhere-at-all")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_version_and_help_need_nothing() -> None:
    for option in ("--version", "--help"):
        done = subprocess.run([sys.executable, "-m", "trimbed", option], capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert "trimbed" in done.stdout

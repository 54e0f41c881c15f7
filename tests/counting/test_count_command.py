"""``trimbed count``: what it prints where, its exit codes, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import runs

TEXTS = corpora.documents(100)


@pytest.fixture
def folder(tmp_path: Path, tiny_bpe: dict[str, Any]) -> Path:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text(json.dumps(tiny_bpe), encoding="utf-8")
    corpora.write_jsonl(tmp_path / "a.jsonl", [*TEXTS, None])
    return tmp_path


def trimbed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trimbed", "count", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_count_prints_its_row_on_stdout_and_all_else_on_stderr(folder: Path, tiny_bpe: dict[str, Any]) -> None:
    done = trimbed(folder, "-m", "tokenizer", "-d", "a.jsonl", "--cache", "counts", "-w", "1", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["new"], row["missing"], row["documents"], row["skipped_rows"]) == (1, 0, len(TEXTS), 1)
    assert "1 shards in 1 sources, 1 to count" in done.stderr
    assert "rows skipped: 1 null" in done.stderr
    assert np.array_equal(runs.cached_counts(folder / "counts"), runs.library_counts(tiny_bpe, TEXTS))


def test_flags_win_over_the_file_and_overrides_over_flags(folder: Path) -> None:
    config = {
        "cache": "other",
        "model": {"path": "tokenizer"},
        "corpus": {"executor": "inline", "datasets": [{"path": "a.jsonl"}]},
    }
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    override = "corpus.datasets.0.max_samples=3"
    done = trimbed(folder, "-c", "config.yaml", "--cache", "counts", override, "-f", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split(",")[:6] == ["counts", "1", "1", "0", "0", "3"]


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["-m", "tokenizer", "--cache", "counts"], "no dataset to count", 2),
        (["-d", "a.jsonl", "--cache", "counts"], "no tokenizer given", 2),
        (["-m", "tokenizer", "-d", "a.jsonl"], "no counts cache given", 2),
        (["-m", "tokenizer", "--text-column", "x", "--cache", "c"], "--text-column: these describe a --dataset", 2),
        (["-m", "tokenizer", "-d", "a.jsonl", "--cache", "c", "--part", "3/3"], "need", 2),
        (["-m", "tokenizer", "-d", "a.jsonl", "--cache", "c", "--engine", "fast"], "engine", 2),
        (["-m", "tokenizer", "-d", "a.jsonl", "--cache", "c", "corpus.worker=2"], "did you mean workers", 2),
        (["-m", "tokenizer", "-d", "none.jsonl", "--cache", "c"], "no such file or folder", 2),
        (["-m", "tokenizer", "-d", "a.jsonl", "--text-column", "x", "--cache", "c"], "no column 'x'", 1),
    ],
)
def test_what_it_cannot_act_on_is_one_clear_message(
    folder: Path, arguments: list[str], message: str, code: int
) -> None:
    done = trimbed(folder, *arguments)
    assert message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code
    assert not done.stdout


def test_a_shard_that_cannot_be_counted_is_listed_and_the_exit_code_is_1(folder: Path) -> None:
    from test_counter import damage

    path = corpora.write_parquet(folder / "b.parquet", TEXTS, rows=10)
    damage(path)
    arguments = ("-m", "tokenizer", "-d", "b.parquet", "--cache", "c", "corpus.shard_megabytes=0.001", "--json")
    done = trimbed(folder, *arguments, "--executor", "inline")
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["missing"] == 1
    assert "not counted: shard" in done.stderr and "b.parquet: damaged after row" in done.stderr
    allowed = trimbed(folder, *arguments, "--executor", "inline", "--allow-missing-shards")
    assert allowed.returncode == 0 and "warning: not counted" in allowed.stderr

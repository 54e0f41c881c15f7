"""Files and datasets that can't be read: named, set aside, and nothing else is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import runs

from trimbed.counting import planning
from trimbed.errors import CountingError
from trimbed.storage.cache import CountsCache

TEXTS = corpora.documents(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good files with a bad one between them."""
    data = tmp_path / "data"
    data.mkdir()
    corpora.write_parquet(data / "a.parquet", TEXTS[:30])
    corpora.write_parquet(data / "b.parquet", ["lost"] * 50)
    corpora.write_parquet(data / "c.parquet", TEXTS[30:])
    (data / "b.parquet").write_bytes((data / "b.parquet").read_bytes()[:-20])
    return data


def test_a_truncated_file_is_named_and_all_others_are_counted(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path
) -> None:
    for _ in range(2):  # the second run finds all done, and says the same
        result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}])
        assert (result.exit_code, result.missing, result.failed) == (1, 0, ())
        ((name, why),) = result.left_out.items()
        assert name == "data: b.parquet" and f"{folder / 'b.parquet'}: not a whole Parquet file" in why
        assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))
    assert runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}], allow_missing_shards=True).exit_code == 0


def test_a_file_that_was_mended_is_counted_into_the_same_cache_as_a_dataset_of_its_own(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path
) -> None:
    runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}])
    corpora.write_parquet(folder / "b.parquet", ["found"])
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder / "b.parquet")}])
    assert result.exit_code == 0
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, [*TEXTS, "found"]))


@pytest.mark.parametrize("kind", ["another column", "not text"])
def test_a_file_without_the_text_is_named_and_all_others_are_counted(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path, kind: str
) -> None:
    column, values = ("body", ["x"]) if kind == "another column" else ("text", [5])
    pq.write_table(pa.table({column: values}), folder / "b.parquet")
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}])
    assert result.exit_code == 1
    assert "b.parquet" in str(result.left_out) and "'text'" in str(result.left_out)
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))


def test_strict_stops_before_anything_is_counted(tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path) -> None:
    with pytest.raises(CountingError, match=r"b\.parquet: not a whole Parquet file"):
        runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}], strict=True)
    assert not (tmp_path / "counts").exists()


def test_a_dataset_that_cannot_be_read_does_not_keep_the_others_from_being_counted(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path
) -> None:
    datasets = [{"path": str(folder / f"{name}.parquet")} for name in "bac"]
    result = runs.run(tiny_bpe, tmp_path / "counts", datasets)
    assert result.exit_code == 1 and list(result.left_out) == ["b"]
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))
    corpora.write_parquet(folder / "b.parquet", ["found"])
    again = runs.run(tiny_bpe, tmp_path / "counts", datasets)
    assert (again.exit_code, again.left_out, again.new) == (0, {}, 1)
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, [*TEXTS, "found"]))


def test_where_no_dataset_can_be_read_the_run_ends_with_the_first_error(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path
) -> None:
    with pytest.raises(CountingError, match=r"b\.parquet: not a whole Parquet file"):
        runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder / "b.parquet")}])
    assert not (tmp_path / "counts").exists()


def test_a_part_stops_at_a_dataset_it_cannot_read_since_other_parts_may_see_it(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path
) -> None:
    datasets = [{"path": str(folder / f"{name}.parquet")} for name in "ab"]
    with pytest.raises(CountingError, match=r"b\.parquet"):
        runs.run(tiny_bpe, tmp_path / "counts", datasets, part="0/2")


def refuse_b(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Every look at b.parquet ends in ``error``."""
    real = planning.file_size

    def size(path: str) -> int:
        if path.endswith("b.parquet"):
            raise error
        return real(path)

    monkeypatch.setattr(planning, "file_size", size)


def test_what_may_pass_leaves_no_file_out(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache without that file could not be gone on with once the file can be read again."""
    corpora.write_parquet(folder / "b.parquet", ["there"])
    refuse_b(monkeypatch, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(CountingError, match=r"b\.parquet: can't be read: OSError"):
        runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}])
    assert not (tmp_path / "counts").exists()
    monkeypatch.undo()
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}])
    assert result.exit_code == 0
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, [*TEXTS, "there"]))


def test_a_forbidden_file_is_named_and_all_others_are_counted(
    tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions mean nothing to root, so the refusal is made up."""
    refuse_b(monkeypatch, PermissionError(errno.EACCES, "Permission denied"))
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(folder)}])
    assert result.exit_code == 1
    assert "b.parquet: can't be read: PermissionError" in str(result.left_out)
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))


def test_the_command_names_the_file_and_ends_with_1(tiny_bpe: dict[str, Any], tmp_path: Path, folder: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text(json.dumps(tiny_bpe), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "COLUMNS": "300"}
    program = [sys.executable, "-m", "trimbed", "count", "-m", "tokenizer", "-d", "data"]

    def count(*more: str) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(tmp_path / "counts", ignore_errors=True)
        return subprocess.run(
            [*program, "--cache", "counts", "--json", "--executor", "inline", "--engine", "reference", *more],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    done = count()
    assert done.returncode == 1 and "error: not counted: data: b.parquet" in done.stderr, done.stderr
    assert json.loads(done.stdout)[0]["documents"] == len(TEXTS)
    assert CountsCache.open(str(tmp_path / "counts")).read_counts().num_documents == len(TEXTS)
    strict = count("--strict")
    assert strict.returncode == 1 and not strict.stdout and not (tmp_path / "counts").exists()
    allowed = count("--allow-missing-shards")
    assert allowed.returncode == 0 and "warning: not counted: data: b.parquet" in allowed.stderr

"""Inputs over a network that fails: read to the last row, or failing that shard alone, by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import http_server
import runs

from trimbed.counting import remote
from trimbed.counting.config import DatasetConfig
from trimbed.counting.sources import resolve_source
from trimbed.errors import CountingError, TrimbedError, UsageError

TEXTS = corpora.documents(400)
FAULTS = ["503", "cut", "short", "429", "500"]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No waiting between tries, nothing remembered from the test before, small blocks and so many requests."""
    monkeypatch.setattr(remote, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(remote, "_BLOCK", 1 << 12)
    remote.remote_info.cache_clear()
    yield
    remote.remote_info.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    plain = corpora.write_jsonl(files / "a.jsonl", TEXTS)
    corpora.write_gzip(files / "a.jsonl.gz", plain)
    corpora.write_zstd(files / "a.jsonl.zst", plain)
    corpora.write_parquet(files / "a.parquet", TEXTS)
    corpora.write_csv(files / "a.csv", TEXTS)
    corpora.write_text(files / "a.txt", corpora.one_line(TEXTS))
    return files


NAMES = ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.csv", "a.txt"]


@pytest.mark.parametrize("name", NAMES)
def test_every_third_request_fails_in_some_way_and_every_row_is_read_once(folder: Path, name: str) -> None:
    def fault(number: int, path: str) -> str | None:
        return FAULTS[number // 3 % len(FAULTS)] if number > 0 and number % 3 == 0 else None

    with http_server.serving(folder, fault) as server:
        rows = corpora.read_all(DatasetConfig(path=f"{server.url}/{name}"), shard_bytes=20_000, batch_bytes=5000)
        assert len(server.faults) >= 2
    assert rows.texts == (corpora.one_line(TEXTS) if name == "a.txt" else TEXTS)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.txt"])
def test_a_server_without_ranges_is_read_from_the_beginning_again_after_a_cut(folder: Path, name: str) -> None:
    def fault(number: int, path: str) -> str | None:
        return "cut" if number in (2, 4) else "ignore"

    with http_server.serving(folder, fault) as server:
        rows = corpora.read_all(DatasetConfig(path=f"{server.url}/{name}"), shard_bytes=10**9, batch_bytes=5000)
        assert "cut" in server.faults
    assert rows.texts == (corpora.one_line(TEXTS) if name == "a.txt" else TEXTS)


def test_max_samples_reads_little_of_a_large_file(tmp_path: Path) -> None:
    path = corpora.write_jsonl(tmp_path / "big.jsonl", ["x" * 1000] * 20_000)
    with http_server.serving(tmp_path) as server:
        rows = corpora.read_all(DatasetConfig(path=f"{server.url}/big.jsonl", max_samples=5))
        assert len(rows.texts) == 5
        assert server.sent < path.stat().st_size / 2


def test_a_shard_that_is_gone_is_named_the_rest_is_counted_and_that_can_be_allowed(
    folder: Path, tmp_path: Path, tiny_bpe: dict[str, Any]
) -> None:
    """One file turns into a 404 after the planning; the others fail now and then."""
    for number in range(4):
        corpora.write_jsonl(folder / f"part{number}.jsonl", TEXTS[number * 100 : number * 100 + 100])
    planned = False

    def fault(number: int, path: str) -> str | None:
        if planned and path == "/part2.jsonl":
            return "404"
        return "503" if number > 0 and number % 3 == 0 else None

    with http_server.serving(folder, fault) as server:
        names = [f"{server.url}/part{number}.jsonl" for number in range(4)]
        dataset = {"path": "json", "data_files": names}
        resolve_source(DatasetConfig.model_validate(dataset), shard_bytes=100)
        from trimbed.counting import counter

        original = counter.resolve_source

        def resolve(*arguments: Any, **more: Any) -> Any:
            nonlocal planned
            planned = False
            try:
                return original(*arguments, **more)
            finally:
                planned = True

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counter, "resolve_source", resolve)
            result = runs.run(tiny_bpe, tmp_path / "counts", [dataset], shard_megabytes=0.005)
            allowed = runs.run(
                tiny_bpe, tmp_path / "counts", [dataset], shard_megabytes=0.005, allow_missing_shards=True
            )
    assert result.exit_code == 1
    assert all("part2.jsonl" in str(failed.failure) for failed in result.failed)
    assert result.failed and all(failed.attempts == 1 for failed in result.failed)
    assert allowed.exit_code == 0 and len(allowed.failed) == len(result.failed)
    expected = runs.library_counts(tiny_bpe, TEXTS[:200] + TEXTS[300:])
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), expected)


def test_an_outage_fails_the_shard_and_a_later_run_counts_it(
    folder: Path, tmp_path: Path, tiny_bpe: dict[str, Any]
) -> None:
    down = False

    def fault(number: int, path: str) -> str | None:
        return "503" if down and number > 0 else None

    with http_server.serving(folder, fault) as server, pytest.MonkeyPatch.context() as patch:
        from trimbed.counting import counter

        original = counter.resolve_source

        def resolve(*arguments: Any, **more: Any) -> Any:
            nonlocal down
            source = original(*arguments, **more)
            down = again
            return source

        patch.setattr(counter, "resolve_source", resolve)
        dataset = {"path": f"{server.url}/a.jsonl", "source": "a"}
        again = True
        first = runs.run(tiny_bpe, tmp_path / "counts", [dataset], shard_megabytes=64, retries=1)
        assert first.exit_code == 1 and "503" in str(first.failed[0].failure)
        down = again = False
        assert runs.run(tiny_bpe, tmp_path / "counts", [dataset], shard_megabytes=64).exit_code == 0
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x.parquet", "http://127.0.0.1:9/x.jsonl"])
def test_a_server_that_is_not_there_is_a_clear_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_TRIES", 2)
    with pytest.raises(CountingError, match=r"127\.0\.0\.1:9"):
        resolve_source(DatasetConfig(path=url))


def test_a_file_that_is_not_there_is_a_clear_error(folder: Path) -> None:
    with http_server.serving(folder) as server, pytest.raises(TrimbedError, match=r"none\.parquet"):
        resolve_source(DatasetConfig(path=f"{server.url}/none.parquet"))


def test_folders_and_globs_of_any_fsspec_store_are_listed() -> None:
    store = fsspec.filesystem("memory")
    store.rm("/bucket", recursive=True) if store.exists("/bucket") else None
    for number in range(3):
        text = "".join(f'{{"text": "{line}"}}\n' for line in ("a", f"b{number}"))
        store.pipe_file(f"/bucket/data/{number}.jsonl", text.encode())
    expected = ["a", "b0", "a", "b1", "a", "b2"]
    assert corpora.read_all(DatasetConfig(path="memory://bucket/data")).texts == expected
    assert corpora.read_all(DatasetConfig(path="memory://bucket/data/*.jsonl")).texts == expected
    one = corpora.read_all(DatasetConfig(path="json", data_files="memory://bucket/data/1.jsonl"))
    assert one.texts == ["a", "b1"]
    with pytest.raises(UsageError, match="no file matches"):
        resolve_source(DatasetConfig(path="memory://bucket/none"))

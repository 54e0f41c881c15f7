"""Caches made by strangers, and files that were broken on the way: nothing is believed, nothing is run, nothing
leaks.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.storage.atomic import STALE_SECONDS, is_stale, is_temporary, temporary_name, write_file
from trimbed.storage.cache import CountsCache
from trimbed.storage.errors import CacheError, UsageError
from trimbed.storage.formats import read_counts_into
from trimbed.storage.location import resolve
from trimbed.storage.verification import repair, verify


def parquet(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def ints(*values: int | None, bits: int = 64) -> pa.Array:
    return pa.array(values, pa.int64() if bits == 64 else pa.int32())


BAD_COUNTS = {
    "narrow counts": (parquet(token_id=ints(1, bits=32), count=ints(1, bits=32)), "has the columns"),
    "wide ids": (parquet(token_id=ints(1), count=ints(1)), "has the columns"),
    "other columns": (parquet(token_id=ints(1, bits=32), n=ints(1)), "has the columns"),
    "a column too many": (parquet(token_id=ints(1, bits=32), count=ints(1), n=ints(1)), "has the columns"),
    "text": (parquet(token_id=pa.array(["1"]), count=ints(1)), "has the columns"),
    "null counts": (parquet(token_id=ints(1, 2, bits=32), count=ints(1, None)), "null counts"),
    "all counts null": (parquet(token_id=ints(1, bits=32), count=ints(None)), "null counts"),
    "null ids": (parquet(token_id=ints(1, None, bits=32), count=ints(1, 1)), "null token ids"),
    "an id twice": (parquet(token_id=ints(1, 1, bits=32), count=ints(1, 1)), "repeat"),
    "falling ids": (parquet(token_id=ints(2, 1, bits=32), count=ints(1, 1)), "don't rise"),
    "an id too high": (parquet(token_id=ints(16, bits=32), count=ints(1)), "outside"),
    "a negative id": (parquet(token_id=ints(-1, bits=32), count=ints(1)), "outside"),
    "a negative count": (parquet(token_id=ints(1, bits=32), count=ints(-5)), "below 1"),
    "more rows than ids": (parquet(token_id=pa.array(range(17), pa.int32()), count=ints(*[1] * 17)), "17 rows"),
    "no Parquet": (b"PK\x03\x04 not Parquet at all", "not a readable Parquet file"),
    "nothing": (b"", "not a readable Parquet file"),
}


@pytest.mark.parametrize("name", BAD_COUNTS)
def test_counts_have_one_schema_and_nothing_else_is_read(name: str) -> None:
    data, problem = BAD_COUNTS[name]
    total = np.zeros(filled.VOCAB, np.int64)
    with pytest.raises(CacheError, match=problem) as caught:
        read_counts_into(total, data, where="shard.parquet")
    assert "shard.parquet" in str(caught.value)
    assert not total.any()


def test_counts_beyond_32_bits_and_empty_shards_add_up() -> None:
    total = np.zeros(filled.VOCAB, np.int64)
    for count in (5, 5_000_000_000):
        read_counts_into(total, parquet(token_id=ints(3, bits=32), count=ints(count)), where="a")
    read_counts_into(total, parquet(token_id=ints(bits=32), count=ints()), where="empty")
    assert total[3] == 5_000_000_005


def test_a_file_beside_the_shards_is_not_counted(tmp_path: Path) -> None:
    cache = filled.full(tmp_path / "run[1]")
    before = cache.read_counts().total_num_tokens
    merged = parquet(token_id=ints(1, bits=32), count=ints(1000))
    (tmp_path / "run[1]/tokens/source=de/merged.parquet").write_bytes(merged)
    (tmp_path / "run[1]/tokens/merged.parquet").write_bytes(merged)
    assert CountsCache.open(tmp_path / "run[1]").read_counts().total_num_tokens == before == 108
    assert "tokens/source=de/merged.parquet" in verify(cache).leftovers


def edited(tmp_path: Path, **changes: Any) -> Path:
    filled.full(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return tmp_path


def tokenizer(**changes: Any) -> dict[str, Any]:
    return {**filled.TOKENIZER.model_dump(), **changes}


def source(**changes: Any) -> dict[str, Any]:
    return {"identity": {}, "plan_hash": "x", "shards": 1, **changes}


BAD_MANIFESTS: dict[str, dict[str, Any]] = {
    "a huge vocabulary": {"tokenizer": tokenizer(vocab_size=2**40)},
    "a negative vocabulary": {"tokenizer": tokenizer(vocab_size=-1)},
    "an unknown key": {"loader": "pickle"},
    "a newer format": {"format_version": 99},
    "no format": {"format_version": "x" * 1000},
    "a huge plan": {"sources": {"de": source(shards=2**80)}},
    "a nameless source": {"sources": {"": source()}},
    "sources in a list": {"sources": []},
}


@pytest.mark.parametrize("name", BAD_MANIFESTS)
def test_a_crafted_manifest_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CacheError) as caught:
        CountsCache.open(edited(tmp_path, **BAD_MANIFESTS[name]))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff\xfe", b'{"format_version": 1}'])
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(CacheError, match=r"manifest\.json"):
        CountsCache.open(tmp_path)


@pytest.mark.parametrize("name", ["../../out", "/etc", "..", "a/../../out", "~/out"])
def test_a_name_in_a_manifest_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    place = edited(tmp_path / "x" / "counts", sources={name: source()})
    cache = CountsCache.open(place)
    assert cache.read_counts().total_num_tokens == 0
    filled.put(cache, name, "../../../out", {1: 1})
    assert cache.read_counts().total_num_tokens == 1
    repair(cache)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["counts"]


@pytest.mark.parametrize("name", ["", "..", "a/../b", "/etc/passwd", "a//b", "a\\b", "a\0b"])
def test_no_name_leaves_a_place(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        resolve(tmp_path).write(name, b"x")


def test_nothing_is_written_through_a_link_that_leads_out(tmp_path: Path) -> None:
    cache = CountsCache.create_or_open(tmp_path / "counts", filled.manifest("de"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "counts/tokens").symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(CacheError, match="leads out of the cache"):
        filled.put(cache, "de", "0", {1: 1})
    assert list((tmp_path / "outside").iterdir()) == []


BAD_RECORDS = {
    "a huge sum": {"tokens": 2**70},
    "a negative sum": {"documents": -1},
    "another shard": {"shard": "../../x"},
    "another source": {"source": "nl/dutch"},
    "a path for a file": {"files": {"../../tokens": {"sha256": "0" * 64, "bytes": 1, "rows": 1}}},
    "a digest that is none": {"digest": "x"},
    "an unknown key": {"__reduce__": "os.system"},
    "a file larger than it is": {"files": {"tokens": {"sha256": "0" * 64, "bytes": 2**50, "rows": 2**50}}},
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_crafted_record_is_refused_and_repaired_away(tmp_path: Path, name: str) -> None:
    cache = filled.full(tmp_path)
    path = tmp_path / "shards/source=de/00000001.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **BAD_RECORDS[name]}))
    with pytest.raises(CacheError, match="00000001"):
        cache.read_counts()
    assert [finding.file for finding in verify(cache).findings] == ["00000001"]
    repair(cache)
    assert verify(cache).sound


def test_a_temporary_file_is_stale_once_its_writer_is_gone(tmp_path: Path) -> None:
    mine = temporary_name("a.parquet")
    assert is_temporary(mine)
    assert not is_stale(mine, age=10.0)
    assert is_stale(mine, age=STALE_SECONDS + 1.0)
    done = subprocess.run(
        [sys.executable, "-c", "from trimbed.storage.atomic import temporary_name; print(temporary_name('b.parquet'))"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    dead = done.stdout.strip()
    assert is_stale(dead, age=0.0)
    foreign = mine.replace(mine.split(".")[-2].split("-")[0], "0123456789ab")
    assert not is_stale(foreign, age=60.0)
    cache = filled.full(tmp_path)
    folder = tmp_path / "tokens/source=de"
    for name in (mine, dead, foreign, ".keep"):
        (folder / name).write_bytes(b"x")
    CountsCache.create_or_open(tmp_path, cache.manifest)
    assert {path.name for path in folder.iterdir() if path.name.startswith(".")} == {mine, foreign, ".keep"}
    assert CountsCache.open(tmp_path).read_counts().total_num_tokens == 108


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(str(tmp_path / "file"), b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(str(tmp_path / "file"), b"after")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"before"}

"""Committing shards and reading them back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.storage.cache import CountsCache
from trimbed.storage.errors import CacheError, CacheMismatch, UsageError
from trimbed.storage.manifest import SourceIdentity
from trimbed.storage.records import SAMPLE_BYTES, Sample


def test_what_was_committed_is_read_back(tmp_path: Path) -> None:
    filled.full(tmp_path / "counts")
    counts = CountsCache.open(tmp_path / "counts").read_counts()
    assert counts.by_source["de"].tolist() == filled.dense({1: 3, 2: 3, 3: 7, 4: 7, 5: 7}).tolist()
    assert counts.by_source["nl/dutch"].tolist() == filled.dense({1: 30, 2: 30, 3: 7, 4: 7, 5: 7}).tolist()
    assert counts.total_num_tokens == 27 + 81
    assert counts.num_documents == 12
    assert counts.distinct_tokens == 5
    assert len(counts.samples) == 8


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    filled.full(tmp_path)
    names = set(filled.files(tmp_path))
    assert {"manifest.json", "vocabulary.parquet", "shards/source=nl%2Fdutch/00000001.json"} <= names
    assert "tokens/source=nl%2Fdutch/00000001.parquet" in names
    assert "pieces/source=de/00000000.parquet" in names
    table = pq.read_table(tmp_path / "tokens" / "source=de" / "00000001.parquet", partitioning=None)
    assert table.to_pydict() == {"token_id": [1, 2, 4], "count": [1, 1, 7]}
    assert table.schema == pa.schema([("token_id", pa.int32()), ("count", pa.int64())])


def test_committing_again_changes_nothing(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    before = filled.files(tmp_path)
    record = filled.put(cache, "de", "00000000", {1: 999})
    assert record.tokens == 8
    assert filled.files(tmp_path) == before


def test_invariant_2_the_files_are_the_same_whatever_the_order_of_the_shards(tmp_path: Path) -> None:
    first = CountsCache.create_or_open(tmp_path / "a", filled.manifest("de"))
    second = CountsCache.create_or_open(tmp_path / "b", filled.manifest("de"))
    shards = {f"{i:08d}": {1: i, 5: 2} for i in range(6)}
    for key, counts in shards.items():
        filled.put(first, "de", key, counts, seconds=1.0)
    for key, counts in reversed(shards.items()):
        filled.put(second, "de", key, counts, seconds=2.0)
    assert filled.files(tmp_path / "a", ending=".parquet") == filled.files(tmp_path / "b", ending=".parquet")


def test_data_without_a_record_is_not_in_the_cache(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    (tmp_path / "shards" / "source=de" / "00000001.json").unlink()
    counts = cache.read_counts()
    assert counts.by_source["de"].tolist() == filled.dense({1: 2, 2: 2, 3: 7, 5: 7}).tolist()
    assert cache.committed_keys("de") == {"00000000", "00000002"}
    assert all(sample.shard != "00000001" for sample in cache.samples() if sample.source == "de")


def test_records_say_what_was_read(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    records = cache.committed("de")
    assert list(records) == ["00000000", "00000001", "00000002"]
    assert records["00000002"].skipped_rows == {"null": 2}
    assert set(records["00000002"].files) == {"tokens", "pieces", "samples"}
    assert cache.record("de", "00000002") == records["00000002"]
    assert cache.record("de", "unheard of") is None


def test_samples_are_the_smallest_hashes_of_each_source(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    assert [s.order for s in cache.samples()] == [100, 101, 102, 110, 1000, 1001, 1002, 1010]


def test_pieces_add_up(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    assert cache.pieces("de").to_pylist() == [
        {"piece": b"a", "initial": False, "count": 3},
        {"piece": b"b", "initial": True, "count": 6},
        {"piece": b"\xff", "initial": False, "count": 3},
    ]
    assert cache.pieces()["count"].to_pylist() == [33, 12, 6]


def test_an_empty_shard_counts(tmp_path: Path) -> None:
    cache = CountsCache.create_or_open(tmp_path, filled.manifest("de"))
    filled.put(cache, "de", "00000000", {}, documents=0)
    assert cache.read_counts().total_num_tokens == 0
    assert cache.read_counts().samples == ()
    assert cache.pieces().num_rows == 0


@pytest.mark.parametrize("name", ["a/b", "..", ".", "ü", "a b", "x=y", "%2F", "run[1]", "~", "con:1", "a" * 400])
def test_a_source_may_have_any_name(tmp_path: Path, name: str) -> None:
    cache = CountsCache.create_or_open(tmp_path / "counts", filled.manifest(name, "other"))
    filled.put(cache, name, "0", {3: 4})
    assert CountsCache.open(tmp_path / "counts").read_counts().by_source[name][3] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["counts"]


@pytest.mark.parametrize("key", ["a/b", "..", ".hidden", "run[1]", "pack~1", "é", "a%2Fb"])
def test_a_shard_may_have_any_key(tmp_path: Path, key: str) -> None:
    cache = CountsCache.create_or_open(tmp_path / "counts", filled.manifest("de"))
    filled.put(cache, "de", key, {3: 4})
    assert cache.committed_keys("de") == {key}
    assert list(cache.committed("de")) == [key]
    assert cache.read_counts().total_num_tokens == 4


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(UsageError, match="differ only in case"):
        filled.manifest("de", "DE")


def test_sources_are_added_later(tmp_path: Path) -> None:
    filled.full(tmp_path)
    cache = CountsCache.create_or_open(tmp_path, filled.manifest("fr", keep_pieces=100))
    assert sorted(cache.manifest.sources) == ["de", "fr", "nl/dutch"]
    filled.put(cache, "fr", "0", {1: 1})
    assert CountsCache.open(tmp_path).read_counts().total_num_tokens == 27 + 81 + 1


def test_another_engine_is_no_difference(tmp_path: Path) -> None:
    filled.full(tmp_path)
    other = filled.manifest("de", keep_pieces=100).model_copy(update={"engine": {"name": "kernel"}})
    assert CountsCache.create_or_open(tmp_path, other).manifest.engine == {"name": "reference"}


def test_invariant_5_a_cache_is_not_reused_for_something_else(tmp_path: Path) -> None:
    filled.full(tmp_path)
    asked = filled.manifest("de", vocab_size=17, keep_pieces=0)
    asked = asked.model_copy(
        update={
            "tokenizer": asked.tokenizer.model_copy(update={"fingerprint": "e" * 64, "revision": "v2"}),
            "sources": {"de": SourceIdentity(identity={"path": "de", "size": 3}, plan_hash="plan of de", shards=3)},
        }
    )
    with pytest.raises(CacheMismatch) as caught:
        CountsCache.create_or_open(tmp_path, asked)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert 'fingerprint: cache "ffff' in message
    assert "made at v2" in message
    assert "vocab_size: cache 16, asked for 17" in message
    assert "setting keep_pieces: cache 100, asked for 0" in message
    assert "source 'de': size: cache nothing, asked for 3" in message
    assert len(caught.value.differences) == 4


def test_another_plan_is_refused(tmp_path: Path) -> None:
    filled.full(tmp_path)
    asked = filled.manifest("de", keep_pieces=100, shards=4)
    with pytest.raises(CacheMismatch, match="its shards were cut otherwise: cache 3"):
        CountsCache.create_or_open(tmp_path, asked)


def test_a_place_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="there is no counts cache"):
        CountsCache.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(CacheError, match="this is not a counts cache"):
        CountsCache.open(tmp_path)
    (tmp_path / "file").write_text("x")
    for action in (CountsCache.open, lambda p: CountsCache.create_or_open(p, filled.manifest("de"))):
        with pytest.raises(CacheError, match="is a file"):
            action(tmp_path / "file")
    with pytest.raises(CacheError, match="holds other files"):
        CountsCache.create_or_open(tmp_path, filled.manifest("de"))
    with pytest.raises(UsageError):
        CountsCache.open("  ")


def test_a_shard_that_contradicts_its_record_is_refused(tmp_path: Path) -> None:
    cache = CountsCache.create_or_open(tmp_path, filled.manifest("de"))
    record = filled.put(cache, "de", "0", {1: 1})
    with pytest.raises(UsageError, match="the record says 1 tokens, the counts 2"):
        cache.commit("de", "1", counts=filled.dense({1: 2}), record=record.model_copy(update={"shard": "1"}))
    with pytest.raises(UsageError, match="was given for"):
        cache.commit("de", "1", counts=filled.dense({1: 1}), record=record)
    with pytest.raises(UsageError, match="not a source"):
        filled.put(cache, "fr", "0", {1: 1})
    with pytest.raises(UsageError, match="counts of"):
        cache.commit("de", "1", counts=np.ones(3, np.int64), record=record.model_copy(update={"shard": "1"}))
    with pytest.raises(UsageError, match="int64"):
        wrong = np.zeros(filled.VOCAB)
        cache.commit("de", "1", counts=wrong, record=record.model_copy(update={"shard": "1", "tokens": 0}))
    assert cache.committed_keys("de") == {"0"}


def test_a_sample_that_is_too_long_is_refused(tmp_path: Path) -> None:
    cache = CountsCache.create_or_open(tmp_path, filled.manifest("de"))
    long = Sample(order=1, source="de", shard="0", row=0, text="é" * (SAMPLE_BYTES // 2 + 1))
    with pytest.raises(UsageError, match="row 0"):
        filled.put(cache, "de", "0", {1: 1}, samples=[long])
    assert cache.committed_keys("de") == set()


def test_the_vocabulary_is_kept_as_it_was_first_written(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    table = cache.vocabulary()
    assert table.equals(filled.vocabulary().cast(table.schema))
    cache.write_vocabulary(table.set_column(3, "kind", pa.array(["other"] * filled.VOCAB)))
    assert cache.vocabulary().equals(table)
    with pytest.raises(UsageError, match="lacks the columns surface"):
        cache.write_vocabulary(table.drop_columns(["surface"]))
    with pytest.raises(UsageError, match="outside"):
        cache.write_vocabulary(filled.vocabulary(17))

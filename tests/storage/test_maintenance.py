"""Compacting, verifying and repairing a cache."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.storage.cache import CountsCache
from trimbed.storage.compaction import compact
from trimbed.storage.errors import CacheError
from trimbed.storage.location import Location
from trimbed.storage.lock import lock
from trimbed.storage.query import VIEWS, run_query
from trimbed.storage.verification import repair, verify


def answers(location: str | Path) -> dict[str, list[dict[str, object]]]:
    """What every view says."""
    cache = CountsCache.open(location)
    said = {view: run_query(cache, f"select * from {view}").table.to_pylist() for view in VIEWS}
    said["pieces"] = sorted(said["pieces"], key=repr)
    return said


def content(location: str | Path) -> list[object]:
    """What the library reads: counts, documents, samples, pieces, and the records without their times."""
    cache = CountsCache.open(location)
    counts = cache.read_counts()
    return [
        {source: array.tolist() for source, array in counts.by_source.items()},
        counts.documents_by_source,
        counts.samples,
        cache.pieces().to_pylist(),
        [record.content() for source in counts.by_source for record in cache.committed(source).values()],
    ]


def test_compacting_makes_files_few_and_changes_no_answer(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    before = answers(tmp_path)
    done = compact(cache)
    assert [(c.source, c.shards, c.packs, c.files_before, c.files_after) for c in done] == [
        ("de", 3, 1, 12, 4),
        ("nl/dutch", 3, 1, 12, 4),
    ]
    assert answers(tmp_path) == before
    assert verify(cache).sound
    assert verify(cache).leftovers == ()
    assert len(filled.files(tmp_path)) == 10
    total = pq.read_table(next(tmp_path.glob("tokens/source=de/*.parquet")), partitioning=None)["count"].to_pylist()
    assert sum(total) == 27


def test_compacting_again_changes_nothing_and_later_shards_join(tmp_path: Path) -> None:
    cache = CountsCache.create_or_open(tmp_path, filled.manifest("de", shards=6))
    cache.write_vocabulary(filled.vocabulary())
    for index in range(4):
        filled.put(cache, "de", f"{index:08d}", {1: 1, 2: index})
    compact(cache)
    files = filled.files(tmp_path)
    assert compact(cache)[0].packs == 0
    assert filled.files(tmp_path) == files
    filled.put(cache, "de", "00000004", {5: 3})
    assert cache.committed_keys("de") == {f"{i:08d}" for i in range(5)}
    before = content(tmp_path)
    assert compact(cache)[0].shards == 5
    assert content(tmp_path) == before
    assert len(list(tmp_path.glob("tokens/*/*.parquet"))) == 1


def test_packs_have_a_bounded_number_of_shards(tmp_path: Path) -> None:
    cache = CountsCache.create_or_open(tmp_path, filled.manifest("de", shards=10))
    for index in range(10):
        filled.put(cache, "de", f"{index:08d}", {index: 1})
    compact(cache, shards_per_pack=4)
    packs = cache.listing("de").packs.values()
    assert sorted(len(pack.records) for pack in packs) == [2, 4, 4]
    assert cache.read_counts().by_source["de"][:10].tolist() == [1] * 10


class Killed(BaseException):
    """The process ends here."""


def test_a_compaction_killed_at_any_step_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 4: a commit is all or nothing; each write and removal in turn is the last one."""
    filled.full(tmp_path / "whole")
    before = content(tmp_path / "whole")
    step = 0
    while True:
        place = tmp_path / str(step)
        shutil.copytree(tmp_path / "whole", place)
        left = step

        def tick() -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        write, remove = Location.write, Location.remove
        with monkeypatch.context() as patch:
            patch.setattr(Location, "write", lambda *a, w=write: (tick(), w(*a))[1])
            patch.setattr(Location, "remove", lambda *a, r=remove: (tick(), r(*a))[1])
            try:
                compact(CountsCache.open(place))
                break
            except Killed:
                pass
        assert content(place) == before
        assert verify(CountsCache.open(place)).sound
        compact(CountsCache.open(place))
        assert content(place) == before
        assert verify(CountsCache.open(place)).leftovers == ()
        assert len(filled.files(place)) == 10
        step += 1
    assert step == 2 * (4 + 3 + 9)  # for each source: a pack's four files; the shards' JSON; the shards' data


def test_a_shard_counted_again_beside_its_pack_counts_once(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    before = content(tmp_path)
    compact(cache)
    filled.put(cache, "de", "00000000", {1: 1, 3: 7}, skipped_rows={"null": 0})
    assert content(tmp_path) == before
    assert verify(cache).leftovers != ()
    compact(cache)
    assert verify(cache).leftovers == ()
    assert content(tmp_path) == before


def test_a_reader_that_listed_before_a_compaction_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = filled.full(tmp_path)
    before = cache.read_counts()
    original = CountsCache.listing
    listed = 0

    def listing(self: CountsCache, source: str, *, stable: bool = False) -> object:
        nonlocal listed
        found = original(self, source, stable=stable)
        listed += 1
        if listed == 1:
            monkeypatch.setattr(CountsCache, "listing", original)
            compact(cache)
            monkeypatch.setattr(CountsCache, "listing", listing)
        return found

    monkeypatch.setattr(CountsCache, "listing", listing)
    after = CountsCache.open(tmp_path).read_counts()
    assert {k: v.tolist() for k, v in after.by_source.items()} == {k: v.tolist() for k, v in before.by_source.items()}
    assert listed > 2


def test_two_maintenances_at_once_are_refused(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    with lock(cache.place, "maintenance"):
        for action in (compact, repair):
            with pytest.raises(CacheError, match="another process holds the lock"):
                action(cache, wait=0.1)
    assert compact(cache)[0].packs == 1


def test_a_sound_cache_verifies(tmp_path: Path) -> None:
    found = verify(filled.full(tmp_path))
    assert (found.sound, found.findings, found.leftovers, found.shards, found.tokens) == (True, (), (), 6, 108)


def _write(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path)


BROKEN = {
    "a flipped byte": lambda p: _flip(p / "tokens/source=de/00000001.parquet"),
    "a flipped byte in the pieces": lambda p: _flip(p / "pieces/source=de/00000001.parquet"),
    "a flipped byte in the samples": lambda p: _flip(p / "samples/source=de/00000001.parquet"),
    "a truncated file": lambda p: (p / "tokens/source=de/00000001.parquet").write_bytes(b"PAR1"),
    "a missing file": lambda p: (p / "tokens/source=de/00000001.parquet").unlink(),
    "an empty record": lambda p: (p / "shards/source=de/00000001.json").write_bytes(b""),
    "a record that is no JSON": lambda p: (p / "shards/source=de/00000001.json").write_bytes(b"{"),
    "another shard's record": lambda p: (p / "shards/source=de/00000001.json").write_bytes(
        (p / "shards/source=de/00000002.json").read_bytes()
    ),
    "another sum": lambda p: _replace(p / "shards/source=de/00000001.json", b'"tokens": 9', b'"tokens": 10'),
    "another digest": lambda p: _replace(p / "shards/source=de/00000001.json", b'"digest": "', b'"digest": "00'),
}


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _replace(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named_and_repaired_by_counting_again(tmp_path: Path, name: str) -> None:
    cache = filled.full(tmp_path)
    before = content(tmp_path)
    BROKEN[name](tmp_path)
    found = verify(cache)
    assert [(finding.source, finding.file) for finding in found.findings] == [("de", "00000001")]
    assert str(tmp_path) in found.findings[0].problem
    repair(cache)
    assert verify(cache).sound
    assert cache.committed_keys("de") == {"00000000", "00000002"}
    assert cache.read_counts().by_source["de"].sum() == 18
    filled.put(
        cache,
        "de",
        "00000001",
        {1: 1, 2: 1, 4: 7},
        samples=[filled.sample("de", "00000001", row, order=100 + row * 10 + 1) for row in range(3)],
        pieces=filled.pieces((b"a", False, 1), (b"b", True, 2), (b"\xff", False, 1)),
        skipped_rows={"null": 1},
    )
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["a flipped byte", "a truncated file", "a missing file", "another sum"])
def test_reading_refuses_broken_counts_and_says_what_to_do(tmp_path: Path, name: str) -> None:
    cache = filled.full(tmp_path)
    BROKEN[name](tmp_path)
    with pytest.raises(CacheError, match=r"00000001|missing"):
        cache.read_counts()


def test_a_broken_pack_takes_its_shards_with_it(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    compact(cache)
    _flip(next(tmp_path.glob("tokens/source=de/*.parquet")))
    found = repair(cache)
    assert [finding.source for finding in found.findings] == ["de"]
    assert cache.committed_keys("de") == set()
    assert len(cache.committed_keys("nl/dutch")) == 3
    assert verify(cache).sound


def test_a_pack_that_can_not_be_read_stops_planning_with_a_hint_until_it_is_repaired(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    compact(cache)
    next(tmp_path.glob("shards/source=de/pack*.json")).write_bytes(b"[]")
    with pytest.raises(CacheError, match="is not a pack's record"):
        cache.committed_keys("de")
    assert not verify(cache).sound
    repair(cache)
    assert cache.committed_keys("de") == set()


def test_what_a_killed_writer_left_is_a_leftover_and_no_fault(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    (tmp_path / "shards/source=de/00000001.json").unlink()
    found = verify(cache)
    assert found.sound
    assert found.leftovers == tuple(f"{kind}/source=de/00000001.parquet" for kind in ("pieces", "samples", "tokens"))
    repair(cache)
    assert (tmp_path / "tokens/source=de/00000001.parquet").exists()


def test_strange_files_are_named(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    (tmp_path / "shards/source=de/notes.txt").write_text("x")
    (tmp_path / "shards/source=fr").mkdir()
    (tmp_path / "vocabulary.parquet").unlink()
    problems = [finding.where for finding in verify(cache).findings]
    assert problems == ["vocabulary.parquet", "shards/source=fr", "shards/source=de/notes.txt"]


def test_more_shards_than_planned_are_named(tmp_path: Path) -> None:
    cache = filled.full(tmp_path)
    filled.put(cache, "de", "extra", {1: 1})
    assert "4 shards, its plan 3" in verify(cache).findings[0].problem

"""The commit protocol as a model: writers that are killed between any two steps, compactions, repairs, and readers."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.storage.cache import CountsCache
from trimbed.storage.compaction import compact
from trimbed.storage.location import Location
from trimbed.storage.verification import repair, verify

KEYS = [f"{index:08d}" for index in range(5)]


class Killed(BaseException):
    """The process ends here."""


class Protocol(RuleBasedStateMachine):
    """Invariant 4: whatever is killed when, a shard is wholly in the cache or not at all.

    The model is a set: the shards whose JSON was written. Every step of every writer is a write or a removal of one
    file, and ``kill_after`` says how many of them a process gets to do.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.mkdtemp()
        self.cache = CountsCache.create_or_open(self.place, filled.manifest("de", shards=len(KEYS)))
        self.committed: set[str] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    def _killed_after(self, steps: int, action: object, *arguments: object) -> None:
        left = steps
        originals = {name: getattr(Location, name) for name in ("write", "remove")}

        def limited(name: str) -> object:
            def step(place: Location, file: str, *rest: object) -> None:
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                originals[name](place, file, *rest)
                if name == "write" and file.startswith("shards/") and "pack~" not in file:
                    self.committed.add(Path(file).stem)

            return step

        try:
            for name in originals:
                setattr(Location, name, limited(name))
            action(*arguments)  # type: ignore[operator]
        except Killed:
            pass
        finally:
            for name, original in originals.items():
                setattr(Location, name, original)

    @rule(key=st.sampled_from(KEYS), steps=st.integers(0, 4))
    def count(self, key: str, steps: int) -> None:
        index = KEYS.index(key)
        sample = filled.sample("de", key, 0, order=index)
        found = filled.pieces((b"p", False, index + 1))
        self._killed_after(
            steps,
            lambda: filled.put(
                CountsCache.open(self.place), "de", key, {1: 1, 2 + index: 3}, samples=[sample], pieces=found
            ),
        )

    @rule(steps=st.integers(0, 30), size=st.integers(2, 6))
    def compact(self, steps: int, size: int) -> None:
        self._killed_after(steps, lambda: compact(CountsCache.open(self.place), shards_per_pack=size))

    @rule(steps=st.integers(0, 30))
    def repair(self, steps: int) -> None:
        self._killed_after(steps, lambda: repair(CountsCache.open(self.place)))

    @invariant()
    def readers_see_every_committed_shard_once_and_nothing_else(self) -> None:
        cache = CountsCache.open(self.place)
        assert cache.committed_keys("de") == self.committed
        expected = {2 + KEYS.index(key): 3 for key in self.committed}
        if self.committed:
            expected[1] = len(self.committed)
        counts = cache.read_counts()
        assert counts.by_source["de"].tolist() == filled.dense(expected).tolist()
        assert counts.num_documents == 2 * len(self.committed)
        assert sum(cache.pieces()["count"].to_pylist()) == sum(KEYS.index(key) + 1 for key in self.committed)
        assert [sample.shard for sample in cache.samples()] == sorted(self.committed)[:4]
        assert [finding for finding in verify(cache).findings if finding.where != "vocabulary.parquet"] == []


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)

"""A shard's life: skip if committed, read, count, check, commit. The same in every executor; knows no processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from trimbed.counting.engine import Engine, EngineRecipe, load_engine
from trimbed.counting.failures import Failure, failure_of, unwritable
from trimbed.counting.readers import read_shard
from trimbed.counting.sampling import DocumentSample
from trimbed.counting.shards import Shard
from trimbed.counting.verification import SelfCheck
from trimbed.storage.cache import CountsCache
from trimbed.storage.errors import CountingError
from trimbed.storage.records import SAMPLE_BYTES, Sample, ShardRecord

__all__ = ["Job", "Outcome", "Progress", "ShardRunner"]

_REPORT_SECONDS = 0.25


@dataclass(frozen=True)
class Job:
    """What every shard of a run has in common: plain values, cheap to send to a worker."""

    cache: str
    recipe: EngineRecipe
    batch_bytes: int = 4 << 20
    samples: Mapping[str, int] = field(default_factory=dict)
    """How many documents of each shard are kept, by source."""


@dataclass(frozen=True)
class Progress:
    """How far a shard is: sums since its beginning."""

    documents: int
    bytes: int


@dataclass(frozen=True)
class Outcome:
    """A shard that is in the cache. ``present``: it was there before, and the numbers are those of its record."""

    source: str
    shard: str
    documents: int
    bytes: int
    tokens: int
    skipped_rows: dict[str, int] = field(default_factory=dict)
    replaced_rows: int = 0
    seconds: float = 0.0
    present: bool = False
    engine: str = ""
    reason: str = ""
    """Which engine counted it, and why it isn't the kernel where that was to be used if possible."""


class ShardRunner:
    """Counts shards, one after the other, in one process. The engine and the cache are opened with the first one."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._engine: Engine | None = None
        self._check: SelfCheck | None = None
        self._cache: CountsCache | None = None

    def run(self, shard: Shard, report: Callable[[Progress], None] | None = None) -> Outcome | Failure:
        """Count ``shard`` and commit it. Every error comes back as a Failure; only signals get through."""
        try:
            engine, check, cache = self._open()
        except Exception as error:
            return failure_of(error, where=self._job.cache, fatal=True)
        try:
            present = cache.record(shard.source, shard.key)
        except Exception as error:
            return failure_of(error, where=self._job.cache, fatal=True)
        if present is not None:
            return _outcome(present, present=True)
        try:
            counted = _count(shard, engine, check, self._job, report)
        except Exception as error:
            return failure_of(error, where=shard.where())
        try:
            counted.commit(cache)
        except Exception as error:
            return failure_of(unwritable(error, self._job.cache), where=self._job.cache, fatal=True)
        reason = str(getattr(engine, "reason", ""))
        return replace(_outcome(counted.record, seconds=counted.seconds), engine=engine.name, reason=reason)

    def _open(self) -> tuple[Engine, SelfCheck, CountsCache]:
        if self._cache is None:
            self._cache = CountsCache.open(self._job.cache)
        if self._engine is None or self._check is None:
            self._engine = load_engine(self._job.recipe)
            self._check = SelfCheck(self._engine, self._job.recipe, self._job.cache)
        return self._engine, self._check, self._cache


@dataclass(frozen=True)
class _Counted:
    """Everything a commit takes."""

    counts: np.ndarray
    pieces: pa.Table | None
    samples: list[Sample]
    record: ShardRecord
    seconds: float

    def commit(self, cache: CountsCache) -> None:
        cache.commit(
            self.record.source,
            self.record.shard,
            counts=self.counts,
            pieces=self.pieces,
            samples=self.samples,
            record=self.record,
        )


def _count(
    shard: Shard, engine: Engine, check: SelfCheck, job: Job, report: Callable[[Progress], None] | None
) -> _Counted:
    started = time.monotonic()
    tally = engine.tally()
    sample = DocumentSample(shard.source, shard.key, size=job.samples.get(shard.source, 0), max_bytes=SAMPLE_BYTES)
    checked = check.sample(shard)
    skipped: Counter[str] = Counter()
    rows = replaced = documents = size = 0
    reported = 0.0
    batches = read_shard(shard, batch_bytes=job.batch_bytes)
    try:
        for batch in batches:
            tally.add(batch.texts)
            sample.add(rows, batch.texts)
            checked.add(rows, batch.texts)
            rows += len(batch.texts)
            skipped.update(batch.skipped)
            replaced += batch.replaced
            documents += len(batch.texts) - batch.texts.null_count
            size += batch.texts.nbytes
            now = time.monotonic()
            if report is not None and now - reported >= _REPORT_SECONDS:
                reported = now
                report(Progress(documents, size))
    finally:
        batches.close()
    totals = tally.finish()
    check.verify(shard, checked)
    if totals.documents != documents:
        raise CountingError(
            f"{shard.where()}: the engine {engine.name} counted {totals.documents} documents of {documents}; "
            "count with engine: reference, and report this"
        )
    seconds = time.monotonic() - started
    record = ShardRecord(
        source=shard.source,
        shard=shard.key,
        documents=totals.documents,
        empty_documents=totals.empty_documents,
        skipped_rows=dict(sorted(skipped.items())),
        replaced_rows=replaced,
        bytes=totals.bytes,
        tokens=totals.tokens,
        input={"extents": [list(extent.describe()) for extent in shard.extents]},
        engine=dict(engine.identity()),
        pieces_dropped=totals.pieces_dropped,
        pieces_dropped_count=totals.pieces_dropped_count,
        seconds=round(seconds, 3),
    )
    samples = [
        Sample(text=text, source=shard.source, shard=shard.key, row=row, order=order)
        for order, row, text in sample.documents()
    ]
    return _Counted(totals.counts, totals.pieces, samples, record, seconds)


def _outcome(record: ShardRecord, *, seconds: float = 0.0, present: bool = False) -> Outcome:
    return Outcome(
        source=record.source,
        shard=record.shard,
        documents=record.documents,
        bytes=record.bytes,
        tokens=record.tokens,
        skipped_rows=dict(record.skipped_rows),
        replaced_rows=record.replaced_rows,
        seconds=seconds,
        present=present,
    )

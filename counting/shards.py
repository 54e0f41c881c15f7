"""Shards: slices of a source, the unit of work and of commit. Plain values; knows no contents and no tokenizers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Extent", "ReadOptions", "Shard", "Source", "group_extents", "make_shards", "plan_hash"]

WHOLE = -1


@dataclass(frozen=True, slots=True)
class Extent:
    """A stretch of one file.

    ``start`` and ``stop`` count row groups (Parquet), bytes (JSONL, text, CSV), record batches (Arrow) or shards of an
    iterable dataset; ``stop == -1`` is the file's end. A byte extent owns the lines that start within it. ``name`` is
    the file's name within its dataset, the same wherever the dataset lies; ``path`` is where it lies now. The first
    ``skip`` rows are passed over, and at most ``rows`` rows read after them (all if None). ``size`` is about how many
    bytes of uncompressed data there are, 0 if unknown.
    """

    name: str
    path: str
    start: int = 0
    stop: int = WHOLE
    skip: int = 0
    rows: int | None = None
    size: int = 0

    def describe(self) -> list[str | int | None]:
        """What identifies the extent, without where the file lies."""
        return [self.name, self.start, self.stop, self.skip, self.rows]


@dataclass(frozen=True)
class ReadOptions:
    """How a source's extents are read: the reader's name, the column, and what the reader needs besides.

    ``details`` are plain JSON values (a CSV's columns and delimiter, say) and belong to the plan.
    """

    reader: str
    column: str
    max_rows: int | None = None
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shard:
    """One unit of work: extents that are read one after the other. ``key`` is its name in the cache."""

    source: str
    key: str
    extents: tuple[Extent, ...]
    options: ReadOptions

    @property
    def size(self) -> int:
        return sum(extent.size for extent in self.extents)

    def describe(self) -> list[object]:
        return [self.key, [extent.describe() for extent in self.extents]]

    def where(self) -> str:
        """The shard's place in words, for messages."""
        first = self.extents[0]
        if len(self.extents) > 1:
            return f"{first.path} and {len(self.extents) - 1} more"
        unit = {"parquet": "row groups", "arrow": "batches", "datasets": "shard"}.get(self.options.reader, "bytes")
        if first.start == 0 and first.stop == WHOLE:
            return first.path
        return f"{first.path} ({unit} {first.start} to {first.stop if first.stop != WHOLE else 'the end'})"


@dataclass(frozen=True)
class Source:
    """A dataset, resolved: its name in the cache, what identifies its content, and its shards in order.

    ``identity`` holds JSON values and nothing about where the data lies or when it was written. ``left_out`` names
    files that could not be planned and were left out on request, each with the reason.
    """

    name: str
    identity: dict[str, Any]
    shards: tuple[Shard, ...]
    plan_hash: str
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """About how many bytes of uncompressed data; 0 if that isn't known for every shard."""
        sizes = [shard.size for shard in self.shards]
        return sum(sizes) if all(sizes) else 0


def group_extents(extents: Iterable[Extent], target: int) -> Iterator[tuple[Extent, ...]]:
    """Put neighbouring extents together until a group has ``target`` bytes. Extents of unknown size stay alone."""
    group: list[Extent] = []
    size = 0
    for extent in extents:
        if group and (extent.size == 0 or size + extent.size > target):
            yield tuple(group)
            group, size = [], 0
        group.append(extent)
        size += extent.size
        if extent.size == 0 or size >= target:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)


def make_shards(
    source: str, groups: Iterable[Sequence[Extent]], options: ReadOptions, *, first: int = 0
) -> tuple[Shard, ...]:
    """Number groups of extents as the shards of a source."""
    return tuple(
        Shard(source=source, key=f"{index:08d}", extents=tuple(group), options=options)
        for index, group in enumerate(groups, first)
    )


def plan_hash(shards: Iterable[Shard]) -> str:
    """A hash of how a source is sliced and read: the same for the same plan wherever the files lie."""
    digest = hashlib.sha256()
    seen: set[int] = set()
    for shard in shards:
        if id(shard.options) not in seen:
            seen.add(id(shard.options))
            options = shard.options
            digest.update(_canonical([options.reader, options.column, options.max_rows, options.details]))
        digest.update(_canonical(shard.describe()))
    return digest.hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

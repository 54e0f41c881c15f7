"""Caches of one tokenizer made one. Knows manifests, records and files; copies bytes and never adds numbers up.

The result is the same, byte for byte, in whatever order the caches are given: where two hold the same shard one copy is
taken by its digest, not by its place. Killed, it goes on where it was when it is run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimbed.storage.cache import CountsCache
from trimbed.storage.compaction import MAINTENANCE
from trimbed.storage.errors import CacheError, CacheMismatch, UsageError
from trimbed.storage.formats import read_counts_into, to_parquet
from trimbed.storage.listing import Unit
from trimbed.storage.location import resolve
from trimbed.storage.lock import lock
from trimbed.storage.manifest import Manifest
from trimbed.storage.names import PACK, VOCABULARY, data_name, folder_name
from trimbed.storage.records import Pack, ShardRecord

__all__ = ["MergedPart", "merge", "merge_manifests"]


@dataclass(frozen=True)
class MergedPart:
    """What one cache brought: its shards, documents and tokens, and how many of its shards another one has too."""

    cache: str
    shards: int
    shared: int
    documents: int
    tokens: int


@dataclass(frozen=True)
class _Held:
    cache: CountsCache
    unit: Unit

    def order(self) -> tuple[int, str, str, bytes]:
        """Larger packs first; copies of one unit by their content, wherever they lie."""
        digests = " ".join(f"{kind}={file.sha256}" for kind, file in sorted(self.unit.files.items()))
        records = b"".join(record.to_json() for record in self.unit.records)
        return -len(self.unit.records), self.unit.name, digests, records


def merge(locations: Sequence[str], output: str) -> list[MergedPart]:
    """Join the caches at ``locations`` into a new one at ``output``; a shard that several have is taken once.

    Raises UsageError for a cache given twice, CacheMismatch (with what differs) for caches of different tokenizers,
    settings or versions of a source and for shards whose counts differ, CacheError for broken files and for packs that
    overlap in part, since a pack can't be taken apart.
    """
    if not locations:
        raise UsageError("nothing to merge; give the caches")
    urls = [resolve(location).url.rstrip("/") for location in [*locations, output]]
    twice = next((url for index, url in enumerate(urls) if url in urls[:index]), None)
    if twice is not None:
        raise UsageError(f"{twice} is given twice; merging a cache with itself, or into itself, would add nothing")
    caches = [CountsCache.open(location) for location in locations]
    manifest = merge_manifests([(cache.location, cache.manifest) for cache in caches])
    taken = {source: _choose(caches, source) for source in sorted(manifest.sources)}
    target = CountsCache.create_or_open(output, manifest)
    with lock(target.place, MAINTENANCE, wait=10.0) as lease:
        _copy_vocabulary(caches, target)
        for source, held in taken.items():
            for one in held:
                lease.renew()
                _copy(one, target, source)
    return [_part(cache, caches) for cache in caches]


def merge_manifests(manifests: Sequence[tuple[str, Manifest]]) -> Manifest:
    """One manifest for caches that belong together: (location, manifest). Raises CacheMismatch."""
    first_at, first = manifests[0]
    for where, other in manifests[1:]:
        lines = first.differences(other)
        if lines:
            raise CacheMismatch(
                f"{first_at} (cache) and {where} (asked for) hold different things and can't be merged:",
                lines,
            )
        first = first.with_sources({k: v for k, v in other.sources.items() if k not in first.sources})
    engine: dict[str, set[str]] = {}
    for _, manifest in manifests:
        for key, value in manifest.engine.items():
            engine.setdefault(key, set()).update(value.split(", "))
    identities = sorted((manifest.tokenizer for _, manifest in manifests), key=lambda t: t.model_dump_json())
    return first.model_copy(
        update={
            "created": min(manifest.created for _, manifest in manifests),
            "engine": {key: ", ".join(sorted(values)) for key, values in sorted(engine.items())},
            "tokenizer": identities[0],
            "sources": dict(sorted(first.sources.items())),
        }
    )


def _choose(caches: Sequence[CountsCache], source: str) -> list[_Held]:
    """The units to copy: each shard in exactly one of them."""
    held = [_Held(cache, unit) for cache in caches if source in cache.manifest.sources for unit in cache.units(source)]
    chosen: list[_Held] = []
    by_shard: dict[str, tuple[_Held, ShardRecord]] = {}
    for one in sorted(held, key=_Held.order):
        keys = {record.shard for record in one.unit.records}
        known = keys & by_shard.keys()
        for record in one.unit.records:
            if record.shard in known:
                _same(by_shard[record.shard], (one, record))
        if not known:
            chosen.append(one)
            by_shard.update({record.shard: (one, record) for record in one.unit.records})
        elif known != keys:
            raise CacheError(
                f"{one.cache.location}: the pack {one.unit.name} of {source!r} has some shards that another cache has "
                "too, and some that it hasn't; a pack can't be taken apart. Merge such caches before compacting them"
            )
    return chosen


def _same(first: tuple[_Held, ShardRecord], second: tuple[_Held, ShardRecord]) -> None:
    """Raises CacheMismatch unless two copies of a shard hold the same."""
    mine, theirs = first[1].content(), second[1].content()
    lines = [f"{key}: {mine[key]} and {theirs[key]}" for key in mine if mine[key] != theirs[key]]
    units = first[0].unit, second[0].unit
    alone = not any(unit.name.startswith(PACK) for unit in units)
    if not lines and alone and units[0].files["tokens"] != units[1].files["tokens"]:
        # Other library versions may have written the same counts in other bytes.
        differing = int((_counts(first[0]) != _counts(second[0])).sum())
        if differing:
            lines.append(f"the counts of {differing} token ids")
    if lines:
        raise CacheMismatch(
            f"{first[0].cache.location} and {second[0].cache.location} both have the shard {second[1].source}/"
            f"{second[1].shard}, and not the same:",
            lines,
        )


def _counts(held: _Held) -> np.ndarray:
    cache, unit = held.cache, held.unit
    counts = np.zeros(cache.manifest.tokenizer.vocab_size, dtype=np.int64)
    where = cache.place.describe(data_name("tokens", unit.source, unit.name))
    read_counts_into(counts, cache.read_file(unit, "tokens"), where=where)
    return counts


def _copy(held: _Held, target: CountsCache, source: str) -> None:
    unit = held.unit
    name = f"shards/{folder_name(source)}/{unit.name}.json"
    if target.place.exists(name):
        return
    for kind in unit.files:
        data = held.cache.read_file(unit, kind)
        target.write_bytes(data_name(kind, source, unit.name), data)
    if unit.name.startswith(PACK):
        digest = held.cache.listing(source).packs[unit.name].digest
        record: Pack | ShardRecord = Pack(
            source=source, records=list(unit.records), files=dict(unit.files), digest=digest
        )
    else:
        record = unit.records[0]
    target.write_bytes(name, record.to_json())


def _copy_vocabulary(caches: Sequence[CountsCache], target: CountsCache) -> None:
    found = [to_parquet(cache.vocabulary()) for cache in caches if cache.place.exists(VOCABULARY)]
    if found and not target.place.exists(VOCABULARY):
        target.place.write(VOCABULARY, min(found))


def _part(cache: CountsCache, caches: Sequence[CountsCache]) -> MergedPart:
    shards = shared = documents = tokens = 0
    for source in cache.manifest.sources:
        records = cache.committed(source)
        others: set[str] = set()
        for other in caches:
            if other is not cache and source in other.manifest.sources:
                others |= other.committed_keys(source)
        shards += len(records)
        shared += len(records.keys() & others)
        documents += sum(record.documents for record in records.values())
        tokens += sum(record.tokens for record in records.values())
    return MergedPart(cache.location, shards, shared, documents, tokens)

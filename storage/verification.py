"""Whether a cache is what it says: every file against its digest, every sum against its record. And dropping what
isn't.

Knows the layout; changes nothing except in ``repair``, which only ever takes shards out, never numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from trimbed.storage.cache import CountsCache
from trimbed.storage.compaction import MAINTENANCE, remove_superseded
from trimbed.storage.errors import CacheError
from trimbed.storage.formats import overall_digest, read_counts_into
from trimbed.storage.listing import Unit, arrange, read_pack, read_record
from trimbed.storage.lock import lock
from trimbed.storage.names import KINDS, PACK, data_name, folder_name, shard_file, shard_key

__all__ = ["Finding", "Verification", "repair", "verify"]


@dataclass(frozen=True)
class Finding:
    """Something that is wrong. ``file``: the name (without ending) of the shard or pack that it breaks, if it is
    one.
    """

    source: str
    file: str
    where: str
    problem: str


@dataclass(frozen=True)
class Verification:
    """``findings`` are wrong; ``leftovers`` are files that nobody reads (of killed writers or compactions)."""

    findings: tuple[Finding, ...]
    leftovers: tuple[str, ...]
    shards: int
    tokens: int

    @property
    def sound(self) -> bool:
        """Nothing is wrong."""
        return not self.findings


@dataclass
class _Found:
    findings: list[Finding] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    shards: int = 0
    tokens: int = 0


def verify(cache: CountsCache) -> Verification:
    """Read every file of the cache and hold it against manifest, records and digests. Never raises for what it
    finds.
    """
    found = _Found()
    try:
        cache.vocabulary()
    except CacheError as error:
        found.findings.append(Finding("", "", "vocabulary.parquet", str(error)))
    folders = {folder_name(source): source for source in cache.manifest.sources}
    for name in cache.place.folders("shards"):
        if name not in folders:
            found.findings.append(
                Finding(
                    "", "", f"shards/{name}", f"{cache.place.describe(f'shards/{name}')}: no source of the manifest"
                )
            )
    for source in sorted(cache.manifest.sources):
        _source(cache, source, found)
    return Verification(tuple(found.findings), tuple(sorted(found.leftovers)), found.shards, found.tokens)


def repair(cache: CountsCache, *, wait: float = 10.0) -> Verification:
    """Take broken shards out of the cache, so that the next count makes them again; return what was found.

    A broken pack takes its shards with it. Left over files of packs are removed; those that a count which is still
    running may be about to commit are not. Raises CacheError if other maintenance of this cache runs.
    """
    with lock(cache.place, MAINTENANCE, wait=wait) as lease:
        before = verify(cache)
        for finding in before.findings:
            lease.renew()
            if finding.file:
                # JSON first: without it the rest is not in the cache.
                cache.place.remove(f"shards/{folder_name(finding.source)}/{finding.file}.json")
                for kind in KINDS:
                    cache.place.remove(data_name(kind, finding.source, finding.file))
            elif finding.where == "vocabulary.parquet":
                cache.place.remove(finding.where)
        for source in cache.manifest.sources:
            remove_superseded(cache, source)
        cache.clean_temporary_files()
    return before


def _source(cache: CountsCache, source: str, found: _Found) -> None:
    folder = folder_name(source)
    names = cache.place.names(f"shards/{folder}")
    broken: dict[str, str] = {}
    listing = arrange(cache.place, source, names, broken=broken)
    found.findings += [Finding(source, stem, f"shards/{folder}/{stem}.json", why) for stem, why in broken.items()]
    known = set(broken)
    for unit, problem in _units(cache, source, [*listing.packs, *listing.singles.values()]):
        known.add(unit.name)
        if problem is None:
            problem = _unit(cache, unit)
            found.shards += len(unit.records)
            found.tokens += unit.tokens
        if problem is not None:
            found.findings.append(Finding(source, unit.name, f"shards/{folder}/{unit.name}.json", problem))
    for stem in listing.unused:
        keys = {record.shard for record in read_pack(cache.place, source, stem).records}
        if keys <= listing.keys():
            found.leftovers.append(f"shards/{folder}/{stem}.json")
        else:
            why = f"{cache.place.describe(f'shards/{folder}/{stem}.json')} shares some of its shards with another pack"
            found.findings.append(Finding(source, stem, f"shards/{folder}/{stem}.json", why))
    found.leftovers += [f"shards/{folder}/{stem}.json" for stem in listing.superseded]
    planned = cache.manifest.sources[source].shards
    if len(listing.keys()) > planned:
        why = f"{cache.location}: {source!r} has {len(listing.keys())} shards, its plan {planned}"
        found.findings.append(Finding(source, "", f"shards/{folder}", why))
    for name in names:
        stem = name.removesuffix(".json")
        ours = name.endswith(".json") and (stem.startswith(PACK) or shard_key(stem) is not None)
        if not ours and not name.startswith("."):
            why = f"{cache.place.describe(f'shards/{folder}/{name}')} is no file of ours"
            found.findings.append(Finding(source, "", f"shards/{folder}/{name}", why))
    for kind in KINDS:
        found.leftovers += [
            f"{kind}/{folder}/{name}"
            for name in cache.place.names(f"{kind}/{folder}")
            if name.removesuffix(".parquet") not in known
        ]


def _units(cache: CountsCache, source: str, stems: list[str]) -> Iterator[tuple[Unit, str | None]]:
    """Each unit, or what is left of it with why it can't be read."""
    for stem in stems:
        try:
            if stem.startswith(PACK):
                pack = read_pack(cache.place, source, stem)
                yield Unit(source, stem, tuple(pack.records), pack.files), _digest(cache, stem, pack.files, pack.digest)
            else:
                record = read_record(cache.place, source, stem)
                yield Unit(source, stem, (record,), record.files), _digest(cache, stem, record.files, record.digest)
        except CacheError as error:
            yield Unit(source, stem, (), {}), str(error)
        except FileNotFoundError:
            continue  # compacted meanwhile


def _digest(cache: CountsCache, stem: str, files: object, digest: str) -> str | None:
    if overall_digest(files) == digest:  # type: ignore[arg-type]
        return None
    return f"{cache.location}: the record {stem} has another digest than its files'"


def _unit(cache: CountsCache, unit: Unit) -> str | None:
    """What is wrong with a shard's or pack's files."""
    keys = {record.shard for record in unit.records}
    try:
        counts = np.zeros(cache.manifest.tokenizer.vocab_size, dtype=np.int64)
        where = cache.place.describe(data_name("tokens", unit.source, unit.name))
        total = read_counts_into(counts, cache.read_file(unit, "tokens"), where=where)
        if total != unit.tokens:
            return f"{where}: its counts add up to {total:,}, the record says {unit.tokens:,}"
        if "pieces" in unit.files:
            cache.read_pieces_of(unit)
        for sample in cache.samples_of(unit):
            if sample.source != unit.source or sample.shard not in keys:
                where = cache.place.describe(data_name("samples", unit.source, unit.name))
                return f"{where}: a sample of {sample.source}/{sample.shard} among those of {unit.name}"
        unknown = sorted(set(unit.files) - set(KINDS))
        if unknown:
            return f"{cache.location}: {unit.name} names a file of an unknown kind, {unknown[0]!r}"
        single = unit.records[0]
        if not unit.name.startswith(PACK) and shard_file(single.shard) != unit.name:
            return f"{cache.location}: {unit.name} is the record of another shard"
    except CacheError as error:
        return str(error)
    except FileNotFoundError:
        return f"{cache.location}: a file of {unit.source}/{unit.name} is missing"
    return None

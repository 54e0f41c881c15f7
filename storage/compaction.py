"""Many small files made few: shards of a source added up into packs. No query's answer changes. Knows the layout.

A pack has the same three kinds of Parquet files as a shard and one JSON that holds its shards' records. The steps are
in an order in which a crash at any moment is harmless: (1) the pack's data are written, (2) its JSON is, and from now
on readers take the pack for its shards (see listing), (3) the shards' own JSON files are removed, (4) their data.
What a crash left of (3) and (4) is removed by the next compaction. A reader that listed before (2) and misses a file
after (4) lists again. Counting may go on meanwhile; another compaction, repair or merge into this cache may not (a
lock).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimbed.storage.cache import CountsCache, add_pieces
from trimbed.storage.errors import CacheError
from trimbed.storage.formats import PIECES, counts_table, overall_digest, read_counts_into, samples_table
from trimbed.storage.listing import Listing, Unit, records_of
from trimbed.storage.lock import Lease, lock
from trimbed.storage.names import KINDS, PACK, data_name, folder_name, shard_file, shard_key
from trimbed.storage.records import Pack, Sample, bottom_samples

__all__ = ["MAINTENANCE", "Compacted", "compact", "remove_superseded"]

MAINTENANCE = "maintenance"


@dataclass(frozen=True)
class Compacted:
    """What compacting a source came to: shards that went into new packs, files before and after."""

    source: str
    shards: int
    packs: int
    files_before: int
    files_after: int


def compact(cache: CountsCache, *, shards_per_pack: int = 10_000, wait: float = 10.0) -> list[Compacted]:
    """Pack the committed shards of each source, ``shards_per_pack`` in a pack; small packs are packed again.

    Memory: one vocabulary of counts and, where pieces are kept, the distinct pieces of one pack. Raises CacheError if
    another maintenance of this cache runs, or a file is broken (nothing of it is lost then).
    """
    done = []
    with lock(cache.place, MAINTENANCE, wait=wait) as lease:
        for source in sorted(cache.manifest.sources):
            before = _files(cache, source)
            remove_superseded(cache, source)
            listing = cache.listing(source, stable=True)
            groups = list(_groups(list(records_of(cache.place, listing)), shards_per_pack))
            for group in groups:
                _pack(cache, source, group, lease)
                remove_superseded(cache, source)
            shards = sum(len(unit.records) for group in groups for unit in group)
            done.append(Compacted(source, shards, len(groups), before, _files(cache, source)))
    return done


def remove_superseded(cache: CountsCache, source: str) -> int:
    """Remove files that a pack in use stands for, JSON first; return how many shards' or packs' they were."""
    listing = cache.listing(source)
    for stem in (*listing.superseded, *listing.unused):
        if stem in listing.unused and not _covered(cache, listing, stem):
            raise CacheError(
                f"{cache.place.describe(f'shards/{folder_name(source)}/{stem}.json')} shares some of its shards with "
                "another pack; `trimbed cache repair` drops it, so that the next count makes the others again"
            )
        cache.place.remove(f"shards/{folder_name(source)}/{stem}.json")
    held = {shard_file(record.shard) for pack in listing.packs.values() for record in pack.records}
    gone = set(listing.superseded) | set(listing.unused)
    for kind in KINDS if held else ():
        for name in cache.place.names(f"{kind}/{folder_name(source)}"):
            stem = name.removesuffix(".parquet")
            if name.endswith(".parquet") and (stem in held or stem in gone):
                cache.place.remove(f"{kind}/{folder_name(source)}/{name}")
    return len(gone)


def _covered(cache: CountsCache, listing: Listing, stem: str) -> bool:
    """Whether every shard of a pack that isn't in use is committed otherwise."""
    from trimbed.storage.listing import read_pack

    return {record.shard for record in read_pack(cache.place, listing.source, stem).records} <= listing.keys()


def _groups(units: Sequence[Unit], size: int) -> Iterator[list[Unit]]:
    """Units to be packed together: in the order of their shards, about ``size`` shards each, two units at least."""
    small = [unit for unit in units if len(unit.records) <= size // 2]
    group: list[Unit] = []
    shards = 0
    for unit in sorted(small, key=lambda unit: unit.records[0].shard):
        if shards + len(unit.records) > size and group:
            if len(group) > 1:
                yield group
            group, shards = [], 0
        group.append(unit)
        shards += len(unit.records)
    if len(group) > 1:
        yield group


def _pack(cache: CountsCache, source: str, units: Sequence[Unit], lease: Lease) -> None:
    counts = np.zeros(cache.manifest.tokenizer.vocab_size, dtype=np.int64)
    samples: list[Sample] = []
    pieces, pending = PIECES.empty_table(), list[pa.Table]()
    for unit in units:
        where = cache.place.describe(data_name("tokens", source, unit.name))
        if read_counts_into(counts, cache.read_file(unit, "tokens"), where=where) != unit.tokens:
            raise CacheError(f"{where}: its counts don't add up to the {unit.tokens:,} tokens of its record")
        samples = bottom_samples([*samples, *cache.samples_of(unit)], size=cache.sample_size)
        if "pieces" in unit.files:
            pending.append(cache.read_pieces_of(unit))
            if sum(table.num_rows for table in pending) > max(1 << 20, pieces.num_rows):
                pieces, pending = add_pieces([pieces, *pending]), []
    tables = {"tokens": counts_table(counts)}
    if samples:
        tables["samples"] = samples_table(samples)
    if any("pieces" in unit.files for unit in units):
        tables["pieces"] = add_pieces([pieces, *pending])
    records = sorted((record for unit in units for record in unit.records), key=lambda record: record.shard)
    keys = "".join(f"{shard_file(record.shard)}\n" for record in records)
    name = f"{PACK}{hashlib.sha256(keys.encode('ascii')).hexdigest()[:16]}"
    files = cache.write_data(source, name, tables)
    pack = Pack(source=source, records=records, files=files, digest=overall_digest(files))
    lease.renew()
    cache.place.write(f"shards/{folder_name(source)}/{name}.json", pack.to_json())


def _files(cache: CountsCache, source: str) -> int:
    folder = folder_name(source)
    return sum(
        name.endswith((".parquet", ".json"))
        and (name.startswith(PACK) or shard_key(name.rsplit(".", 1)[0]) is not None)
        for kind in (*KINDS, "shards")
        for name in cache.place.names(f"{kind}/{folder}")
    )

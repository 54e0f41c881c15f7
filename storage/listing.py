"""Which shards of a source are committed, and in which files their data lie. Knows JSON files and their names only.

``shards/source=<name>/`` has ``<shard>.json`` for a shard on its own and ``pack~<digest>.json`` for shards whose data
were added up (see compaction). A pack stands for its shards: a shard that is in a pack is never taken from its own
file as well, so every shard counts once whatever a compaction that was killed left behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from pydantic import ValidationError

from trimbed.storage.errors import CacheError
from trimbed.storage.location import Location
from trimbed.storage.names import PACK, folder_name, shard_file, shard_key
from trimbed.storage.records import FileDigest, Pack, ShardRecord

__all__ = [
    "RECORD_LIMIT",
    "Listing",
    "Unit",
    "arrange",
    "in_parallel",
    "list_shards",
    "read_pack",
    "read_record",
    "records_of",
]

RECORD_LIMIT = 64 << 20
_STABLE_TRIES = 5
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class Unit:
    """One set of data files and the shards that they hold. ``name``: the files' name without ending."""

    source: str
    name: str
    records: tuple[ShardRecord, ...]
    files: Mapping[str, FileDigest]

    @property
    def tokens(self) -> int:
        return sum(record.tokens for record in self.records)


@dataclass(frozen=True)
class Listing:
    """A source's committed shards.

    ``singles``: shard key -> file name, of shards that no pack in use holds; ``packs``: the packs in use, by file name,
    no two with a shard in common; ``superseded``: file names of shards that a pack in use holds too; ``unused``: packs
    that share shards with a larger one.
    """

    source: str
    singles: Mapping[str, str]
    packs: Mapping[str, Pack]
    superseded: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def keys(self) -> set[str]:
        """The keys of all committed shards."""
        return set(self.singles).union(*({r.shard for r in pack.records} for pack in self.packs.values()))


def list_shards(location: Location, source: str, *, expected: int | None = None) -> Listing:
    """The committed shards of ``source``: one listing, and the packs among it read.

    With ``expected`` shards in the plan and fewer found, the folder is listed until two listings agree: a compaction
    that commits a pack and removes its shards while a listing runs might otherwise hide both. Raises CacheError.
    """
    folder = f"shards/{folder_name(source)}"
    names = location.names(folder)
    for _ in range(_STABLE_TRIES):
        try:
            found = arrange(location, source, names)
        except FileNotFoundError:  # a pack was replaced since
            names = location.names(folder)
            continue
        if expected is None or len(found.keys()) >= expected:
            return found
        again = location.names(folder)
        if again == names:
            return found
        names = again
    return arrange(location, source, names)


def arrange(location: Location, source: str, names: Iterable[str], *, broken: dict[str, str] | None = None) -> Listing:
    """What file names in a source's folder of shards come to.

    ``broken``: packs that can't be read go there (file name -> why) instead of raising CacheError.
    """
    singles: dict[str, str] = {}
    packs: dict[str, Pack] = {}
    for name in names:
        if not name.endswith(".json") or name.startswith("."):
            continue
        stem = name[: -len(".json")]
        if stem.startswith(PACK):
            try:
                packs[stem] = read_pack(location, source, stem)
            except CacheError as error:
                if broken is None:
                    raise
                broken[stem] = str(error)
        elif (key := shard_key(stem)) is not None:
            singles[key] = stem
    used: dict[str, Pack] = {}
    unused: list[str] = []
    held: set[str] = set()
    for stem in sorted(packs, key=lambda stem: (-len(packs[stem].records), stem)):
        shards = {record.shard for record in packs[stem].records}
        if shards & held:
            unused.append(stem)
        else:
            used[stem] = packs[stem]
            held |= shards
    superseded = tuple(stem for key, stem in singles.items() if key in held)
    kept = {key: stem for key, stem in singles.items() if key not in held}
    return Listing(source, kept, {stem: used[stem] for stem in sorted(used)}, superseded, tuple(sorted(unused)))


def read_record(location: Location, source: str, stem: str) -> ShardRecord:
    """A shard's record. Raises FileNotFoundError, and CacheError if it isn't one or is another shard's."""
    name = f"shards/{folder_name(source)}/{stem}.json"
    try:
        record = ShardRecord.model_validate(json.loads(location.read(name, limit=RECORD_LIMIT)))
    except (ValueError, RecursionError, ValidationError) as error:
        raise CacheError(f"{location.describe(name)} is not a shard's record: {_first(error)}") from error
    if record.source != source or shard_file(record.shard) != stem:
        raise CacheError(f"{location.describe(name)} is the record of another shard")
    if "tokens" not in record.files:
        raise CacheError(f"{location.describe(name)} names no tokens file")
    return record


def read_pack(location: Location, source: str, stem: str) -> Pack:
    """A pack. Raises FileNotFoundError, and CacheError if it isn't one of this source."""
    name = f"shards/{folder_name(source)}/{stem}.json"
    try:
        pack = Pack.model_validate(json.loads(location.read(name, limit=RECORD_LIMIT)))
    except (ValueError, RecursionError, ValidationError) as error:
        raise CacheError(f"{location.describe(name)} is not a pack's record: {_first(error)}") from error
    shards = {record.shard for record in pack.records}
    if pack.source != source or any(r.source != source for r in pack.records) or len(shards) != len(pack.records):
        raise CacheError(f"{location.describe(name)} is the pack of another source, or names a shard twice")
    if "tokens" not in pack.files:
        raise CacheError(f"{location.describe(name)} names no tokens file")
    return pack


def records_of(location: Location, listing: Listing) -> Iterator[Unit]:
    """The units of a listing, packs first, then shards by key. Raises FileNotFoundError if one has gone meanwhile."""
    for stem, pack in listing.packs.items():
        yield Unit(listing.source, stem, tuple(pack.records), pack.files)
    stems = [listing.singles[key] for key in sorted(listing.singles)]
    for record in in_parallel(location, lambda stem: read_record(location, listing.source, stem), stems):
        yield Unit(listing.source, shard_file(record.shard), (record,), record.files)


def in_parallel(location: Location, action: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    """``action`` of each item, in order; on remote places many at once, since each waits for the store."""
    if location.local:
        yield from map(action, items)
        return
    remaining = iter(items)
    with ThreadPoolExecutor(16) as pool:
        while batch := list(islice(remaining, 64)):
            yield from pool.map(action, batch)


def _first(error: Exception) -> str:
    """An error's first line, short: it may quote a file that isn't ours."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part)[:80] for part in first['loc'])}: {first['msg'][:200]}"
    return str(error).splitlines()[0][:200]

"""The counts cache: a folder, local or remote, that shards are committed to and counts are read from.

Knows the layout and the commit protocol; no tokenizers, no datasets, no policy.

**The commit protocol.** A shard is *absent*, *written* (some of its data files are there) or *committed* (its JSON is
there). Only ``commit`` moves it, and only forward: it writes the data files, each whole (see atomic), and the JSON
last. Readers start from the JSON files and look at nothing that none of them names; so a shard is wholly in the cache
or not at all, wherever its writer was killed, and what a killed writer left is written over by the next. Two writers
of one shard are safe together, without a lock, since counts are exact: both write the same content to the same names,
and whoever comes second finds the JSON and leaves it. Should their files differ in encoding (other library versions)
and one be killed between its data and its JSON, the digest no longer fits, reading says so, and ``trimbed cache
repair`` has the shard counted again. Two counts on one cache are safe together for the same reason; the manifest is
written under a lock.

**What it costs.** Planning a run takes one listing a source and reads no shard's file (``committed_keys``); reading
counts reads one JSON and one Parquet file a shard, or a pack (see compaction). Memory is the vocabulary's: 8 bytes an
id and source.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from trimbed.storage.atomic import age_of, is_stale
from trimbed.storage.counts import CorpusCounts
from trimbed.storage.errors import CacheError, UsageError
from trimbed.storage.formats import (
    PIECES,
    counts_table,
    digest_of,
    overall_digest,
    read_counts_into,
    read_pieces,
    read_samples,
    read_vocabulary,
    samples_table,
    to_parquet,
    vocabulary_table,
)
from trimbed.storage.listing import Listing, Unit, in_parallel, list_shards, read_record, records_of
from trimbed.storage.location import Location, resolve
from trimbed.storage.lock import lock
from trimbed.storage.manifest import Manifest
from trimbed.storage.names import KINDS, LOCKS, MANIFEST, VOCABULARY, data_name, folder_name, shard_file
from trimbed.storage.records import FileDigest, Sample, ShardRecord, bottom_samples

__all__ = ["CountsCache"]

_MANIFEST_LIMIT = 64 << 20
_VOCABULARY_LIMIT = 1 << 30
_SAMPLES_A_UNIT = 1_000_000
_READ_TRIES = 5
_T = TypeVar("_T")


class CountsCache:
    """A cache that is open. ``place`` is where it lies; ``manifest`` what it held when it was opened.

    >>> cache = CountsCache.open("counts")              # doctest: +SKIP
    >>> cache.read_counts().total_num_tokens            # doctest: +SKIP
    18392021
    """

    def __init__(self, place: Location, manifest: Manifest) -> None:
        self.place = place
        self.manifest = manifest
        self._checked_folders: set[str] = set()

    @property
    def location(self) -> str:
        """The folder or URL."""
        return self.place.url

    @classmethod
    def open(cls, location: str | os.PathLike[str]) -> CountsCache:
        """Open an existing cache; writes nothing. Raises CacheError if there is none, or it isn't one we can read."""
        place = resolve(location)
        manifest = _read_manifest(place)
        if manifest is None:
            what = "there is no" if not place.local or not Path(place.path).exists() else "this is not a"
            raise CacheError(f"{place.url}: {what} counts cache (no {MANIFEST}); `trimbed count` makes one")
        return cls(place, manifest)

    @classmethod
    def create_or_open(cls, location: str | os.PathLike[str], manifest: Manifest) -> CountsCache:
        """Open the cache for counting what ``manifest`` says; make it, or add the sources that are new to it.

        Temporary files that dead writers left are removed. Raises CacheMismatch, with what differs, if it holds
        something else; CacheError if the place is taken by something that is no cache.
        """
        place = resolve(location)
        found = _read_manifest(place)
        if found is None or manifest.sources.keys() - found.sources.keys():
            if found is not None:
                found.check(manifest, where=place.url)
            else:
                _check_free(place)
            with lock(place, "manifest") as lease:
                found = _read_manifest(place)
                wanted = manifest if found is None else found
                if found is not None:
                    found.check(manifest, where=place.url)
                    wanted = found.with_sources({k: v for k, v in manifest.sources.items() if k not in found.sources})
                if wanted != found:
                    lease.renew()
                    place.write(MANIFEST, wanted.to_json())
                found = wanted
        found.check(manifest, where=place.url)
        cache = cls(place, found)
        cache.clean_temporary_files()
        return cache

    # -- what is committed ------------------------------------------------------------------------------------------

    def listing(self, source: str, *, stable: bool = False) -> Listing:
        """The committed shards of ``source`` by name; ``stable``: also while somebody compacts (see list_shards)."""
        known = self.manifest.sources.get(source)
        return list_shards(self.place, source, expected=known.shards if stable and known else None)

    def committed_keys(self, source: str) -> set[str]:
        """The keys of the committed shards: one listing, no shard's file is read."""
        return self.listing(source).keys()

    def committed(self, source: str) -> dict[str, ShardRecord]:
        """The committed shards' records by key, in the order of the keys. Reads one small file a shard or pack."""

        def read(listing: Listing) -> dict[str, ShardRecord]:
            records = [record for unit in records_of(self.place, listing) for record in unit.records]
            return {record.shard: record for record in sorted(records, key=lambda record: record.shard)}

        return self._reading(source, read)

    def record(self, source: str, shard: str) -> ShardRecord | None:
        """The record of a shard that has a file of its own; None if it is not committed (or only within a pack)."""
        try:
            return read_record(self.place, source, shard_file(shard))
        except FileNotFoundError:
            return None

    # -- writing ----------------------------------------------------------------------------------------------------

    def commit(
        self,
        source: str,
        shard: str,
        *,
        counts: np.ndarray,
        pieces: pa.Table | None = None,
        samples: Sequence[Sample] = (),
        record: ShardRecord,
    ) -> ShardRecord:
        """Put a shard into the cache, wholly or not at all; if it is there already, nothing is done.

        ``counts``: int64[vocab_size]. ``pieces``: None, or a table (piece binary, initial bool, count int64). The
        record's ``files``, ``digest`` and ``created`` are filled in here. Returns the record that is in the cache.
        Raises UsageError for a shard that contradicts its record or the manifest, OSError or CacheError if it can't be
        written.
        """
        self._check(source, shard, counts, record)
        present = self.record(source, shard)
        if present is not None:
            return present
        name = shard_file(shard)
        tables = {"tokens": counts_table(counts)}
        if pieces is not None:
            tables["pieces"] = _pieces_table(pieces)
        if samples:
            tables["samples"] = samples_table(samples)
        files = self.write_data(source, name, tables)
        full = record.model_copy(
            update={
                "files": files,
                "digest": overall_digest(files),
                "created": record.created or datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
        self.write_bytes(f"shards/{folder_name(source)}/{name}.json", full.to_json())
        return full

    def _check(self, source: str, shard: str, counts: np.ndarray, record: ShardRecord) -> None:
        if source not in self.manifest.sources:
            raise UsageError(f"{self.location}: {source!r} is not a source of this cache")
        if (record.source, record.shard) != (source, shard):
            raise UsageError(f"the record of {record.source}/{record.shard} was given for {source}/{shard}")
        if counts.shape != (self.manifest.tokenizer.vocab_size,):
            raise UsageError(
                f"{source}/{shard}: counts of {counts.shape} ids, not of {self.manifest.tokenizer.vocab_size}"
            )
        if int(counts.sum()) != record.tokens:
            raise UsageError(
                f"{source}/{shard}: the record says {record.tokens} tokens, the counts {int(counts.sum())}"
            )

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file of the cache as it is, whole or not at all; never through a link that leads out of it."""
        self._check_folder(name.rpartition("/")[0])
        self.place.write(name, data)

    def write_data(self, source: str, name: str, tables: Mapping[str, pa.Table]) -> dict[str, FileDigest]:
        """Write the data files of a shard or pack (kind -> table) and say what they are; commits nothing."""
        files = {}
        for kind, table in tables.items():
            data = to_parquet(table)
            self.write_bytes(data_name(kind, source, name), data)
            files[kind] = digest_of(data, table.num_rows)
        return files

    def _check_folder(self, folder: str) -> None:
        """A stranger's cache may hold links that lead out of it; nothing is written through them."""
        if not self.place.local or folder in self._checked_folders:
            return
        root = Path(self.place.path).resolve()
        if not (root / folder).resolve().is_relative_to(root):
            raise CacheError(f"{self.place.describe(folder)} is a link that leads out of the cache")
        self._checked_folders.add(folder)

    def clean_temporary_files(self) -> int:
        """Remove temporary files whose writers are gone; return how many. Stores that put objects whole have none."""
        if not self.place.local:
            return 0
        removed = 0
        root = Path(self.place.path)
        folders = [root, *(root / kind for kind in (*KINDS, "shards"))]
        for folder in (*folders, *(sub for top in folders[1:] if top.is_dir() for sub in top.iterdir())):
            if folder.is_symlink() or not folder.is_dir():
                continue
            with os.scandir(folder) as entries:
                hidden = [entry.name for entry in entries if entry.name.startswith(".")]
            for name in hidden:
                if is_stale(name, age=age_of(folder / name)):
                    (folder / name).unlink(missing_ok=True)
                    removed += 1
        return removed

    def write_vocabulary(self, table: pa.Table) -> None:
        """Write token_id int32, token, surface, kind, script (strings); leaves a vocabulary that is there as it is."""
        checked = vocabulary_table(table, vocab_size=self.manifest.tokenizer.vocab_size)
        if not self.place.exists(VOCABULARY):
            self.place.write(VOCABULARY, to_parquet(checked))

    # -- reading ----------------------------------------------------------------------------------------------------

    def vocabulary(self) -> pa.Table:
        """token_id int32, token, surface, kind, script; by id. Raises CacheError if it is missing or broken."""
        where = self.place.describe(VOCABULARY)
        try:
            data = self.place.read(VOCABULARY, limit=_VOCABULARY_LIMIT)
        except FileNotFoundError as error:
            raise CacheError(
                f"{self.place.describe(VOCABULARY)} is missing; run the count again to write it"
            ) from error
        where = self.place.describe(VOCABULARY)
        return read_vocabulary(data, where=where, vocab_size=self.manifest.tokenizer.vocab_size)

    def read_counts(self) -> CorpusCounts:
        """All counts in the cache, each shard once; every file is held against its digest and its record's sum.

        Raises CacheError that names a file that is broken or missing.
        """
        size = self.manifest.tokenizer.vocab_size
        empty = np.zeros(size, dtype=np.int64)
        empty.flags.writeable = False
        by_source: dict[str, np.ndarray] = {}
        documents: dict[str, int] = {}
        samples: list[Sample] = []
        for source in sorted(self.manifest.sources):

            def read(listing: Listing, source: str = source) -> tuple[np.ndarray, int, list[Sample]]:
                total, seen, kept = empty, 0, list[Sample]()
                for unit, tokens, sampled in in_parallel(self.place, self._unit, records_of(self.place, listing)):
                    total = np.zeros(size, dtype=np.int64) if total is empty else total
                    where = self.place.describe(data_name("tokens", source, unit.name))
                    if read_counts_into(total, tokens, where=where) != unit.tokens:
                        raise CacheError(
                            f"{where}: its counts don't add up to the {unit.tokens:,} tokens of its record"
                        )
                    seen += sum(record.documents for record in unit.records)
                    kept = bottom_samples([*kept, *sampled], size=self.sample_size)
                return total, seen, kept

            total, documents[source], kept = self._reading(source, read)
            total.flags.writeable = False
            by_source[source] = total
            samples += kept
        return CorpusCounts(
            size, by_source, documents_by_source=documents, samples=tuple(sample.text for sample in samples)
        )

    def _unit(self, unit: Unit) -> tuple[Unit, bytes, list[Sample]]:
        return unit, self.read_file(unit, "tokens"), self.samples_of(unit)

    def samples(self) -> list[Sample]:
        """The documents kept for verification: of each source those with the smallest hashes."""
        found: list[Sample] = []
        for source in sorted(self.manifest.sources):

            def read(listing: Listing) -> list[Sample]:
                kept: list[Sample] = []
                for sampled in in_parallel(self.place, self.samples_of, records_of(self.place, listing)):
                    kept = bottom_samples([*kept, *sampled], size=self.sample_size)
                return kept

            found += self._reading(source, read)
        return found

    @property
    def sample_size(self) -> int:
        """How many documents of a source are kept."""
        size = self.manifest.settings.get("sample_size", 64)
        return min(size, _SAMPLES_A_UNIT) if isinstance(size, int) and size >= 0 else 64

    def samples_of(self, unit: Unit) -> list[Sample]:
        """The samples file of a shard or pack, if it has one. Raises CacheError, FileNotFoundError."""
        if "samples" not in unit.files:
            return []
        where = self.place.describe(data_name("samples", unit.source, unit.name))
        return read_samples(self.read_file(unit, "samples"), where=where, rows=_SAMPLES_A_UNIT)

    def pieces(self, source: str | None = None) -> pa.Table:
        """Distinct pieces with their counts, of one source or all: (piece binary, initial bool, count int64), sorted.

        Empty unless the corpus was counted with ``keep_pieces``; then bounded a shard (``pieces_dropped`` of the
        records). All are held in memory; ``trimbed sql`` reads them in a stream.
        """
        names = sorted(self.manifest.sources) if source is None else [source]
        total = PIECES.empty_table()
        for name in names:
            if name not in self.manifest.sources:
                raise UsageError(f"{self.location}: {name!r} is not a source of this cache")
            total = add_pieces([total, self._reading(name, self._pieces)])
        return total

    def _pieces(self, listing: Listing) -> pa.Table:
        total = PIECES.empty_table()
        pending: list[pa.Table] = []
        for unit in records_of(self.place, listing):
            if "pieces" in unit.files:
                pending.append(self.read_pieces_of(unit))
            if sum(table.num_rows for table in pending) > max(1 << 20, total.num_rows):
                total, pending = add_pieces([total, *pending]), []
        return add_pieces([total, *pending])

    def read_pieces_of(self, unit: Unit) -> pa.Table:
        """The pieces file of a shard or pack. Raises CacheError, FileNotFoundError."""
        where = self.place.describe(data_name("pieces", unit.source, unit.name))
        return read_pieces(self.read_file(unit, "pieces"), where=where, rows=unit.files["pieces"].rows)

    def units(self, source: str) -> Iterator[Unit]:
        """The committed shards and packs of ``source``, with their records."""
        return records_of(self.place, self.listing(source, stable=True))

    def read_file(self, unit: Unit, kind: str) -> bytes:
        """A data file's bytes, held against its digest. Raises CacheError, FileNotFoundError."""
        name, wanted = data_name(kind, unit.source, unit.name), unit.files[kind]
        data = self.place.read(name, limit=wanted.bytes)
        if digest_of(data, wanted.rows) != wanted:
            raise CacheError(
                f"{self.place.describe(name)} isn't what was committed (its digest differs); "
                "`trimbed cache repair` drops the shard, so that the next count makes it again"
            )
        return data

    def _reading(self, source: str, read: Callable[[Listing], _T]) -> _T:
        """Read from a listing; from a new one if files went away meanwhile because somebody compacted."""
        for attempt in range(_READ_TRIES):
            try:
                return read(self.listing(source, stable=True))
            except FileNotFoundError as error:
                if attempt == _READ_TRIES - 1:
                    raise CacheError(
                        f"{self.location}: a file of a committed shard of {source!r} is missing ({error}); "
                        "`trimbed cache repair` drops the shard, so that the next count makes it again"
                    ) from error
        raise AssertionError


def add_pieces(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of pieces as one, each (piece, initial) once, sorted by them."""
    filled = [table for table in tables if table.num_rows]
    if len(filled) < 2:
        return filled[0] if filled else PIECES.empty_table()
    summed = pa.concat_tables(filled).group_by(["piece", "initial"]).aggregate([("count", "sum")])
    return (
        summed.rename_columns({"count_sum": "count"})
        .select(PIECES.names)
        .sort_by([("piece", "ascending"), ("initial", "ascending")])
    )


def _pieces_table(pieces: pa.Table) -> pa.Table:
    try:
        return pieces.select(PIECES.names).cast(PIECES).sort_by([("piece", "ascending"), ("initial", "ascending")])
    except (KeyError, pa.ArrowException) as error:
        raise UsageError(f"pieces must have the columns piece, initial and count: {error}") from error


def _read_manifest(place: Location) -> Manifest | None:
    if place.local and Path(place.path).exists() and not Path(place.path).is_dir():
        raise CacheError(f"{place.url} is a file; a counts cache is a folder")
    try:
        data = place.read(MANIFEST, limit=_MANIFEST_LIMIT)
    except FileNotFoundError:
        return None
    return Manifest.parse(data, where=place.describe(MANIFEST))


def _check_free(place: Location) -> None:
    """A new cache is not put among other people's files."""
    if place.local and Path(place.path).is_dir():
        with os.scandir(place.path) as entries:
            other = next(
                (e.name for e in entries if not e.name.startswith(".") and e.name not in (LOCKS, MANIFEST)), None
            )
        if other is not None:
            raise CacheError(
                f"{place.url} is no counts cache and holds other files ({other}); give an empty or new folder"
            )

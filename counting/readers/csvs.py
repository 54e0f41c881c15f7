"""CSV and TSV: one column of a file with a header line; quoted fields may hold line ends and delimiters."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from trimbed.counting.inputs import open_input
from trimbed.counting.readers.batches import RowBatch, valid_text
from trimbed.counting.shards import WHOLE, Extent, ReadOptions
from trimbed.storage.errors import CountingError

__all__ = ["csv_header", "read", "record_starts"]

_BLOCK = 4 << 20
_SCAN = 8 << 20
_LARGEST_BLOCK = 1 << 30


class _Range(io.RawIOBase):
    """The bytes ``start`` to ``stop`` of a file, as a file."""

    def __init__(self, file: Any, start: int, stop: int) -> None:
        self._file = file
        self._left = stop - start if stop != WHOLE else None
        if start:
            file.seek(start)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._left is not None:
            size = self._left if size is None or size < 0 else min(size, self._left)
        data: bytes = self._file.read(size)
        if self._left is not None:
            self._left -= len(data)
        return data


def csv_header(path: str, delimiter: str) -> list[str]:
    """The names in a file's header line. Raises CountingError for a file without one."""
    with open_input(path) as file:
        try:
            reader = pc.open_csv(
                _Range(file, 0, WHOLE),
                read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK),
                parse_options=pc.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
                ),
                convert_options=pc.ConvertOptions(check_utf8=False),
            )
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise CountingError(f"{path}: not readable as CSV: {error}") from error
        names = [str(name) for name in reader.schema.names]
        reader.close()
    return names


def read(extent: Extent, options: ReadOptions, batch_bytes: int) -> Iterator[RowBatch]:
    """The records in ``extent``, which starts at a record (or at the header, if at 0).

    Records with more or fewer fields than the header are skipped as ``malformed``.
    """
    block = max(_BLOCK, batch_bytes)
    done = malformed = 0
    while True:
        try:
            for batch in _read(extent, options, block, done, malformed):
                done += len(batch.texts)
                malformed += batch.skipped.get("malformed", 0)
                yield batch
            return
        except pa.ArrowInvalid as error:
            # A record longer than a block: read on from where we are with larger blocks.
            if "straddling" not in str(error):
                raise CountingError(f"{extent.path}: not readable as CSV after row {done}: {error}") from error
            if block >= _LARGEST_BLOCK:
                raise CountingError(f"{extent.path}: the record after row {done} is longer than 1 GB") from error
            block *= 8


def _read(extent: Extent, options: ReadOptions, block: int, done: int, reported: int) -> Iterator[RowBatch]:
    """The records after the first ``done``, of which ``reported`` malformed ones are accounted for already."""
    delimiter = str(options.details["delimiter"])
    names = [str(name) for name in options.details["columns"]]  # type: ignore[attr-defined]
    malformed = 0

    def skip(row: Any) -> str:
        nonlocal malformed
        malformed += 1
        return "skip"

    def news() -> dict[str, int]:
        nonlocal reported
        new, reported = malformed - reported, max(reported, malformed)
        return {"malformed": new} if new > 0 else {}

    with open_input(extent.path) as file:
        try:
            reader = pc.open_csv(
                _Range(file, extent.start, extent.stop),
                read_options=pc.ReadOptions(
                    use_threads=False, block_size=block, column_names=names, skip_rows=0 if extent.start else 1
                ),
                parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
                convert_options=pc.ConvertOptions(
                    check_utf8=False,
                    include_columns=[options.column],
                    column_types={options.column: pa.binary()},
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise
        passed = 0
        for batch in reader:
            column = batch.column(0)
            before, passed = passed, passed + len(column)
            if passed <= done:
                continue
            texts, replaced = valid_text(column.slice(max(0, done - before)))
            yield RowBatch(texts, news(), replaced)
        if malformed > reported:
            yield RowBatch(pa.nulls(0, pa.string()), news(), 0)


def record_starts(path: str, delimiter: str, target: int) -> list[int]:
    """Where a file of some size may be sliced: offsets at which records begin, about ``target`` bytes apart.

    A line end ends a record where an even number of quotes stands before it. That holds if every quote is where RFC
    4180 allows one: opening after a delimiter or line end, closing before one, or doubled inside a quoted field. The
    whole file is looked through; if a quote stands elsewhere, nothing is certain and there are no slices.
    """
    starts: list[int] = []
    open_quotes = 0
    before = b"\n"
    position = 0
    edges = np.zeros(256, dtype=bool)
    edges[[ord(delimiter), 10, 13]] = True
    with open_input(path) as file:
        chunk = file.read(_SCAN)
        if chunk.startswith(b"\xef\xbb\xbf"):
            chunk, position = chunk[3:], 3
        while chunk:
            following = file.read(_SCAN)
            data = np.frombuffer(before + chunk + (following[:1] or b"\n"), dtype=np.uint8)
            quotes = np.flatnonzero(data[1:-1] == 34) + 1
            order = open_quotes + np.arange(len(quotes))
            opening, closing = quotes[order % 2 == 0], quotes[order % 2 == 1]
            if not (edges[data[opening - 1]] | (data[opening - 1] == 34)).all():
                return []
            if not (edges[data[closing + 1]] | (data[closing + 1] == 34)).all():
                return []
            wanted = (starts[-1] if starts else 0) + target
            if position + len(chunk) >= wanted:
                ends = np.flatnonzero(data[1:-1] == 10) + 1
                outside = ends[(open_quotes + np.searchsorted(quotes, ends)) % 2 == 0]
                for start in (outside + position).tolist():
                    if start >= wanted:
                        starts.append(start)
                        wanted = start + target
            open_quotes = (open_quotes + len(quotes)) % 2
            before = chunk[-1:]
            position += len(chunk)
            chunk = following
    return [start for start in starts if start < position] if not open_quotes else []

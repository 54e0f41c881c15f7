"""How files are sliced into shards, format by format. Reads sizes, footers and headers; hardly any data.

The slices follow from the files and the target size alone, never from the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from trimbed.counting.failures import Kind, kind_of
from trimbed.counting.inputs import (
    content_identity,
    file_size,
    has_ranges,
    is_compressed,
    is_remote,
    open_input,
    open_raw,
)
from trimbed.counting.listing import DataFile
from trimbed.counting.readers.batches import is_text_type
from trimbed.counting.shards import WHOLE, Extent, ReadOptions, group_extents
from trimbed.storage.errors import CountingError, TrimbedError

__all__ = ["Plan", "Unreadable", "plan_files"]

_FEW_EXTENTS = 16
_MOST_PARTS = 8
_SCAN = 8 << 20


class Unreadable(Enum):
    """What becomes of files that can't be planned.

    ``STOP``: the first one ends it all. ``SET_ASIDE``: those that will stay unreadable (damaged, forbidden, without the
    column) are left out and named; what may pass ends it, since the plan would differ the next time. ``LEAVE_OUT``: all
    are left out.
    """

    STOP = "stop"
    SET_ASIDE = "set aside"
    LEAVE_OUT = "leave out"

    def bears(self, error: BaseException) -> bool:
        return self is Unreadable.LEAVE_OUT or (self is Unreadable.SET_ASIDE and kind_of(error) is Kind.DATA)


@dataclass
class Plan:
    """Groups of extents, how they are read, and the identity of each file by name."""

    groups: list[tuple[Extent, ...]]
    options: ReadOptions
    files: dict[str, str]
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Planned:
    """One file: its identity and its extents; ``row_counts`` where the rows of each extent are known."""

    identity: str
    extents: list[Extent]
    row_counts: list[int] | None = None
    details: dict[str, object] = field(default_factory=dict)


def plan_files(
    reader: str,
    files: Sequence[DataFile],
    *,
    column: str,
    max_samples: int | None,
    target: int,
    unreadable: Unreadable = Unreadable.STOP,
) -> Plan:
    """Slice ``files`` into groups of about ``target`` bytes.

    Raises CountingError, naming the file, where one can't be read or lacks the column; or such files are left out, and
    said so, as ``unreadable`` says, as long as there is one good file.
    """
    one = _PLANNERS[reader]
    outcomes = _each(lambda file: one(file, column, target), files)
    planned: list[_Planned] = []
    identities: dict[str, str] = {}
    left_out: dict[str, str] = {}
    first_error: BaseException | None = None
    for file, outcome in zip(files, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            first_error = first_error or outcome
            if not unreadable.bears(outcome):
                raise _named(file, outcome)
            left_out[file.name] = str(_named(file, outcome))
            continue
        planned.append(outcome)
        identities[file.name] = outcome.identity
    if not planned and first_error is not None:
        raise _named(files[0], first_error)
    details = _common_details(planned, files)
    options = ReadOptions(reader=reader, column=column, details=details)
    extents = [extent for outcome in planned for extent in outcome.extents]
    if max_samples is None:
        if reader == "parquet":
            extents = _split_few(extents, planned, target)
        return Plan(list(group_extents(extents, target)), options, identities, left_out)
    if all(outcome.row_counts is not None for outcome in planned):
        counts = [count for outcome in planned for count in outcome.row_counts or ()]
        return Plan(
            list(group_extents(_first_rows(extents, counts, max_samples), target)), options, identities, left_out
        )
    if reader in ("text", "jsonl") and all(extent.stop != WHOLE for extent in extents):
        return Plan(list(group_extents(_first_lines(extents, max_samples), target)), options, identities, left_out)
    return Plan([tuple(extents)], replace(options, max_rows=max_samples), identities, left_out)


def _each(plan: Callable[[DataFile], _Planned], files: Sequence[DataFile]) -> list[_Planned | BaseException]:
    def attempt(file: DataFile) -> _Planned | BaseException:
        try:
            return plan(file)
        except (TrimbedError, OSError, pa.ArrowException) as error:
            return error

    if len(files) > 1 and is_remote(files[0].path):
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(attempt, files))
    return [attempt(file) for file in files]


def _named(file: DataFile, error: BaseException) -> BaseException:
    if isinstance(error, TrimbedError):
        return error
    return CountingError(f"{file.path}: can't be read: {type(error).__name__}: {error}")


def _common_details(planned: Sequence[_Planned], files: Sequence[DataFile]) -> dict[str, object]:
    first = planned[0].details
    for outcome in planned:
        if outcome.details != first:
            raise CountingError(
                f"{outcome.extents[0].path}: its columns {outcome.details.get('columns')} differ from those of "
                f"{planned[0].extents[0].path}, {first.get('columns')}; make them two datasets"
            )
    return first


def _check_column(path: str, schema: pa.Schema, column: str) -> None:
    at = schema.get_all_field_indices(column)
    if len(at) != 1:
        raise CountingError(f"{path}: no column {column!r}; it has {', '.join(map(repr, schema.names)) or 'none'}")
    kind = schema.field(at[0]).type
    if not is_text_type(kind):
        raise CountingError(f"{path}: column {column!r} has type {kind}, which isn't text")


def _parquet(file: DataFile, column: str, target: int) -> _Planned:
    import pyarrow.parquet as pq

    from trimbed.counting.readers.parquet import column_bytes

    size = file_size(file.path)
    if not has_ranges(file.path):
        raise CountingError(
            f"{file.path}: the server gives no parts of files, and Parquet can't be read without; fetch it"
        )
    with open_raw(file.path) as raw:
        raw.seek(max(0, size - 8))
        tail = raw.read(8)
        length = int.from_bytes(tail[:4], "little")
        if size < 12 or tail[4:] != b"PAR1" or length > size - 12:
            raise CountingError(f"{file.path}: not a whole Parquet file (its end is missing); write or fetch it again")
        raw.seek(size - 8 - length)
        footer = raw.read(length)
    try:
        metadata = pq.read_metadata(pa.BufferReader(b"PAR1" + footer + tail))
    except (pa.ArrowException, OSError) as error:
        raise CountingError(f"{file.path}: its Parquet footer is damaged: {error}") from error
    _check_column(file.path, metadata.schema.to_arrow_schema(), column)
    extents, rows = [], []
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        extents.append(Extent(file.name, file.path, index, index + 1, size=max(1, column_bytes(group, column))))
        rows.append(int(group.num_rows))
    import hashlib

    identity = f"{size}:{hashlib.sha256(footer).hexdigest()[:32]}"
    return _Planned(identity, _join_small(extents, rows, target), _join_rows(extents, rows, target))


def _join_small(extents: list[Extent], rows: list[int], target: int) -> list[Extent]:
    """Neighbouring row groups as one extent, as long as they stay below the target together."""
    joined: list[Extent] = []
    for extent in extents:
        last = joined[-1] if joined else None
        if last is not None and last.size + extent.size <= target:
            joined[-1] = replace(last, stop=extent.stop, size=last.size + extent.size)
        else:
            joined.append(extent)
    return joined


def _join_rows(extents: list[Extent], rows: list[int], target: int) -> list[int]:
    return [sum(rows[joined.start : joined.stop]) for joined in _join_small(extents, rows, target)]


def _split_few(extents: list[Extent], planned: Sequence[_Planned], target: int) -> list[Extent]:
    """Slice large row groups by rows where there are so few that workers would have nothing to do.

    Rows before a slice have to be decoded to be passed over, so a row group comes into at most eight slices.
    """
    if len(extents) >= _FEW_EXTENTS:
        return extents
    counts = [count for outcome in planned for count in outcome.row_counts or ()]
    sliced: list[Extent] = []
    for extent, rows in zip(extents, counts, strict=True):
        parts = min(_MOST_PARTS, -(-extent.size // target), max(1, rows))
        for part in range(parts):
            start, stop = rows * part // parts, rows * (part + 1) // parts
            if parts == 1:
                sliced.append(extent)
            else:
                sliced.append(replace(extent, skip=start, rows=stop - start, size=max(1, extent.size // parts)))
    return sliced


def _lines(file: DataFile, column: str, target: int) -> _Planned:
    size = file_size(file.path)
    identity = content_identity(file.path)
    if is_compressed(file.path) or size < 0 or not has_ranges(file.path):
        return _Planned(identity, [Extent(file.name, file.path)])
    starts = range(0, size, target) if size > target * 3 // 2 else range(1)
    bounds = [*starts, size]
    return _Planned(
        identity,
        [Extent(file.name, file.path, start, stop, size=max(1, stop - start)) for start, stop in pairwise(bounds)],
    )


def _jsonl(file: DataFile, column: str, target: int) -> _Planned:
    from trimbed.counting.readers.jsonl import parse_lines
    from trimbed.counting.readers.lines import line_blocks, split_lines

    planned = _lines(file, column, target)
    first = next(line_blocks(Extent(file.name, file.path), 1 << 20), None)
    if first is not None:
        lines = split_lines(first).to_pylist()
        batch = parse_lines(lines, column)
        bad = sum(batch.skipped.get(reason, 0) for reason in ("missing", "malformed", "not_text"))
        if bad and bad + batch.skipped.get("blank", 0) + batch.skipped.get("null", 0) == len(lines):
            raise CountingError(f"{file.path}: {_why_no_text(lines, column)}")
    return planned


def _why_no_text(lines: Sequence[bytes], column: str) -> str:
    import json

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError) as error:
            return f"line {number} isn't a JSON object: {error}; JSON has to be one object a line"
        if not isinstance(value, dict):
            return f"line {number} is a JSON {type(value).__name__}, not an object; JSON has to be one object a line"
        if column not in value:
            return f"no column {column!r}; line {number} has {', '.join(map(repr, value)) or 'none'}"
        return f"column {column!r} isn't text; line {number} has a {type(value[column]).__name__}"
    return "no line holds an object"


def _documents(file: DataFile, column: str, target: int) -> _Planned:
    size = file_size(file.path)
    return _Planned(content_identity(file.path), [Extent(file.name, file.path, size=max(1, size))], [1])


def _csv(file: DataFile, column: str, target: int) -> _Planned:
    from trimbed.counting.readers.csvs import csv_header, record_starts

    delimiter = "\t" if ".tsv" in file.name.lower() else ","
    names = csv_header(file.path, delimiter)
    if names.count(column) != 1:
        raise CountingError(f"{file.path}: no column {column!r}; it has {', '.join(map(repr, names)) or 'none'}")
    details: dict[str, object] = {"columns": names, "delimiter": delimiter}
    identity = content_identity(file.path)
    size = file_size(file.path)
    if is_compressed(file.path) or is_remote(file.path):
        return _Planned(identity, [Extent(file.name, file.path)], details=details)
    starts = record_starts(file.path, delimiter, target) if size > target * 3 // 2 else []
    bounds = [0, *starts, size]
    extents = [Extent(file.name, file.path, start, stop, size=max(1, stop - start)) for start, stop in pairwise(bounds)]
    return _Planned(identity, extents, details=details)


def _arrow(file: DataFile, column: str, target: int) -> _Planned:
    from trimbed.counting.readers.arrow import open_batches

    identity = content_identity(file.path)
    with open_batches(file.path) as (schema, batches):
        _check_column(file.path, schema, column)
        if is_remote(file.path):
            return _Planned(identity, [Extent(file.name, file.path)])
        extents: list[Extent] = []
        rows: list[int] = []
        start = stop = size = count = 0
        at = schema.get_field_index(column)
        for batch in batches:
            stop, count, size = stop + 1, count + batch.num_rows, size + batch.column(at).nbytes
            if size >= target:
                extents.append(Extent(file.name, file.path, start, stop, size=size))
                rows.append(count)
                start, size, count = stop, 0, 0
        if stop > start or not extents:
            extents.append(Extent(file.name, file.path, start, stop, size=max(1, size)))
            rows.append(count)
    return _Planned(identity, extents, rows)


_PLANNERS: dict[str, Callable[[DataFile, str, int], _Planned]] = {
    "parquet": _parquet,
    "text": _lines,
    "jsonl": _jsonl,
    "document": _documents,
    "csv": _csv,
    "arrow": _arrow,
}


def _first_rows(extents: Sequence[Extent], counts: Sequence[int], limit: int) -> list[Extent]:
    """The extents that hold the first ``limit`` rows, the last one cut."""
    taken: list[Extent] = []
    for extent, rows in zip(extents, counts, strict=True):
        if limit <= 0:
            break
        taken.append(extent if rows <= limit else replace(extent, rows=limit))
        limit -= rows
    return taken


def _first_lines(extents: Sequence[Extent], limit: int) -> list[Extent]:
    """The extents that hold the first ``limit`` lines; of the files, only so much is read."""
    taken: list[Extent] = []
    current: Any = None
    position = 0
    for extent in extents:
        if limit <= 0:
            break
        if current is None or current[0] != extent.path:
            if current is not None:
                current[1].close()
            current, position = (extent.path, open_input(extent.path)), 0
        file = current[1]
        stop = extent.stop
        while limit > 0 and position < extent.stop:
            chunk = file.read(min(_SCAN, extent.stop - position))
            if not chunk:
                break
            ends = np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == 10)
            if len(ends) >= limit:
                stop = position + int(ends[limit - 1]) + 1
                limit = 0
                break
            limit -= len(ends)
            position += len(chunk)
        taken.append(replace(extent, stop=stop, size=max(1, stop - extent.start)))
        if limit > 0 and position == file_size(extent.path) and chunk and not chunk.endswith(b"\n"):
            limit -= 1
    if current is not None:
        current[1].close()
    return taken

"""Query results of any length to a file, batch by batch: CSV, JSON or Parquet. Knows formats; not where rows come
from.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from trimbed.storage.atomic import replacing
from trimbed.storage.errors import UsageError

__all__ = ["plain_rows", "write_results"]


def write_results(reader: pa.RecordBatchReader, path: str, *, format: str) -> int:
    """Write all rows to the local file ``path`` (``csv``, ``json`` or ``parquet``), whole or not at all.

    Returns how many. Raises UsageError for another format, OSError.
    """
    writers: dict[str, Callable[[pa.RecordBatchReader, BinaryIO], int]] = {
        "csv": _csv,
        "json": _json,
        "parquet": _parquet,
    }
    if format not in writers:
        raise UsageError(f"rows can be written as {', '.join(writers)}, not as {format!r}")
    with replacing(path) as file:
        return writers[format](reader, file)


def plain_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dictionaries of what JSON knows: maps become objects, bytes text with escapes."""
    columns = [[_plain(value, field.type) for value in column.to_pylist()] for column, field in _columns(table)]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _columns(table: pa.Table | pa.RecordBatch) -> list[tuple[Any, pa.Field]]:
    return list(zip(table.columns, table.schema, strict=True))


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if pa.types.is_map(kind):
        return {str(_plain(k, kind.key_type)): _plain(v, kind.item_type) for k, v in value}
    if isinstance(value, list):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    return str(value)


def _csv(reader: pa.RecordBatchReader, file: BinaryIO) -> int:
    rows = 0
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(reader.schema.names)
    for batch in reader:
        for row in plain_rows(batch):
            writer.writerow([_cell(value) for value in row.values()])
        rows += batch.num_rows
    text.detach()
    return rows


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def _json(reader: pa.RecordBatchReader, file: BinaryIO) -> int:
    rows = 0
    file.write(b"[")
    for batch in reader:
        for row in plain_rows(batch):
            file.write(b",\n" if rows else b"\n")
            file.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace"))
            rows += 1
    file.write(b"\n]\n")
    return rows


def _parquet(reader: pa.RecordBatchReader, file: BinaryIO) -> int:
    rows = 0
    with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows

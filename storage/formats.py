"""The Parquet files of a cache: their schemas, written always the same way and read with nothing taken on trust.

Knows bytes and tables; not where files lie. The same content gives the same bytes (with one version of pyarrow): no
times, no run's settings, no schema metadata. Anything but the exact schema is refused, so a file never decides types.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trimbed.storage.errors import CacheError, UsageError
from trimbed.storage.records import SAMPLE_BYTES, FileDigest, Sample

__all__ = [
    "PIECES",
    "SAMPLES",
    "TOKENS",
    "VOCABULARY_SCHEMA",
    "counts_table",
    "digest_of",
    "overall_digest",
    "read_counts_into",
    "read_pieces",
    "read_samples",
    "read_vocabulary",
    "samples_table",
    "to_parquet",
    "vocabulary_table",
]

TOKENS = pa.schema([("token_id", pa.int32()), ("count", pa.int64())])
PIECES = pa.schema([("piece", pa.binary()), ("initial", pa.bool_()), ("count", pa.int64())])
SAMPLES = pa.schema(
    [
        ("order", pa.int64()),
        ("source", pa.string()),
        ("shard", pa.string()),
        ("row", pa.int64()),
        ("text", pa.large_string()),
    ]
)
VOCABULARY_SCHEMA = pa.schema(
    [
        ("token_id", pa.int32()),
        ("token", pa.string()),
        ("surface", pa.string()),
        ("kind", pa.string()),
        ("script", pa.string()),
    ]
)
_ROW_GROUP = 1 << 20


def to_parquet(table: pa.Table) -> bytes:
    """``table`` as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.combine_chunks(),
        sink,
        compression="zstd",
        row_group_size=_ROW_GROUP,
        store_schema=False,
        write_statistics=True,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def digest_of(data: bytes, rows: int) -> FileDigest:
    """SHA-256, size and rows of a file's bytes."""
    return FileDigest(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), rows=rows)


def overall_digest(files: Mapping[str, FileDigest]) -> str:
    """One SHA-256 over the files' kinds and digests."""
    lines = "".join(f"{kind} {files[kind].sha256}\n" for kind in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def counts_table(counts: np.ndarray) -> pa.Table:
    """int64[vocab] -> the rows with a count, by id. Raises UsageError for another dtype or shape, or a negative
    count.
    """
    if not isinstance(counts, np.ndarray) or counts.dtype != np.int64 or counts.ndim != 1:
        raise UsageError(f"counts must be an int64 array of one dimension, not {_kind_of(counts)}")
    ids = np.flatnonzero(counts)
    kept = counts[ids]
    if len(kept) and int(kept.min()) < 0:
        raise UsageError("counts must not be negative")
    return pa.table([pa.array(ids.astype(np.int32)), pa.array(kept)], schema=TOKENS)


def _kind_of(value: object) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def samples_table(samples: Sequence[Sample]) -> pa.Table:
    """Samples as rows, by hash. Raises UsageError for one that is longer than a sample may be."""
    ordered = sorted(samples)
    long = next((s for s in ordered if len(s.text.encode("utf-8", "surrogatepass")) > SAMPLE_BYTES), None)
    if long is not None:
        raise UsageError(f"shard {long.shard}, row {long.row}: a sampled document may have {SAMPLE_BYTES:,} bytes")
    columns = [
        [s.order for s in ordered],
        [s.source for s in ordered],
        [s.shard for s in ordered],
        [s.row for s in ordered],
        [s.text for s in ordered],
    ]
    return pa.table([pa.array(c, type=f.type) for c, f in zip(columns, SAMPLES, strict=True)], schema=SAMPLES)


def vocabulary_table(table: pa.Table, *, vocab_size: int) -> pa.Table:
    """``table`` with the vocabulary's columns in order, checked: ids distinct and in [0, vocab_size).

    Raises UsageError.
    """
    missing = [name for name in VOCABULARY_SCHEMA.names if name not in table.column_names]
    if missing:
        raise UsageError(f"the vocabulary lacks the columns {', '.join(missing)}")
    try:
        table = table.select(VOCABULARY_SCHEMA.names).cast(VOCABULARY_SCHEMA)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"the vocabulary's columns have other types than {VOCABULARY_SCHEMA}: {error}") from error
    table = table.sort_by("token_id")
    problem = _ids_problem(table["token_id"], vocab_size)
    if problem:
        raise UsageError(f"the vocabulary: {problem}")
    return table


def read_counts_into(total: np.ndarray, data: bytes, *, where: str) -> int:
    """Add a tokens file to ``total`` (int64[vocab]) in place; return the sum of its counts.

    Raises CacheError unless the file has exactly the schema, ids rising and in range, and counts above 0 without nulls.
    """
    table = _read(data, TOKENS, where=where, rows=len(total))
    problem = _ids_problem(table["token_id"], len(total)) or _counts_problem(table["count"])
    if problem:
        raise CacheError(f"{where}: {problem}")
    ids = table["token_id"].to_numpy()
    counts = table["count"].to_numpy()
    total[ids] += counts  # exact and without repeats: the ids rise
    return int(counts.sum())


def read_pieces(data: bytes, *, where: str, rows: int) -> pa.Table:
    """A pieces file of ``rows`` rows. Raises CacheError for another schema or size."""
    table = _read(data, PIECES, where=where, rows=rows)
    problem = _counts_problem(table["count"])
    if problem or table["piece"].null_count or table["initial"].null_count:
        raise CacheError(f"{where}: {problem or 'null pieces'}")
    return table


def read_samples(data: bytes, *, where: str, rows: int) -> list[Sample]:
    """A samples file of at most ``rows`` rows. Raises CacheError for another schema or size."""
    table = _read(data, SAMPLES, where=where, rows=rows)
    try:
        return [Sample(**row) for row in table.to_pylist()]
    except (ValueError, TypeError) as error:
        raise CacheError(f"{where}: {error}") from error


def read_vocabulary(data: bytes, *, where: str, vocab_size: int) -> pa.Table:
    """A vocabulary file. Raises CacheError for another schema or ids that aren't the tokenizer's."""
    table = _read(data, VOCABULARY_SCHEMA, where=where, rows=vocab_size)
    problem = _ids_problem(table["token_id"], vocab_size)
    if problem:
        raise CacheError(f"{where}: {problem}")
    return table


def _read(data: bytes, schema: pa.Schema, *, where: str, rows: int) -> pa.Table:
    """Parse a Parquet file after its footer has been held against what may be there."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        found = file.schema_arrow
        if file.metadata.num_rows > rows:
            raise CacheError(f"{where}: {file.metadata.num_rows:,} rows, where there can be {rows:,}")
        if found.names != schema.names or not all(
            _same_type(a, b) for a, b in zip(found.types, schema.types, strict=True)
        ):
            wrong = ", ".join(f"{field.name} {field.type}" for field in found)
            right = ", ".join(f"{field.name} {field.type}" for field in schema)
            raise CacheError(f"{where}: has the columns {wrong}; must have {right}")
        table = file.read(use_threads=False)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise CacheError(f"{where}: not a readable Parquet file: {error}") from error
    if table.num_rows > rows:
        raise CacheError(f"{where}: more rows than its footer says")
    return table.cast(schema)


def _same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Parquet has one string type where Arrow has three."""
    text = (pa.types.is_string, pa.types.is_large_string)
    return found.equals(wanted) or (any(t(found) for t in text) and any(t(wanted) for t in text))


def _ids_problem(ids: pa.ChunkedArray, vocab_size: int) -> str | None:
    if ids.null_count:
        return "null token ids"
    values = ids.to_numpy()
    if not len(values):
        return None
    if len(values) > 1 and not bool((np.diff(values.astype(np.int64)) > 0).all()):
        return "token ids that repeat or don't rise"
    if int(values[0]) < 0 or int(values[-1]) >= vocab_size:
        return f"token ids outside of the tokenizer's {vocab_size:,} ({int(values[0])} to {int(values[-1])})"
    return None


def _counts_problem(counts: pa.ChunkedArray) -> str | None:
    if counts.null_count:
        return "null counts"
    if len(counts) and pc.min(counts).as_py() < 1:
        return "counts below 1"
    return None

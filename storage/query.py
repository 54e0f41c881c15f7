"""SQL over a counts cache: the one place that opens DuckDB, with its views, its limits and its locks.

DuckDB itself reads and writes nothing: the cache is read here, through the same filesystem layer as everywhere (so it
may lie in an object store, and no extension is needed), and handed over as Arrow tables. External access is off
before the query is seen, and one parsed SELECT is all that is run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import secrets
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from trimbed.storage.cache import CountsCache
from trimbed.storage.errors import CacheError, UsageError
from trimbed.storage.formats import PIECES, SAMPLES, TOKENS, VOCABULARY_SCHEMA
from trimbed.storage.names import VOCABULARY, data_name
from trimbed.storage.records import ShardRecord

__all__ = ["VIEWS", "QueryResult", "View", "describe_views", "examples", "open_connection", "run_query", "stream_query"]

_SOURCE = pa.field("source", pa.string())
_TABLES: dict[str, pa.Schema] = {
    "_counts": pa.schema([_SOURCE, *TOKENS]),
    "_weights": pa.schema([_SOURCE, ("weight", pa.float64())]),
    "_vocabulary": VOCABULARY_SCHEMA,
    "_sources": pa.schema(
        [_SOURCE, ("shards_planned", pa.int64()), ("identity", pa.string()), ("plan_hash", pa.string())]
    ),
    "_shards": pa.schema(
        [
            _SOURCE,
            ("shard", pa.string()),
            *((name, pa.int64()) for name in ("documents", "empty_documents", "skipped_rows")),
            ("skip_reasons", pa.string()),
            *((name, pa.int64()) for name in ("replaced_rows", "bytes", "tokens")),
            *((name, pa.int64()) for name in ("pieces_dropped", "pieces_dropped_count")),
            *((name, pa.string()) for name in ("input", "engine", "digest")),
            ("seconds", pa.float64()),
            ("created", pa.string()),
        ]
    ),
    "_pieces": pa.schema([_SOURCE, *PIECES]),
    "_samples": SAMPLES,
}
# In the order in which they are explained.
VIEWS = ("tokens", "tokens_by_source", "sources", "shards", "pieces", "vocabulary", "samples")
_BATCH_ROWS = 8192
_PLANNING = threading.Lock()


@dataclass(frozen=True)
class View:
    """A view: its name, what a row is, and its columns as (name, SQL type)."""

    name: str
    description: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class QueryResult:
    """A query's rows; ``cut``: there were more than ``max_rows``."""

    table: pa.Table
    cut: bool


def describe_views() -> list[View]:
    """The views and their columns; the same for every cache."""
    with _PLANNING:
        connection, found = _empty(), []
        for name in VIEWS:
            rows = connection.execute(f"describe {name}").fetchall()
            comment = " ".join(line[2:].strip() for line in _sql(name).splitlines() if line.startswith("--"))
            found.append(View(name, comment, tuple((str(row[0]), str(row[1])) for row in rows)))
        return found


def examples() -> list[tuple[str, str]]:
    """Queries to start from: (what it answers, SQL)."""
    parts = re.findall(r"^-- (.*)\n((?:[^-].*\n)+)", _sql("examples"), flags=re.MULTILINE)
    return [(question, query.strip()) for question, query in parts]


def open_connection(
    cache: CountsCache,
    *,
    tables: Collection[str] | None = None,
    weights: Mapping[str, float] | None = None,
    memory_limit: str = "1GB",
    temp_dir: str | None = None,
    threads: int | None = None,
) -> Any:
    """A DuckDB connection that has the views over ``cache``, and access to nothing else.

    ``tables``: the tables below the views that are loaded (all by default); reading the others is an error.
    ``weights``: source -> factor, 1 if not named. ``memory_limit`` as DuckDB writes it; what doesn't fit is spilled
    to a folder of its own in ``temp_dir`` (the system's by default), removed when the connection is closed. Raises
    CacheError, UsageError.
    """
    loaded = _load(cache, set(_TABLES if tables is None else tables), dict(weights or {}))
    connection = _connect(memory_limit=memory_limit, temp_dir=temp_dir, threads=threads)
    try:
        for name, schema in _TABLES.items():
            connection.register(name, loaded[name] if name in loaded else _not_loaded(name, schema))
        for view in VIEWS:
            connection.execute(_sql(view))
    except BaseException:
        connection.close()
        raise
    return connection


def _not_loaded(name: str, schema: pa.Schema) -> pa.RecordBatchReader:
    """What stands for a table that isn't loaded: has columns, and can't be mistaken for an empty one."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ()
        raise pa.ArrowInvalid(f"{name} was not loaded for this connection")

    return pa.RecordBatchReader.from_batches(schema, batches())


def run_query(
    cache: CountsCache,
    sql: str,
    *,
    max_rows: int | None = 10_000,
    timeout: float | None = 300.0,
    **options: Any,
) -> QueryResult:
    """The rows of one SELECT, at most ``max_rows`` of them; ``options`` are those of ``open_connection``.

    Raises UsageError for anything but exactly one SELECT, for SQL that is wrong, and after ``timeout`` seconds.
    """
    with stream_query(cache, sql, timeout=timeout, **options) as reader:
        batches, rows, cut = [], 0, False
        for batch in reader:
            left = batch.num_rows if max_rows is None else max_rows - rows
            if batch.num_rows > left:
                batch, cut = batch.slice(0, left), True
            batches.append(batch)
            rows += batch.num_rows
            if cut:
                break
        return QueryResult(pa.Table.from_batches(batches, schema=reader.schema), cut)


@contextlib.contextmanager
def stream_query(
    cache: CountsCache, sql: str, *, timeout: float | None = 300.0, **options: Any
) -> Iterator[pa.RecordBatchReader]:
    """One SELECT's rows as a stream of record batches; all errors as in ``run_query``, also while it is read."""
    tables = _tables_of(sql)
    expired = threading.Event()
    connection = open_connection(cache, tables=tables, **options)

    def stop() -> None:
        expired.set()
        connection.interrupt()

    timer = threading.Timer(timeout, stop) if timeout is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield _stopping(_reader(connection, sql), expired)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if expired.is_set():
            raise UsageError(f"the query took longer than {timeout:g} seconds and was stopped") from error
        raise UsageError(_explain(error, cache.location)) from error
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()
        connection.close()


def _reader(connection: Any, sql: str) -> pa.RecordBatchReader:
    relation = connection.sql(sql)
    if relation is None:
        raise UsageError("the query returns no rows; give one SELECT")
    if hasattr(relation, "to_arrow_reader"):
        return relation.to_arrow_reader(_BATCH_ROWS)
    return relation.fetch_arrow_reader(_BATCH_ROWS)


def _stopping(reader: pa.RecordBatchReader, expired: threading.Event) -> pa.RecordBatchReader:
    """``reader``, ended by the timer also between two batches."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            if expired.is_set():
                raise pa.ArrowInvalid("stopped")
            yield batch

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _check_single_select(connection: Any, sql: str) -> None:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(str(error)) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = ", ".join(str(s.type).rsplit(".", 1)[-1] for s in statements) or "nothing"
        raise UsageError(f"a query is one SELECT; this is {kinds}. A cache can't be changed by SQL")


def _explain(error: Exception, location: str = "the cache") -> str:
    text = str(error)
    if "file system operations are disabled" in text:
        return f"a query can read the views of the cache and nothing else: {text.splitlines()[0]}"
    if "No such file" in text or "FileNotFound" in text:
        return f"{location} changed while it was read, or lacks a file; try again, or see `trimbed cache verify`"
    return text


def _tables_of(sql: str) -> set[str]:
    """The tables that one SELECT scans. Raises UsageError for anything else, and for a query that is wrong.

    The query is planned, not run, over empty tables and without the optimizer, which might leave out what is empty
    there; what isn't in that plan can't be read. So nothing is loaded that isn't asked for.
    """
    # Not a cursor of the connection: that would have the optimizer on again.
    with _PLANNING:
        connection = _empty()
        _check_single_select(connection, sql)
        try:
            plan = "\n".join(str(row[1]) for row in connection.execute(f"explain (format json) {sql}").fetchall())
        except duckdb.Error as error:
            raise UsageError(_explain(error)) from error
    return {table for table in _TABLES if re.search(rf"(?<![A-Za-z0-9_]){table}(?![A-Za-z0-9_])", plan)}


@functools.cache
def _empty() -> Any:
    """The views over empty tables, made once for the process; nothing is ever run in it. Take ``_PLANNING`` to use
    it.
    """
    connection = _connect(memory_limit="256MB", temp_dir=None, threads=1, optimize=False)
    for name, schema in _TABLES.items():
        connection.register(f"empty{name}", schema.empty_table())
        connection.execute(f"create table {name} as from empty{name}")
        connection.unregister(f"empty{name}")
    for view in VIEWS:
        connection.execute(_sql(view))
    return connection


def _connect(*, memory_limit: str, temp_dir: str | None, threads: int | None, optimize: bool = True) -> Any:
    """DuckDB in memory with everything off that reaches outside."""
    spill = Path(temp_dir or tempfile.gettempdir()) / f"trimbed-sql-{secrets.token_hex(8)}"
    config: dict[str, Any] = {
        "memory_limit": memory_limit,
        "temp_directory": str(spill),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
        "preserve_insertion_order": True,
    }
    if threads is not None:
        config["threads"] = threads
    try:
        connection = duckdb.connect(":memory:", config=config)
    except duckdb.Error as error:
        raise UsageError(f"DuckDB can't be set up with memory limit {memory_limit!r}: {error}") from error
    if not optimize:
        connection.execute("pragma disable_optimizer")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _sql(name: str) -> str:
    return files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


# -- from the cache to tables ---------------------------------------------------------------------------------------


def _load(cache: CountsCache, tables: set[str], weights: dict[str, float]) -> dict[str, Any]:
    unknown = sorted(set(weights) - set(cache.manifest.sources))
    if unknown:
        known = ", ".join(sorted(cache.manifest.sources)) or "none"
        raise UsageError(f"weights: no source {unknown[0]!r} in {cache.location}; there are: {known}")
    makers = {
        "_counts": lambda: _counts(cache),
        "_weights": lambda: _rows("_weights", [(name, weights.get(name, 1.0)) for name in cache.manifest.sources]),
        "_vocabulary": lambda: _vocabulary(cache),
        "_sources": lambda: _sources(cache),
        "_shards": lambda: _rows(
            "_shards", [_shard(r) for s in cache.manifest.sources for r in cache.committed(s).values()]
        ),
        "_pieces": lambda: _pieces(cache),
        "_samples": lambda: _rows("_samples", [(s.order, s.source, s.shard, s.row, s.text) for s in cache.samples()]),
    }
    return {name: makers[name]() for name in sorted(tables)}


def _rows(name: str, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    schema = _TABLES[name]
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(list(c), field.type) for c, field in zip(columns, schema, strict=True)], schema=schema)


def _counts(cache: CountsCache) -> pa.Table:
    from trimbed.storage.formats import counts_table

    parts = []
    for source, counts in cache.read_counts().by_source.items():
        table = counts_table(counts)
        parts.append(table.add_column(0, _SOURCE, pa.array([source] * table.num_rows, pa.string())))
    return pa.concat_tables(parts) if parts else _TABLES["_counts"].empty_table()


def _vocabulary(cache: CountsCache) -> pa.Table:
    # A cache that was made by library calls may have none; ids are then all there is.
    return cache.vocabulary() if cache.place.exists(VOCABULARY) else VOCABULARY_SCHEMA.empty_table()


def _sources(cache: CountsCache) -> pa.Table:
    return _rows(
        "_sources",
        [(name, s.shards, _json(s.identity), s.plan_hash) for name, s in sorted(cache.manifest.sources.items())],
    )


def _shards(cache: CountsCache) -> pa.Table:
    return _rows("_shards", [_shard(r) for source in cache.manifest.sources for r in cache.committed(source).values()])


def _shard(record: ShardRecord) -> tuple[object, ...]:
    return (
        record.source,
        record.shard,
        record.documents,
        record.empty_documents,
        sum(record.skipped_rows.values()),
        _json(record.skipped_rows),
        record.replaced_rows,
        record.bytes,
        record.tokens,
        record.pieces_dropped,
        record.pieces_dropped_count,
        _json(record.input),
        _json(record.engine),
        record.digest,
        record.seconds,
        record.created,
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _pieces(cache: CountsCache) -> Any:
    """The pieces files as they lie, read in a stream when a query wants them: they may be larger than memory."""
    paths, sources = [], []
    for source in sorted(cache.manifest.sources):
        for unit in cache.units(source):
            if "pieces" in unit.files:
                paths.append(cache.place.inner(data_name("pieces", source, unit.name)))
                sources.append(ds.field("source") == source)
    if not paths:
        return _TABLES["_pieces"].empty_table()
    if cache.place.local:
        filesystem: Any = pa.fs.LocalFileSystem()
    else:
        filesystem = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(cache.place.filesystem))
    try:
        return ds.FileSystemDataset.from_paths(
            paths,
            schema=_TABLES["_pieces"],
            format=ds.ParquetFileFormat(),
            filesystem=filesystem,
            partitions=sources,
        )
    except (pa.ArrowException, OSError) as error:
        raise CacheError(f"{cache.location}: its pieces can't be read: {error}") from error

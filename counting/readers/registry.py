"""Which reader reads a shard, and the rules that hold for all: rows limits, and errors that name the file."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from importlib import import_module

import pyarrow as pa

from trimbed.counting.inputs import is_remote
from trimbed.counting.readers.batches import RowBatch
from trimbed.counting.shards import Extent, ReadOptions, Shard
from trimbed.storage.errors import CountingError, TrimbedError

__all__ = ["READERS", "read_shard"]

Reader = Callable[[Extent, ReadOptions, int], Iterator[RowBatch]]

_DAMAGED = ("truncated", "corrupt", "zlib", "zstd", "bzlib", "lz4", "deserialize", "unexpected end of stream")

READERS = {
    "parquet": "trimbed.counting.readers.parquet",
    "jsonl": "trimbed.counting.readers.jsonl",
    "text": "trimbed.counting.readers.lines",
    "document": "trimbed.counting.readers.documents",
    "csv": "trimbed.counting.readers.csvs",
    "arrow": "trimbed.counting.readers.arrow",
    "datasets": "trimbed.counting.readers.iterable",
}


def read_shard(shard: Shard, *, batch_bytes: int = 4 << 20) -> Generator[RowBatch, None, None]:
    """The rows of a shard, in order, in batches of about ``batch_bytes``.

    Raises CountingError naming the file where its content can't be read; errors of the file system pass through.
    """
    read: Reader = import_module(READERS[shard.options.reader]).read
    left = shard.options.max_rows
    for extent in shard.extents:
        limit = _least(extent.rows, left)
        if limit == 0:
            continue
        taken = 0
        for batch in _naming(read(extent, shard.options, batch_bytes), extent):
            if limit is not None and taken + len(batch.texts) >= limit:
                batch = batch.head(limit - taken)
                taken = limit
                yield batch
                break
            taken += len(batch.texts)
            yield batch
        if left is not None:
            left -= taken


def _naming(batches: Iterator[RowBatch], extent: Extent) -> Iterator[RowBatch]:
    rows = 0
    try:
        for batch in batches:
            yield batch
            rows += len(batch.texts)
    except TrimbedError:
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, EOFError) as error:
        raise CountingError(f"{extent.path}: damaged after row {rows} of the shard's part of it: {error}") from error
    except OSError as error:
        # Arrow raises OSError for damaged pages and streams too; those have no number, unlike a device's errors.
        damaged = not is_remote(extent.path) or any(word in str(error).lower() for word in _DAMAGED)
        if type(error) is OSError and error.errno is None and damaged:
            raise CountingError(
                f"{extent.path}: damaged after row {rows} of the shard's part of it: {error}"
            ) from error
        raise
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


def _least(*limits: int | None) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None

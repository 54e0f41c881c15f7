"""Shards of a dataset that only ``datasets`` can read, as Arrow batches, never rows as Python objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from trimbed.counting.readers.batches import RowBatch, row_batch
from trimbed.counting.shards import Extent, ReadOptions
from trimbed.storage.errors import CountingError

__all__ = ["read"]

_ROWS = 256


def read(extent: Extent, options: ReadOptions, batch_bytes: int) -> Iterator[RowBatch]:
    """The rows of shard ``start`` of the dataset."""
    opened = _open(json.dumps(options.details["load"], sort_keys=True))
    total = options.details["shards"]
    if opened.num_shards != total:
        raise CountingError(f"{extent.path}: has {opened.num_shards} shards now, and had {total} when it was planned")
    shard = opened.shard(num_shards=total, index=extent.start).with_format("arrow")
    batches = shard.iter(batch_size=_ROWS)
    try:
        for table in batches:
            if options.column not in table.column_names:
                raise CountingError(f"{extent.path}: no column {options.column!r}; it has {table.column_names}")
            for chunk in table.column(options.column).chunks:
                yield row_batch(chunk)
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


@lru_cache(maxsize=4)
def _open(arguments: str) -> Any:
    from trimbed.counting.hub import load_iterable

    return load_iterable(json.loads(arguments))

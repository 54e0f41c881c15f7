"""Parquet: row groups of one file, one column, in batches of bounded size however large a row group is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq

from trimbed.counting.inputs import open_arrow
from trimbed.counting.readers.batches import RowBatch, row_batch
from trimbed.counting.shards import WHOLE, Extent, ReadOptions

__all__ = ["column_bytes", "open_parquet", "read"]

_PAGE_BUFFER = 1 << 20


def open_parquet(path: str) -> pq.ParquetFile:
    """Open without reading ahead, so that memory follows pages, not row groups."""
    return pq.ParquetFile(open_arrow(path), pre_buffer=False, buffer_size=_PAGE_BUFFER)


def column_bytes(group: Any, column: str) -> int:
    """Uncompressed bytes of a column in a row group's metadata; 0 if there is no such column."""
    chunks = (group.column(at) for at in range(group.num_columns))
    return sum(int(chunk.total_uncompressed_size) for chunk in chunks if chunk.path_in_schema == column)


def read(extent: Extent, options: ReadOptions, batch_bytes: int) -> Iterator[RowBatch]:
    """The rows of the row groups ``start`` to ``stop``."""
    skip = extent.skip
    with open_parquet(extent.path) as file:
        stop = file.num_row_groups if extent.stop == WHOLE else extent.stop
        for index in range(extent.start, stop):
            group = file.metadata.row_group(index)
            if skip >= group.num_rows:
                skip -= group.num_rows
                continue
            average = max(1, column_bytes(group, options.column) // max(1, group.num_rows))
            rows = max(1, min(65536, batch_bytes // average))
            for batch in file.iter_batches(
                batch_size=rows, row_groups=[index], columns=[options.column], use_threads=False
            ):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                yield row_batch(batch.column(0).slice(skip))
                skip = 0

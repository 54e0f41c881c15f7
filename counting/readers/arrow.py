"""Arrow files, of the stream format (as ``datasets`` saves them) or the file format: one column, by record batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from trimbed.counting.inputs import is_remote, open_arrow, open_input
from trimbed.counting.readers.batches import RowBatch, row_batch
from trimbed.counting.shards import WHOLE, Extent, ReadOptions

__all__ = ["open_batches", "read"]

_MAGIC = b"ARROW1"


@contextmanager
def open_batches(path: str) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Schema and record batches of a file of either format, mapped to memory where it is local."""
    with open_input(path) as probe:
        seekable = probe.read(len(_MAGIC)) == _MAGIC
    source = open_arrow(path) if is_remote(path) else pa.memory_map(path)
    with source:
        if seekable:
            reader: Any = pa.ipc.open_file(source)
            yield reader.schema, (reader.get_batch(index) for index in range(reader.num_record_batches))
        else:
            reader = pa.ipc.open_stream(source)
            yield reader.schema, iter(reader)


def read(extent: Extent, options: ReadOptions, batch_bytes: int) -> Iterator[RowBatch]:
    """The rows of the record batches ``start`` to ``stop``."""
    with open_batches(extent.path) as (schema, batches):
        at = schema.get_field_index(options.column)
        for index, batch in enumerate(batches):
            if extent.stop != WHOLE and index >= extent.stop:
                return
            if index < extent.start:
                continue
            column = batch.column(at)
            rows = max(1, len(column) * batch_bytes // max(1, column.nbytes))
            for start in range(0, len(column), rows):
                yield row_batch(column.slice(start, rows))

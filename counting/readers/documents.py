"""Text files, a whole file a document."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from trimbed.counting.inputs import open_input
from trimbed.counting.readers.batches import RowBatch, valid_text
from trimbed.counting.shards import Extent, ReadOptions

__all__ = ["read"]


def read(extent: Extent, options: ReadOptions, batch_bytes: int) -> Iterator[RowBatch]:
    """One row: the file's text, byte for byte (a byte order mark at its start isn't text)."""
    with open_input(extent.path) as file:
        data = file.read()
    data = data.removeprefix(b"\xef\xbb\xbf")
    kind = pa.large_binary() if len(data) >= 2**31 - 1 else pa.binary()
    texts, replaced = valid_text(pa.array([data], kind))
    yield RowBatch(texts, {}, replaced)

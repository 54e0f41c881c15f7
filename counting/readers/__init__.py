"""Readers: extents of files -> batches of rows as Arrow text. Know formats; know no tokenizers, caches or processes."""

from __future__ import annotations

from trimbed.counting.readers.batches import RowBatch
from trimbed.counting.readers.registry import read_shard

__all__ = ["RowBatch", "read_shard"]

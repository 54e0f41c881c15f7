"""Which documents of a shard are sampled: those with the smallest hash of (source, shard, row), whoever counts them."""

from __future__ import annotations

import hashlib
import heapq

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["DocumentSample"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class DocumentSample:
    """The ``size`` documents with the smallest hashes; empty ones and those above ``max_bytes`` never take part."""

    def __init__(self, source: str, shard: str, *, size: int, max_bytes: int) -> None:
        self._size = size
        self._max_bytes = max_bytes
        key = hashlib.blake2b(f"{source}\0{shard}".encode(), digest_size=8).digest()
        self._seed = np.uint64(int.from_bytes(key, "little"))
        self._kept: list[tuple[int, int, str]] = []  # (-hash, row, text): the largest hash on top

    def add(self, first_row: int, texts: pa.Array) -> None:
        """Rows ``first_row`` and following of the shard; nulls are no documents."""
        if not self._size or not len(texts):
            return
        order = self._hashes(first_row, len(texts))
        lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
        eligible = (lengths > 0) & (lengths <= self._max_bytes)
        if len(self._kept) == self._size:
            eligible &= order < np.uint64(-self._kept[0][0])
        rows = np.flatnonzero(eligible)
        if len(rows) > self._size:
            rows = rows[np.argpartition(order[rows], self._size - 1)[: self._size]]
        for row in rows.tolist():
            entry = (-int(order[row]), first_row + row, texts[row].as_py())
            if len(self._kept) < self._size:
                heapq.heappush(self._kept, entry)
            else:
                heapq.heappushpop(self._kept, entry)

    def documents(self) -> list[tuple[int, int, str]]:
        """(hash below 2**63, row in the shard, text), by hash."""
        return [(-negative, row, text) for negative, row, text in sorted(self._kept, reverse=True)]

    def _hashes(self, first_row: int, rows: int) -> np.ndarray:
        """splitmix64 of the row numbers, seeded by source and shard; uint64[rows], below 2**63."""
        with np.errstate(over="ignore"):
            value = self._seed + _GOLDEN * np.arange(first_row + 1, first_row + rows + 1, dtype=np.uint64)
            value = (value ^ (value >> np.uint64(30))) * _MIX_1
            value = (value ^ (value >> np.uint64(27))) * _MIX_2
            return np.asarray((value ^ (value >> np.uint64(31))) >> np.uint64(1))

"""Text files, a document a line. Also how any line format finds the lines that start within a range of bytes.

A line ends at ``\\n``; a ``\\r`` before it belongs to the line end. A byte order mark at a file's start isn't text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from trimbed.counting.inputs import open_input
from trimbed.counting.readers.batches import RowBatch, valid_text
from trimbed.counting.shards import WHOLE, Extent, ReadOptions

__all__ = ["line_blocks", "read", "split_lines"]

_MARK = b"\xef\xbb\xbf"


def read(extent: Extent, options: ReadOptions, batch_bytes: int) -> Iterator[RowBatch]:
    """The lines that start within ``extent``; every line is a document, the empty ones too."""
    for block in line_blocks(extent, batch_bytes):
        texts, replaced = valid_text(split_lines(block))
        yield RowBatch(texts, {}, replaced)


def line_blocks(extent: Extent, batch_bytes: int) -> Iterator[bytes]:
    """Whole lines, about ``batch_bytes`` at a time (more where a line is longer): those that start within ``extent``.

    The last line of a file need not end in a line end. A range that starts inside a line leaves that line to the range
    before it, so ranges that touch give each line exactly once.
    """
    at_start = extent.start == 0
    for block in _blocks(extent, batch_bytes):
        yield block.removeprefix(_MARK) if at_start else block
        at_start = False


def _blocks(extent: Extent, batch_bytes: int) -> Iterator[bytes]:
    with open_input(extent.path) as file:
        position = extent.start
        skip_first = False
        if position:
            file.seek(position - 1)
            skip_first = file.read(1) != b"\n"
        stop = extent.stop
        held: list[bytes] = []
        while True:
            chunk = file.read(batch_bytes)
            if not chunk:
                break
            start, position = position, position + len(chunk)
            if skip_first:
                end = chunk.find(b"\n") + 1
                if not end:
                    if stop != WHOLE and position >= stop:
                        return
                    continue
                chunk, start, skip_first = chunk[end:], start + end, False
            if stop != WHOLE:
                if start >= stop and not held:
                    return
                if position >= stop:
                    # The line in which byte stop - 1 lies is the last one that is ours.
                    end = chunk.find(b"\n", max(stop - 1 - start, 0)) + 1
                    if end:
                        held.append(chunk[:end])
                        yield b"".join(held)
                        return
            end = chunk.rfind(b"\n") + 1
            if end:
                held.append(chunk[:end])
                yield b"".join(held)
                held = [chunk[end:]] if end < len(chunk) else []
            else:
                held.append(chunk)
        if held:
            yield b"".join(held)


def split_lines(block: bytes) -> pa.Array:
    """The lines of a block of whole lines, as binary (large_binary past 2 GB), without their line ends."""
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == 10)
    if not len(ends) or ends[-1] != len(data) - 1:
        ends = np.append(ends, len(data))
    starts = np.concatenate(([0], ends[:-1] + 1))
    returns = (ends > starts) & (data[np.maximum(ends - 1, 0)] == 13)
    stops = ends - returns
    large = len(block) >= 2**31 - 1
    if not returns.any() and len(ends) == 1:
        return pa.array([block[: stops[0]]], pa.large_binary() if large else pa.binary())
    # Lay the lines next to each other, so that offsets alone tell them apart.
    keep = np.ones(len(data), dtype=bool)
    keep[ends[ends < len(data)]] = False
    keep[stops[returns]] = False
    offsets = np.concatenate(([0], np.cumsum(stops - starts)))
    kind, width = (pa.large_binary(), np.int64) if large else (pa.binary(), np.int32)
    buffers = [None, pa.py_buffer(offsets.astype(width)), pa.py_buffer(data[keep])]
    return pa.Array.from_buffers(kind, len(ends), buffers)

"""Reads and writes safetensors files as raw bytes and rows. Knows the format, not what a tensor means.

The format: 8 bytes (little-endian length of the header), a JSON object of name -> dtype, shape, data_offsets (and
``__metadata__``), then the data, without gaps. Everything is checked against the file's size before it is believed.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from trimbed.errors import TrimError

__all__ = ["DTYPE_BITS", "SafetensorsFile", "TensorInfo", "encode_header"]

DTYPE_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
    "C64": 64,
}
_HEADER_LIMIT = 100_000_000  # the reference reader's own limit


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: ``begin`` and ``end`` are byte offsets in the file's data part."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin

    @property
    def parameters(self) -> int:
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row (everything below the first dimension). Raises TrimError where rows aren't whole bytes."""
        bits = math.prod(self.shape[1:]) * DTYPE_BITS[self.dtype]
        if not self.shape or bits % 8:
            raise TrimError(f"tensor {self.name!r} ({self.dtype}, {list(self.shape)}) has no rows of whole bytes")
        return bits // 8


class SafetensorsFile:
    """A file opened for reading; tensors by name in the order of their data. Use as a context manager.

    Raises TrimError, with the reason, for anything that isn't a whole, consistent safetensors file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise TrimError(f"{path} can't be read: {error.strerror}") from None
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self.metadata, self.tensors, self.data_start = self._read_header()
        except BaseException:
            self._file.close()
            raise
        self._map: mmap.mmap | None = None

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._map is not None:
            try:
                self._map.close()
            except BufferError:  # an exception's traceback still holds rows; the map goes with them
                pass
            self._map = None
        self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    def _fail(self, reason: str) -> TrimError:
        return TrimError(f"{self.path} is not a usable safetensors file: {reason}")

    def _read_header(self) -> tuple[dict[str, str], dict[str, TensorInfo], int]:
        start = self._file.read(8)
        if len(start) < 8:
            raise self._fail(f"it has {self.size} bytes, less than the header's length field")
        (length,) = struct.unpack("<Q", start)
        if length > _HEADER_LIMIT or 8 + length > self.size:
            raise self._fail(f"it claims a header of {length} bytes, the file has {self.size}")
        try:
            header = json.loads(self._file.read(length))
        except ValueError as error:
            raise self._fail(f"its header is no JSON ({error})") from None
        if not isinstance(header, dict):
            raise self._fail("its header is no JSON object")
        metadata = header.pop("__metadata__", None) or {}
        data_bytes = self.size - 8 - length
        infos = sorted((self._info(name, entry) for name, entry in header.items()), key=lambda i: (i.begin, i.end))
        expected = 0
        for info in infos:
            if info.begin != expected:
                raise self._fail(f"the data of {info.name!r} begins at {info.begin}, expected {expected}")
            expected = info.end
        if expected != data_bytes:
            raise self._fail(f"its tensors take {expected} bytes, the file has {data_bytes} (truncated or padded)")
        return metadata, {info.name: info for info in infos}, 8 + length

    def _info(self, name: str, entry: Any) -> TensorInfo:
        try:
            dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        except (TypeError, KeyError, ValueError):
            raise self._fail(f"the entry of {name!r} lacks dtype, shape or data_offsets") from None
        numbers = [*shape, begin, end] if isinstance(shape, list) else [None]
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
            raise self._fail(f"the shape or offsets of {name!r} are no whole numbers: {shape}, {begin}, {end}")
        if dtype not in DTYPE_BITS:
            raise self._fail(f"tensor {name!r} has the unknown dtype {dtype!r}")
        bits = math.prod(shape) * DTYPE_BITS[dtype]
        if bits % 8 or end - begin != bits // 8:
            raise self._fail(
                f"tensor {name!r} ({dtype}, {shape}) needs {bits / 8:g} bytes, its offsets span {end - begin}"
            )
        return TensorInfo(name, dtype, tuple(shape), begin, end)

    def rows(self, info: TensorInfo) -> np.ndarray:
        """uint8[rows, row_bytes] over the memory map; nothing is read until it is used."""
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        flat = np.frombuffer(self._map, dtype=np.uint8, count=info.bytes, offset=self.data_start + info.begin)
        return flat.reshape(info.shape[0], info.row_bytes)

    def forget_pages(self) -> None:
        """Tell the system that mapped pages may leave this process' memory; they're read again if needed."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def gather(self, info: TensorInfo, rows: np.ndarray, fill: bytes, *, block_bytes: int) -> Iterator[np.ndarray]:
        """Blocks uint8[n, row_bytes] of the tensor's rows in the order of ``rows``; -1 takes ``fill`` (one row).

        Holds about ``block_bytes`` at once, at least one row.
        """
        source = self.rows(info)
        step = max(1, block_bytes // max(1, info.row_bytes))
        for start in range(0, len(rows), step):
            wanted = rows[start : start + step]
            block = np.take(source, np.maximum(wanted, 0), axis=0)
            if (wanted < 0).any():
                block[wanted < 0] = np.frombuffer(fill, dtype=np.uint8)
            yield block
            self.forget_pages()


def encode_header(tensors: Mapping[str, tuple[str, tuple[int, ...], int]], metadata: Mapping[str, str]) -> bytes:
    """The first bytes of a file: name -> (dtype, shape, bytes), laid out one after the other in this order."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text

"""Opening input files, here or far away, compressed or not, and what identifies their content. Knows no formats."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

__all__ = [
    "content_identity",
    "file_size",
    "has_ranges",
    "is_compressed",
    "is_remote",
    "open_arrow",
    "open_input",
    "open_raw",
]

_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_PROBES = 16
_PROBE_BYTES = 4096
_EDGE_BYTES = 65536


def is_remote(path: str) -> bool:
    """Whether a path names something behind fsspec: ``s3://``, ``https://``, ``hf://``, …"""
    return "://" in path


def compression(path: str) -> str | None:
    """The codec that a file's name tells, or None."""
    return _CODECS.get(Path(path.split("?")[0]).suffix.lower()) if "." in path else None


def is_compressed(path: str) -> bool:
    """Whether the name says that the file is compressed as a whole, so that it can only be read from its beginning."""
    return compression(path) is not None


def open_raw(path: str) -> BinaryIO:
    """A seekable binary file as it is stored. Raises OSError."""
    if is_remote(path):
        from trimbed.counting.remote import open_remote

        return open_remote(path)
    return Path(path).open("rb")


def open_input(path: str) -> Any:
    """A binary file to be read, decompressed if its name says so (not seekable then). Raises OSError."""
    codec = compression(path)
    if codec is None:
        return open_raw(path)
    return pa.CompressedInputStream(open_arrow(path), codec)


def open_arrow(path: str) -> Any:
    """The file as it is stored, as an Arrow file: native where it is local, wrapped where it is not."""
    if is_remote(path):
        return pa.PythonFile(open_raw(path), mode="r")
    return pa.OSFile(path, mode="rb")


def file_size(path: str) -> int:
    """Bytes of the file as stored; -1 where a server doesn't say. Raises OSError."""
    if is_remote(path):
        from trimbed.counting.remote import remote_info

        return remote_info(path).size
    return Path(path).stat().st_size


def has_ranges(path: str) -> bool:
    """Whether parts of the file can be read without what is before them. Raises OSError."""
    if is_remote(path):
        from trimbed.counting.remote import remote_info

        return remote_info(path).ranges
    return True


def content_identity(path: str) -> str:
    """What identifies a file's content: its size with the store's entity tag, or with a digest of probes.

    The probes are the beginning, the end and pieces spread over the middle: cheap whatever the size, and the same for
    the same content anywhere and at any time. A change of equal length that falls between them is not seen.
    """
    if is_remote(path):
        from trimbed.counting.remote import remote_info

        info = remote_info(path)
        if info.tag:
            return f"{info.size}:{info.tag}"
        if not info.ranges:
            return f"{info.size}" if info.size >= 0 else "unknown"
    size = file_size(path)
    with open_raw(path) as file:
        return f"{size}:{_probe(file, size)}"


def _probe(file: BinaryIO, size: int) -> str:
    digest = hashlib.sha256(str(size).encode())
    spans = [(0, _EDGE_BYTES), (max(0, size - _EDGE_BYTES), _EDGE_BYTES)]
    spans += [(size * step // (_PROBES + 1), _PROBE_BYTES) for step in range(1, _PROBES + 1)]
    if size <= _EDGE_BYTES * 4:
        spans = [(0, size)]
    for start, length in spans:
        file.seek(start)
        digest.update(file.read(length))
    return digest.hexdigest()[:32]

"""The key-value part of a GGUF file, in bounded memory. Knows the layout; knows no meaning of keys, reads no tensors.

Layout (little endian): magic, version, tensor count, pair count, then for each pair a key, a type and a value.
Versions 2 and 3. Arrays that don't fit into what is left of the file are refused before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from pathlib import Path
from typing import Any, BinaryIO

from trimbed.errors import TokenizerError

__all__ = ["is_gguf", "read_metadata", "read_tensor_shapes"]

_MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_PAIRS = 1 << 16
_LONGEST_NAME = 1 << 16
_LONGEST_STRING = 1 << 26  # a chat template or a normalization map; tokens are far shorter


class _Reader:
    """Reads values, and knows how much of the file is left."""

    def __init__(self, file: BinaryIO, size: int, origin: str) -> None:
        self.file, self.size, self.origin = file, size, origin

    def fail(self, what: str) -> TokenizerError:
        return TokenizerError(f"{self.origin}: {what} (at byte {self.file.tell()} of {self.size}); is the file whole?")

    def take(self, count: int) -> bytes:
        if count > self.size - self.file.tell():
            raise self.fail(f"{count} bytes are claimed that aren't there")
        return self.file.read(count)

    def scalar(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def string(self, limit: int = _LONGEST_STRING) -> str:
        length = self.scalar("Q")
        if length > limit:
            raise self.fail(f"a string of {length} bytes is claimed")
        return self.take(length).decode("utf-8", "surrogateescape")

    def value(self, kind: int, *, keep: bool) -> Any:
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise self.fail(f"a value has the unknown type {kind}")
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner in _SCALARS:
            code = _SCALARS[inner]
            data = self.take(count * struct.calcsize("<" + code))
            return list(struct.unpack(f"<{count}{code}", data)) if keep else None
        if inner != _STRING or count * 8 > self.size - self.file.tell():
            raise self.fail(f"an array of {count} values of type {inner} is claimed")
        if not keep:
            for _ in range(count):
                self.string()
            return None
        return [self.string() for _ in range(count)]


def is_gguf(path: Path) -> bool:
    """Whether the file begins as a GGUF does."""
    with path.open("rb") as file:
        return file.read(4) == _MAGIC


def read_metadata(path: Path, *, skip: Container[str] = ()) -> dict[str, Any]:
    """All keys and values, but for the values of ``skip`` (None). Strings that aren't UTF-8 keep their bytes as lone
    surrogates. Raises TokenizerError for a file that isn't a GGUF or is cut short."""
    with path.open("rb") as file:
        return _metadata(_open(file, path), skip)[0]


def read_tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The name and shape of each tensor, slowest dimension first (GGUF writes them the other way)."""
    with path.open("rb") as file:
        reader = _open(file, path)
        _, tensors = _metadata(reader, ())
        shapes: dict[str, tuple[int, ...]] = {}
        for _ in range(tensors):
            name = reader.string(_LONGEST_NAME)
            dimensions = reader.scalar("I")
            if dimensions > 8:
                raise reader.fail(f"tensor {name!r} claims {dimensions} dimensions")
            shapes[name] = tuple(reader.scalar("Q") for _ in range(dimensions))[::-1]
            reader.take(12)  # type and offset
        return shapes


def _open(file: BinaryIO, path: Path) -> _Reader:
    reader = _Reader(file, path.stat().st_size, str(path))
    if reader.take(min(4, reader.size)) != _MAGIC:
        raise TokenizerError(f"{path} is not a GGUF file")
    version = reader.scalar("I")
    if version not in (2, 3):
        raise reader.fail(f"GGUF version {version} is not one we read (2 or 3, little endian)")
    return reader


def _metadata(reader: _Reader, skip: Container[str]) -> tuple[dict[str, Any], int]:
    tensors, pairs = reader.scalar("Q"), reader.scalar("Q")
    if pairs > _MOST_PAIRS:
        raise reader.fail(f"{pairs} metadata entries are claimed")
    found: dict[str, Any] = {}
    for _ in range(pairs):
        key = reader.string(_LONGEST_NAME)
        found[key] = reader.value(reader.scalar("I"), keep=key not in skip)
    return found, tensors

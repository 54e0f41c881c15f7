"""An encoder's recipe: named arrays that say everything the native encoder needs, and their packing into bytes.
Knows no tokenizer document."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trimbed.counting.encoders.probe import CODE_POINTS, Decomposition

__all__ = ["NONE", "EncoderRecipe", "NoRecipe", "RecipeBuilder"]

NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class NoRecipe:
    """Why a tokenizer has no native encoder; its pieces go to the library."""

    reason: str


@dataclass(frozen=True)
class EncoderRecipe:
    """``arrays``: uint8, int32, uint32, uint64 or float64 arrays by name, as ``kernel/encode/*.hpp`` read them.
    ``explanation``: one line for each part that was translated."""

    arrays: Mapping[str, np.ndarray]
    explanation: tuple[str, ...]

    def pack(self) -> bytes:
        """The recipe as the bytes that ``PieceEncoder.make`` takes."""
        out = [b"TBENC001", struct.pack("<Q", len(self.arrays))]
        for name, array in self.arrays.items():
            encoded = name.encode()
            data = np.ascontiguousarray(array).tobytes()
            out.append(struct.pack("<QQQ", len(encoded), array.itemsize, array.size))
            out += [encoded, b"\0" * (-len(encoded) % 8), data, b"\0" * (-len(data) % 8)]
        return b"".join(out)


class RecipeBuilder:
    """Collects arrays; maps, programs, tables and strings that several steps share are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.explanation: list[str] = []
        self._strings: dict[str, int] = {}
        self._known: dict[tuple[str, bytes], int] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, array: np.ndarray) -> None:
        self.arrays[name] = array

    def number(self, name: str, value: int) -> None:
        self.add(name, np.array([value], np.uint32))

    def string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def strings(self, name: str, texts: Iterable[bytes]) -> None:
        parts = list(texts)
        self.add(f"{name}.bytes", np.frombuffer(b"".join(parts), np.uint8))
        self.add(f"{name}.ends", np.cumsum([len(p) for p in parts], dtype=np.uint64).astype(np.uint32))

    def pages(self, name: str, values: np.ndarray) -> None:
        """A value for each code point (``values``: T[0x110000])."""
        rows = np.ascontiguousarray(values.reshape(CODE_POINTS >> 8, 256))
        seen: dict[bytes, int] = {}
        index = [seen.setdefault(row.tobytes(), len(seen)) for row in rows]
        self.add(f"{name}.index", np.array(index, np.uint32))
        self.add(f"{name}.pages", np.frombuffer(b"".join(seen), values.dtype))

    def _number(self, kind: str, key: bytes) -> tuple[int, bool]:
        """The number of that thing, and whether it is new."""
        if (kind, key) in self._known:
            return self._known[kind, key], False
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        self._known[kind, key] = number
        return number, True

    def character_map(self, changes: Mapping[int, str]) -> int:
        """A map step's table; ``changes`` has the code points that don't become themselves."""
        number, new = self._number("map", repr(sorted(changes.items())).encode("utf-8", "surrogatepass"))
        if new:
            self._character_map(f"map.{number}", changes)
        return number

    def _character_map(self, name: str, changes: Mapping[int, str]) -> None:
        table = np.zeros(CODE_POINTS, np.uint32)
        texts: dict[str, int] = {}
        for point, text in changes.items():
            table[point] = texts.setdefault(text, len(texts)) + 1
        self.pages(name, table)
        self.strings(f"{name}.strings", (text.encode() for text in texts))

    def table(self, values: np.ndarray) -> int:
        number, new = self._number("table", values.tobytes())
        if new:
            self.pages(f"table.{number}", values)
        return number

    def program(self, code: np.ndarray, sets: np.ndarray) -> int:
        number, new = self._number("program", code.tobytes() + b"|" + sets.tobytes())
        if new:
            self.add(f"program.{number}.code", code.reshape(-1))
            self.add(f"program.{number}.sets", sets.reshape(-1))
        return number

    def composer(self, parts: Decomposition, *, compatibility: bool) -> int:
        number, new = self._number("composer", bytes([compatibility]))
        if new:
            name = f"composer.{number}"
            self._character_map(name, parts.full)
            self.pages(f"{name}.order", parts.order)
            keys = sorted((first << 32 | second, composite) for (first, second), composite in parts.pairs.items())
            self.add(f"{name}.pairs", np.array([k for k, _ in keys], np.uint64))
            self.add(f"{name}.composites", np.array([c for _, c in keys], np.uint32))
        return number

    def steps(self, name: str, steps: Sequence[Sequence[int]]) -> None:
        rows = np.zeros((len(steps), 8), np.uint32)
        for row, step in zip(rows, steps, strict=True):
            row[: len(step)] = step
        self.add(f"{name}.steps", rows.reshape(-1))

    def finish(self) -> EncoderRecipe:
        self.strings("strings", (text.encode() for text in self._strings))
        return EncoderRecipe(self.arrays, tuple(self.explanation))

"""The texts that tokens stand for, laid end to end, so that a test of characters is one pass over all tokens."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["SurfaceTable", "code_points"]

CODE_POINTS = 0x110000


def code_points(characters: Iterable[str | int]) -> np.ndarray:
    """bool[0x110000]: a set of characters as a table to look up in."""
    table = np.zeros(CODE_POINTS, dtype=bool)
    table[[ord(c) if isinstance(c, str) else c for c in characters]] = True
    return table


@functools.cache
def white_space() -> np.ndarray:
    """bool[0x110000]: what ``str.isspace`` calls white space."""
    return code_points([code for code in range(0x3001) if chr(code).isspace()])


@dataclass(frozen=True)
class SurfaceTable:
    """``codes``: uint32[n], the code points of all surfaces in order of their ids; ``starts``: int64[vocab_size + 1].

    A token without a surface (a hole, a part of a character) has no characters.
    """

    codes: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, surfaces: Sequence[str | None]) -> SurfaceTable:
        texts = [surface or "" for surface in surfaces]
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return cls(codes, starts)

    @cached_property
    def core(self) -> np.ndarray:
        """bool[n]: characters that aren't white space at either end of their token."""
        solid = ~white_space()[self.codes]
        index = np.arange(len(self.codes))
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        first = np.full(len(self.starts) - 1, len(self.codes))
        last = np.full(len(self.starts) - 1, -1)
        np.minimum.at(first, owner[solid], index[solid])
        np.maximum.at(last, owner[solid], index[solid])
        found: np.ndarray = np.logical_and(index >= first[owner], index <= last[owner])
        return found

    def number(self, characters: np.ndarray) -> np.ndarray:
        """int64[vocab_size]: how many characters of each token are marked in ``characters`` (bool[n])."""
        running = np.zeros(len(self.codes) + 1, dtype=np.int64)
        np.cumsum(characters, out=running[1:])
        found: np.ndarray = np.subtract(running[self.starts[1:]], running[self.starts[:-1]])
        return found

    def wholly(self, allowed: np.ndarray, *, trimmed: bool = True) -> np.ndarray:
        """bool[vocab_size]: tokens that have characters, all ``allowed`` (bool[0x110000]).

        ``trimmed``: white space at the ends isn't looked at, so that `` 1990`` is digits; white space alone is nothing.
        """
        counted = self.core if trimmed else np.ones(len(self.codes), dtype=bool)
        others = self.number(counted & ~allowed[self.codes])
        found: np.ndarray = np.logical_and(self.number(counted) > 0, others == 0)
        return found

    def of_length(self, length: int) -> np.ndarray:
        """bool[vocab_size]: tokens of ``length`` characters, white space at the ends not counted."""
        found: np.ndarray = np.equal(self.number(self.core), length)
        return found

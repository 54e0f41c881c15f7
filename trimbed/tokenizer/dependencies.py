"""What each token is built from, as arrays, and the closure of a kept set over it. Knows no algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["Dependencies"]


@dataclass(frozen=True)
class Dependencies:
    """For each id the ids it is built from directly, in compressed rows.

    ``starts``: int64[vocab_size + 1]; ``parts``: int64[n]. An id's parts are ``parts[starts[id] : starts[id + 1]]``.
    """

    starts: np.ndarray
    parts: np.ndarray

    @classmethod
    def none(cls, vocab_size: int) -> Dependencies:
        """Every token stands alone."""
        return cls(np.zeros(vocab_size + 1, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def from_pairs(cls, vocab_size: int, tokens: np.ndarray, parts: np.ndarray) -> Dependencies:
        """From int64[n] arrays that say "token needs part"; repeats are folded."""
        keys = np.unique(tokens.astype(np.int64) * vocab_size + parts.astype(np.int64))
        tokens, parts = keys // vocab_size, keys % vocab_size
        starts = np.zeros(vocab_size + 1, dtype=np.int64)
        np.cumsum(np.bincount(tokens, minlength=vocab_size), out=starts[1:])
        return cls(starts, parts)

    @property
    def vocab_size(self) -> int:
        return len(self.starts) - 1

    def parents(self, id: int) -> np.ndarray:
        """int64[k]: the ids ``id`` is built from in one step. Empty for a token that needs none."""
        return self.parts[self.starts[id] : self.starts[id + 1]]

    @cached_property
    def dependents(self) -> Dependencies:
        """The same relation the other way round: for each id the tokens that are built from it."""
        tokens = np.repeat(np.arange(self.vocab_size), np.diff(self.starts))
        return Dependencies.from_pairs(self.vocab_size, self.parts, tokens)

    def closure(self, mask: np.ndarray) -> np.ndarray:
        """bool[vocab_size]: ``mask`` and all that its tokens are built from, down to the last step. ``mask`` stays."""
        closed = np.array(mask, dtype=bool)
        frontier = np.flatnonzero(closed)
        while len(frontier):
            counts = self.starts[frontier + 1] - self.starts[frontier]
            frontier, counts = frontier[counts > 0], counts[counts > 0]
            ends = np.cumsum(counts)
            total = int(ends[-1]) if len(ends) else 0
            at = np.arange(total) + np.repeat(self.starts[frontier] - (ends - counts), counts)
            new = np.unique(self.parts[at])
            frontier = new[~closed[new]]
            closed[frontier] = True
        return closed

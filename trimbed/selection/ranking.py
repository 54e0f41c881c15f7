"""The corpus's ranking of tokens, where the cuts fall in it, and what spreads along derivations. Plain arrays only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from trimbed.tokenizer.dependencies import Dependencies

__all__ = ["Cut", "Ranking", "cut", "earliest_need", "rank"]

FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Ranking:
    """Ids by descending count, ties by id, only those that were counted.

    ``ids``: int64[n]; ``running``: int64[n] or float64[n], the counts added up along ``ids``.
    """

    ids: np.ndarray
    counts: np.ndarray
    running: np.ndarray

    @property
    def total(self) -> int | float:
        return self.running[-1].item() if len(self.running) else 0


@dataclass(frozen=True)
class Cut:
    """Where each rule would cut a ranking (number of tokens it keeps), and the strictest of them."""

    length: int
    by_rule: dict[str, int]


def rank(counts: np.ndarray, eligible: np.ndarray) -> Ranking:
    """Rank the ``eligible`` (bool[vocab_size]) ids by ``counts`` (int64 or float64 [vocab_size])."""
    ids = np.flatnonzero(eligible & (counts > 0))
    ids = ids[np.argsort(-counts[ids], kind="stable")]  # stable over ascending ids: ties go by id
    return Ranking(ids, counts[ids], np.cumsum(counts[ids]))


def cut(
    ranking: Ranking, *, coverage: float | None = None, top_k: int | None = None, min_count: int | None = None
) -> Cut:
    """How much of ``ranking`` the strictest of the given rules keeps: all of it where none is given.

    ``coverage`` keeps the shortest beginning that makes up that share of the ranking's total, reckoned exactly for
    whole counts (0.1 means one tenth, not its binary neighbour).
    """
    by_rule: dict[str, int] = {}
    if coverage is not None:
        if coverage >= 1:
            by_rule["coverage"] = len(ranking.ids)
        else:
            if np.issubdtype(ranking.running.dtype, np.integer):
                needed: int | float = math.ceil(Fraction(repr(coverage)) * ranking.total)
            else:
                needed = coverage * ranking.total * (1 - 1e-12)
            by_rule["coverage"] = int(np.searchsorted(ranking.running, needed, side="left")) + 1 if needed > 0 else 0
            by_rule["coverage"] = min(by_rule["coverage"], len(ranking.ids))
    if top_k is not None:
        by_rule["top_k"] = min(top_k, len(ranking.ids))
    if min_count is not None:
        by_rule["min_count"] = int(np.searchsorted(-ranking.counts, -min_count, side="right"))
    return Cut(min(by_rule.values(), default=len(ranking.ids)), by_rule)


def earliest_need(order: np.ndarray, dependencies: Dependencies, *, within: np.ndarray | None = None) -> np.ndarray:
    """int64[vocab_size]: the earliest position in ``order`` of a token that is the id itself or is built from it.

    ``order``: int64[n] ids. Ids that nothing in ``order`` needs get the largest int64. With the ids of a ranking as
    ``order`` this is where each id first enters the closure of the ranking's beginning, so the closure of the first k
    is ``earliest_need(ids, dependencies) < k``. ``within`` (bool[vocab_size]) leaves out all other tokens.
    """
    position = np.full(dependencies.vocab_size, FAR, dtype=np.int64)
    position[order] = np.arange(len(order))
    if within is not None:
        position[~within] = FAR
    frontier = np.flatnonzero(position < FAR)
    while len(frontier):
        lengths = dependencies.starts[frontier + 1] - dependencies.starts[frontier]
        ends = np.cumsum(lengths)
        at = np.arange(ends[-1]) + np.repeat(dependencies.starts[frontier] - (ends - lengths), lengths)
        parts, found = dependencies.parts[at], np.repeat(position[frontier], lengths)
        better = found < position[parts]
        parts, found = parts[better], found[better]
        np.minimum.at(position, parts, found)
        frontier = np.unique(parts)
    return position

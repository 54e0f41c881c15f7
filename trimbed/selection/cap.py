"""In which order tokens go when there are too many: leaves first, the least frequent of them first. Plain arrays only.

The order is that of a heap: take the least frequent token that isn't fixed and that no remaining token is built from,
and look again. Ties go against the larger id. With ``flow``, a token that goes passes its count on to the tokens its
text falls into, so that later choices see what the text will really use.

Where tokens fall into what they are built from, flow needs no heap of its own. A token is a leaf, and may go, once all
that is built from it has gone; all of their counts have reached it by then, whichever way they took, so what it goes
with (``full_flow``) depends on no order, and not on what else was kept either. The order by flow is the order by those
counts. As no token has less of them than what is built from it, sorting gives that order but for ties.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trimbed.tokenizer.dependencies import Dependencies

__all__ = ["Fall", "Queue", "flowed_counts", "full_flow", "removal_order"]

# What the text of a token falls into, given which tokens remain (the token itself isn't among them).
Fall = Callable[[int, Sequence[bool]], Sequence[int]]


def removal_order(
    kept: np.ndarray,
    fixed: np.ndarray,
    counts: np.ndarray,
    dependencies: Dependencies,
    *,
    limit: int | None = None,
    spared: np.ndarray | None = None,
    flow: bool = False,
    fall: Fall | None = None,
) -> np.ndarray:
    """The ids of ``kept`` in the order in which a cap takes them, at most ``limit`` of them: int64[n].

    ``kept``, ``fixed``, ``spared``: bool[vocab_size], each closed under ``dependencies``. ``fixed``: never taken.
    ``spared``: taken only after all others that can go. ``counts``: int64 or float64 [vocab_size]. With ``flow``,
    counts flow, into the tokens that ``fall`` names or, without it, the parts (``counts`` must then already hold what
    flowed from the tokens outside of ``kept``).
    """
    if flow and fall is not None:
        return _flowing(kept, fixed, counts, dependencies, limit, spared, fall)
    if flow:
        counts = full_flow(np.where(kept, counts, 0), fixed, dependencies)
    return Queue.of(counts, dependencies).take(kept, fixed, spared=spared, limit=limit)


@dataclass(frozen=True)
class Queue:
    """All ids in the order of counts that don't change, for any number of kept sets.

    ``order``: int64[vocab_size], the first to go first, dependencies left aside. ``tokens``, ``parts``: int64[n], the
    pairs that stand in it the wrong way round: the part goes before the token that is built from it.
    """

    counts: np.ndarray
    dependencies: Dependencies
    order: np.ndarray
    tokens: np.ndarray
    parts: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, dependencies: Dependencies) -> Queue:
        """``counts``: int64 or float64 [vocab_size]."""
        ids = np.arange(len(counts))
        order = np.lexsort((-ids, counts))
        place = np.empty_like(ids)
        place[order] = ids
        tokens, parts = np.repeat(ids, np.diff(dependencies.starts)), dependencies.parts
        wrong = place[tokens] > place[parts]
        return cls(counts, dependencies, order, tokens[wrong], parts[wrong])

    def take(
        self, kept: np.ndarray, fixed: np.ndarray, *, spared: np.ndarray | None = None, limit: int | None = None
    ) -> np.ndarray:
        """See ``removal_order``."""
        free = kept & ~fixed
        order = self.order[free[self.order]]
        if spared is not None:
            late = spared[order]
            order = np.concatenate([order[~late], order[late]])
        inside = free[self.tokens] & free[self.parts]
        if inside.any():
            order = self._mend(order, self.tokens[inside], self.parts[inside], spared, limit)
        found: np.ndarray = order[:limit]
        return found

    def _mend(
        self, order: np.ndarray, tokens: np.ndarray, parts: np.ndarray, spared: np.ndarray | None, limit: int | None
    ) -> np.ndarray:
        """``order`` as a heap has it, where ``tokens`` go after ``parts`` in it.

        If all of those pairs are ties, heaps over the tied tokens alone give it: what comes before a tie has gone, what
        comes after is waited for by none of its tokens.
        """
        if (self.counts[tokens] != self.counts[parts]).any():
            return _by_heap(order, self.dependencies, limit)
        counts = self.counts[order]
        changes = counts[1:] != counts[:-1]
        if spared is not None:
            late = spared[order]
            changes |= late[1:] != late[:-1]
        borders = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(order)]])
        place = np.full(len(self.counts), len(order))
        place[order] = np.arange(len(order))
        order = order.copy()
        for tie in np.unique(np.searchsorted(borders, place[parts], side="right") - 1).tolist():
            first, end = borders[tie], borders[tie + 1]
            if limit is None or first < limit:
                order[first:end] = _by_heap(order[first:end], self.dependencies, None)
        return order


def _by_heap(members: np.ndarray, dependencies: Dependencies, limit: int | None) -> np.ndarray:
    """``members`` in their order, but each after those of them that are built from it; at most ``limit`` of them."""
    ids = np.sort(members)
    starts, parts = _among(ids, dependencies)
    place = np.empty(len(ids), dtype=np.int64)
    place[np.searchsorted(ids, members)] = np.arange(len(members))
    dependents = np.bincount(parts, minlength=len(ids)).tolist()
    places, tokens = place.tolist(), np.argsort(place).tolist()
    first, built = starts.tolist(), parts.tolist()
    heap = [places[token] for token in tokens if not dependents[token]]
    heapq.heapify(heap)
    order: list[int] = []
    number = len(ids) if limit is None else limit
    while heap and len(order) < number:
        token = tokens[heapq.heappop(heap)]
        order.append(token)
        for part in built[first[token] : first[token + 1]]:
            dependents[part] -= 1
            if not dependents[part]:
                heapq.heappush(heap, places[part])
    found: np.ndarray = ids[np.array(order, dtype=np.int64)]
    return found


def _rows(ids: np.ndarray, dependencies: Dependencies) -> tuple[np.ndarray, np.ndarray]:
    """The parts of all of ``ids``, one after the other, and how many each has."""
    lengths = dependencies.starts[ids + 1] - dependencies.starts[ids]
    ends = np.cumsum(lengths)
    at = np.arange(int(lengths.sum())) + np.repeat(dependencies.starts[ids] - (ends - lengths), lengths)
    return dependencies.parts[at], lengths


def _among(ids: np.ndarray, dependencies: Dependencies) -> tuple[np.ndarray, np.ndarray]:
    """The rows of ``dependencies`` for ``ids``, ascending, with places in ``ids`` instead of ids; others left out."""
    parts, lengths = _rows(ids, dependencies)
    places = np.minimum(np.searchsorted(ids, parts), len(ids) - 1)
    inside = ids[places] == parts if len(ids) else np.zeros(0, dtype=bool)
    starts = np.zeros(len(ids) + 1, dtype=np.int64)
    rows = np.repeat(np.arange(len(ids)), lengths)
    np.cumsum(np.bincount(rows[inside], minlength=len(ids)), out=starts[1:])
    return starts, places[inside]


def _flowing(
    kept: np.ndarray,
    fixed: np.ndarray,
    counts: np.ndarray,
    dependencies: Dependencies,
    limit: int | None,
    spared: np.ndarray | None,
    fall: Fall,
) -> np.ndarray:
    """A heap in which a token whose count grew since it was pushed is pushed again, where it belongs now."""
    ids = np.flatnonzero(kept)
    starts, parts = _among(ids, dependencies)
    free = np.flatnonzero(~fixed[ids])
    n = len(free) if limit is None else min(limit, len(free))
    last = np.zeros(len(ids), dtype=bool).tolist() if spared is None else spared[ids].tolist()
    amount, held = counts[ids].tolist(), fixed[ids].tolist()
    dependents = np.bincount(parts, minlength=len(ids)).tolist()
    first, built, names = starts.tolist(), parts.tolist(), ids.tolist()
    remaining = kept.tolist()
    places = dict(zip(names, range(len(names)), strict=True))
    heap = [(last[token], amount[token], -token) for token in free.tolist() if not dependents[token]]
    heapq.heapify(heap)
    order: list[int] = []
    while heap and len(order) < n:
        was_late, was, negative = heapq.heappop(heap)
        token = -negative
        share = amount[token]
        if was != share:
            heapq.heappush(heap, (was_late, share, negative))
            continue
        order.append(token)
        remaining[names[token]] = False
        for other in fall(names[token], remaining):
            amount[places[other]] += share
        for part in built[first[token] : first[token + 1]]:
            dependents[part] -= 1
            if not dependents[part] and not held[part]:
                heapq.heappush(heap, (last[part], amount[part], -part))
    found: np.ndarray = ids[np.array(order, dtype=np.int64)]
    return found


def full_flow(counts: np.ndarray, fixed: np.ndarray, dependencies: Dependencies) -> np.ndarray:
    """``counts`` with all that ever flows into each token, should everything go but ``fixed``, which is closed.

    Tokens pass on in the order of what waits for them, all of a step at once: sums are the same whatever is kept, and
    no token's is less than that of a token it is a part of. Same dtype as ``counts``.
    """
    flowed = counts.copy()
    tokens = np.repeat(np.arange(len(counts)), np.diff(dependencies.starts))
    waiting = np.bincount(dependencies.parts[~fixed[tokens]], minlength=len(counts))
    ready = np.flatnonzero(~fixed & (waiting == 0))
    while len(ready):
        parts, lengths = _rows(ready, dependencies)
        # A single part means that the token is that part twice: relations name each part once.
        np.add.at(flowed, parts, np.repeat(flowed[ready] * np.where(lengths == 1, 2, 1), lengths))
        np.subtract.at(waiting, parts, 1)
        parts = np.unique(parts)
        ready = parts[(waiting[parts] == 0) & ~fixed[parts]]
    return flowed


def flowed_counts(kept: np.ndarray, counts: np.ndarray, dependencies: Dependencies, fall: Fall | None) -> np.ndarray:
    """``counts`` after those of the tokens outside of ``kept`` have been passed on: the text's use of what is kept.

    Without ``fall`` tokens fall into their parts, and on through parts that aren't kept either; a token without parts
    that isn't kept passes nothing on.
    """
    flowed = counts.copy()
    gone = np.flatnonzero(~kept & (counts > 0))
    if fall is not None:
        alive = kept.tolist()
        for token in gone.tolist():
            for part in fall(token, alive):
                flowed[part] += counts[token]
        return flowed
    pending = np.where(kept, 0, counts)
    flowed[~kept] = 0
    while pending.any():
        tokens = np.flatnonzero(pending)
        parts, lengths = _rows(tokens, dependencies)
        passed = np.zeros_like(flowed)
        # A single part means that the token is that part twice: relations name each part once.
        given = pending[tokens] * np.where(lengths == 1, 2, 1)
        np.add.at(passed, parts, np.repeat(given, lengths))
        flowed[kept] += passed[kept]
        pending = np.where(kept, 0, passed)
    return flowed

"""In which order tokens go when there are too many: leaves first, the least frequent of them first. Plain arrays only.

The order is that of a heap: take the least frequent token that isn't fixed and that no remaining token is built from,
and look again. Ties go against the larger id. With ``flow``, a token that goes passes its count on to the tokens its
text falls into, so that later choices see what the text will really use.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from trimbed.tokenizer.dependencies import Dependencies

__all__ = ["Fall", "flowed_counts", "removal_order"]

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

    ``kept``: bool[vocab_size], closed under ``dependencies``. ``fixed``: never taken (nor what they are built from).
    ``spared``: taken only after all others that can go. ``counts``: int64 or float64 [vocab_size]. With ``flow``,
    counts flow, into the tokens that ``fall`` names or, without it, the parts (``counts`` must then already hold what
    flowed from the tokens outside of ``kept``).
    """
    ids = np.flatnonzero(kept)
    starts, parts = _among(ids, dependencies)
    free = ~fixed[ids]
    late = np.zeros(len(ids), dtype=bool) if spared is None else spared[ids]
    number = int(free.sum()) if limit is None else min(limit, int(free.sum()))
    if flow:
        order = _flowing(ids, starts, parts, free, counts, late, number, fall)
    else:
        order = _standing(ids, starts, parts, free, counts[ids], late, number)
    found: np.ndarray = ids[order]
    return found


def _among(ids: np.ndarray, dependencies: Dependencies) -> tuple[np.ndarray, np.ndarray]:
    """The rows of ``dependencies`` for ``ids``, which are closed, with places in ``ids`` instead of ids."""
    lengths = dependencies.starts[ids + 1] - dependencies.starts[ids]
    starts = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    at = np.arange(starts[-1]) + np.repeat(dependencies.starts[ids] - starts[:-1], lengths)
    return starts, np.searchsorted(ids, dependencies.parts[at])


def _standing(
    ids: np.ndarray,
    starts: np.ndarray,
    parts: np.ndarray,
    free: np.ndarray,
    counts: np.ndarray,
    late: np.ndarray,
    n: int,
) -> list[int]:
    """Places in ``ids``. Counts don't change, so each one's place among all is known and the heap holds small ints."""
    by_place = np.flatnonzero(free)
    by_place = by_place[np.lexsort((-by_place, counts[by_place], late[by_place]))]
    place = np.zeros(len(ids), dtype=np.int64)
    place[by_place] = np.arange(len(by_place))
    dependents = np.bincount(parts, minlength=len(ids)).tolist()
    tokens, places, held = by_place.tolist(), place.tolist(), (~free).tolist()
    first, built = starts.tolist(), parts.tolist()
    heap = [places[token] for token in tokens if not dependents[token]]
    heapq.heapify(heap)
    order: list[int] = []
    while heap and len(order) < n:
        token = tokens[heapq.heappop(heap)]
        order.append(token)
        for part in built[first[token] : first[token + 1]]:
            dependents[part] -= 1
            if not dependents[part] and not held[part]:
                heapq.heappush(heap, places[part])
    return order


def _flowing(
    ids: np.ndarray,
    starts: np.ndarray,
    parts: np.ndarray,
    free: np.ndarray,
    counts: np.ndarray,
    late: np.ndarray,
    n: int,
    fall: Fall | None,
) -> list[int]:
    """Places in ``ids``. A token whose count grew since it was pushed is pushed again, where it belongs now."""
    amount, last, held = counts[ids].tolist(), late.tolist(), (~free).tolist()
    dependents = np.bincount(parts, minlength=len(ids)).tolist()
    first, built, names = starts.tolist(), parts.tolist(), ids.tolist()
    alive = np.zeros(len(counts), dtype=bool)
    alive[ids] = True
    remaining = alive.tolist()
    places = dict(zip(names, range(len(names)), strict=True)) if fall is not None else {}
    heap = [(last[token], amount[token], -token) for token in np.flatnonzero(free).tolist() if not dependents[token]]
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
        row = built[first[token] : first[token + 1]]
        if fall is not None:
            remaining[names[token]] = False
            for other in fall(names[token], remaining):
                amount[places[other]] += share
        else:
            for part in row if len(row) != 1 else row * 2:  # a single part stands for two
                amount[part] += share
        for part in row:
            dependents[part] -= 1
            if not dependents[part] and not held[part]:
                heapq.heappush(heap, (last[part], amount[part], -part))
    return order


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
        lengths = dependencies.starts[tokens + 1] - dependencies.starts[tokens]
        ends = np.cumsum(lengths)
        at = np.arange(ends[-1]) + np.repeat(dependencies.starts[tokens] - (ends - lengths), lengths)
        passed = np.zeros_like(flowed)
        # A single part means that the token is that part twice: relations name each part once.
        given = pending[tokens] * np.where(lengths == 1, 2, 1)
        np.add.at(passed, dependencies.parts[at], np.repeat(given, lengths))
        flowed[kept] += passed[kept]
        pending = np.where(kept, 0, passed)
    return flowed

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

__all__ = ["Fall", "fall_into_parts", "flowed_counts", "removal_order"]

# What the text of a token falls into, given which tokens remain (the token itself isn't among them).
Fall = Callable[[int, Sequence[bool]], Sequence[int]]


def fall_into_parts(dependencies: Dependencies) -> Fall:
    """A BPE token falls into what it is built from in one step; under a cap those are still there, for leaves go first.

    A single part means that the token is that part twice: relations name each part once.
    """
    starts, parts = dependencies.starts.tolist(), dependencies.parts.tolist()

    def fall(token: int, alive: Sequence[bool]) -> Sequence[int]:
        found: list[int] = parts[starts[token] : starts[token + 1]]
        return found * 2 if len(found) == 1 else found

    return fall


def removal_order(
    kept: np.ndarray,
    fixed: np.ndarray,
    counts: np.ndarray,
    dependencies: Dependencies,
    *,
    limit: int | None = None,
    spared: np.ndarray | None = None,
    fall: Fall | None = None,
) -> np.ndarray:
    """The ids of ``kept`` in the order in which a cap takes them, at most ``limit`` of them: int64[n].

    ``kept``: bool[vocab_size], closed under ``dependencies``. ``fixed``: never taken (nor what they are built from).
    ``spared``: taken only after all others that can go. ``counts``: int64 or float64 [vocab_size]. With ``fall``,
    counts flow (``counts`` must then already hold what flowed from the tokens outside of ``kept``).
    """
    starts, parts = dependencies.starts.tolist(), dependencies.parts.tolist()
    alive = kept.tolist()
    dependents = _dependents_within(kept, dependencies).tolist()
    late = np.zeros(len(kept), dtype=bool) if spared is None else spared
    candidates = np.flatnonzero(kept & ~fixed)
    limit = len(candidates) if limit is None else min(limit, len(candidates))
    order: list[int] = []
    held = fixed.tolist()

    if fall is None:
        # Counts don't change, so each candidate's place among all is known beforehand and the heap holds small ints.
        by_place = candidates[np.lexsort((-candidates, counts[candidates], late[candidates]))].tolist()
        place = [0] * len(alive)
        for index, token in enumerate(by_place):
            place[token] = index
        heap = [place[token] for token in by_place if not dependents[token]]
        heapq.heapify(heap)
        while heap and len(order) < limit:
            token = by_place[heapq.heappop(heap)]
            order.append(token)
            for part in parts[starts[token] : starts[token + 1]]:
                dependents[part] -= 1
                if not dependents[part] and not held[part] and alive[part]:
                    heapq.heappush(heap, place[part])
        return np.array(order, dtype=np.int64)

    amount, last = counts.tolist(), late.tolist()
    entries = [(last[t], amount[t], -t) for t in candidates.tolist() if not dependents[t]]
    heapq.heapify(entries)
    while entries and len(order) < limit:
        was_late, was, negative = heapq.heappop(entries)
        token = -negative
        if not alive[token]:
            continue
        if was != amount[token]:  # it was given something since it was pushed; put it where it belongs now
            heapq.heappush(entries, (was_late, amount[token], negative))
            continue
        alive[token] = False
        order.append(token)
        share = amount[token]
        for part in parts[starts[token] : starts[token + 1]]:
            dependents[part] -= 1
        if share:
            for part in fall(token, alive):
                amount[part] += share
        for part in parts[starts[token] : starts[token + 1]]:
            if not dependents[part] and alive[part] and not held[part]:
                heapq.heappush(entries, (last[part], amount[part], -part))
    return np.array(order, dtype=np.int64)


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
        # As in fall_into_parts: a single part stands for two.
        given = pending[tokens] * np.where(lengths == 1, 2, 1)
        np.add.at(passed, dependencies.parts[at], np.repeat(given, lengths))
        flowed[kept] += passed[kept]
        pending = np.where(kept, 0, passed)
    return flowed


def _dependents_within(kept: np.ndarray, dependencies: Dependencies) -> np.ndarray:
    """int64[vocab_size]: how many kept tokens are built from each id directly."""
    tokens = np.repeat(np.arange(len(kept)), np.diff(dependencies.starts))
    return np.bincount(dependencies.parts[kept[tokens]], minlength=len(kept))

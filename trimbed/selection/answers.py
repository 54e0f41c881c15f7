"""Many policies for one frame: what ``decide`` says of each, from orders and running sums that are worked out once.

Why one order serves all. Let K be closed, and let the part of K that a cap has yet to take be an up-set of K (whatever
is built from one of its tokens is in it). Which of its tokens are leaves then depends on that part alone, so a heap
over all of K takes the part's tokens in the order in which a heap over the part would. Two consequences, by frequency:

* The closure of a beginning of the ranking has nothing less frequent outside of it that holds anything inside; so one
  order over the whole vocabulary, read up to that beginning, is the order for every cut. ``earliest_need`` tells how
  far that is. Rounding reads on in the same order.
* What requests and floors add beyond such a beginning is less frequent than all of its leaves, so a cap takes that
  first, in the order that belongs to the requests and floors alone.

``flow`` and ``cap_spares_requested`` have no such property: there caps share an order only where the set is the same,
and sets share ``Frame.flow_queue``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trimbed.selection.decide import (
    Reason,
    cap_target,
    cut_length,
    fill_order,
    order_under_cap,
    reasons_for,
    source_floors,
)
from trimbed.selection.frame import Frame
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.ranking import earliest_need

__all__ = ["Answers", "Numbers"]


@dataclass(frozen=True)
class Numbers:
    """``by_reason``: reason -> kept ids. ``weighted``: their weighted count; ``by_source``: their raw counts."""

    by_reason: dict[str, int]
    weighted: int | float
    by_source: dict[str, int]

    @property
    def kept(self) -> int:
        return sum(self.by_reason.values())


@dataclass(frozen=True)
class _Sequence:
    """Ids in an order, and each column's running sum along it (a zero first)."""

    ids: np.ndarray
    running: tuple[np.ndarray, ...]

    def sums(self, first: int, end: int) -> np.ndarray:
        return np.array([column[end] - column[first] for column in self.running])


@dataclass(frozen=True)
class _Beyond:
    """What stays beside the ranking's beginning: structural and requested tokens and floors, closed.

    ``order``: those that aren't fixed, as a cap takes them. ``later``: the same by their place in ``Answers.order``.
    ``requested``, ``corpus``: bool[vocab_size], the reasons of tokens that have no better one; ``requested_before``,
    ``requested_later``, ``corpus_later``: running numbers of such tokens along ``Answers.order`` and ``later``.
    """

    floors: np.ndarray
    closed: np.ndarray
    order: np.ndarray
    later: _Sequence
    places: np.ndarray
    requested: np.ndarray
    corpus: np.ndarray
    requested_before: np.ndarray
    requested_later: np.ndarray
    corpus_later: np.ndarray


@dataclass(frozen=True)
class _Shape:
    """A kept set: the fixed tokens, the first ``prefix`` of ``Answers.order``, of ``beyond`` what lies from ``start``
    on in that order, without ``taken``, with ``fill``. ``taken_sums``: the columns' sums over ``taken``.
    """

    length: int
    prefix: int
    start: int
    beyond: _Beyond
    taken: np.ndarray
    taken_sums: np.ndarray
    fill: np.ndarray


_NONE = np.empty(0, dtype=np.int64)


class Answers:
    """Applies policies to ``frame``. Not for several threads: it fills as it is asked."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._columns = [frame.counts, *(frame.by_source[name] for name in sorted(frame.by_source))]
        self._beyond: dict[object, _Beyond] = {}
        self._orders: dict[object, _Sequence] = {}
        self._wanted: dict[object, int] = {}

    # -- what is worked out once ----------------------------------------------------------------------------------

    @cached_property
    def order(self) -> _Sequence:
        """Every token that isn't fixed, the most useful first, each after what it is built from."""
        return self._sequence(fill_order(self.frame, self.frame.fixed))

    @cached_property
    def position(self) -> np.ndarray:
        """int64[vocab_size]: each token's place in ``order``, vocab_size for those that aren't in it."""
        return self._places(self.order.ids)

    @cached_property
    def place(self) -> np.ndarray:
        """int64[vocab_size]: each token's place in the ranking, vocab_size for those without one."""
        return self._places(self.frame.ranking.ids)

    @cached_property
    def place_in_order(self) -> np.ndarray:
        """int64[len(order)]: ``place`` along ``order``."""
        found: np.ndarray = self.place[self.order.ids]
        return found

    @cached_property
    def entry(self) -> np.ndarray:
        """int64[len(order)]: the place in the ranking with which each token of ``order`` enters; ascends."""
        found: np.ndarray = earliest_need(self.frame.ranking.ids, self.frame.dependencies)[self.order.ids]
        return found

    @cached_property
    def fixed_ids(self) -> np.ndarray:
        return np.flatnonzero(self.frame.fixed)

    def expect(self, policies: Iterable[tuple[SelectionConfig, np.ndarray]]) -> None:
        """Say beforehand what will be asked, (policy, requested) each, so that shared orders are made long enough."""
        for policy, requested in policies:
            if policy.max_vocab_size is None or not _has_order_of_its_own(policy):
                continue
            length, beyond, key = self._parts(policy, requested)
            _, closed = self._closed(length, beyond)
            self._wanted[key] = max(self._wanted.get(key, 0), closed - policy.max_vocab_size)

    # -- answers --------------------------------------------------------------------------------------------------

    def reasons(self, policy: SelectionConfig, requested: np.ndarray) -> np.ndarray:
        """uint8[vocab_size] of Reason, as ``decide(frame, requested, policy).reasons``; raises what it raises."""
        shape = self._shape(policy, requested)
        kept = self.frame.fixed.copy()
        kept[self.order.ids[: shape.prefix]] = True
        kept[shape.beyond.later.ids[np.searchsorted(shape.beyond.places, shape.start) :]] = True
        kept[shape.taken] = False
        corpus = (self.place < shape.length) | shape.beyond.floors
        reasons = reasons_for(self.frame, kept, requested & self.frame.present, corpus)
        reasons[shape.fill] = Reason.rounding
        return reasons

    def numbers(self, policy: SelectionConfig, requested: np.ndarray) -> Numbers:
        """What a table shows of ``reasons``, without making it."""
        shape = self._shape(policy, requested)
        beyond, prefix, frame = shape.beyond, shape.prefix, self.frame
        first = int(np.searchsorted(beyond.places, shape.start))
        size = len(self.fixed_ids) + prefix + len(beyond.places) - first - len(shape.taken)
        asked = int(beyond.requested[self.fixed_ids].sum() + beyond.requested_before[prefix])
        asked += int(beyond.requested_later[-1] - beyond.requested_later[first] - beyond.requested[shape.taken].sum())
        within = self.order.ids[:prefix]
        counted = (self.place_in_order[:prefix] < shape.length) | beyond.floors[within]
        corpus = int((counted & ~beyond.requested[within]).sum())
        corpus += int(beyond.corpus_later[-1] - beyond.corpus_later[first])
        for ids, sign in ((self.fixed_ids, 1), (shape.taken, -1)):
            seen = (self.place[ids] < shape.length) | beyond.floors[ids]
            corpus += sign * int((seen & ~beyond.requested[ids] & ~frame.structural[ids]).sum())
        structural = frame.structural_size
        by_reason = {
            "structural": structural,
            "requested": asked,
            "corpus": corpus,
            "dependency": size - structural - asked - corpus,
            "rounding": len(shape.fill),
        }
        sums = self._fixed_sums + self.order.sums(0, prefix) + beyond.later.sums(first, len(beyond.places))
        sums = sums - shape.taken_sums + self._sums(shape.fill)
        names = sorted(frame.by_source)
        return Numbers(by_reason, sums[0].item(), {name: int(sums[n + 1]) for n, name in enumerate(names)})

    # -- how ------------------------------------------------------------------------------------------------------

    def _shape(self, policy: SelectionConfig, requested: np.ndarray) -> _Shape:
        length, beyond, key = self._parts(policy, requested)
        prefix, closed = self._closed(length, beyond)
        target = cap_target(closed, len(self.fixed_ids), policy)
        start, taken, fill = prefix, _NONE, _NONE
        sums: np.ndarray | None = None
        number = closed - target
        if number > 0 and _has_order_of_its_own(policy):
            order = self._own_order(policy, requested, prefix, beyond, key, number)
            taken, sums = order.ids[:number], order.sums(0, number)
        elif number > 0:
            taken = beyond.order[self.position[beyond.order] >= prefix][:number]
            prefix -= number - len(taken)
        elif number < 0:
            ahead = self.order.ids[prefix : prefix - number + len(beyond.places)]
            fill = ahead[~beyond.closed[ahead]][:-number]
        return _Shape(length, prefix, start, beyond, taken, self._sums(taken) if sums is None else sums, fill)

    def _closed(self, length: int, beyond: _Beyond) -> tuple[int, int]:
        """How far ``order`` is kept before any cap, and the size of the closed set."""
        prefix = int(np.searchsorted(self.entry, length))
        return prefix, len(self.fixed_ids) + prefix + len(beyond.places) - int(np.searchsorted(beyond.places, prefix))

    def _parts(self, policy: SelectionConfig, requested: np.ndarray) -> tuple[int, _Beyond, object]:
        frame = self.frame
        length = cut_length(frame, policy) if frame.has_counts and policy.cuts_corpus else 0
        floors = source_floors(frame, policy) if frame.has_counts else {}
        group = (requested.tobytes(), tuple(floors.items()))
        if group not in self._beyond:
            self._beyond[group] = self._make_beyond(requested & frame.present, floors)
        return length, self._beyond[group], (length, group, policy.cap_order, policy.cap_spares_requested)

    def _make_beyond(self, requested: np.ndarray, floors: dict[str, int]) -> _Beyond:
        frame = self.frame
        floor_mask = np.zeros(frame.vocab_size, dtype=bool)
        for name, floor in floors.items():
            floor_mask[frame.source_rankings[name].ids[:floor]] = True
        closed = frame.dependencies.closure((frame.structural | requested | floor_mask) & frame.present)
        later = np.sort(self.position[closed & ~frame.fixed])
        ids = self.order.ids[later]
        asked, corpus = requested & ~frame.structural, floor_mask & ~requested & ~frame.structural
        return _Beyond(
            floors=floor_mask,
            closed=closed,
            order=frame.queue.take(closed, frame.fixed),
            later=self._sequence(ids),
            places=later,
            requested=asked,
            corpus=corpus,
            requested_before=_running(asked[self.order.ids]),
            requested_later=_running(asked[ids]),
            corpus_later=_running(corpus[ids]),
        )

    def _own_order(
        self, policy: SelectionConfig, requested: np.ndarray, prefix: int, beyond: _Beyond, key: object, number: int
    ) -> _Sequence:
        order = self._orders.get(key)
        if order is None or len(order.ids) < number:
            kept = beyond.closed.copy()
            kept[self.order.ids[:prefix]] = True
            free = int((kept & ~self.frame.fixed).sum())
            wanted = min(max(number, self._wanted.get(key, 0)), free)
            order = self._sequence(order_under_cap(self.frame, kept, requested, policy, wanted))
            self._orders[key] = order
        return order

    def _sequence(self, ids: np.ndarray) -> _Sequence:
        return _Sequence(ids, tuple(_running(column[ids]) for column in self._columns))

    def _sums(self, ids: np.ndarray) -> np.ndarray:
        return np.array([column[ids].sum() for column in self._columns])

    @cached_property
    def _fixed_sums(self) -> np.ndarray:
        return self._sums(self.fixed_ids)

    def _places(self, ids: np.ndarray) -> np.ndarray:
        found = np.full(self.frame.vocab_size, self.frame.vocab_size, dtype=np.int64)
        found[ids] = np.arange(len(ids))
        return found


def _running(values: np.ndarray) -> np.ndarray:
    """The sums of every beginning of ``values``, the empty one first."""
    total = np.zeros(len(values) + 1, dtype=np.float64 if values.dtype.kind == "f" else np.int64)
    np.cumsum(values, out=total[1:])
    return total


def _has_order_of_its_own(policy: SelectionConfig) -> bool:
    return policy.cap_order == "flow" or policy.cap_spares_requested

"""Where a pattern's matches can't depend on what lies across a cut, decided by following every match at once.

Knows leftmost-first matching over character classes (ordered threads, as backtracking engines prefer them). Knows
nothing of normalizers or vocabularies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.regex import Alt, Chars, Look, Node, NotUnderstood, Repeat, Seq

__all__ = ["MatchRules", "compact", "match_rules", "partition"]

MOST_CLASSES = 250
MOST_STATES = 20_000
MOST_NODES = 5_000


@dataclass(frozen=True, eq=False)
class MatchRules:
    """What matching does around a place between a character of class a and one of class b.

    ``classes``: uint8[0x110000]. ``independent``: bool[C, C]: no match or attempt depends on both sides, so the matches
    are those of the left text alone and of the right text alone. Where that holds, ``left_match[a, b]`` and
    ``left_gap[a, b]`` say whether the left character can be in a match or in none, ``right_match[b]`` and
    ``right_gap[b]`` the same of the right one. ``consumed``: bool[C], classes that can be part of a match.
    """

    classes: np.ndarray
    independent: np.ndarray
    left_match: np.ndarray
    left_gap: np.ndarray
    right_match: np.ndarray
    right_gap: np.ndarray
    consumed: np.ndarray


def partition(sets: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The coarsest classes of which each set is a union.

    ``sets``: bool[0x110000] each. Returns classes (int64[0x110000]) and, for each class, a code point of it.
    """
    labels = np.zeros(CODE_POINTS, dtype=np.int64)
    samples = np.zeros(1, dtype=np.int64)
    for number, members in enumerate(sets, 1):
        labels = labels * 2 + members
        if number % 30 == 0 or number == len(sets):
            labels, samples = compact(labels)
    return labels, samples


def compact(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``labels`` (int64[n]) renumbered from 0 in order of value, and each one's first place. Quick for long runs."""
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    _, first, number = np.unique(labels[starts], return_index=True, return_inverse=True)
    return np.repeat(number, np.diff(np.append(starts, len(labels)))), starts[first]


@dataclass(frozen=True)
class _Step:
    """An instruction: take a class of ``mask``, look at the next class, or fork to ``targets`` in order."""

    kind: str
    mask: frozenset[int] = frozenset()
    targets: tuple[int, ...] = ()


class _Program:
    """The pattern as instructions; instruction 0 is a match."""

    def __init__(self, node: Node, classes: np.ndarray, samples: np.ndarray) -> None:
        self.end = len(samples)
        self.samples = samples
        self.steps: list[_Step] = [_Step("match")]
        self.start = self.compile(node, 0)

    def add(self, step: _Step) -> int:
        if len(self.steps) > MOST_NODES:
            raise NotUnderstood("a pattern with too many parts")
        self.steps.append(step)
        return len(self.steps) - 1

    def mask(self, members: np.ndarray) -> frozenset[int]:
        return frozenset(np.flatnonzero(members[self.samples]).tolist())

    def compile(self, node: Node, then: int) -> int:
        match node:
            case Chars(members):
                return self.add(_Step("take", self.mask(members), (then,)))
            case Look(members, at_end):
                mask = self.mask(members) | ({self.end} if at_end else set())
                return self.add(_Step("look", frozenset(mask), (then,)))
            case Seq(parts):
                for part in reversed(parts):
                    then = self.compile(part, then)
                return then
            case Alt(branches):
                return self.add(_Step("fork", targets=tuple(self.compile(branch, then) for branch in branches)))
            case Repeat(body, least, most, lazy):
                return self.repeat(body, least, most, lazy, then)

    def repeat(self, body: Node, least: int, most: int | None, lazy: bool, then: int) -> int:
        if most is None:
            loop = self.add(_Step("fork"))
            inside = self.compile(body, loop)
            self.steps[loop] = _Step("fork", targets=(then, inside) if lazy else (inside, then))
            entry = loop
        else:
            entry = then
            for _ in range(most - least):
                inside = self.compile(body, entry)
                entry = self.add(_Step("fork", targets=(then, inside) if lazy else (inside, then)))
        for _ in range(least):
            entry = self.compile(body, entry)
        return entry

    def advance(self, threads: tuple[int, ...], symbol: int) -> tuple[bool, tuple[int, ...]]:
        """Whether a match ends before ``symbol``, and the threads that live on behind it, most preferred first."""
        seen: set[int] = set()
        behind: dict[int, None] = {}
        stack = list(reversed(threads))
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            step = self.steps[number]
            if step.kind == "match":
                return True, tuple(behind)
            if step.kind == "take":
                if symbol in step.mask:
                    behind.setdefault(step.targets[0])
            elif step.kind == "fork" or symbol in step.mask:
                stack.extend(reversed(step.targets))
        return False, tuple(behind)


def _leaf_sets(node: Node) -> list[np.ndarray]:
    match node:
        case Chars(members) | Look(members, _):
            return [members]
        case Seq(parts) | Alt(parts):
            return [members for part in parts for members in _leaf_sets(part)]
        case Repeat(body, _, _, _):
            return _leaf_sets(body)


def match_rules(node: Node) -> MatchRules:
    """The rules of searching for ``node`` again and again from left to right. Raises NotUnderstood if it's too big."""
    distinct = {members.tobytes(): members for members in _leaf_sets(node)}
    classes, samples = partition(list(distinct.values()))
    count = len(samples)
    if count > MOST_CLASSES:
        raise NotUnderstood("a pattern with too many character classes")
    program = _Program(node, classes, samples)
    start: tuple[int, ...] = (program.start,)
    states: dict[tuple[int, ...], int] = {start: 0}
    order = [start]
    ends: list[list[bool]] = []
    following: list[list[tuple[int, ...]]] = []
    after: defaultdict[int, set[int]] = defaultdict(set)
    for state in order:
        row_ends, row_next = [], []
        for symbol in range(count + 1):
            ended, threads = program.advance(state, symbol)
            row_ends.append(ended)
            row_next.append(threads)
            if not threads:
                continue
            if threads not in states:
                if len(states) > MOST_STATES:
                    raise NotUnderstood("a pattern with too many states")
                states[threads] = len(order)
                order.append(threads)
            after[symbol].add(states[threads])
        ends.append(row_ends)
        following.append(row_next)
    end_table = np.array(ends)
    alive = np.array([[bool(threads) for threads in row] for row in following])
    independent = np.zeros((count, count), dtype=bool)
    left_match = np.zeros((count, count), dtype=bool)
    left_gap = np.zeros((count, count), dtype=bool)
    right_match = alive[0, :count].copy()
    right_gap = np.ones(count, dtype=bool)
    for left in range(count):
        reached = sorted(after[left])
        independent[left] = ~(alive[reached, :count]).any(axis=0)
        independent[left] &= (end_table[reached, :count] == end_table[reached, count:]).all(axis=0)
        fresh = states[following[0][left]] if following[0][left] else None
        own = end_table[fresh, :count] if fresh is not None else np.zeros(count, dtype=bool)
        # A character that a search starting at it would match is in a match, whoever started it; any other may be in
        # none.
        left_gap[left] = ~own
        left_match[left] = end_table[reached, :count].any(axis=0) if reached else False
        if fresh is not None:
            right_gap[left] = not end_table[fresh].all()
    consumed = np.array([bool(after[symbol]) for symbol in range(count)])
    return MatchRules(classes.astype(np.uint8), independent, left_match, left_gap, right_match, right_gap, consumed)

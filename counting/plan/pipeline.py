"""Cuts gathered stage by stage: each stage of a tokenizer says which cuts it can't see across and which it makes.

Knows the neighbours of a cut on both sides, and how stages' verdicts on pairs of characters add up to verdicts on pairs
of raw code points. Knows no particular stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.neighbours import ANY, Side, expand

__all__ = ["Pipeline", "Verdict"]


@dataclass(frozen=True, eq=False)
class Verdict:
    """One stage's verdict on cuts between raw code points, by number of set on either side.

    ``last``, ``first``: int64[0x110000]; ``clear``, ``sure``: bool[sets of last, sets of first].
    """

    last: np.ndarray
    first: np.ndarray
    clear: np.ndarray
    sure: np.ndarray
    title: str


@dataclass(eq=False)
class Pipeline:
    """What is known so far.

    ``last``/``first``: the characters on a cut's left and right side, as the stage to come sees them. ``not_before``,
    ``not_after``: bool[0x110000], raw code points beside which is no cut. ``vanishing``: raw code points that may come
    to nothing. ``verdicts``: of the stages that look at pairs. ``initial``: something is done to a segment's start
    only. ``byte_level``: characters have become bytes.
    """

    last: Side = field(default_factory=Side.identity)
    first: Side = field(default_factory=Side.identity)
    not_before: np.ndarray = field(default_factory=lambda: np.zeros(CODE_POINTS, dtype=bool))
    not_after: np.ndarray = field(default_factory=lambda: np.zeros(CODE_POINTS, dtype=bool))
    vanishing: np.ndarray = field(default_factory=lambda: np.zeros(CODE_POINTS, dtype=bool))
    verdicts: list[Verdict] = field(default_factory=list)
    initial: bool = False
    byte_level: bool = False
    lines: list[str] = field(default_factory=list)

    def map(self, first: np.ndarray, last: np.ndarray) -> None:
        """A stage that replaces each character by itself (images' first and last characters; -1: taken out)."""
        gone = first < 0
        if gone.any():
            self.vanishing |= self.last.touching(gone) | self.first.touching(gone)
        self.first.map(first)
        self.last.map(last)

    def map_with_first_extras(
        self, first: np.ndarray, last: np.ndarray, source: np.ndarray, target: np.ndarray
    ) -> None:
        """As ``map``; but where the right side begins with ``source`` it may become ``target``, too (int64[n] each)."""
        if not len(source):
            self.map(first, last)
            return
        # The extra characters are images already: they are joined by raw code point and added behind the map.
        raw, extra = expand(self.first.single.astype(np.int64), source, target)
        again, more = expand(self.first.extra, source, target)
        raw, extra = np.concatenate([raw, self.first.raw[again]]), np.concatenate([extra, more])
        for mask in self.first.masks[1:]:
            if mask[source].any():
                mask[:] = True
        self.map(first, last)
        self.first.add(raw, extra)

    def judge(self, classes: np.ndarray, clear: np.ndarray, sure: np.ndarray, title: str) -> None:
        """A stage that looks at pairs of characters: ``clear``, ``sure``: bool[C, C] by ``classes`` (uint8[0x110000]).

        ``clear``: the stage does the same to both sides as to each alone. ``sure``: and it parts them here.
        """
        count = len(clear)
        last, left_sets = self.last.labels(classes, count)
        first, right_sets = self.first.labels(classes, count)
        left, right = left_sets.astype(np.float32), right_sets.astype(np.float32)

        def for_all(table: np.ndarray) -> np.ndarray:
            result: np.ndarray = (left @ (~table).astype(np.float32) @ right.T) == 0
            return result

        self.verdicts.append(Verdict(last, first, for_all(clear), for_all(clear & sure), title))

    def forbid_before(self, members: np.ndarray) -> None:
        """No cut before a raw code point that may begin with a character of ``members`` (bool[0x110000])."""
        self.not_before |= self.first.touching(members)

    def forbid_after(self, members: np.ndarray) -> None:
        self.not_after |= self.last.touching(members)

    def uncertain(self) -> tuple[np.ndarray, np.ndarray]:
        """bool[0x110000] twice: raw code points whose last, first character isn't one certain character."""
        last, first = self.last.single < 0, self.first.single < 0
        last[self.last.raw] = True
        return last, first | (self.first.single == ANY)

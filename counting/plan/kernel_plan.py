"""What a kernel plan is: where raw text may be cut, as plain arrays. Knows not how a plan is derived or executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["ALWAYS", "CODE_POINTS", "NEVER", "UNLESS_JOINED", "AddedMatch", "KernelPlan", "NoPlan"]

CODE_POINTS = 0x110000
NEVER, ALWAYS, UNLESS_JOINED = 0, 1, 2


@dataclass(frozen=True)
class AddedMatch:
    """An added token that is found in raw text, leftmost-longest among those of its ``stage``, before anything is cut.

    Stage 0 is searched in the document, stage 1 in each stretch that stage 0 left over (a stage 1 match never spans a
    stage 0 match, and its neighbours for ``single_word`` and its white space for ``lstrip``/``rstrip`` end at that
    stretch's borders). Flags as in the library: ``single_word`` refuses a match next to a word character (``\\w``);
    ``lstrip``/``rstrip`` widen it over white space (``\\s``) on that side.
    """

    content: str
    id: int
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    stage: int = 0


@dataclass(frozen=True)
class NoPlan:
    """Why a tokenizer is counted document by document."""

    reason: str


@dataclass(frozen=True, eq=False)
class KernelPlan:
    """Where raw text (before any normalizer) may be cut so that the pieces' encodings add up to the whole's.

    ``classes``: uint8[0x110000], the class of each code point (surrogates are never looked up).
    ``cut``: uint8[C, C]; ``cut[a, b]`` says whether to cut between a character of class a and a following one of class
    b: 0 never, 1 always, 2 unless the pair is in ``joined``.
    ``joined``: uint64[n], sorted, distinct: code point pairs ``x << 32 | y`` that stay together where ``cut`` is 2.
    ``added``: tokens matched first; each match is one token with a known id, and the text between matches is a segment.
    ``initial``: the first piece of a segment is encoded by ``initial_document``, all others by ``inner_document``.
    ``initial_once``: only a segment that starts at the document's very first byte has such a first piece
    (with ``initial`` false it has no meaning).
    ``initial_after_stage_1``: whether a segment that follows a stage 1 match has an initial first piece, too.
    ``inner_document``, ``initial_document``: tokenizer.json texts; ``Tokenizer.from_str(d).encode(piece,
    add_special_tokens=False)`` gives a piece's ids (equal texts where ``initial`` is false).
    ``inside``: normalized contents of added tokens that are found in normalized text only: they may lie inside pieces,
    never across a cut. The documents' own added tokens find them; an encoder that isn't the library must look for them.
    ``explanation``: lines that say which rules gave which cuts.
    """

    classes: np.ndarray
    cut: np.ndarray
    joined: np.ndarray
    added: tuple[AddedMatch, ...]
    initial: bool
    inner_document: str
    initial_document: str
    explanation: tuple[str, ...] = ()
    initial_once: bool = False
    initial_after_stage_1: bool = True
    inside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = self.cut.shape[0]
        if self.classes.dtype != np.uint8 or self.classes.shape != (CODE_POINTS,):
            raise ValueError("classes must be uint8[0x110000]")
        if self.cut.dtype != np.uint8 or self.cut.shape != (count, count) or int(self.classes.max()) >= count:
            raise ValueError("cut must be uint8[C, C] with a row for each class")
        if self.joined.dtype != np.uint64 or not bool(np.all(self.joined[1:] > self.joined[:-1])):
            raise ValueError("joined must be uint64, sorted and distinct")

    @property
    def class_count(self) -> int:
        return int(self.cut.shape[0])

    @classmethod
    def from_classes(
        cls,
        members: Mapping[str, Iterable[int] | str],
        cuts: Mapping[tuple[str, str], int],
        *,
        document: str,
        joined: Iterable[tuple[int, int]] = (),
        added: Sequence[AddedMatch] = (),
        initial_document: str | None = None,
        initial_once: bool = False,
        initial_after_stage_1: bool = True,
        explanation: Sequence[str] = (),
    ) -> KernelPlan:
        """A plan written by hand: named classes with their code points, and the pairs that may be cut.

        Code points in no class belong to the class ``other``, which may be named in ``cuts`` too. Pairs that ``cuts``
        doesn't name are never cut.

        >>> KernelPlan.from_classes({"space": " "}, {("other", "space"): 1}, document="{}").cut.tolist()
        [[0, 1], [0, 0]]
        """
        names = {"other": 0}
        classes = np.zeros(CODE_POINTS, dtype=np.uint8)
        for name, chars in members.items():
            number = names.setdefault(name, len(names))
            for char in chars:
                classes[char if isinstance(char, int) else ord(char)] = number
        table = np.zeros((len(names), len(names)), dtype=np.uint8)
        for (left, right), value in cuts.items():
            table[names[left], names[right]] = value
        pairs = np.array(sorted({(x << 32) | y for x, y in joined}), dtype=np.uint64)
        return cls(
            classes=classes,
            cut=table,
            joined=pairs,
            added=tuple(added),
            initial=initial_document is not None,
            inner_document=document,
            initial_document=document if initial_document is None else initial_document,
            initial_once=initial_once,
            initial_after_stage_1=initial_after_stage_1,
            explanation=tuple(explanation),
        )

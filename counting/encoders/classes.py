"""Divides the code points into classes that a set of regex trees can't tell apart, and compiles the trees over them.
Knows whom to ask for an atom's members: nobody (a plain character), the regex engine, or a pre-tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from trimbed.counting.encoders import probe
from trimbed.counting.encoders.program import compile_program
from trimbed.counting.encoders.regex import Alternatives, Atom, Atomic, Look, Node, Repeat, UnsupportedPattern, atoms
from trimbed.counting.encoders.regex import Sequence as Parts
from trimbed.counting.plan.probes import other_members, predicate_members, word_members

__all__ = ["Programs", "check_case_folds", "compile_together", "literal"]

LITERAL = "="  # a pattern that begins with it means the one character behind it
NAMED = "@"  # a pattern that begins with it is one of _NAMED


def literal(text: str) -> Node:
    """A tree that matches exactly ``text``."""
    if not text:
        raise UnsupportedPattern("an empty pattern")
    parts = tuple(Atom(LITERAL + c) for c in text)
    return parts[0] if len(parts) == 1 else Parts(parts)


def members(atom: Atom) -> np.ndarray:
    """bool[0x110000]: the code points of an atom."""
    character = _literal_character(atom.pattern)
    if character is not None:
        row = np.zeros(probe.CODE_POINTS, bool)
        row[ord(character)] = True
        return row
    if atom.pattern.startswith(NAMED) and atom.pattern in _NAMED:
        return _NAMED[atom.pattern]()
    return probe.atom_members(atom.pattern)


def _literal_character(pattern: str) -> str | None:
    if len(pattern) == 1 and pattern not in ".":
        return pattern
    if len(pattern) == 2 and pattern[0] == LITERAL:
        return pattern[1]
    if len(pattern) == 2 and pattern[0] == "\\":
        return {"n": "\n", "r": "\r", "t": "\t"}.get(pattern[1])
    return None


class Programs:
    """``classes``: uint8[0x110000]; ``programs``: (code, sets) of each tree, over these classes."""

    def __init__(self, classes: np.ndarray, programs: list[tuple[np.ndarray, np.ndarray]]) -> None:
        self.classes = classes
        self.programs = programs


def compile_together(trees: Sequence[Node]) -> Programs:
    """Programs of ``trees`` over one common division of the code points.

    Raises UnsupportedPattern where there are more than 256 classes or a tree can't be compiled.
    """
    rows: dict[str, np.ndarray] = {}
    for tree in trees:
        check_case_folds(tree)
        for atom in atoms(tree):
            if atom.pattern not in rows:
                rows[atom.pattern] = members(atom)
    number = np.zeros(probe.CODE_POINTS, np.int64)
    for row in rows.values():
        number = number * 2 + row
        present = np.bincount(number) > 0
        number = (np.cumsum(present) - 1)[number]
        if number.max() > 255:
            raise UnsupportedPattern("patterns that tell more than 256 classes of characters apart")
    sets = {}
    for pattern, row in rows.items():
        flags = np.zeros(256, bool)
        flags[number[row]] = True
        sets[pattern] = flags
    return Programs(number.astype(np.uint8), [compile_program(tree, sets) for tree in trees])


def check_case_folds(node: Node) -> None:
    """Raises UnsupportedPattern where letters matched without regard to case could match one character together (as
    ``(?i:ss)`` matches ß), or one of them could match several."""
    match node:
        case Atom(pattern):
            if pattern.startswith("(?i:") and not pattern.isascii():
                raise UnsupportedPattern(f"{pattern}: letters beyond ASCII without regard to case")
        case Parts(parts):
            for part in parts:
                check_case_folds(part)
            texts = [p.pattern[4:-1] if isinstance(p, Atom) and p.pattern.startswith("(?i:") else "" for p in parts]
            for size in (2, 3):
                for begin in range(len(texts) - size + 1):
                    window = texts[begin : begin + size]
                    if all(len(t) == 1 for t in window) and probe.matches_one_character(f"(?i:{''.join(window)})"):
                        raise UnsupportedPattern(f"(?i:{''.join(window)}), which one character can match")
        case Alternatives(choices):
            for choice in choices:
                check_case_folds(choice)
        case Repeat(body=body) | Look(body=body) | Atomic(body=body):
            check_case_folds(body)


_NAMED: Mapping[str, Callable[[], np.ndarray]] = {
    "@space": lambda: predicate_members("whitespace"),
    "@punctuation": lambda: predicate_members("punctuation"),
    "@number": lambda: predicate_members("numeric"),
    "@word": word_members,
    "@neither": other_members,
}

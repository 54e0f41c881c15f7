"""Compiles a regex tree into the instructions of the native matcher (``kernel/encode/regex.hpp``). Knows sets of
classes as rows of 256 flags, and no characters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trimbed.counting.encoders.regex import (
    Alternatives,
    Atom,
    Atomic,
    Look,
    Node,
    Repeat,
    Sequence,
    UnsupportedPattern,
    nullable,
)

__all__ = ["compile_program"]

_MATCH, _SET, _LOOP, _SPLIT, _JUMP, _AHEAD, _BEHIND, _ATOMIC, _FAIL = range(9)
_KINDS = {"greedy": 0, "lazy": 1, "possessive": 2}
_MOST_INSTRUCTIONS = 20_000
_Set = np.ndarray


def compile_program(node: Node, sets: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Instructions int32[n, 4] and sets uint8[m, 256] of ``node``; ``sets`` has the classes of each atom's pattern
    (bool[256]). Set 0 holds the classes that a match can begin with. Raises UnsupportedPattern where the pattern can
    match the empty text, repeats something that can, or is too large."""
    if nullable(node):
        raise UnsupportedPattern("a pattern that matches the empty text")
    compiler = _Compiler(sets)
    first = compiler.first(node)
    compiler.set_number(first if first is not None else np.ones(256, bool))
    compiler.emit(node)
    compiler.add(_MATCH)
    return np.array(compiler.code, np.int32), np.array(compiler.rows, np.uint8)


class _Compiler:
    def __init__(self, sets: Mapping[str, np.ndarray]) -> None:
        self.sets = sets
        self.code: list[list[int]] = []
        self.rows: list[np.ndarray] = []
        self.numbers: dict[bytes, int] = {}

    def set_number(self, row: _Set) -> int:
        key = row.tobytes()
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            self.rows.append(row.astype(np.uint8))
            if len(self.rows) > 60_000:
                raise UnsupportedPattern("a pattern with too many classes")
        return self.numbers[key]

    def add(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self.code.append([op, a, b, c])
        if len(self.code) > _MOST_INSTRUCTIONS:
            raise UnsupportedPattern("a pattern that is too large")
        return len(self.code) - 1

    def first(self, node: Node) -> _Set | None:
        """The classes that a match of ``node`` begins with; None where it may be empty or that can't be told."""
        match node:
            case Atom(pattern):
                return self.sets[pattern]
            case Sequence(parts):
                return self.first_of_parts(parts)
            case Alternatives(choices):
                return self.union([self.first(choice) for choice in choices])
            case Repeat(body=body, least=least):
                return self.first(body) if least else None
            case Look():
                return None
            case Atomic(body=body):
                return self.first(body)

    def first_of_parts(self, parts: tuple[Node, ...]) -> _Set | None:
        begins: list[_Set | None] = []
        for part in parts:
            if isinstance(part, Look):
                continue  # it only narrows what may follow
            inner = part.body if isinstance(part, Repeat) else part
            begins.append(self.first(inner))
            if not nullable(part):
                return self.union(begins)
        return None

    @staticmethod
    def union(rows: list[_Set | None]) -> _Set | None:
        total = np.zeros(256, bool)
        for row in rows:
            if row is None:
                return None
            total = total | row
        return total

    def emit(self, node: Node) -> None:
        match node:
            case Atom(pattern):
                self.add(_SET, self.set_number(self.sets[pattern]))
            case Sequence(parts):
                for part in parts:
                    self.emit(part)
            case Alternatives(choices):
                self.emit_choices(choices)
            case Repeat():
                self.emit_repeat(node)
            case Look(body, behind, negative):
                self.emit_look(body, behind=behind, negative=negative)
            case Atomic(body):
                at = self.add(_ATOMIC)
                self.emit(body)
                self.add(_MATCH)
                self.code[at][1] = len(self.code)

    def guard(self, node: Node) -> int:
        row = self.first(node)
        return -1 if row is None else self.set_number(row)

    def emit_choices(self, choices: tuple[Node, ...]) -> None:
        jumps = []
        for choice in choices[:-1]:
            split = self.add(_SPLIT, 0, 0, self.guard(choice))
            self.code[split][1] = len(self.code)
            self.emit(choice)
            jumps.append(self.add(_JUMP))
            self.code[split][2] = len(self.code)
        self.emit(choices[-1])
        for jump in jumps:
            self.code[jump][1] = len(self.code)

    def emit_repeat(self, node: Repeat) -> None:
        if isinstance(node.body, Atom):
            number = self.set_number(self.sets[node.body.pattern])
            most = -1 if node.most is None else node.most
            self.add(_LOOP, number | _KINDS[node.kind] << 16, node.least, most)
            return
        if nullable(node.body):
            raise UnsupportedPattern("a repeat of something that matches the empty text")
        if node.kind == "possessive":
            self.emit(Atomic(Repeat(node.body, node.least, node.most, "greedy")))
            return
        for _ in range(node.least):
            self.emit(node.body)
        guard = self.guard(node.body) if node.kind == "greedy" else -1
        if node.most is None:
            split = self.add(_SPLIT, 0, 0, guard)
            begin = len(self.code)
            self.emit(node.body)
            self.add(_JUMP, split)
            self.branch(split, begin, len(self.code), node.kind)
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self.add(_SPLIT, 0, 0, guard))
            self.emit(node.body)
        for split in splits:
            self.branch(split, split + 1, len(self.code), node.kind)

    def branch(self, split: int, body: int, behind: int, kind: str) -> None:
        self.code[split][1:3] = [body, behind] if kind == "greedy" else [behind, body]

    def emit_look(self, body: Node, *, behind: bool, negative: bool) -> None:
        if behind:
            assert isinstance(body, Atom)
            self.add(_BEHIND, self.set_number(self.sets[body.pattern]), int(negative))
            return
        at = self.add(_AHEAD, 0, int(negative))
        self.emit(body)
        self.add(_MATCH)
        self.code[at][1] = len(self.code)

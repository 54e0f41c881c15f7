"""Reads the part of Oniguruma's regex language that pre-tokenizers use. Knows its grammar, not one character's class:
a class is kept as the text it was written as, and what it matches is asked of the library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Alternatives",
    "Atom",
    "Atomic",
    "Look",
    "Node",
    "Repeat",
    "Sequence",
    "UnsupportedPattern",
    "atoms",
    "nullable",
    "parse_regex",
]


class UnsupportedPattern(ValueError):
    """A pattern that the native matcher doesn't cover; the message says which part of it."""


@dataclass(frozen=True)
class Atom:
    """One code point: ``pattern`` is the atom as regex text, with its case flag (``(?i:s)``)."""

    pattern: str


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Alternatives:
    choices: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """``kind`` is greedy, lazy or possessive; ``most`` is None where there's no limit."""

    body: Node
    least: int
    most: int | None
    kind: str


@dataclass(frozen=True)
class Look:
    body: Node
    behind: bool
    negative: bool


@dataclass(frozen=True)
class Atomic:
    body: Node


Node: TypeAlias = Atom | Sequence | Alternatives | Repeat | Look | Atomic

_ONE_CODE_POINT_ESCAPES = frozenset("sSdDwWhHnrtfvae")
_SPECIAL = frozenset("\\^$.|?*+()[]{}")


def parse_regex(pattern: str) -> Node:
    """The tree of ``pattern``. Raises UnsupportedPattern where it uses anything else than: single characters, escapes
    and classes, groups (plain, named, non-capturing, ``(?i:``, atomic), alternatives, quantifiers, look-ahead, and
    look-behind of one atom."""
    parser = _Parser(pattern)
    node = parser.alternatives(ignore_case=False)
    if parser.at != len(pattern):
        raise UnsupportedPattern(f"an unmatched ) in the pattern {pattern!r}")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def unsupported(self, what: str) -> UnsupportedPattern:
        return UnsupportedPattern(f"{what} at position {self.at} of the pattern {self.pattern!r}")

    def alternatives(self, *, ignore_case: bool) -> Node:
        choices = [self.sequence(ignore_case=ignore_case)]
        while self.accept("|"):
            choices.append(self.sequence(ignore_case=ignore_case))
        return choices[0] if len(choices) == 1 else Alternatives(tuple(choices))

    def sequence(self, *, ignore_case: bool) -> Node:
        parts: list[Node] = []
        while self.at < len(self.pattern) and not self.peek("|") and not self.peek(")"):
            parts.append(self.quantified(self.item(ignore_case=ignore_case)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def quantified(self, node: Node) -> Node:
        while True:
            start = self.at
            bounds = self.bounds()
            if bounds is None:
                return node
            if isinstance(node, Look):
                raise self.unsupported("a quantified look-around")
            least, most = bounds
            interval = self.pattern[start] == "{"
            kind = "greedy"
            if self.peek("?"):
                if interval and least == most:
                    raise self.unsupported("a ? behind {n}, which Oniguruma reads in its own way,")
                self.at += 1
                kind = "lazy"
            elif self.peek("+") and not interval:  # behind {n,m} a + is a quantifier of its own
                self.at += 1
                kind = "possessive"
            node = Repeat(node, least, most, kind)

    def bounds(self) -> tuple[int, int | None] | None:
        if self.accept("?"):
            return 0, 1
        if self.accept("*"):
            return 0, None
        if self.accept("+"):
            return 1, None
        if not self.peek("{"):
            return None
        found = re.compile(r"\{(\d*)(,?)(\d*)\}").match(self.pattern, self.at)
        if found is None or not (found[1] or found[3]):
            raise self.unsupported("a { that isn't a quantifier")
        self.at = found.end()
        least = int(found[1] or 0)
        most = (int(found[3]) if found[3] else None) if found[2] else least
        if most is not None and most < least:
            raise self.unsupported("a quantifier whose bounds are swapped")
        return least, most

    def item(self, *, ignore_case: bool) -> Node:
        if self.accept("("):
            return self.group(ignore_case=ignore_case)
        start = self.at
        if self.peek("["):
            self.skip_class()
        elif self.peek("\\"):
            self.skip_escape()
        elif self.pattern[self.at] in "^$" or self.pattern[self.at] in "?*+{":
            raise self.unsupported(f"{self.pattern[self.at]!r}")
        else:
            self.at += 1
        text = self.pattern[start : self.at]
        return Atom(f"(?i:{text})" if ignore_case else text)

    def group(self, *, ignore_case: bool) -> Node:
        if not self.accept("?") or self.accept(":"):
            body = self.alternatives(ignore_case=ignore_case)
        elif self.accept("i:"):
            body = self.alternatives(ignore_case=True)
        elif self.accept("-i:"):
            body = self.alternatives(ignore_case=False)
        elif self.accept(">"):
            body = Atomic(self.alternatives(ignore_case=ignore_case))
        elif self.peek("=") or self.peek("!") or self.peek("<=") or self.peek("<!"):
            behind = self.accept("<")
            negative = self.accept("!") or not self.accept("=")
            body = Look(self.alternatives(ignore_case=ignore_case), behind, negative)
            if behind and not isinstance(body.body, Atom):
                raise self.unsupported("a look-behind of more than one character")
        elif found := re.compile(r"<[A-Za-z_]\w*>").match(self.pattern, self.at):
            self.at = found.end()
            body = self.alternatives(ignore_case=ignore_case)
        else:
            raise self.unsupported(f"the group (?{self.pattern[self.at : self.at + 3]}")
        if not self.accept(")"):
            raise self.unsupported("a group without its )")
        return body

    def skip_class(self) -> None:
        """Past a class in brackets. Classes nest."""
        self.at += 1
        self.accept("^")
        if self.peek("]"):
            raise self.unsupported("a class that begins with ]")
        while self.at < len(self.pattern):
            if self.accept("]"):
                return
            if self.peek("[:") and (end := self.pattern.find(":]", self.at + 2)) >= 0:
                self.at = end + 2
            elif self.peek("["):
                self.skip_class()
            elif self.peek("\\"):
                self.skip_escape(inside_class=True)
            else:
                self.at += 1
        raise self.unsupported("a class without its ]")

    def skip_escape(self, *, inside_class: bool = False) -> None:
        self.at += 1
        if self.at == len(self.pattern):
            raise self.unsupported("a \\ with nothing behind it")
        character = self.pattern[self.at]
        if character in "pP":
            end = self.pattern.find("}", self.at)
            if not self.pattern.startswith("{", self.at + 1) or end < 0:
                raise self.unsupported(f"\\{character} without its braces")
            self.at = end + 1
        elif character == "x":
            found = re.compile(r"x(\{[0-9A-Fa-f]{1,8}\}|[0-7][0-9A-Fa-f])").match(self.pattern, self.at)
            if found is None:
                raise self.unsupported("a \\x that isn't one code point")
            self.at = found.end()
        elif character == "u":
            found = re.compile(r"u[0-9A-Fa-f]{4}").match(self.pattern, self.at)
            if found is None:
                raise self.unsupported("a \\u without its four digits")
            self.at = found.end()
        elif character.isalnum() and character.isascii() and character not in _ONE_CODE_POINT_ESCAPES:
            if not (inside_class and character == "b"):
                raise self.unsupported(f"\\{character}")
            self.at += 1
        else:
            self.at += 1


def atoms(node: Node) -> list[Atom]:
    """Every atom of the tree, in order, repeats included."""
    match node:
        case Atom():
            return [node]
        case Sequence(parts):
            return [atom for part in parts for atom in atoms(part)]
        case Alternatives(choices):
            return [atom for choice in choices for atom in atoms(choice)]
        case Repeat(body=body) | Look(body=body) | Atomic(body=body):
            return atoms(body)


def nullable(node: Node) -> bool:
    """Whether the node can match the empty text."""
    match node:
        case Atom():
            return False
        case Sequence(parts):
            return all(nullable(part) for part in parts)
        case Alternatives(choices):
            return any(nullable(choice) for choice in choices)
        case Repeat(body=body, least=least):
            return least == 0 or nullable(body)
        case Look():
            return True
        case Atomic(body=body):
            return nullable(body)

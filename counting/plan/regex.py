"""The part of Oniguruma's (Ruby) regex syntax that tokenizers use, read into a tree. Knows syntax, not matching.

Each character class is asked of the library's own engine, so the tree's leaves are plain sets of code points. What
isn't understood exactly raises NotUnderstood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.probes import atom_members, folding_letters, folds_to_one

__all__ = ["Alt", "Chars", "Look", "Node", "NotUnderstood", "Repeat", "Seq", "parse_regex", "string_pattern"]

ESCAPED_CLASSES = set("sSdDwWhH")
ESCAPED_CONTROLS = set("nrtfvae")


class NotUnderstood(Exception):
    """A pattern, normalizer or pre-tokenizer whose effect at a cut can't be told."""


@dataclass(frozen=True, eq=False)
class Chars:
    """One character of a set (bool[0x110000])."""

    members: np.ndarray


@dataclass(frozen=True, eq=False)
class Look:
    """True where the next character is in ``members``, or where the text ends if ``at_end``. Takes nothing."""

    members: np.ndarray
    at_end: bool


@dataclass(frozen=True, eq=False)
class Seq:
    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Alt:
    branches: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Repeat:
    body: Node
    least: int
    most: int | None
    lazy: bool = False


Node = Chars | Look | Seq | Alt | Repeat


def string_pattern(text: str) -> Node:
    """The tree that matches ``text`` itself."""
    if not text:
        raise NotUnderstood("an empty pattern")
    return Seq(tuple(Chars(_single(ord(char))) for char in text))


def parse_regex(pattern: str) -> Node:
    """The tree of ``pattern``. Raises NotUnderstood where it uses something this module doesn't know exactly."""
    parser = _Parser(pattern)
    node = parser.alternation()
    if parser.at < len(pattern):
        raise NotUnderstood(f"an unbalanced ')' in {pattern!r}")
    if nullable(node):
        raise NotUnderstood(f"a pattern that matches nothing at all: {pattern!r}")
    return node


def nullable(node: Node) -> bool:
    match node:
        case Chars():
            return False
        case Look():
            return True
        case Seq(parts):
            return all(nullable(part) for part in parts)
        case Alt(branches):
            return any(nullable(branch) for branch in branches)
        case Repeat(body, least, _, _):
            return least == 0 or nullable(body)


def _single(value: int) -> np.ndarray:
    members = np.zeros(CODE_POINTS, dtype=bool)
    members[value] = True
    return members


@dataclass
class _Parser:
    pattern: str
    at: int = 0
    ignore_case: bool = False
    run: list[str] = field(default_factory=list)

    def fail(self, what: str) -> NotUnderstood:
        return NotUnderstood(f"{what} at {self.at} of the regex {self.pattern!r}")

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def alternation(self) -> Node:
        before = self.ignore_case
        branches = [self.sequence()]
        while self.take("|"):
            if self.ignore_case != before:
                raise self.fail("an alternative behind an inline flag")
            branches.append(self.sequence())
        self.ignore_case = before
        return branches[0] if len(branches) == 1 else Alt(tuple(branches))

    def sequence(self) -> Node:
        parts: list[Node] = []
        self.run = []
        while self.at < len(self.pattern) and not self.peek("|") and not self.peek(")"):
            atom = self.atom()
            if atom is not None:
                parts.append(self.quantified(atom))
        self.run = []
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def quantified(self, node: Node) -> Node:
        quantifier = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}").match(self.pattern, self.at)
        if quantifier is None or quantifier.group(0) in ("{}", "{,}"):
            if self.peek("{"):
                raise self.fail("a brace that isn't a quantifier")
            return node
        self.at = quantifier.end()
        self.run = []
        text = quantifier.group(0)
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(text, (0, None))
        interval = text[0] == "{"
        if interval:
            low, comma, high = quantifier.groups()
            least = int(low or 0)
            most = least if not comma else (int(high) if high else None)
            if (most is not None and (most < least or most > 200)) or least > 200:
                raise self.fail("a quantifier out of bounds")
            if self.peek("?") and not comma:
                raise self.fail("a fixed interval followed by '?'")
        if isinstance(node, Look) or nullable(node):
            raise self.fail("a repetition of something that may be empty")
        lazy = self.take("?")
        result: Node = Repeat(node, least, most, lazy)
        if self.peek("+") and not lazy and not interval:
            self.at += 1
            if not isinstance(node, Chars):
                raise self.fail("a possessive group")
            # Taking all it can and never giving back, for one character of a set, is: no further such character
            # follows.
            guard = Look(~node.members, True)
            result = Alt((node, guard)) if text == "?" else Seq((result, guard))
        if self.pattern[self.at : self.at + 1] in ("*", "+", "?", "{"):
            return self.quantified(result)
        return result

    def atom(self) -> Node | None:
        char = self.pattern[self.at]
        if char == "(":
            return self.group()
        if char == "[":
            self.run = []
            return self.probed(self.bracket())
        if char == ".":
            self.run = []
            self.at += 1
            return self.probed(".")
        if char == "$":
            self.at += 1
            return Look(_single(0x0A), True)
        if char in "^*+?{":
            raise self.fail(f"{char!r}")
        if char == "\\":
            return self.escape()
        self.at += 1
        return self.literal(char)

    def literal(self, char: str) -> Node:
        if not self.ignore_case:
            return Chars(_single(ord(char)))
        self.check_folding(char)
        return Chars(folding_letters().get(char.lower(), _single(ord(char))))

    def check_folding(self, char: str) -> None:
        """Ignoring case, one character can match a run of several (ß and ss); no such run is understood."""
        if not char.isascii() and (char.lower() != char or char.upper() != char):
            raise self.fail(f"{char!r} without regard to case")
        self.run.append(char)
        for start in range(max(0, len(self.run) - 3), len(self.run) - 1):
            if folds_to_one("".join(self.run[start:])):
                raise self.fail(f"{''.join(self.run)!r} without regard to case")

    def probed(self, atom: str) -> Chars:
        if self.ignore_case:
            if atom.startswith("[") and not re.fullmatch(r"\[\^?[\x20-\x5a\x5e-\x7e]*\]", atom):
                raise self.fail(f"the class {atom} without regard to case")
            if atom.startswith("[^"):
                raise self.fail(f"the class {atom} without regard to case")
            atom = f"(?i:{atom})"
        try:
            members = atom_members(atom)
        except Exception as error:
            raise NotUnderstood(f"the library doesn't take {atom!r} of the regex {self.pattern!r}: {error}") from error
        return Chars(members)

    def bracket(self) -> str:
        start, depth = self.at, 0
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            self.at += 2 if char == "\\" else 1
            if char == "[":
                depth += 1
                self.take("^")
                if self.peek("]"):
                    raise self.fail("a class that begins with ']'")
            elif char == "]":
                depth -= 1
                if depth == 0:
                    return self.pattern[start : self.at]
        raise self.fail("a class without end")

    def escape(self) -> Node:
        rest = self.pattern[self.at :]
        long = re.match(r"\\(?:[pP]\{\^?\w+\}|x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})", rest)
        if long is not None:
            self.at += long.end()
            text = long.group(0)
            if text[1] in "xu":
                return self.literal(chr(int(text[2:].strip("{}"), 16)))
            self.run = []
            if self.ignore_case:
                raise self.fail("a property without regard to case")
            return self.probed(text)
        char = rest[1:2]
        self.at += 2
        if char in ESCAPED_CLASSES:
            self.run = []
            if self.ignore_case and char not in "sSdD":
                raise self.fail("a class without regard to case")
            return self.probed("\\" + char)
        if char in ESCAPED_CONTROLS:
            return self.probed("\\" + char)
        if char == "z":
            return Look(np.zeros(CODE_POINTS, dtype=bool), True)
        if char and char.isascii() and not char.isalnum():
            return self.literal(char)
        raise self.fail(f"the escape \\{char}")

    def group(self) -> Node | None:
        for start, ahead in (("(?=", True), ("(?!", False)):
            if self.take(start):
                return self.look(ahead)
        before = self.ignore_case
        flags = re.compile(r"\(\?(-?)i([:)])").match(self.pattern, self.at)
        if flags is not None:
            self.at = flags.end()
            self.ignore_case = not flags.group(1)
            if flags.group(2) == ")":
                self.run = []
                return None
        elif not self.take("(?:"):
            if self.peek("(?"):
                raise self.fail("a group of a kind")
            self.at += 1
        outer, self.run = self.run, []
        if self.ignore_case and outer:
            raise self.fail("a group behind letters without regard to case")
        node = self.alternation()
        self.ignore_case = before
        if not self.take(")"):
            raise self.fail("a group without end")
        if self.ignore_case and self.at < len(self.pattern) and self.pattern[self.at] not in "|)*+?{":
            raise self.fail("letters behind a group without regard to case")
        return node

    def look(self, ahead: bool) -> Look:
        body = self.alternation()
        if not self.take(")"):
            raise self.fail("a lookahead without end")
        seen = self.one_character(body)
        return seen if ahead else Look(~seen.members, not seen.at_end)

    def one_character(self, node: Node) -> Look:
        match node:
            case Chars(members):
                return Look(members, False)
            case Look():
                return node
            case Alt(branches):
                looks = [self.one_character(branch) for branch in branches]
                members = np.logical_or.reduce([look.members for look in looks])
                return Look(members, any(look.at_end for look in looks))
            case _:
                raise self.fail("a lookahead further than one character")

"""Translates a document's pre-tokenizer into the steps of the native one. Knows the library's pre-tokenizers by name;
what their classes of characters are, it asks the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimbed.counting.encoders.classes import compile_together, literal
from trimbed.counting.encoders.recipe import RecipeBuilder
from trimbed.counting.encoders.regex import Alternatives, Atom, Node, Repeat, UnsupportedPattern, parse_regex

__all__ = ["BYTES", "PreTokenizerSteps", "add_byte_alphabet", "translate_pre_tokenizer"]

_SPLIT, _METASPACE, _PREFIX_SPACE, _BYTES, _FIXED = range(1, 6)
_BEHAVIOURS = {"Removed": 0, "Isolated": 1, "MergedWithPrevious": 2, "MergedWithNext": 3, "Contiguous": 4}
_SCHEMES = {"never": 0, "always": 1, "first": 2}
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _byte_alphabet() -> tuple[str, ...]:
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return tuple(chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256))


BYTES = _byte_alphabet()
"""The character that stands for each byte in byte-level vocabularies."""


def add_byte_alphabet(builder: RecipeBuilder) -> None:
    """What the native byte steps read."""
    builder.add("bytes", np.array([ord(c) for c in BYTES], np.uint32))


@dataclass(frozen=True)
class PreTokenizerSteps:
    """``ends_in_bytes``: the last step turns bytes into characters, and was left out for the model to undo.
    ``asks_start``: a step depends on whether a text stands at the start of the original."""

    ends_in_bytes: bool
    asks_start: bool


@dataclass(frozen=True)
class _Split:
    tree: Node
    behaviour: int
    invert: bool


def translate_pre_tokenizer(
    builder: RecipeBuilder, name: str, part: Mapping[str, Any] | None, *, bytes_at_end: bool
) -> PreTokenizerSteps:
    """Adds the steps for the pre-tokenizer entry ``part`` to the recipe, as ``name``. ``bytes_at_end``: a byte-level
    step at the end may be left to the model. Raises UnsupportedPattern where there's no translation."""
    steps: list[tuple[int, ...] | _Split] = []
    _translate(builder, part, steps)
    ends_in_bytes = bytes_at_end and bool(steps) and steps[-1] == (_BYTES,)
    if ends_in_bytes:
        steps.pop()
    asks_start = _asks_start(steps)
    splits = [step for step in steps if isinstance(step, _Split)]
    rows = [() if isinstance(step, _Split) else step for step in steps]
    if (_BYTES,) in steps:
        add_byte_alphabet(builder)
    if splits:
        compiled = compile_together([split.tree for split in splits])
        builder.pages(f"{name}.classes", compiled.classes)
        numbers = iter([builder.program(code, sets) for code, sets in compiled.programs])
        for i, step in enumerate(steps):
            if isinstance(step, _Split):
                rows[i] = (_SPLIT, next(numbers), step.behaviour, int(step.invert))
    builder.steps(name, rows)
    return PreTokenizerSteps(ends_in_bytes, asks_start)


def _asks_start(steps: list[tuple[int, ...] | _Split]) -> bool:
    first = [
        i for i, step in enumerate(steps) if not isinstance(step, _Split) and step[0] == _METASPACE and step[2] == 2
    ]
    if first and any(not isinstance(step, _Split) for step in steps[: first[-1]]):
        raise UnsupportedPattern("a Metaspace with the scheme first behind a step that changes the text")
    return bool(first)


def _translate(builder: RecipeBuilder, part: Mapping[str, Any] | None, steps: list[tuple[int, ...] | _Split]) -> None:
    if part is None:
        return
    isolated, removed = _BEHAVIOURS["Isolated"], _BEHAVIOURS["Removed"]
    space, punctuation, number = Atom("@space"), Atom("@punctuation"), Atom("@number")
    match part.get("type"):
        case "Sequence":
            for inner in part["pretokenizers"]:
                _translate(builder, inner, steps)
        case "ByteLevel":
            if part.get("add_prefix_space"):
                steps.append((_PREFIX_SPACE,))
            if part.get("use_regex", True):
                steps.append(_Split(parse_regex(_GPT2), isolated, False))
            steps.append((_BYTES,))
        case "Split":
            pattern = part["pattern"]
            tree = literal(pattern["String"]) if "String" in pattern else parse_regex(pattern["Regex"])
            steps.append(_Split(tree, _behaviour(part["behavior"]), bool(part["invert"])))
        case "Metaspace":
            scheme = str(part.get("prepend_scheme", "always"))
            if part.get("add_prefix_space") is False:
                scheme = "never"
            text = builder.string(part["replacement"])
            steps.append((_METASPACE, text, _SCHEMES[scheme], int(part.get("split") is not False)))
        case "Whitespace":
            words = Alternatives(
                (Repeat(Atom("@word"), 1, None, "greedy"), Repeat(Atom("@neither"), 1, None, "greedy"))
            )
            steps.append(_Split(words, removed, True))
        case "WhitespaceSplit":
            steps.append(_Split(space, removed, False))
        case "BertPreTokenizer":
            steps += [_Split(space, removed, False), _Split(punctuation, isolated, False)]
        case "Punctuation":
            steps.append(_Split(punctuation, _behaviour(part.get("behavior", "Isolated")), False))
        case "Digits":
            behaviour = isolated if part.get("individual_digits") else _BEHAVIOURS["Contiguous"]
            steps.append(_Split(number, behaviour, False))
        case "CharDelimiterSplit":
            steps.append(_Split(literal(part["delimiter"]), removed, False))
        case "FixedLength":
            steps.append((_FIXED, 0, int(part.get("length", 5))))
        case kind:
            raise UnsupportedPattern(f"the pre-tokenizer {kind}")


def _behaviour(name: str) -> int:
    if name not in _BEHAVIOURS:
        raise UnsupportedPattern(f"the split behaviour {name}")
    return _BEHAVIOURS[name]

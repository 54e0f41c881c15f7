"""Translates a document's normalizer into the steps of the native one. Knows each normalizer's kind of effect (on each
character alone, composing, at the ends), and takes what it does to a character from the library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trimbed.counting.encoders import probe
from trimbed.counting.encoders.classes import compile_together, literal, members
from trimbed.counting.encoders.pretokenizers import add_byte_alphabet
from trimbed.counting.encoders.recipe import RecipeBuilder
from trimbed.counting.encoders.regex import Atom, UnsupportedPattern, parse_regex
from trimbed.counting.plan.probes import categories

__all__ = ["NormalizerSteps", "translate_normalizer"]

_MAP, _COMPOSE, _PREPEND, _STRIP, _REPLACE, _GUARD, _BYTES = range(1, 8)
_BY_CHARACTER = frozenset({"Lowercase", "StripAccents", "Nmt"})
_JOINING = [(0x1100, 0x1200), (0xA960, 0xA980), (0xD7B0, 0xD800), (0x1F1E6, 0x1F200), (0x1F3FB, 0x1F400)]
_JOINING += [(0xE33, 0xE34), (0xEB3, 0xEB4), (0xD4E, 0xD4F), (0xFF9E, 0xFFA0), (0x111C2, 0x111C4), (0x11F02, 0x11F03)]
_JOINING += [(0x11A84, 0x11A8A), (0x1193F, 0x11942), (0x11A3A, 0x11A3B)]
_FORMS = {"NFC": (False, 1), "NFD": (False, 0), "NFKC": (True, 1), "NFKD": (True, 0)}


class NormalizerSteps:
    """``steps``: rows for the recipe. ``ascii_same``: whether every ASCII text stays as it is. ``keeps_start``:
    whether the first character of a text always stays at its start, as something that isn't empty."""

    def __init__(self, builder: RecipeBuilder) -> None:
        self.builder = builder
        self.steps: list[tuple[int, ...]] = []
        self.ascii_same = True
        self.keeps_start = True

    def map(self, changes: Mapping[int, str]) -> None:
        if not changes:
            return
        self.steps.append((_MAP, self.builder.character_map(changes)))
        if any(point < 128 for point in changes):
            self.ascii_same = False
        if any(not text for text in changes.values()):
            self.keeps_start = False

    def compose(self, form: str) -> None:
        compatibility, compose = _FORMS[form]
        parts = probe.decomposition(compatibility)
        if any(point < 128 for point in parts.full):
            self.ascii_same = False
        self.steps.append((_COMPOSE, self.builder.composer(parts, compatibility=compatibility), compose))

    def other(self, *step: int) -> None:
        self.steps.append(step)
        self.ascii_same = self.keeps_start = False


def translate_normalizer(builder: RecipeBuilder, part: Mapping[str, Any] | None) -> NormalizerSteps:
    """Steps for the normalizer entry ``part``. Raises UnsupportedPattern where there are none."""
    steps = NormalizerSteps(builder)
    if part is not None:
        _translate(builder, part, steps)
    return steps


def _translate(builder: RecipeBuilder, part: Mapping[str, Any], steps: NormalizerSteps) -> None:
    kind = part.get("type")
    if kind == "Sequence":
        for inner in part["normalizers"]:
            _translate(builder, inner, steps)
    elif kind in _FORMS:
        steps.compose(str(kind))
    elif kind in _BY_CHARACTER:
        steps.map(probe.changes(part))
    elif kind == "ByteLevel":
        add_byte_alphabet(builder)
        steps.steps.append((_BYTES,))
        steps.ascii_same = False
    elif kind == "BertNormalizer":
        _bert(part, steps)
    elif kind == "Prepend":
        if part["prepend"]:
            steps.other(_PREPEND, builder.string(part["prepend"]))
    elif kind == "Strip":
        table = builder.table(members(Atom("@space")).astype(np.uint8))
        steps.other(_STRIP, int(part["strip_left"]), int(part["strip_right"]), table)
    elif kind == "Replace":
        _replace(builder, part, steps)
    elif kind == "Precompiled":
        _precompiled(builder, part, steps)
    else:
        raise UnsupportedPattern(f"the normalizer {kind}")


def _bert(part: Mapping[str, Any], steps: NormalizerSteps) -> None:
    lowercase = bool(part["lowercase"])
    strip = lowercase if part.get("strip_accents") is None else bool(part["strip_accents"])
    off: dict[str, Any] = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False}
    off |= {"strip_accents": False, "lowercase": False}
    # What it does is asked piece by piece, as the plan asks, too: these answers are there already.
    steps.map(
        _one_after_the_other([off | {flag: True} for flag in ("clean_text", "handle_chinese_chars") if part[flag]])
    )
    if strip:  # decomposes, then drops what is left of accents
        steps.compose("NFD")
    last = {"strip_accents": strip, "lowercase": lowercase}
    steps.map(_one_after_the_other([off | {flag: True} for flag, wanted in last.items() if wanted]))


def _one_after_the_other(parts: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """What normalizers that work on each character make of each code point together."""
    total: dict[int, str] = {}
    for part in parts:
        changes = probe.changes(part)
        mapped = {point: "".join(changes.get(ord(c), c) for c in text) for point, text in total.items()}
        total = {**changes, **mapped}
    return {point: total[point] for point in sorted(total) if total[point] != chr(point)}


def _replace(builder: RecipeBuilder, part: Mapping[str, Any], steps: NormalizerSteps) -> None:
    pattern, content = part["pattern"], part["content"]
    tree = literal(pattern["String"]) if "String" in pattern else parse_regex(pattern["Regex"])
    if isinstance(tree, Atom):
        points = np.flatnonzero(members(tree))
        steps.map({int(point): content for point in points if chr(point) != content})
        return
    compiled = compile_together([tree])
    code, sets = compiled.programs[0]
    program, table = builder.program(code, sets), builder.table(compiled.classes)
    steps.other(_REPLACE, program, builder.string(content), table)


def _precompiled(builder: RecipeBuilder, part: Mapping[str, Any], steps: NormalizerSteps) -> None:
    """A SentencePiece character map. The library applies it to whole grapheme clusters of less than six bytes, and
    character by character elsewhere. Where no cluster of several characters can be that short, it works on each
    character; the guard step finds the others."""
    changes = dict(probe.changes(part))
    normalize = probe.library_part("normalizer", part).normalize_str
    joins = _joining().astype(np.uint8)
    line_end = normalize("\r\n")
    if all(ord(c) not in changes for c in line_end):
        compiled = compile_together([literal("\r\n")])
        code, sets = compiled.programs[0]
        replace = builder.program(code, sets), builder.string(line_end), builder.table(compiled.classes)
        if line_end != "\r\n":
            steps.other(_REPLACE, *replace)
    else:
        joins[ord("\r")] = 1
    steps.steps.append((_GUARD, builder.table(joins)))
    steps.ascii_same = steps.ascii_same and not joins[:128].any()
    steps.map(changes)


def _joining() -> np.ndarray:
    """bool[0x110000]: characters that may share a grapheme cluster with a neighbour (controls and CR LF aside): marks,
    format characters, unassigned ones, conjoining jamo, regional indicators, and the few letters that extend or
    precede."""
    joins = np.isin(categories(), ["Mn", "Mc", "Me", "Cf", "Cn", "Cs", "Co"])
    for begin, end in _JOINING:
        joins[begin:end] = True
    joins[:0x300] = False
    joins[0xAD] = True
    return joins

"""What each of the library's normalizers does around a cut. Knows normalizers only; anything else isn't understood."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from trimbed.counting.plan.automaton import match_rules
from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.pipeline import Pipeline
from trimbed.counting.plan.precompiled import apply_precompiled
from trimbed.counting.plan.probes import categories, images, predicate_members
from trimbed.counting.plan.regex import NotUnderstood, parse_regex, string_pattern

__all__ = ["apply_normalizer", "flat_normalizers", "inner_normalizer", "interacting"]

COMPOSING = {"NFC": "NFD", "NFKC": "NFKD"}
HANGUL = range(0xAC00, 0xD7A4)


def flat_normalizers(spec: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The normalizers of ``spec`` (a tokenizer.json ``normalizer``) in order, sequences taken apart."""
    if spec is None:
        return []
    if spec.get("type") == "Sequence":
        return [part for inner in spec["normalizers"] for part in flat_normalizers(inner)]
    return [dict(spec)]


def inner_normalizer(spec: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The normalizer for pieces that don't begin a segment: nothing is put before them or stripped from their start."""
    parts = []
    for part in flat_normalizers(spec):
        if part["type"] == "Prepend":
            continue
        if part["type"] == "Strip":
            part = {**part, "strip_left": False}
        parts.append(part)
    return {"type": "Sequence", "normalizers": parts} if parts else None


def apply_normalizer(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    """Take ``pipeline`` past one normalizer. Raises NotUnderstood for one that isn't known here."""
    kind = spec.get("type")
    if kind in ("NFC", "NFD", "NFKC", "NFKD"):
        _unicode_form(pipeline, kind)
    elif kind in ("Lowercase", "StripAccents", "Nmt", "ByteLevel"):
        pipeline.byte_level |= kind == "ByteLevel"
        _map(pipeline, spec)
    elif kind == "BertNormalizer":
        _bert(pipeline, spec)
    elif kind == "Replace":
        _replace(pipeline, spec)
    elif kind == "Prepend":
        if spec["prepend"]:
            pipeline.initial = True
            pipeline.lines.append(f"Prepend {spec['prepend']!r}: a segment's first piece is of a kind of its own")
    elif kind == "Strip":
        _strip(pipeline, spec)
    elif kind == "Precompiled":
        apply_precompiled(pipeline, spec)
        pipeline.lines.append("Precompiled: no cut beside marks or other characters of a longer grapheme")
    else:
        raise NotUnderstood(f"the normalizer {json.dumps(spec)[:80]}")


def _map(pipeline: Pipeline, spec: Mapping[str, Any]) -> None:
    image = images(spec)
    pipeline.map(image.first, image.last)


@lru_cache(maxsize=4)
def interacting(form: str) -> np.ndarray:
    """bool[0x110000]: characters that may reorder or combine with what stands before them under NFD or NFKD, NFC or
    NFKC.

    Two sources that needn't agree are both believed: the library's decompositions and Python's Unicode data. Code
    points that Python's data don't have yet may be marks in the library's.
    """
    second = np.zeros(CODE_POINTS, dtype=bool)
    if form in COMPOSING:
        for text in images({"type": "NFD"}).texts.values():
            second[[ord(char) for char in text[1:]]] = True
    doubtful = second
    doubtful[categories() == "Cn"] = True
    values = np.flatnonzero(~np.isin(categories(), ["Cn", "Co", "Cs"]))
    chars = list(map(chr, values.tolist()))
    doubtful[values[np.array(list(map(unicodedata.combining, chars))) > 0]] = True
    for decomposed in map(unicodedata.decomposition, chars) if form in COMPOSING else ():
        code_texts = decomposed.split()
        if code_texts and not code_texts[0].startswith("<"):
            doubtful[[int(code, 16) for code in code_texts[1:]]] = True
    doubtful[0x1161:0x1176] = doubtful[0x11A8:0x11C3] = form in COMPOSING
    first = images({"type": COMPOSING.get(form, form)}).first
    result: np.ndarray = doubtful | doubtful[np.maximum(first, 0)]
    return result


@lru_cache(maxsize=4)
def _compositions(form: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (character, what it may become when marks follow) under NFC or NFKC, apart from itself."""
    decomposed = images({"type": COMPOSING[form]})
    canonical = images({"type": "NFD"})
    by_base: dict[int, list[int]] = {}
    for value in canonical.texts:
        if value not in HANGUL:
            by_base.setdefault(int(canonical.first[value]), []).append(value)
    source, target = [], []
    for value in np.flatnonzero(np.isin(decomposed.first, list(by_base))).tolist():
        for other in by_base[int(decomposed.first[value])]:
            source.append(value)
            target.append(other)
    for value in HANGUL:
        block = value - (value - HANGUL.start) % 28
        source.extend([value] * 28)
        target.extend(range(block, block + 28))
    for value in np.flatnonzero((decomposed.first >= 0x1100) & (decomposed.first < 0x1113)).tolist():
        if value not in HANGUL:
            start = HANGUL.start + (int(decomposed.first[value]) - 0x1100) * 588
            source.extend([value] * 588)
            target.extend(range(start, start + 588))
    return np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)


def _unicode_form(pipeline: Pipeline, form: str) -> None:
    unsafe = interacting(form)
    pipeline.forbid_before(unsafe)
    image = images({"type": form})
    if form in COMPOSING:
        # The right side's first character may still be combined with marks that follow it.
        pipeline.first.relate(*_compositions(form))
    pipeline.first.map(image.first)
    whole = images({"type": "NFD"})
    anything = unsafe.copy()
    anything[list(whole.texts)] = True
    anything[image.last[unsafe]] = True
    moved = pipeline.last.touching(unsafe)
    pipeline.last.map(image.last)
    pipeline.last.spread(moved, anything)
    pipeline.lines.append(
        f"{form}: no cut before the {int(unsafe.sum()):,} characters that may combine with what they follow"
    )


def _bert(pipeline: Pipeline, spec: Mapping[str, Any]) -> None:
    off = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False}
    off["lowercase"] = False
    if spec.get("clean_text"):
        _map(pipeline, {**off, "clean_text": True})
    if spec.get("handle_chinese_chars"):
        _map(pipeline, {**off, "handle_chinese_chars": True})
    strip = spec.get("strip_accents")
    if spec.get("lowercase") if strip is None else strip:
        _unicode_form(pipeline, "NFD")
        # Behind NFD, what the accent stripper does to a character on its own is to take it out or leave it.
        image = images({**off, "strip_accents": True})
        first = np.arange(CODE_POINTS, dtype=np.int32)
        first[image.first < 0] = -1
        pipeline.map(first, first)
    if spec.get("lowercase"):
        _map(pipeline, {**off, "lowercase": True})
    pipeline.lines.append("BertNormalizer: characters that it takes out count as any character")


def _strip(pipeline: Pipeline, spec: Mapping[str, Any]) -> None:
    if spec["strip_left"]:
        pipeline.initial = True
    if spec["strip_left"] or spec["strip_right"]:
        pipeline.forbid_after(predicate_members("whitespace"))
        pipeline.lines.append("Strip: no cut after white space, so that only a segment's ends are stripped")


def _replace(pipeline: Pipeline, spec: Mapping[str, Any]) -> None:
    pattern, content = spec["pattern"], spec["content"]
    node = string_pattern(pattern["String"]) if "String" in pattern else parse_regex(pattern["Regex"])
    rules = match_rules(node)
    members = rules.consumed[rules.classes]
    identity = np.arange(CODE_POINTS, dtype=np.int32)
    lone = rules.right_match & ~rules.right_gap
    one_each = rules.independent.all() and lone[rules.consumed].all()
    first, last = identity.copy(), identity.copy()
    if one_each:
        first[members] = ord(content[0]) if content else -1
        last[members] = ord(content[-1]) if content else -1
        pipeline.map(first, last)
        return
    pipeline.judge(rules.classes, rules.independent, np.zeros_like(rules.independent), f"Replace {pattern}")
    if not content:
        first[members] = -1
        pipeline.map(first, first)
        return
    touched = np.flatnonzero(members)
    pipeline.first.relate(touched, np.full(len(touched), ord(content[0])))
    pipeline.last.relate(touched, np.full(len(touched), ord(content[-1])))

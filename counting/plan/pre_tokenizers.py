"""Where each of the library's pre-tokenizers parts text. Knows pre-tokenizers only; anything else isn't understood.

A stage that isn't understood hides what follows it, but takes nothing from the cuts that earlier stages made: every
stage works on the parts that the earlier ones left, each on its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from trimbed.counting.plan.automaton import MatchRules, match_rules
from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.pipeline import Pipeline
from trimbed.counting.plan.probes import images, predicate_members, word_members
from trimbed.counting.plan.regex import Alt, Chars, Node, NotUnderstood, Repeat, parse_regex, string_pattern

__all__ = ["apply_pre_tokenizer", "boundaries", "flat_pre_tokenizers", "has_prefix", "without_prefix"]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def flat_pre_tokenizers(spec: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The pre-tokenizers of ``spec`` (a tokenizer.json ``pre_tokenizer``) in order, sequences taken apart."""
    if spec is None:
        return []
    if spec.get("type") == "Sequence":
        return [part for inner in spec["pretokenizers"] for part in flat_pre_tokenizers(inner)]
    return [dict(spec)]


def prepend_scheme(spec: Mapping[str, Any]) -> str:
    """``always``, ``first`` or ``never``: when this Metaspace puts its character before a part."""
    if spec.get("add_prefix_space") is False:
        return "never"
    return str(spec.get("prepend_scheme", "always")).lower()


def has_prefix(spec: Mapping[str, Any]) -> bool:
    """Whether this pre-tokenizer puts something before each part that it's given."""
    if spec.get("type") == "ByteLevel":
        return bool(spec.get("add_prefix_space", True))
    return spec.get("type") == "Metaspace" and prepend_scheme(spec) != "never"


def without_prefix(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same pre-tokenizer, putting nothing before its parts."""
    if spec.get("type") == "ByteLevel":
        return {**spec, "add_prefix_space": False}
    if spec.get("type") == "Metaspace":
        kept = {key: value for key, value in spec.items() if key != "add_prefix_space"}
        return {**kept, "prepend_scheme": "never"}
    return dict(spec)


def boundaries(rules: MatchRules, behavior: str, *, invert: bool = False) -> np.ndarray:
    """bool[C, C]: the cuts that a split with ``rules`` always makes, given that it's independent there."""
    count = len(rules.independent)
    result = np.ones((count, count), dtype=bool)
    right = {True: rules.right_match, False: rules.right_gap}
    left = {True: rules.left_match, False: rules.left_gap}
    for left_matched in (True, False):
        for right_matched in (True, False):
            apart = left_matched or right_matched
            ours, theirs = left_matched != invert, right_matched != invert
            if behavior == "Isolated":
                parted = apart
            elif behavior == "Removed":
                parted = apart or (ours and theirs)
            elif behavior == "Contiguous":
                parted = ours != theirs
            elif behavior == "MergedWithPrevious":
                parted = apart and not (theirs and not ours)
            elif behavior == "MergedWithNext":
                parted = apart and not (ours and not theirs)
            else:
                raise NotUnderstood(f"the split behavior {behavior!r}")
            if not parted:
                result &= ~(left[left_matched] & right[right_matched][None, :])
    return result


def _split(pipeline: Pipeline, node: Node, behavior: str, title: str, *, invert: bool = False) -> None:
    rules = match_rules(node)
    pipeline.judge(rules.classes, rules.independent, boundaries(rules, behavior, invert=invert), title)


def apply_pre_tokenizer(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    """Take ``pipeline`` past one pre-tokenizer. Raises NotUnderstood for one that isn't known here."""
    kind = spec.get("type")
    if kind == "Split":
        pattern = spec["pattern"]
        node = string_pattern(pattern["String"]) if "String" in pattern else parse_regex(pattern["Regex"])
        _split(pipeline, node, spec["behavior"], f"Split {next(iter(pattern.values()))!r}", invert=spec["invert"])
    elif kind == "ByteLevel":
        if spec.get("use_regex", True):
            _split(pipeline, parse_regex(GPT2), "Isolated", "ByteLevel's own regex")
        pipeline.byte_level = True
        image = images({"type": "ByteLevel"})
        pipeline.map(image.first, image.last)
    elif kind == "Metaspace":
        _metaspace(pipeline, spec)
    elif kind == "Whitespace":
        word, space = word_members(), predicate_members("whitespace")
        runs = Alt((Repeat(Chars(word), 1, None), Repeat(Chars(~word & ~space), 1, None)))
        _split(pipeline, runs, "Removed", "Whitespace", invert=True)
    elif kind == "WhitespaceSplit":
        _split(pipeline, Chars(predicate_members("whitespace")), "Removed", "WhitespaceSplit")
    elif kind == "BertPreTokenizer":
        _split(pipeline, Chars(predicate_members("whitespace")), "Removed", "BertPreTokenizer's white space")
        _split(pipeline, Chars(predicate_members("punctuation")), "Isolated", "BertPreTokenizer's punctuation")
    elif kind == "Punctuation":
        behavior = spec.get("behavior", "Isolated")
        _split(pipeline, Chars(predicate_members("punctuation")), behavior, "Punctuation")
    elif kind == "Digits":
        behavior = "Isolated" if spec["individual_digits"] else "Contiguous"
        _split(pipeline, Chars(predicate_members("numeric")), behavior, "Digits")
    elif kind == "CharDelimiterSplit":
        _split(pipeline, string_pattern(spec["delimiter"]), "Removed", f"CharDelimiterSplit {spec['delimiter']!r}")
    else:
        raise NotUnderstood(f"the pre-tokenizer {json.dumps(spec)[:80]}")


def _metaspace(pipeline: Pipeline, spec: Mapping[str, Any]) -> None:
    identity = np.arange(CODE_POINTS, dtype=np.int32)
    identity[ord(" ")] = ord(spec["replacement"])
    pipeline.map(identity, identity)
    if spec.get("split") is not False:
        _split(pipeline, string_pattern(spec["replacement"]), "MergedWithNext", "Metaspace")

"""Pieces reach the model exactly as the whole document does, whatever normalizes and splits it (invariant 1)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_texts import PATTERNS, document, piecewise, planned, pre_tokens, sequence, split, texts

METASPACE = {"type": "Metaspace", "replacement": "▁"}
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True}

PRE_TOKENIZERS: dict[str, Any] = {
    **{name: split(pattern) for name, pattern in PATTERNS.items()},
    "gpt2 inverted": split(PATTERNS["clip"], "Removed", invert=True),
    "byte level": BYTES,
    "byte level with prefix": {**BYTES, "add_prefix_space": True},
    "digits then bytes": sequence("pretokenizers", [{"type": "Digits", "individual_digits": True}, BYTES]),
    "three splits": sequence(
        "pretokenizers",
        [
            split(r"\p{N}{1,3}"),
            split("[一-龥\u3040-ゟ゠-ヿ]+"),
            split(PATTERNS["deepseek"]),
            {**BYTES, "use_regex": False},
        ],
    ),
    "prefix after a split": sequence("pretokenizers", [{"type": "Whitespace"}, {**BYTES, "add_prefix_space": True}]),
    "metaspace always": {**METASPACE, "prepend_scheme": "always", "split": True},
    "metaspace first": {**METASPACE, "prepend_scheme": "first", "split": True},
    "metaspace never": {**METASPACE, "prepend_scheme": "never", "split": True},
    "words, then metaspace": sequence(
        "pretokenizers", [{"type": "WhitespaceSplit"}, {**METASPACE, "prepend_scheme": "always", "split": True}]
    ),
    "words, then metaspace first": sequence(
        "pretokenizers", [{"type": "WhitespaceSplit"}, {**METASPACE, "prepend_scheme": "first", "split": True}]
    ),
    "whitespace": {"type": "Whitespace"},
    "whitespace split": {"type": "WhitespaceSplit"},
    "bert": {"type": "BertPreTokenizer"},
    "digits": {"type": "Digits", "individual_digits": False},
    "digit by digit": {"type": "Digits", "individual_digits": True},
    "delimiter": {"type": "CharDelimiterSplit", "delimiter": "-"},
    "scripts behind white space": sequence("pretokenizers", [{"type": "WhitespaceSplit"}, {"type": "UnicodeScripts"}]),
    **{f"punctuation {behavior}": {"type": "Punctuation", "behavior": behavior} for behavior in BEHAVIORS},
    **{f"space {behavior}": split(" ", behavior, regex=False) for behavior in BEHAVIORS},
    **{
        f"runs {behavior}": split(r"\s+|ab", behavior, invert=True)
        for behavior in BEHAVIORS
        if behavior != "Contiguous"
    },
}

NORMALIZERS: dict[str, Any] = {
    **{form: {"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "StripAccents")},
    "bert": {**BERT, "strip_accents": None},
    "bert keeping accents": {**BERT, "strip_accents": False},
    "bert cased": {**BERT, "strip_accents": None, "lowercase": False},
    "strip": {"type": "Strip", "strip_left": True, "strip_right": True},
    "strip right": {"type": "Strip", "strip_left": False, "strip_right": True},
    "prepend": {"type": "Prepend", "prepend": "▁"},
    "spaces to one": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    "spaces to none": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": ""},
    "quotes": {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
    "letter to space": {"type": "Replace", "pattern": {"String": "a"}, "content": " x"},
    "decomposed without accents": sequence(
        "normalizers", [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    ),
    "clip": sequence(
        "normalizers",
        [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Lowercase"}],
    ),
    "nmt": sequence(
        "normalizers",
        [
            {"type": "Nmt"},
            {"type": "NFKC"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "Prepend", "prepend": "▁"},
        ],
    ),
}

USUAL = ["gpt2 inverted", "cl100k", "o200k", "han apart", "order", "lookahead", "end of line", "three splits"]
USUAL += ["prefix after a split", "metaspace always", "metaspace first", "words, then metaspace first", "whitespace"]
USUAL += ["bert", "punctuation Contiguous", "runs MergedWithPrevious"]
USUAL_NORMALIZERS = ["NFC", "NFKC", "NFKD", "bert", "bert cased", "strip", "spaces to none", "quotes", "clip", "nmt"]

SETTINGS = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def holds_for(of: Any) -> None:
    plan, executor, tokenizer = planned(of)

    @SETTINGS
    @given(st.lists(texts(plan), min_size=1, max_size=3))
    def check(documents: list[str]) -> None:
        for text in documents:
            assert "".join(piece for piece, _, _ in executor.pieces(text)) == text
            assert piecewise(executor, text) == pre_tokens(tokenizer, text)

    check()


@pytest.mark.parametrize("name", USUAL)
def test_pieces_are_split_as_the_whole_is(name: str) -> None:
    holds_for(document(pre_tokenizer=PRE_TOKENIZERS[name]))


@pytest.mark.parametrize("name", USUAL_NORMALIZERS)
def test_pieces_are_normalized_as_the_whole_is(name: str) -> None:
    holds_for(document(normalizer=NORMALIZERS[name], pre_tokenizer=PRE_TOKENIZERS["clip"]))


@pytest.mark.slow
@pytest.mark.parametrize(("normalizer", "then"), list(itertools.product(NORMALIZERS, PRE_TOKENIZERS)))
def test_every_normalizer_before_every_pre_tokenizer(normalizer: str, then: str) -> None:
    holds_for(document(normalizer=NORMALIZERS[normalizer], pre_tokenizer=PRE_TOKENIZERS[then]))


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("cl100k", "a", " "),
        ("cl100k", "1", "a"),
        ("cl100k", ".", " "),
        ("cl100k", "\n", "a"),
        ("gpt2", "a", "."),
        ("o200k", "a", " "),
        ("o200k", "a", "A"),
        ("han apart", "中", "a"),
        ("deepseek", "a", "."),
        ("metaspace always", "a", " "),
        ("whitespace", "a", "."),
        ("bert", ".", "."),
        ("digit by digit", "1", "2"),
        ("space MergedWithPrevious", " ", "a"),
        ("space MergedWithNext", "a", " "),
    ],
)
def test_obvious_boundaries_are_cut(name: str, left: str, right: str) -> None:
    plan, _, _ = planned(document(pre_tokenizer=PRE_TOKENIZERS[name]))
    assert plan.cut[plan.classes[ord(left)], plan.classes[ord(right)]] == 1


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("cl100k", " ", "a"),
        ("cl100k", " ", " "),
        ("cl100k", ".", "a"),
        ("cl100k", ".", "\n"),
        ("cl100k", "1", "2"),
        ("cl100k", "'", "s"),
        ("gpt2", "'", "s"),
        ("o200k", "a", "'"),
        ("deepseek", ".", "a"),
        ("space MergedWithPrevious", "a", " "),
        ("punctuation Contiguous", ".", "."),
    ],
)
def test_places_that_depend_on_more_are_never_cut(name: str, left: str, right: str) -> None:
    plan, _, _ = planned(document(pre_tokenizer=PRE_TOKENIZERS[name]))
    assert plan.cut[plan.classes[ord(left)], plan.classes[ord(right)]] == 0


def test_no_cut_comes_before_a_character_that_composes_with_what_it_follows() -> None:
    plan, _, _ = planned(document(normalizer={"type": "NFC"}, pre_tokenizer=PRE_TOKENIZERS["bert"]))
    for mark in "\u0301\u1161\u11a8\u09be":
        assert not plan.cut[:, plan.classes[ord(mark)]].any()

"""Added tokens are found in raw text exactly as the library finds them: leftmost-longest, with their flags."""

from __future__ import annotations

import numpy as np
import pytest
import scan_checks as checks
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from trimbed.counting.plan import AddedMatch, KernelPlan

PARTS = [
    "a",
    "b",
    " ",
    "  ",
    "\n",
    "\u3000",
    "\u00a0",
    "\u200b",
    "<",
    "<m>",
    "<m>x",
    "<n>",
    "é",
    "\u0301",
    "語",
    "_",
    "-",
    "1",
    "ab",
    "abc",
]
FLAGS = st.tuples(st.booleans(), st.booleans(), st.booleans())
CONTENTS = ["<m>", "<m>x", "<n>", "ab", "abc", "  ", "\n", " ", "é", "b語", "a-"]


def library(added: list[AddedMatch]) -> Tokenizer:
    tokenizer = Tokenizer.from_str(checks.documents()[0])
    tokenizer.add_tokens(
        [
            AddedToken(a.content, single_word=a.single_word, lstrip=a.lstrip, rstrip=a.rstrip, normalized=False)
            for a in added
        ]
    )
    return tokenizer


def held_to_the_library(added: list[AddedMatch], texts: list[str]) -> None:
    tokenizer = library(added)
    plain = Tokenizer.from_str(checks.documents()[0])
    numbered = [
        AddedMatch(a.content, tokenizer.token_to_id(a.content), a.single_word, a.lstrip, a.rstrip) for a in added
    ]
    plan = KernelPlan.from_classes(
        {"every": range(128)}, {("every", "every"): 1}, document=plain.to_str(), added=numbered
    )
    expected = np.zeros(checks.VOCABULARY_SIZE, dtype=np.int64)
    for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
        np.add.at(expected, encoding.ids, 1)
    assert np.array_equal(checks.count(checks.kernel(plan), checks.text_array(texts)).counts, expected)


@given(
    contents=st.lists(st.sampled_from(CONTENTS), min_size=1, max_size=5, unique=True),
    flags=st.lists(FLAGS, min_size=5, max_size=5),
    texts=st.lists(st.lists(st.sampled_from(PARTS), max_size=10).map("".join), min_size=1, max_size=6),
)
@settings(max_examples=120, deadline=None)
def test_any_tokens_with_any_flags_are_found_where_the_library_finds_them(
    contents: list[str], flags: list[tuple[bool, bool, bool]], texts: list[str]
) -> None:
    # A token of white space only, widened over white space, can leave the library a match that ends before it begins;
    # it has no defined result for that, so such tokens go unwidened here.
    added = [
        AddedMatch(content, 0, word, left and bool(content.strip()), right and bool(content.strip()))
        for content, (word, left, right) in zip(contents, flags, strict=False)
    ]
    if any(one.rstrip for one in added):
        added = [one for one in added if one.content.strip()]
    if added:
        held_to_the_library(added, texts)


@pytest.mark.parametrize(
    ("added", "text", "found"),
    [
        ([AddedMatch("<m>", 0, lstrip=True, rstrip=True)], "a  <m>  b", 1),
        ([AddedMatch("ab", 0, single_word=True)], "ab abx xab ab", 2),
        ([AddedMatch("ab", 0), AddedMatch("abc", 0)], "abcab", 2),
        ([AddedMatch("  ", 0), AddedMatch("    ", 0)], "a" + " " * 7 + "b", 2),
        ([AddedMatch("ab", 0, single_word=True), AddedMatch("abc", 0, single_word=True)], "abc abcd ab-c", 2),
        ([AddedMatch("éé", 0, single_word=True)], "éé\u0301 éé_ éé- éé", 2),
    ],
)
def test_flags_by_example(added: list[AddedMatch], text: str, found: int) -> None:
    held_to_the_library(added, [text])
    tokenizer = library(added)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert sum(tokenizer.id_to_token(one) in {a.content for a in added} for one in ids) == found


def test_many_tokens_with_many_first_bytes_are_found_across_long_text() -> None:
    added = [AddedMatch(f"{c}{c}!", 0) for c in "abcde_'0123"] + [AddedMatch(f"<|{n}|>", 0) for n in range(30)]
    random = np.random.default_rng(3)
    parts = [one.content for one in added] + ["a", "b", "aa", "00", "<|", " ", "x" * 100, "é" * 70]
    texts = ["".join(parts[n] for n in random.integers(0, len(parts), 400)) for _ in range(20)]
    held_to_the_library(added, texts)

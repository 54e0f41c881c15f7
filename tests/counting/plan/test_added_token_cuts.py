"""Added tokens are found as the library finds them, whatever their flags, and no cut falls inside one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_texts import counts, document, planned, texts

from trimbed.counting.plan import NoPlan, make_plan

LETTERS = {letter: number for number, letter in enumerate(" abcdefgmnoprstxyE<>|/[]▁", 1)}
MODEL = {"type": "WordLevel", "vocab": {"[UNK]": 0, **LETTERS, "ab": 40, "the": 41}, "unk_token": "[UNK]"}
WORDS = {"type": "Whitespace"}


def added(content: str, **flags: bool) -> dict[str, Any]:
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"id": 0, "content": content, **usual, **flags}


def exact(of: Any, *documents: str) -> None:
    plan, executor, tokenizer = planned(of)
    for text in documents:
        assert executor.count([text]) == counts(tokenizer, [text]), text

    words = [word for token in of["added_tokens"] for word in (token["content"], token["content"].upper())]

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(st.lists(texts(plan, words=words), min_size=4, max_size=8))
    def check(some: list[str]) -> None:
        assert executor.count(some) == counts(tokenizer, some)

    check()


def test_the_longest_of_the_leftmost_tokens_is_taken() -> None:
    of = document(model=MODEL, pre_tokenizer=WORDS, added=[added("<m"), added("<m>"), added("m>x")])
    exact(of, "a<m>b", "a<m b", "<m>x", "m>x<m", "<<m>>")


def test_tokens_eat_the_white_space_that_their_flags_say() -> None:
    of = document(
        model=MODEL, pre_tokenizer=WORDS, added=[added("<m>", lstrip=True, rstrip=True), added("[x]", lstrip=True)]
    )
    exact(of, "a  <m>  b", " <m>", "<m> ", "<m> <m>", "a \u3000<m>\n[x] b", "  [x]  [x]")


def test_a_single_word_token_is_found_only_where_no_word_goes_on() -> None:
    of = document(
        model=MODEL,
        pre_tokenizer=WORDS,
        added=[added("ab", single_word=True), added("bx"), added("é", single_word=True)],
    )
    exact(of, "ab", "abx", "xab", "ab ab", "ab\u0301", "ab_", "ab.", "aab.ab", "é", "aé", ".é.")


def test_a_refused_single_word_token_is_not_found_in_a_piece_of_its_own() -> None:
    letter = {"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": False}
    of = document(model=MODEL, pre_tokenizer=letter, added=[added("a", single_word=True)])
    _, executor, _ = planned(of)
    assert executor.cut("xab") == ["x", "a", "b"]
    exact(of, "ax", "xa", "xax", "a", "a.a")


def test_runs_of_spaces_are_tokens_of_their_own() -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ĠĠ": 3}, "merges": [["Ġ", "Ġ"]]}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    of = document(model=model, pre_tokenizer=byte_level, added=[added("    "), added("  ")])
    exact(of, "a    b", "a   b", "a      b", "    ", "a ")


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "Lowercase"])
def test_tokens_that_only_the_normalized_text_shows_stay_whole(form: str) -> None:
    tokens = [added("cafe\u0301", normalized=True), added("<m>", normalized=True, lstrip=True), added("Tomorrow")]
    tokens += [
        added("Yesterday", normalized=True),
        added("ab", normalized=True, single_word=True),
        added("c]", normalized=True, rstrip=True),
    ]
    of = document(model=MODEL, normalizer={"type": form}, pre_tokenizer=WORDS, added=tokens)
    exact(
        of,
        "café cafe\u0301",
        "YESTERDAY yesterday",
        "TOMORROW Tomorrow",
        "a  <m> b",
        "＜ｍ＞",
        "abx ab",
        "c]  x",
        "<m>\u0338",
    )


def test_normalized_tokens_without_a_normalizer_are_searched_in_a_second_pass() -> None:
    of = document(
        model=MODEL,
        pre_tokenizer=WORDS,
        added=[added("<m>"), added("a<m", normalized=True), added("m>x", normalized=True)],
    )
    exact(of, "a<m>x", "a<mx", "m>x<m>")
    plan, _, _ = planned(of)
    assert {match.content: match.stage for match in plan.added} == {"<m>": 0, "a<m": 1, "m>x": 1}


def test_tokens_get_the_ids_that_the_library_gives_them() -> None:
    of = document(model=MODEL, pre_tokenizer=WORDS, added=[{**added("<m>"), "id": 700}, {**added("ab"), "id": 3}])
    plan, _, _ = planned(of)
    assert {match.content: match.id for match in plan.added} == {"<m>": len(MODEL["vocab"]), "ab": 40}


def test_tokens_that_overlap_by_eaten_white_space_have_no_plan() -> None:
    of = document(model=MODEL, pre_tokenizer=WORDS, added=[added("<m>", rstrip=True), added("  ")])
    plan = make_plan(of)
    assert isinstance(plan, NoPlan)
    assert "white space" in plan.reason


def test_hidden_tokens_beside_a_prefix_have_no_plan() -> None:
    normalizer = {"type": "Prepend", "prepend": "▁"}
    plan = make_plan(
        document(model=MODEL, normalizer=normalizer, pre_tokenizer=WORDS, added=[added("<m>", normalized=True)])
    )
    assert isinstance(plan, NoPlan)
    assert "segment's start" in plan.reason

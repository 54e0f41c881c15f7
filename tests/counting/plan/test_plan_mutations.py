"""Every kind of rule is needed: with one of them broken, some text is counted wrong, and these tests would see it."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import made
import numpy as np
import pytest
from plan_texts import PATTERNS, WORDS, counts, document, piecewise, planned, pre_tokens, split

from trimbed.counting.plan import KernelPlan, PlanExecutor

CL100K = split(PATTERNS["cl100k"])
NFC = {"type": "NFC"}


def contexts(left: str, right: str) -> list[str]:
    """Texts that have the two characters side by side, in all kinds of surroundings."""
    chance = random.Random(7)
    around = ["", "a", " ", "\n", ".", "1", "'", "A", "\u0301", "中", "  ", "ab", *WORDS]
    return [left + right] + [chance.choice(around) + left + right + chance.choice(around) for _ in range(400)]


def with_cut(plan: KernelPlan, left: str, right: str) -> PlanExecutor:
    cut = plan.cut.copy()
    place = plan.classes[ord(left)], plan.classes[ord(right)]
    assert cut[place] == 0
    cut[place] = 1
    return PlanExecutor(dataclasses.replace(plan, cut=cut))


@pytest.mark.parametrize(
    ("pre_tokenizer", "normalizer", "left", "right"),
    [
        (CL100K, None, "a", "b"),
        (CL100K, None, " ", "a"),
        (CL100K, None, " ", " "),
        (CL100K, None, ".", "."),
        (CL100K, None, ".", "a"),
        (CL100K, None, ".", "\n"),
        (CL100K, None, "\n", " "),
        (CL100K, None, "1", "1"),
        (CL100K, None, "'", "s"),
        (CL100K, NFC, "e", "\u0301"),
        (CL100K, NFC, "\u1100", "\u1161"),
        (split(PATTERNS["o200k"]), None, "a", "'"),
        (split(PATTERNS["o200k"]), None, ".", "/"),
        (split(PATTERNS["han apart"]), None, "中", "中"),
        (split(" ", "MergedWithNext", regex=False), None, " ", "a"),
        (split(" ", "Contiguous", regex=False), None, " ", " "),
        ({"type": "Digits", "individual_digits": False}, None, "1", "2"),
        ({"type": "BertPreTokenizer"}, {"type": "NFKC"}, "a", "b"),
        ({"type": "WhitespaceSplit"}, {"type": "Strip", "strip_left": True, "strip_right": True}, "a", "b"),
    ],
)
def test_a_cut_where_there_must_be_none_changes_what_the_model_gets(
    pre_tokenizer: Any, normalizer: Any, left: str, right: str
) -> None:
    plan, _, tokenizer = planned(document(pre_tokenizer=pre_tokenizer, normalizer=normalizer))
    broken = with_cut(plan, left, right)
    assert any(piecewise(broken, text) != pre_tokens(tokenizer, text) for text in contexts(left, right))


def test_a_cut_inside_a_vocabulary_pair_changes_counts() -> None:
    plan, executor, tokenizer = planned(made.tiny("metaspace_bpe"))
    texts = [
        "the other lamp",
        "x" + "".join(chr(int(p) >> 32) + chr(int(p) & 0xFFFFFFFF) for p in plan.joined.tolist()),
    ]
    assert executor.count(texts) == counts(tokenizer, texts)
    assert with_cut(plan, "t", "h").count(texts[:1]) != counts(tokenizer, texts[:1])
    if len(plan.joined):
        broken = PlanExecutor(dataclasses.replace(plan, joined=np.zeros(0, dtype=np.uint64)))
        assert broken.count(texts[1:]) != counts(tokenizer, texts[1:])


@pytest.mark.parametrize("change", [{"initial": False}, {"initial_once": True}])
def test_a_first_piece_taken_for_an_inner_one_changes_counts(change: dict[str, bool]) -> None:
    plan, executor, tokenizer = planned(made.tiny("metaspace_bpe"))
    texts = ["the lamp<s>the kitchen"]
    assert executor.count(texts) == counts(tokenizer, texts)
    assert PlanExecutor(dataclasses.replace(plan, **change)).count(texts) != counts(tokenizer, texts)


def test_forgetting_an_added_token_changes_counts() -> None:
    plan, executor, tokenizer = planned(made.tiny("bpe"))
    texts = ["the<|im_start|>lamp"]
    assert executor.count(texts) == counts(tokenizer, texts)
    assert PlanExecutor(dataclasses.replace(plan, added=())).count(texts) != counts(tokenizer, texts)


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_forgetting_a_flag_of_an_added_token_changes_counts(flag: str) -> None:
    of = made.tiny("bpe")
    of["added_tokens"][1][flag] = True
    plan, executor, tokenizer = planned(of)
    texts = ["a <|im_start|> b", "a<|im_start|>b"]
    assert executor.count(texts) == counts(tokenizer, texts)
    forgetful = tuple(dataclasses.replace(match, **{flag: False}) for match in plan.added)
    assert PlanExecutor(dataclasses.replace(plan, added=forgetful)).count(texts) != counts(tokenizer, texts)

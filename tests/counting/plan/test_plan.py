"""What a plan is made of, how it explains itself, and what has none."""

from __future__ import annotations

import json
import pickle
from typing import Any

import made
import numpy as np
import pytest
from plan_texts import PATTERNS, document, planned, sequence, split

from trimbed.counting.plan import AddedMatch, KernelPlan, NoPlan, PlanExecutor, make_plan

PREFIX = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (document(pre_tokenizer={"type": "UnicodeScripts"}), "UnicodeScripts"),
        (document(pre_tokenizer={"type": "FixedLength", "length": 5}), "FixedLength"),
        (document(pre_tokenizer=split(r"(?<=a)b")), "regex"),
        (document(pre_tokenizer=split(r"\bb")), "escape"),
        (document(pre_tokenizer=split(r"a*")), "nothing at all"),
        (document(pre_tokenizer=split(r"(?i:straße)")), "case"),
        (document(pre_tokenizer=split(r"(?i:ss)x")), "case"),
        (document(pre_tokenizer=split(r"(?:ab)++c")), "possessive"),
        (document(pre_tokenizer=split(r"a(?=bc)")), "lookahead"),
        (document(), "whole words"),
        (document(model={**made.tiny("bpe")["model"], "dropout": 0.1}), "dropout"),
        (document(normalizer={"type": "Prepend", "prepend": "▁"}), "no place"),
    ],
)
def test_what_is_not_understood_has_no_plan_and_says_why(of: Any, reason: str) -> None:
    plan = make_plan(of)
    assert isinstance(plan, NoPlan)
    assert reason in plan.reason


def test_a_stage_that_is_not_understood_takes_nothing_from_earlier_cuts() -> None:
    parts = [{"type": "WhitespaceSplit"}, split(r"(?<=a)b")]
    plan, executor, _ = planned(document(pre_tokenizer=sequence("pretokenizers", parts)))
    assert executor.cut("ab ab") == ["ab", " ", "ab"]
    assert any("not understood" in line for line in plan.explanation)


def test_cuts_behind_an_opaque_stage_are_not_made() -> None:
    parts = [{"type": "UnicodeScripts"}, {"type": "WhitespaceSplit"}]
    assert isinstance(make_plan(document(pre_tokenizer=sequence("pretokenizers", parts))), NoPlan)


def test_a_prefix_makes_a_segment_s_first_piece_a_kind_of_its_own() -> None:
    plan, _, _ = planned(document(pre_tokenizer=PREFIX))
    assert plan.initial
    assert not plan.initial_once
    assert plan.inner_document != plan.initial_document


def test_a_prefix_before_every_part_needs_no_kind_of_its_own() -> None:
    plan, _, _ = planned(document(pre_tokenizer=sequence("pretokenizers", [{"type": "WhitespaceSplit"}, PREFIX])))
    assert not plan.initial
    assert plan.inner_document == plan.initial_document


def test_a_prefix_at_the_document_s_start_is_there_once() -> None:
    first = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    plan, executor, _ = planned(document(pre_tokenizer=first))
    assert plan.initial_once
    assert [first for _, first, _ in executor.pieces("a b c")] == [True, False, False]


def test_a_plan_survives_pickling() -> None:
    plan, _, _ = planned(document(pre_tokenizer=split(PATTERNS["cl100k"])))
    copy = pickle.loads(pickle.dumps(plan))
    assert np.array_equal(copy.classes, plan.classes)
    assert np.array_equal(copy.cut, plan.cut)
    assert copy.inner_document == plan.inner_document


def test_the_same_document_has_the_same_plan() -> None:
    of = made.tiny("metaspace_bpe")
    one, two = planned(of)[0], planned(made.tiny("metaspace_bpe"))[0]
    assert np.array_equal(one.classes, two.classes)
    assert np.array_equal(one.cut, two.cut)
    assert np.array_equal(one.joined, two.joined)


def test_truncation_padding_and_special_templates_do_not_matter() -> None:
    plan, executor, _ = planned(made.tiny("wordpiece"))
    assert executor.count(["the lamp " * 200]).total() >= 400
    assert isinstance(plan, KernelPlan)


def test_the_explanation_names_rules_and_classes() -> None:
    plan, _, _ = planned(made.tiny("metaspace_bpe"))
    text = "\n".join(plan.explanation)
    assert "Prepend" in text
    assert "pairs of the vocabulary" in text
    assert "class 0" in text


def test_a_plan_by_hand_checks_its_arrays() -> None:
    plan = KernelPlan.from_classes({"space": " "}, {("other", "space"): 1}, document="{}", joined=[(98, 97), (97, 98)])
    assert plan.joined.tolist() == [97 << 32 | 98, 98 << 32 | 97]
    with pytest.raises(ValueError, match="uint8"):
        KernelPlan(plan.classes.astype(int), plan.cut, plan.joined, (), False, "{}", "{}")


@pytest.mark.parametrize(
    ("after", "once", "expected"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_whether_a_segment_behind_a_stage_1_match_starts_anew(after: bool, once: bool, expected: bool) -> None:
    of = json.dumps(made.tiny("wordlevel"))
    plan = KernelPlan.from_classes(
        {"space": " "},
        {("other", "space"): 1},
        document=of,
        initial_document=of,
        initial_once=once,
        initial_after_stage_1=after,
        added=(AddedMatch("<0>", 900), AddedMatch("<1>", 901, stage=1)),
    )
    assert list(PlanExecutor(plan).pieces("a x<1>b<0>c")) == [
        ("a", True, None),
        (" x", False, None),
        ("<1>", False, 901),
        ("b", expected, None),
        ("<0>", False, 900),
        ("c", not once, None),
    ]

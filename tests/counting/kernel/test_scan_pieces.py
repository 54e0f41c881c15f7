"""The scan does what the plain Python executor does, whatever the text, the table's limit and the batches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scan_checks as checks
from hypothesis import given, settings
from hypothesis import strategies as st

from trimbed.counting.plan import AddedMatch

PLANS = {
    "all": checks.make_plan(),
    "nothing added": checks.make_plan(added=()),
    "no initial pieces": checks.make_plan(initial=False),
    "initial once": checks.make_plan(once=True),
    "nothing joined": checks.make_plan(joined=False),
}
ENGINES = {name: checks.kernel(plan, keep_pieces=1_000_000) for name, plan in PLANS.items()}


@pytest.mark.parametrize("name", PLANS)
@given(texts=checks.texts)
@settings(max_examples=60, deadline=None)
def test_counts_and_pieces_are_those_of_the_executor(name: str, texts: list[str]) -> None:
    """Invariant 1."""
    result = checks.count(ENGINES[name], checks.text_array(texts))
    assert np.array_equal(result.counts, checks.executed(PLANS[name], texts))
    assert checks.kept(result) == checks.executed_pieces(PLANS[name], texts)


@given(texts=st.lists(st.text(max_size=60), max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_text_is_cut_as_the_executor_cuts_it(texts: list[str]) -> None:
    result = checks.count(ENGINES["all"], checks.text_array(texts))
    assert checks.kept(result) == checks.executed_pieces(PLANS["all"], texts)


@pytest.mark.parametrize("size", [1, 7, 15, 16, 17, 31, 33, 63, 64, 65, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("unit", ["a", "a ", "é", "日 ", "𝒳a", "ab  日本"])
def test_runs_of_every_length_around_the_block_sizes(size: int, unit: str) -> None:
    text = (unit * size)[:size]
    result = checks.count(ENGINES["all"], checks.text_array([text, text[1:]]))
    assert checks.kept(result) == checks.executed_pieces(PLANS["all"], [text, text[1:]])


def test_pieces_that_differ_only_in_trailing_nulls_or_as_initial_are_told_apart() -> None:
    texts = ["a", "a\x00", "a\x00\x00", "b a b a\x00", "\x00", "\x00\x00"]
    result = checks.count(ENGINES["nothing added"], checks.text_array(texts))
    assert checks.kept(result) == checks.executed_pieces(PLANS["nothing added"], texts)
    assert len({piece for piece, _ in checks.kept(result)}) < len(checks.kept(result))


WORDS = ["".join(pair) for pair in pairwise("abcdeé日本語0123456789" * 3)] + [f"w{n}" for n in range(3000)]


def many_pieces() -> list[str]:
    random = np.random.default_rng(7)
    rank = random.zipf(1.3, 60_000) % len(WORDS)
    words = [WORDS[r] + ("-with-a-long-tail-of-its-own" if r % 17 == 3 else "") for r in rank]
    return [" ".join(words[start : start + 60]) for start in range(0, len(words), 60)]


@pytest.fixture(scope="module")
def crowd() -> Any:
    plan = checks.make_plan(added=(AddedMatch("w7", 900, single_word=True),))
    texts = many_pieces()
    whole = checks.count(checks.kernel(plan, keep_pieces=1_000_000), checks.text_array(texts))
    assert checks.kept(whole) == checks.executed_pieces(plan, texts)
    assert np.array_equal(whole.counts, checks.executed(plan, texts))
    return plan, texts, whole


@pytest.mark.parametrize("options", [{"table_pieces": 300}, {"table_pieces": 1000}, {"table_bytes": 100_000}], ids=str)
def test_a_setting_that_is_about_memory_never_changes_output(crowd: Any, options: dict[str, int]) -> None:
    plan, texts, whole = crowd
    engine = checks.kernel(plan, keep_pieces=1_000_000, **options)
    tally = engine.tally()
    tally.add(checks.text_array(texts))
    result = tally.finish()
    assert tally.stats()["rooms_made"] > 3
    assert np.array_equal(result.counts, whole.counts)
    assert result.pieces.equals(whole.pieces)
    again = checks.count(engine, checks.text_array(texts))
    assert np.array_equal(again.counts, whole.counts)
    assert again.pieces.equals(whole.pieces)


@pytest.mark.parametrize("bound", [1, 10, 500])
def test_the_most_frequent_pieces_are_kept_and_the_rest_is_recorded(crowd: Any, bound: int) -> None:
    plan, texts, whole = crowd
    every = checks.kept(whole)
    best = sorted(every, key=lambda key: (-every[key], key))[:bound]
    results = [
        checks.count(checks.kernel(plan, keep_pieces=bound, **options), *arrays)
        for options in ({}, {"table_pieces": 300})
        for arrays in ([checks.text_array(texts)], [checks.text_array(texts[:100]), checks.text_array(texts[100:])])
    ]
    for result in results:
        assert checks.kept(result) == {key: every[key] for key in best}
        assert result.pieces_dropped == len(every) - bound
        assert result.pieces_dropped_count == sum(every.values()) - sum(every[key] for key in best)
        assert [(row["piece"], row["initial"]) for row in result.pieces.to_pylist()] == sorted(best)


def test_no_pieces_are_reported_unless_asked_for(crowd: Any) -> None:
    plan, texts, whole = crowd
    result = checks.count(checks.kernel(plan), checks.text_array(texts))
    assert result.pieces is None
    assert np.array_equal(result.counts, whole.counts)


def test_a_second_shard_starts_from_zero_and_remembers_encodings(crowd: Any) -> None:
    plan, texts, whole = crowd
    engine = checks.kernel(plan)
    checks.count(engine, checks.text_array(texts))
    tally = engine.tally()
    tally.add(checks.text_array(texts))
    assert np.array_equal(tally.finish().counts, whole.counts)
    assert tally.stats()["encoded_library"] == 0
    assert tally.stats()["remembered"] > 1000


def test_two_tallies_of_one_engine_do_not_mix() -> None:
    engine = ENGINES["all"]
    one, two = engine.tally(), engine.tally()
    one.add(checks.text_array(["a b"]))
    two.add(checks.text_array(["c"]))
    one.add(checks.text_array(["d"]))
    plan = PLANS["all"]
    assert np.array_equal(one.finish().counts, checks.executed(plan, ["a b", "d"]))
    assert np.array_equal(two.finish().counts, checks.executed(plan, ["c"]))


def test_a_document_of_several_megabytes_is_counted_within_a_small_table(crowd: Any) -> None:
    plan, texts, _ = crowd
    document = " ".join(texts * 4)
    engine = checks.kernel(plan, table_pieces=500)
    tally = engine.tally()
    tally.add(pa.array([document], pa.large_string()))
    result = tally.finish()
    assert np.array_equal(result.counts, checks.count(checks.kernel(plan), checks.text_array([document])).counts)
    assert tally.stats()["rooms_made"] > 3


def test_a_piece_of_megabytes_is_one_piece() -> None:
    plan = checks.make_plan(added=())
    result = checks.count(
        checks.kernel(plan, keep_pieces=5), checks.text_array(["a" * 1_500_000, "b " + "é" * 500_000])
    )
    assert sorted(map(len, (piece for piece, _ in checks.kept(result)))) == [1, 1, 1_000_000, 1_500_000]
    assert result.tokens == 2_000_002


@pytest.mark.parametrize(
    ("after", "once", "expected"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_whether_a_segment_behind_a_stage_1_match_starts_anew(after: bool, once: bool, expected: bool) -> None:
    added = (AddedMatch("<0>", 900), AddedMatch("<1>", 901, stage=1))
    plan = replace(checks.make_plan(added=added, once=once), initial_after_stage_1=after)
    result = checks.count(checks.kernel(plan, keep_pieces=10), checks.text_array(["a<1>b<0>c"]))
    assert checks.kept(result) == {(b"a", True): 1, (b"b", expected): 1, (b"c", not once): 1}

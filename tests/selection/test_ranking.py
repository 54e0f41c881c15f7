"""Cuts fall where the strictest rule says, ties go by id, and the closure of any beginning is known from one pass."""

from __future__ import annotations

import numpy as np
from graphs import frames, relation
from hypothesis import given
from hypothesis import strategies as st

from trimbed.selection.ranking import FAR, cut, earliest_need, rank

everything = np.ones(6, dtype=bool)


def test_the_ranking_goes_by_count_then_by_id_and_leaves_out_the_unseen() -> None:
    ranking = rank(np.array([5, 9, 5, 0, 9, 1]), everything)
    assert ranking.ids.tolist() == [1, 4, 0, 2, 5]
    assert ranking.total == 29


def test_only_eligible_tokens_are_ranked() -> None:
    assert rank(np.array([5, 9, 5]), np.array([True, False, True])).ids.tolist() == [0, 2]


def test_coverage_keeps_the_shortest_beginning_that_reaches_the_share() -> None:
    ranking = rank(np.array([60, 30, 9, 1]), np.ones(4, dtype=bool))
    lengths = {share: cut(ranking, coverage=share).length for share in (0.5, 0.6, 0.61, 0.9, 0.99, 0.999, 1.0)}
    assert lengths == {0.5: 1, 0.6: 1, 0.61: 2, 0.9: 2, 0.99: 3, 0.999: 4, 1.0: 4}


def test_a_coverage_is_meant_as_written_and_not_as_its_binary_neighbour() -> None:
    # 0.1 * 3 is 0.30000000000000004 in floating point; one of the ten tokens is exactly a tenth.
    ranking = rank(np.ones(10, dtype=np.int64), np.ones(10, dtype=bool))
    assert [cut(ranking, coverage=n / 10).length for n in range(1, 11)] == list(range(1, 11))


def test_min_count_keeps_tokens_seen_at_least_that_often() -> None:
    ranking = rank(np.array([5, 9, 5, 0, 9, 1]), everything)
    assert [cut(ranking, min_count=n).length for n in (1, 2, 5, 6, 9, 10)] == [5, 4, 4, 2, 2, 0]


def test_top_k_never_reaches_beyond_what_was_seen() -> None:
    ranking = rank(np.array([5, 9, 5, 0, 9, 1]), everything)
    assert [cut(ranking, top_k=n).length for n in (1, 5, 6, 100)] == [1, 5, 5, 5]


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=30),
    st.none() | st.floats(0.01, 1),
    st.none() | st.integers(1, 30),
    st.none() | st.integers(1, 50),
)
def test_of_several_rules_the_strictest_decides(
    counts: list[int], coverage: float | None, top_k: int | None, min_count: int | None
) -> None:
    ranking = rank(np.array(counts), np.ones(len(counts), dtype=bool))
    alone = [
        cut(ranking, coverage=coverage).length,
        cut(ranking, top_k=top_k).length,
        cut(ranking, min_count=min_count).length,
    ]
    assert cut(ranking, coverage=coverage, top_k=top_k, min_count=min_count).length == min(alone)


@given(frames(), st.data())
def test_the_closure_of_every_beginning_of_an_order_is_known_from_one_pass(frame, data) -> None:
    order = np.array(data.draw(st.permutations(range(frame.vocab_size))), dtype=np.int64)
    first = earliest_need(order, frame.dependencies)
    for length in range(len(order) + 1):
        mask = np.zeros(frame.vocab_size, dtype=bool)
        mask[order[:length]] = True
        assert (frame.dependencies.closure(mask) == (first < length)).all()


def test_what_nothing_needs_is_far() -> None:
    first = earliest_need(np.array([3]), relation(5, [(3, 1), (1, 0)]))
    assert first.tolist() == [0, 0, FAR, 0, FAR]

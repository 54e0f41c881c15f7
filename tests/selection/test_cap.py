"""A cap takes the least frequent leaf each time; flow passes counts on. Held against the same rule done slowly."""

from __future__ import annotations

from collections import Counter

import made
import numpy as np
import pytest
from graphs import bpe, count, frames, masks, relation
from hypothesis import given
from hypothesis import strategies as st

from trimbed.selection.cap import flowed_counts, removal_order
from trimbed.selection.falls import fall_for
from trimbed.tokenizer.spec import TokenizerSpec


def fall(dependencies, token: int) -> list[int]:
    """What a BPE token falls into: its two parts, which relations name once where they are the same."""
    parts = dependencies.parents(token).tolist()
    return parts * 2 if len(parts) == 1 else parts


def slow_order(kept, fixed, counts, dependencies, spared, flow: bool) -> list[int]:
    """Look at every token each time."""
    left, amount, order = set(np.flatnonzero(kept).tolist()), counts.tolist(), []
    while True:
        needed = {part for token in left for part in dependencies.parents(token).tolist()}
        leaves = [token for token in left if token not in needed and not fixed[token]]
        if not leaves:
            return order
        token = min(leaves, key=lambda t: (spared[t], amount[t], -t))
        left.remove(token)
        order.append(token)
        if flow:
            for part in fall(dependencies, token):
                amount[part] += amount[token]


@given(frames(), st.data(), st.booleans())
def test_the_heap_takes_what_looking_at_every_token_each_time_takes(frame, data, flow: bool) -> None:
    kept = frame.dependencies.closure(data.draw(masks(frame.vocab_size)) | frame.structural)
    spared = frame.dependencies.closure(data.draw(masks(frame.vocab_size)))
    found = removal_order(kept, frame.fixed, frame.counts, frame.dependencies, spared=spared, flow=flow).tolist()
    assert found == slow_order(kept, frame.fixed, frame.counts, frame.dependencies, spared, flow)
    assert set(found) == set(np.flatnonzero(kept & ~frame.fixed).tolist())


@given(frames(), st.integers(0, 30))
def test_a_limit_gives_the_beginning_of_the_whole_order(frame, limit: int) -> None:
    kept = np.ones(frame.vocab_size, dtype=bool)
    whole = removal_order(kept, frame.fixed, frame.counts, frame.dependencies)
    part = removal_order(kept, frame.fixed, frame.counts, frame.dependencies, limit=limit)
    assert part.tolist() == whole.tolist()[:limit]


def test_a_token_stays_as_long_as_another_is_built_from_it_however_rare_it_is() -> None:
    # 2 is built from 0 and 1; 3 from 2 and 0.
    dependencies = relation(5, [(2, 0), (2, 1), (3, 2), (3, 0)])
    none = np.zeros(5, dtype=bool)
    order = removal_order(~none, none, np.array([9, 1, 0, 5, 7]), dependencies)
    assert order.tolist() == [3, 2, 1, 4, 0]


def test_of_equals_the_larger_id_goes_first() -> None:
    none = np.zeros(4, dtype=bool)
    assert removal_order(~none, none, np.array([2, 1, 1, 2]), relation(4, [])).tolist() == [2, 1, 3, 0]


def test_flow_keeps_a_rare_part_that_the_text_will_fall_back_on() -> None:
    # ab (4) is a (0) + b (1), seen 5 times; cd (5) is seen 6 times. b alone is seen once, but carries ab's 5 as well.
    dependencies = relation(6, [(4, 0), (4, 1)])
    none = np.zeros(6, dtype=bool)
    counts = np.array([100, 1, 3, 100, 5, 6])
    assert removal_order(~none, none, counts, dependencies)[:4].tolist() == [2, 4, 1, 5]
    assert removal_order(~none, none, counts, dependencies, flow=True)[:4].tolist() == [2, 4, 5, 1]


def test_flow_through_a_doubled_part_counts_it_twice() -> None:
    dependencies = relation(2, [(1, 0), (1, 0)])
    assert flowed_counts(np.array([True, False]), np.array([3, 10]), dependencies, None).tolist() == [23, 0]


@given(frames(weighted=False), st.data())
def test_counts_flow_to_the_same_place_in_one_go_or_one_by_one(frame, data) -> None:
    kept = frame.dependencies.closure(data.draw(masks(frame.vocab_size)))
    at_once = flowed_counts(kept, frame.counts, frame.dependencies, None)
    one_by_one = frame.counts.copy()
    everything = np.ones(frame.vocab_size, dtype=bool)
    for token in removal_order(everything, kept, frame.counts, frame.dependencies).tolist():
        for part in fall(frame.dependencies, token):
            one_by_one[part] += one_by_one[token]
        one_by_one[token] = 0
    assert at_once[kept].tolist() == one_by_one[kept].tolist()


@pytest.mark.parametrize("name", ["unigram", "wordpiece"])
def test_a_dropped_tokens_text_falls_into_what_the_model_would_then_use(name: str) -> None:
    """Words of one token, the token dropped: the estimate is what the really trimmed tokenizer gives."""
    from trimbed.trimming.surgery import trim_document

    spec = TokenizerSpec.from_document(made.tiny(name))
    falls = fall_for(spec)
    assert falls is not None
    tried = 0
    structural = spec.structural_ids()
    for index in range(spec.vocab_size - 1, 0, -11):
        surface = (spec.surfaces()[index] or "").strip()
        if index in structural or len(surface) < 2 or spec.encode(surface) != [index]:
            continue
        alive = [token is not None for token in spec.tokens]
        alive[index] = False
        document, old_to_new = trim_document(spec.document.data, np.flatnonzero(alive))
        really = TokenizerSpec.from_document(document).encode(surface)
        assert Counter(old_to_new[list(falls(index, alive))].tolist()) == Counter(really)
        tried += 1
    assert tried >= 3


def test_flow_agrees_with_the_trimmed_tokenizer_on_a_word() -> None:
    spec = bpe(["a", "b", "c", "ab", "abc"], [("a", "b"), ("ab", "c")])
    counts = count(spec, ["abc", "abc", "ab"])
    kept = np.array([True, True, True, True, False])
    assert flowed_counts(kept, counts.counts, spec.dependencies(), None).tolist() == [0, 0, 2, 3, 0]

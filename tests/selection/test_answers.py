"""Many policies at once give what each gives alone."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import frames, masks
from hypothesis import given, settings
from hypothesis import strategies as st

from trimbed.errors import SelectionError
from trimbed.selection.answers import Answers
from trimbed.selection.decide import Reason, decide
from trimbed.selection.policy import SelectionConfig

share = st.none() | st.floats(0.05, 1)
policies = st.fixed_dictionaries(
    {
        "coverage": share,
        "top_k": st.none() | st.integers(1, 20),
        "min_count": st.none() | st.integers(1, 20),
        "coverage_per_source": share,
        "max_vocab_size": st.none() | st.integers(3, 24),
        "cap_order": st.sampled_from(["frequency", "frequency", "flow"]),
        "cap_spares_requested": st.sampled_from([False, False, True]),
        "pad_vocab_to_multiple_of": st.none() | st.integers(1, 3),
    }
)


def alone(frame, requested, policy):
    """Reasons, and what a table shows of them, worked out from nothing but ``decide``."""
    try:
        outcome = decide(frame, requested, policy)
    except SelectionError as error:
        return str(error)
    numbers = np.bincount(outcome.reasons, minlength=len(Reason)).tolist()
    by_reason = {reason.name: numbers[reason] for reason in Reason if reason is not Reason.dropped}
    by_source = {name: int(counts[outcome.kept].sum()) for name, counts in frame.by_source.items()}
    return outcome.reasons.tolist(), by_reason, pytest.approx(frame.counts[outcome.kept].sum()), by_source


def among(answers, requested, policy):
    try:
        reasons, numbers = answers.reasons(policy, requested), answers.numbers(policy, requested)
    except SelectionError as error:
        return str(error)
    return reasons.tolist(), numbers.by_reason, numbers.weighted, numbers.by_source


@settings(max_examples=400)
@given(frames(), st.lists(policies, min_size=1, max_size=6), st.data())
def test_a_policy_among_many_is_decided_as_if_it_were_alone(frame, many, data) -> None:
    asked = [data.draw(masks(frame.vocab_size)), np.zeros(frame.vocab_size, dtype=bool)]
    answers = Answers(frame)
    questions = [(SelectionConfig(**each), asked[data.draw(st.integers(0, 1))]) for each in many]
    answers.expect(questions)
    for policy, requested in questions:
        assert among(answers, requested, policy) == alone(frame, requested, policy)

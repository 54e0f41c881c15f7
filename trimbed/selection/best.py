"""The smallest vocabulary that meets a bound, by bisection along one family of policies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimbed.errors import SelectionError, UsageError
from trimbed.selection.policy import SelectionConfig

if TYPE_CHECKING:
    from trimbed.selection.cost import PieceCosts
    from trimbed.selection.sweep import Sweep

__all__ = ["Bound", "find_best", "parse_bound"]

# Which way each measure goes as the vocabulary grows: costs fall, coverage rises.
_FALLING = ("length_ratio", "tokens", "tokens_per_character")
_RISING = ("coverage", "untouched")


@dataclass(frozen=True)
class Bound:
    """``measure`` (a sweep's column, perhaps ``NAME:SOURCE``) ``<=`` or ``>=`` ``value``."""

    measure: str
    operator: str
    value: float

    def holds(self, number: float) -> bool:
        return number <= self.value if self.operator == "<=" else number >= self.value


def parse_bound(text: str) -> Bound:
    """``length_ratio<=1.01`` -> Bound. Raises UsageError for other text, or a bound that growing can't help to meet."""
    match = re.fullmatch(r"\s*([A-Za-z_]+(?::[^<>=]+)?)\s*(<=|>=)\s*([0-9.eE+-]+)\s*", text)
    try:
        bound = Bound(match[1].strip(), match[2], float(match[3])) if match else None
    except ValueError:
        bound = None
    if bound is None:
        raise UsageError(f'{text!r} is no bound; write one such as "length_ratio<=1.01" or "coverage>=0.999"')
    measure = bound.measure.partition(":")[0]
    fitting = {"<=": _FALLING, ">=": _RISING}[bound.operator]
    if measure not in fitting:
        if measure in (*_FALLING, *_RISING):
            raise UsageError(f"{text!r}: the smallest vocabulary meets that; ask for {measure} the other way round")
        raise UsageError(f"{text!r}: there is no measure {measure!r}; there are {', '.join((*_FALLING, *_RISING))}")
    return bound


def find_best(sweep: Sweep, base: SelectionConfig, bound: Bound, *, costs: PieceCosts | None = None) -> dict[str, Any]:
    """The row of the smallest ``max_vocab_size`` under which ``base`` meets ``bound``.

    The policy's own cuts stay as they are, without any all that was seen may be kept. Measures change with every token
    in one direction but for rare exceptions (a dropped token can make a text shorter by letting a better split win), so
    the bisection's answer meets the bound, and the size below it was tried and doesn't.

    Raises SelectionError where not even the largest vocabulary meets it, or where the measure isn't known.
    """
    cuts = (base.coverage, base.top_k, base.min_count, base.coverage_per_source)
    largest = base if any(cut is not None for cut in cuts) else base.model_copy(update={"coverage": 1.0})
    largest = largest.model_copy(update={"max_vocab_size": base.max_vocab_size, "pad_vocab_to_multiple_of": None})

    def measured(size: int | None) -> tuple[dict[str, Any], float]:
        policy = largest if size is None else largest.model_copy(update={"max_vocab_size": size})
        row = sweep.record(policy, costs=costs)
        if row.get("problem"):
            raise SelectionError(row["problem"])
        number = row.get(bound.measure)
        if number is None:
            raise SelectionError(
                f"{bound.measure} isn't known for {row['policy']}"
                + ("" if costs is not None else ": it needs the corpus's pieces (count with corpus.keep_pieces)")
                + f"; there are {', '.join(name for name, value in row.items() if isinstance(value, float))}"
            )
        return row, number

    row, number = measured(None)
    if not bound.holds(number):
        raise SelectionError(
            f"{bound.measure} is {number:.6g} with all {row['kept']:,} tokens that the policy keeps: {bound.measure} "
            f"{bound.operator} {bound.value:g} can't be met; loosen the bound or the policy's own cuts"
        )
    low, high, best = sweep.smallest(base) - 1, row["kept"], row
    while high - low > 1:
        middle = (low + high) // 2
        row, number = measured(middle)
        if bound.holds(number):
            high, best = middle, row
        else:
            low = middle
    multiple = base.pad_vocab_to_multiple_of
    if multiple:
        rounded = largest.model_copy(update={"max_vocab_size": -(-high // multiple) * multiple})
        best = sweep.record(rounded.model_copy(update={"pad_vocab_to_multiple_of": multiple}), costs=costs)
    return best

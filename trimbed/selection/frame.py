"""What every policy for one tokenizer and one set of counts shares, as plain arrays. Knows no policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trimbed.errors import UsageError
from trimbed.selection.cap import Fall, Queue, full_flow
from trimbed.selection.ranking import Ranking, rank
from trimbed.tokenizer.dependencies import Dependencies

if TYPE_CHECKING:
    from trimbed.storage.counts import CorpusCounts
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["Frame", "check_sources", "weigh"]


@dataclass(frozen=True)
class Frame:
    """``present``, ``structural``: bool[vocab_size]. ``counts``: int64 or float64 [vocab_size], weighted.

    ``by_source``: name -> int64[vocab_size], as stored; empty without counts. ``fall``: see ``selection.cap``; None
    means that a token falls into its dependencies.
    """

    present: np.ndarray
    structural: np.ndarray
    dependencies: Dependencies
    counts: np.ndarray
    by_source: Mapping[str, np.ndarray]
    has_counts: bool = True
    fall: Fall | None = None

    @classmethod
    def of(
        cls, spec: TokenizerSpec, counts: CorpusCounts | None, *, source_weights: Mapping[str, float] | None = None
    ) -> Frame:
        """From a tokenizer and its counts (None for a selection by requests alone).

        Raises UsageError where the counts are of another vocabulary, or a weight is for a source that isn't there.
        """
        from trimbed.selection.falls import fall_for

        size = spec.vocab_size
        structural = np.zeros(size, dtype=bool)
        structural[list(spec.structural_ids())] = True
        present = np.array([token is not None for token in spec.tokens], dtype=bool)
        fall = fall_for(spec)
        if counts is None:
            nothing = np.zeros(size, dtype=np.int64)
            return cls(present, structural & present, spec.dependencies(), nothing, {}, has_counts=False, fall=fall)
        if counts.vocab_size != size:
            raise UsageError(
                f"the counts are of a vocabulary of {counts.vocab_size:,} ids, the tokenizer {spec.source} has "
                f"{size:,}; use the tokenizer that was counted with"
            )
        if source_weights:
            counts = weigh(counts, source_weights)
        return cls(present, structural & present, spec.dependencies(), counts.counts, dict(counts.by_source), fall=fall)

    @property
    def vocab_size(self) -> int:
        return len(self.present)

    @cached_property
    def size(self) -> int:
        """How many tokens there are, holes left out."""
        return int(self.present.sum())

    @cached_property
    def structural_size(self) -> int:
        return int(self.structural.sum())

    @cached_property
    def totals(self) -> tuple[int | float, dict[str, int]]:
        """All weighted counts added up, and each source's own."""
        return self.counts.sum().item(), {name: int(counts.sum()) for name, counts in self.by_source.items()}

    @cached_property
    def ordinary(self) -> np.ndarray:
        """bool[vocab_size]: what a corpus cut chooses from. Structural tokens never use up its places."""
        found: np.ndarray = np.logical_and(self.present, ~self.structural)
        return found

    @cached_property
    def fixed(self) -> np.ndarray:
        """bool[vocab_size]: the structural tokens and what they are built from; no cap takes these."""
        return self.dependencies.closure(self.structural)

    @cached_property
    def queue(self) -> Queue:
        """In which order a cap takes tokens by frequency."""
        return Queue.of(self.counts, self.dependencies)

    @cached_property
    def flow_queue(self) -> Queue | None:
        """In which order a cap takes tokens by flow; None where that depends on what else is kept (see ``fall``)."""
        if self.fall is not None:
            return None
        return Queue.of(full_flow(self.counts, self.fixed, self.dependencies), self.dependencies)

    @cached_property
    def ranking(self) -> Ranking:
        """The ordinary tokens by weighted count."""
        return rank(self.counts, self.ordinary)

    @cached_property
    def source_rankings(self) -> dict[str, Ranking]:
        """The ordinary tokens by each source's own counts."""
        return {name: rank(self.by_source[name], self.ordinary) for name in sorted(self.by_source)}


def weigh(counts: CorpusCounts, source_weights: Mapping[str, float]) -> CorpusCounts:
    """``counts`` with a policy's ``source_weights`` in the place of the datasets' own, for the sources it names.

    Raises UsageError for a name that is no source.
    """
    check_sources(source_weights, counts.by_source, "selection.source_weights")
    return counts.with_weights({**counts.weights, **source_weights})


def check_sources(named: Mapping[str, float], sources: Mapping[str, object], setting: str) -> dict[str, float]:
    """``named`` as it is. Raises UsageError for a name that is no source (``default`` is none either)."""
    unknown = sorted(set(named) - set(sources))
    if unknown:
        raise UsageError(
            f"{setting} names {unknown[0]!r}, which is no source of these counts: {', '.join(sorted(sources))}"
        )
    return dict(named)

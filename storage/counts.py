"""A corpus' counts in memory: what selection works on. Knows ids and numbers; no files, no tokenizers, no policy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from trimbed.storage.errors import UsageError

__all__ = ["CorpusCounts"]


@dataclass(frozen=True)
class CorpusCounts:
    """How often each token id occurs, in each source and over all.

    ``by_source``: source name -> raw counts, int64[vocab_size]. ``weights``: source name -> what its counts are
    multiplied by in ``counts``; a source that isn't named has 1. ``documents_by_source``: documents read. ``samples``:
    texts kept for verification.

    >>> counts = CorpusCounts.from_counts({2: 10, 0: 5}, vocab_size=4)
    >>> counts.total_num_tokens, counts.ranked_ids().tolist(), counts.coverage_of([2])
    (15, [2, 0], 0.6666666666666666)
    """

    vocab_size: int
    by_source: Mapping[str, np.ndarray]
    weights: Mapping[str, float] = field(default_factory=dict)
    documents_by_source: Mapping[str, int] = field(default_factory=dict)
    samples: Sequence[str] = ()

    @classmethod
    def from_counts(
        cls,
        counts: np.ndarray | Mapping[int, int],
        *,
        vocab_size: int | None = None,
        source: str = "corpus",
        documents: int = 0,
        samples: Sequence[str] = (),
    ) -> CorpusCounts:
        """Counts from an array (count by id) or a mapping id -> count.

        ``vocab_size`` defaults to the array's length, or the highest id + 1. Raises UsageError for negative counts,
        counts that aren't whole numbers, or ids outside of the vocabulary.
        """
        if isinstance(counts, Mapping):
            ids = np.array(list(counts), dtype=np.int64)
            size = vocab_size if vocab_size is not None else int(ids.max(initial=-1)) + 1
            if len(ids) and (ids.min() < 0 or ids.max() >= size):
                raise UsageError(f"counts: ids must be in [0, {size})")
            dense = np.zeros(size, dtype=np.int64)
            dense[ids] = np.array(list(counts.values()), dtype=np.int64) if len(ids) else 0
        else:
            given = np.asarray(counts)
            if given.ndim != 1 or given.dtype.kind not in "iu":
                raise UsageError("counts: an array must hold whole numbers in one dimension, one for each id")
            size = vocab_size if vocab_size is not None else len(given)
            if len(given) > size:
                raise UsageError(f"counts: {len(given)} ids for a vocabulary of {size}")
            dense = np.zeros(size, dtype=np.int64)
            dense[: len(given)] = given
        if len(dense) and dense.min() < 0:
            raise UsageError("counts: must not be negative")
        return cls(size, {source: dense}, documents_by_source={source: documents}, samples=tuple(samples))

    def with_weights(self, weights: Mapping[str, float]) -> CorpusCounts:
        """The same counts with other weights; sources that aren't named get 1.

        Raises UsageError for a source that there isn't, or a weight that is negative or not finite.
        """
        unknown = sorted(set(weights) - set(self.by_source))
        if unknown:
            known = ", ".join(sorted(self.by_source)) or "none"
            raise UsageError(f"weights: no source {unknown[0]!r} in the counts; there are: {known}")
        for name, weight in weights.items():
            if not (np.isfinite(weight) and weight >= 0):
                raise UsageError(f"weights: {name!r} has {weight}; a weight is a finite number, 0 or more")
        return replace(self, weights=dict(weights))

    def weight_of(self, source: str) -> float:
        """What ``source``'s counts are multiplied by."""
        return float(self.weights.get(source, 1.0))

    @cached_property
    def raw_counts(self) -> np.ndarray:
        """int64[vocab_size]: summed over the sources, without weights."""
        total = np.zeros(self.vocab_size, dtype=np.int64)
        for counts in self.by_source.values():
            total += counts
        total.flags.writeable = False
        return total

    @cached_property
    def counts(self) -> np.ndarray:
        """Weighted counts: int64[vocab_size] if all weights are 1, else float64[vocab_size].

        Sources are added in the order of their names, so that the sums don't depend on how they were read.
        """
        if all(self.weight_of(name) == 1 for name in self.by_source):
            return self.raw_counts
        total = np.zeros(self.vocab_size, dtype=np.float64)
        for name in sorted(self.by_source):
            total += self.by_source[name] * self.weight_of(name)
        total.flags.writeable = False
        return total

    @cached_property
    def total_num_tokens(self) -> int:
        """Tokens in the corpus, without weights."""
        return int(self.raw_counts.sum())

    @cached_property
    def total_weight(self) -> float:
        """The sum of ``counts``."""
        return float(self.counts.sum())

    @property
    def num_documents(self) -> int:
        """Documents in the corpus."""
        return sum(self.documents_by_source.values())

    @cached_property
    def distinct_tokens(self) -> int:
        """Ids that occur."""
        return int(np.count_nonzero(self.raw_counts))

    def coverage_of(self, ids: Collection[int] | np.ndarray) -> float:
        """The share of the (weighted) tokens that ``ids`` make up, each id once; 1 for an empty corpus.

        Ids may also be a boolean mask, bool[vocab_size]. Raises UsageError for ids outside of the vocabulary.
        """
        given = ids if isinstance(ids, np.ndarray) else np.fromiter(ids, dtype=np.int64, count=len(ids))
        if given.dtype == np.bool_:
            if given.shape != (self.vocab_size,):
                raise UsageError(f"a mask of ids must have {self.vocab_size} entries, not {given.shape}")
            mask = given
        else:
            if len(given) and (given.min() < 0 or given.max() >= self.vocab_size):
                raise UsageError(f"ids must be in [0, {self.vocab_size})")
            mask = np.zeros(self.vocab_size, dtype=np.bool_)
            mask[given.astype(np.int64, copy=False)] = True
        if self.counts.dtype == np.int64:
            total = self.total_num_tokens
            return int(self.counts[mask].sum()) / total if total else 1.0
        return float(self.counts[mask].sum()) / self.total_weight if self.total_weight else 1.0

    def ranked_ids(self) -> np.ndarray:
        """int64: the ids that occur (and whose weight isn't 0), the most frequent first, ties by id."""
        ids = np.flatnonzero(self.counts)
        return ids[np.argsort(-self.counts[ids], kind="stable")].astype(np.int64)

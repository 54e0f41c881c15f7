"""One policy applied to one frame: the union, its closure, the cap, the rounding, and why each id stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from trimbed.errors import SelectionError
from trimbed.selection.cap import flowed_counts, removal_order
from trimbed.selection.frame import Frame, check_sources
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.ranking import cut

__all__ = ["Outcome", "Reason", "cap_target", "corpus_tokens", "decide", "order_under_cap", "source_floors"]


class Reason(IntEnum):
    """Why an id is kept; where several hold, the first of this order."""

    dropped = 0
    structural = 1
    requested = 2
    corpus = 3
    dependency = 4
    rounding = 5


@dataclass(frozen=True)
class Outcome:
    """``reasons``: uint8[vocab_size] of Reason. ``before_cap``: bool[vocab_size], what the cap began with.

    ``sizes``: how many tokens each rule and step came to, for reports.
    """

    reasons: np.ndarray
    before_cap: np.ndarray
    sizes: Mapping[str, int]

    @property
    def kept(self) -> np.ndarray:
        """bool[vocab_size]"""
        found: np.ndarray = np.not_equal(self.reasons, Reason.dropped)
        return found


def decide(frame: Frame, requested: np.ndarray, policy: SelectionConfig) -> Outcome:
    """Apply ``policy`` to ``frame``. ``requested``: bool[vocab_size].

    Raises SelectionError where the cap can't be met, UsageError where the policy names a source that isn't there.
    """
    sizes: dict[str, int] = {"structural": int(frame.structural.sum()), "requested": int(requested.sum())}
    corpus, corpus_sizes = corpus_tokens(frame, policy)
    sizes.update(corpus_sizes)
    kept = frame.dependencies.closure((frame.structural | requested | corpus) & frame.present)
    sizes["closed"] = int(kept.sum())
    before_cap = kept
    target = cap_target(sizes["closed"], int(frame.fixed.sum()), policy)
    if target < sizes["closed"]:
        kept = kept.copy()
        kept[order_under_cap(frame, kept, requested, policy, sizes["closed"] - target)] = False
    sizes["capped"] = int(kept.sum())

    reasons = reasons_for(frame, kept, requested, corpus)
    if target > sizes["closed"]:
        fill = fill_order(frame, kept)[: target - sizes["closed"]]
        reasons[fill] = Reason.rounding
    sizes["kept"] = int((reasons != Reason.dropped).sum())
    return Outcome(reasons, before_cap, sizes)


def corpus_tokens(frame: Frame, policy: SelectionConfig) -> tuple[np.ndarray, dict[str, int]]:
    """bool[vocab_size]: the ordinary tokens that the corpus cuts keep, and each rule's size."""
    mask = np.zeros(frame.vocab_size, dtype=bool)
    if not frame.has_counts or not policy.cuts_corpus:
        return mask, {}
    sizes: dict[str, int] = {}
    length = cut_length(frame, policy, sizes)
    mask[frame.ranking.ids[:length]] = True
    for name, floor in source_floors(frame, policy).items():
        mask[frame.source_rankings[name].ids[:floor]] = True
        sizes[f"coverage_per_source:{name}"] = floor
    sizes["corpus"] = int(mask.sum())
    return mask, sizes


def cut_length(frame: Frame, policy: SelectionConfig, sizes: dict[str, int] | None = None) -> int:
    """How much of the overall ranking the strictest cut keeps; with a cap alone, all of it."""
    rules = (policy.coverage, policy.top_k, policy.min_count)
    if rules == (None, None, None):
        capped_only = policy.max_vocab_size is not None and policy.coverage_per_source is None
        return len(frame.ranking.ids) if capped_only else 0
    found = cut(frame.ranking, coverage=policy.coverage, top_k=policy.top_k, min_count=policy.min_count)
    if sizes is not None:
        sizes.update(found.by_rule)
    return found.length


def source_floors(frame: Frame, policy: SelectionConfig) -> dict[str, int]:
    """For each source with a floor, how much of its own ranking it keeps."""
    wanted = policy.coverage_per_source
    if wanted is None:
        return {}
    if isinstance(wanted, Mapping):
        default = wanted.get("default")
        named = {name: value for name, value in wanted.items() if name != "default"}
        shares = check_sources(named, frame.by_source, "selection.coverage_per_source")
        if default is not None:
            shares = {**dict.fromkeys(frame.by_source, default), **shares}
    else:
        shares = dict.fromkeys(frame.by_source, wanted)
    return {name: cut(frame.source_rankings[name], coverage=shares[name]).length for name in sorted(shares)}


def cap_target(closed: int, fixed: int, policy: SelectionConfig) -> int:
    """The size to end with, from the size of the closed set and of what can't go.

    Above ``closed`` it is the rounding's; below, the cap's (rounded down where rounding up would pass the cap).
    Raises SelectionError where that is less than ``fixed``.
    """
    cap, multiple = policy.max_vocab_size, policy.pad_vocab_to_multiple_of
    size = closed if cap is None else min(closed, cap)
    if multiple is not None:
        up = -(-size // multiple) * multiple
        size = up if cap is None or up <= cap else cap // multiple * multiple
    if size < fixed:
        rounded = "" if multiple is None else f" (a multiple of {multiple}: {size:,})"
        raise SelectionError(
            f"max_vocab_size {cap:,}{rounded} can't be met: {fixed:,} tokens must stay (added and special tokens, unk, "
            f"the byte alphabet and what those are built from). The smallest cap for this tokenizer is {fixed:,}."
        )
    return size


def order_under_cap(
    frame: Frame, kept: np.ndarray, requested: np.ndarray, policy: SelectionConfig, number: int
) -> np.ndarray:
    """int64[number]: the first ids that a cap takes from ``kept``. Raises SelectionError if there are fewer."""
    spared = frame.dependencies.closure(requested & frame.present) if policy.cap_spares_requested else None
    queue = frame.flow_queue if policy.cap_order == "flow" else frame.queue
    if queue is not None:
        order = queue.take(kept, frame.fixed, spared=spared, limit=number)
    else:
        counts = flowed_counts(kept, frame.counts, frame.dependencies, frame.fall)
        order = removal_order(
            kept, frame.fixed, counts, frame.dependencies, limit=number, spared=spared, flow=True, fall=frame.fall
        )
    if len(order) < number:
        raise SelectionError(
            f"max_vocab_size {policy.max_vocab_size:,} can't be met: only {len(order):,} of {int(kept.sum()):,} tokens "
            "can go before others that are built from each other"
        )
    return order


def reasons_for(frame: Frame, kept: np.ndarray, requested: np.ndarray, corpus: np.ndarray) -> np.ndarray:
    """uint8[vocab_size] of Reason for the kept ids."""
    reasons = np.where(kept, Reason.dependency, Reason.dropped).astype(np.uint8)
    for mask, reason in ((corpus, Reason.corpus), (requested, Reason.requested), (frame.structural, Reason.structural)):
        reasons[mask & kept] = reason
    return reasons


def fill_order(frame: Frame, kept: np.ndarray) -> np.ndarray:
    """int64[n]: the ids outside of ``kept``, the most useful first, each after what it is built from.

    It is the order in which a cap would take all of them, backwards: seen ones by count, then the unseen by id.
    """
    everything = frame.dependencies.closure(frame.present)
    return frame.queue.take(everything, kept)[::-1]

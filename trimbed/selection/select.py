"""From a tokenizer, its counts and a policy to a Selection. The steps are other modules'; this is their order."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.selection.decide import Outcome, Reason, decide
from trimbed.selection.explain import Evidence
from trimbed.selection.frame import Frame
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.ranking import FAR, earliest_need
from trimbed.selection.requests import Requests, resolve_requests
from trimbed.selection.selection import Selection

if TYPE_CHECKING:
    from trimbed.storage.counts import CorpusCounts
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["select_tokens", "selection_of"]


def select_tokens(spec: TokenizerSpec, counts: CorpusCounts | None, config: SelectionConfig) -> Selection:
    """Decide which tokens stay.

    The order is union(structural, requested, corpus), then what those are built from, then the cap, then the rounding.
    ``counts`` is None for a selection by requests alone.

    Raises UsageError for a policy that can't mean anything with these inputs, SelectionError for one that can't be met.

    >>> selection = select_tokens(spec, counts, SelectionConfig(coverage=0.999, keep_presets=["digits"]))
    >>> selection.counts_by_reason()
    {'structural': 282, 'requested': 10, 'corpus': 30421, 'dependency': 2204, 'rounding': 0}
    """
    config.check(has_counts=counts is not None)
    frame = Frame.of(spec, counts, source_weights=config.source_weights)
    requests = resolve_requests(spec, config)
    outcome = decide(frame, requests.mask(frame.vocab_size), config)
    return selection_of(spec, counts, config, frame, requests, outcome)


def selection_of(
    spec: TokenizerSpec,
    counts: CorpusCounts | None,
    config: SelectionConfig,
    frame: Frame,
    requests: Requests,
    outcome: Outcome,
) -> Selection:
    """Put names, reasons and hashes to an outcome."""
    reasons = outcome.reasons
    kept = reasons != Reason.dropped
    requested_by = {index: tuple(by) for index, by in sorted(requests.reasons.items()) if kept[index]}
    dropped = {index: tuple(by) for index, by in sorted(requests.reasons.items()) if not kept[index]}
    named = [*np.flatnonzero(kept).tolist(), *dropped]
    notes = [*requests.notes, *(str(miss) for miss in requests.missing)]
    if dropped:
        examples = ", ".join(repr(spec.tokens[index]) for index in list(dropped)[:5])
        notes.append(f"max_vocab_size took {len(dropped):,} requested tokens, such as {examples}")
    multiple = config.pad_vocab_to_multiple_of
    if multiple and int(kept.sum()) % multiple:
        notes.append(f"{int(kept.sum()):,} tokens are kept, no multiple of {multiple}: the vocabulary has no more")
    return Selection(
        reasons=reasons,
        needed_by=needers(frame, reasons),
        requested_by=requested_by,
        dropped_requested=dropped,
        missing=tuple(requests.missing),
        tokenizer={
            "fingerprint": spec.fingerprint,
            "source": spec.source,
            "revision": spec.revision,
            "algorithm": spec.algorithm,
            "vocab_size": spec.vocab_size,
        },
        policy=config.model_dump(mode="json"),
        sizes=outcome.sizes,
        inputs={
            "counts": counts_digest(frame) if counts is not None else None,
            "files": dict(sorted(requests.files.items())),
        },
        names={index: spec.tokens[index] or "" for index in named},
        notes=tuple(notes),
        evidence=Evidence(spec, frame, outcome),
    )


def needers(frame: Frame, reasons: np.ndarray) -> np.ndarray:
    """int64[vocab_size]: for each token kept as a dependency, the best ranked kept token that is built from it.

    Structural and requested tokens come before the corpus's, those by rank, the unranked by id; -1 for other tokens.
    """
    own = np.flatnonzero((reasons != Reason.dropped) & (reasons != Reason.dependency))
    place = np.full(frame.vocab_size, FAR, dtype=np.int64)
    place[frame.ranking.ids] = np.arange(len(frame.ranking.ids))
    order = own[np.lexsort((own, place[own], reasons[own]))]
    first = earliest_need(order, frame.dependencies, within=reasons != Reason.dropped)
    found = np.full(frame.vocab_size, -1, dtype=np.int64)
    needed = (reasons == Reason.dependency) & (first < FAR)
    found[needed] = order[first[needed]]
    return found


def counts_digest(frame: Frame) -> dict[str, Any]:
    """Hashes of the counts a selection is made from: by source as stored, and the weighted sum."""
    return {
        "weighted": _digest(frame.counts),
        "sources": {name: _digest(frame.by_source[name]) for name in sorted(frame.by_source)},
    }


def _digest(counts: np.ndarray) -> str:
    kind = "<i8" if np.issubdtype(counts.dtype, np.integer) else "<f8"
    return hashlib.sha256(np.ascontiguousarray(counts, dtype=kind).tobytes()).hexdigest()

"""Why one token is kept or dropped, and which tokens are unseen, kept only as ancestors, or out of reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import SelectionError
from trimbed.selection.decide import Outcome, Reason
from trimbed.selection.frame import Frame
from trimbed.selection.requests import near_misses

if TYPE_CHECKING:
    from trimbed.selection.selection import Selection
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["Evidence", "Explanation", "explain", "token_states", "unreachable_tokens"]


@dataclass(frozen=True)
class Evidence:
    """What a selection was made from, as long as it is in memory."""

    spec: TokenizerSpec
    frame: Frame
    outcome: Outcome


@dataclass(frozen=True)
class Explanation:
    """``why`` is a sentence; ``rank`` counts from 1 among the ordinary tokens, None for one that isn't among them.

    ``dependents``: the kept tokens that are built from it directly, the most frequent first.
    """

    token: str
    id: int
    kept: bool
    reason: str
    why: str
    count: int | float
    counts_by_source: Mapping[str, int]
    rank: int | None
    parts: tuple[str, ...]
    dependents: tuple[str, ...]
    requested_by: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(selection: Selection, token: str | int) -> Explanation:
    """See ``Selection.explain``."""
    assert selection.evidence is not None
    spec, frame, outcome = selection.evidence.spec, selection.evidence.frame, selection.evidence.outcome
    index = spec.token_to_id(token) if isinstance(token, str) else token
    if index is None or not 0 <= index < spec.vocab_size or spec.tokens[index] is None:
        near = near_misses(token, spec) if isinstance(token, str) else ()
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise SelectionError(f"the vocabulary of {spec.source} has no token {token!r}{hint}")
    places = np.flatnonzero(frame.ranking.ids == index)
    rank = int(places[0]) + 1 if len(places) else None
    dependents = frame.dependencies.dependents.parents(index)
    dependents = dependents[selection.mask[dependents]]
    dependents = dependents[np.lexsort((dependents, -frame.counts[dependents]))]
    requested = selection.requested_by.get(index) or selection.dropped_requested.get(index) or ()
    return Explanation(
        token=str(spec.tokens[index]),
        id=index,
        kept=index in selection,
        reason=Reason(selection.reasons[index]).name,
        why=_why(selection, spec, outcome, index, rank, requested),
        count=frame.counts[index].item(),
        counts_by_source={name: int(counts[index]) for name, counts in sorted(frame.by_source.items())},
        rank=rank,
        parts=tuple(str(spec.tokens[part]) for part in frame.dependencies.parents(index)),
        dependents=tuple(str(spec.tokens[other]) for other in dependents),
        requested_by=tuple(requested),
    )


def _why(
    selection: Selection,
    spec: TokenizerSpec,
    outcome: Outcome,
    index: int,
    rank: int | None,
    requested: tuple[str, ...],
) -> str:
    reason = Reason(selection.reasons[index])
    place = f"rank {rank:,} in the corpus" if rank else "never seen in the corpus"
    if reason is Reason.structural:
        return f"structural ({spec.structural_ids()[index]}): no policy may drop it"
    if reason is Reason.requested:
        return f"requested by {', '.join(requested)}"
    if reason is Reason.corpus:
        return f"{place}, within the corpus cut"
    if reason is Reason.dependency:
        return f"{spec.tokens[int(selection.needed_by[index])]!r} is built from it"
    if reason is Reason.rounding:
        return f"{place}; it rounds the vocabulary up"
    if outcome.before_cap[index]:
        asked = f", though requested by {', '.join(requested)}" if requested else ""
        return f"{place}; max_vocab_size took it{asked}"
    return f"{place}, outside of the corpus cut, not requested, and no kept token is built from it"


def unreachable_tokens(spec: TokenizerSpec) -> np.ndarray:
    """bool[vocab_size]: tokens that no text becomes, as far as their own string tells.

    BPE: tokens of several symbols that no merges build, without ``ignore_merges``. Unigram: pieces whose own string
    is segmented in another way. WordPiece and WordLevel: tokens whose text the normalizer changes. Added tokens are
    matched in text, the unknown token stands for other text, and byte tokens for bytes: none of them is out of reach.
    Never having been seen doesn't make a token unreachable.
    """
    normal = np.array([kind == "normal" for kind in spec.kinds()], dtype=bool)
    found = np.zeros(spec.vocab_size, dtype=bool)
    if spec.algorithm == "bpe":
        if spec.document.model.get("ignore_merges"):
            return found
        affixes = [spec.document.affix("continuing_subword_prefix"), spec.document.affix("end_of_word_suffix")]
        built = np.diff(spec.dependencies().starts) > 0
        for index in np.flatnonzero(normal & ~built).tolist():
            body = (spec.tokens[index] or "").removeprefix(affixes[0])
            found[index] = len(body.removesuffix(affixes[1]) or body) > 1
    elif spec.algorithm == "unigram":
        model = spec.tokenizer.model
        for index in np.flatnonzero(normal).tolist():
            found[index] = [piece.id for piece in model.tokenize(spec.tokens[index])] != [index]
    else:
        normalizer, surfaces = spec.tokenizer.normalizer, spec.surfaces()
        for index in np.flatnonzero(normal).tolist() if normalizer is not None else []:
            text = surfaces[index] or ""
            found[index] = normalizer.normalize_str(text).strip() != text.strip()
    return found


def token_states(frame: Frame, reasons: np.ndarray, unreachable: np.ndarray | None = None) -> dict[str, int]:
    """How many tokens are unseen, how many of those are kept and why, told apart.

    ``unseen``: never counted. ``unseen_dropped``. ``ancestor_only``: kept though unseen, because kept tokens are built
    from them. ``unseen_kept``: kept though unseen, as structural, requested or to round up. ``unreachable``: no text
    becomes them (if asked, see ``unreachable_tokens``), whether seen or not; ``unreachable_kept``: those that stay.
    """
    unseen = frame.present & (frame.counts <= 0)
    kept = reasons != Reason.dropped
    ancestors = unseen & (reasons == Reason.dependency)
    states = {
        "unseen": int(unseen.sum()) if frame.has_counts else 0,
        "unseen_dropped": int((unseen & ~kept).sum()) if frame.has_counts else 0,
        "unseen_kept": int((unseen & kept & ~ancestors).sum()) if frame.has_counts else 0,
        "ancestor_only": int(ancestors.sum()) if frame.has_counts else int((reasons == Reason.dependency).sum()),
    }
    if unreachable is not None:
        states["unreachable"] = int(unreachable.sum())
        states["unreachable_kept"] = int((unreachable & kept).sum())
    return states

"""Audits a trimmed tokenizer against its base, whoever made it: what is lost, what is broken, what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from trimbed.errors import TrimbedError
from trimbed.trimming.preservation import check_texts
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.report import Change, TextCheck

if TYPE_CHECKING:
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.counts import CorpusCounts
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["CompareReport", "TokenLoss", "compare"]

_SHOWN = 20


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TokenLoss(_Model):
    """A token of the base that matters, and why."""

    id: int = Field(description="In the base.")
    token: str = Field(description="As the vocabulary writes it.")
    reason: str = Field(description="Why it matters, or what is wrong with it.")


class GroupShare(_Model):
    """How much of a group of tokens is kept."""

    name: str = Field(description="A script or a preset.")
    before: int = Field(description="Tokens of the base in it.")
    after: int = Field(description="Of those, how many the other has.")


class CompareReport(_Model):
    """What an audit found. ``problems`` is empty where the other is a faithful trim of the base."""

    base: str = Field(description="The original.")
    other: str = Field(description="What was made of it.")
    tokens: Change = Field(description="Ids of both.")
    subset: bool = Field(description="Whether every token of the other is one of the base.")
    foreign: list[str] = Field(default_factory=list, description="Tokens of the other that the base lacks (some).")
    foreign_count: int = Field(default=0, description="How many.")
    order_kept: bool = Field(description="Whether kept tokens stand in the base's order.")
    contiguous: bool = Field(description="Whether the other's ids have no holes.")
    structural_losses: list[TokenLoss] = Field(default_factory=list, description="Tokens no tokenizer can do without.")
    scripts: list[GroupShare] = Field(default_factory=list, description="Tokens by script.")
    presets: list[GroupShare] = Field(default_factory=list, description="Tokens by preset.")
    unreachable: list[TokenLoss] = Field(
        default_factory=list, description="Kept tokens that lack something they are built from (some)."
    )
    unreachable_count: int = Field(default=0, description="How many.")
    merges: Change | None = Field(default=None, description="Merge rules of both, for BPE.")
    merges_in_order: bool | None = Field(default=None, description="Whether the other's merges keep the base's order.")
    settings: list[str] = Field(default_factory=list, description="Parts of the document that differ otherwise.")
    texts: TextCheck | None = Field(default=None, description="Preservation and cost on texts.")
    coverage: float | None = Field(default=None, description="Share of a cache's tokens whose id is kept.")
    piece_tokens: Change | None = Field(default=None, description="Exact tokens of the cached corpus, from its pieces.")
    notes: list[str] = Field(default_factory=list, description="What couldn't be told.")
    problems: list[str] = Field(default_factory=list, description="Why it isn't a faithful trim, a line each.")


def compare(
    base: TokenizerSpec,
    other: TokenizerSpec,
    *,
    texts: Sequence[str] = (),
    cache: CountsCache | None = None,
    presets: Sequence[str] | None = None,
) -> CompareReport:
    """Audit ``other`` as a trim of ``base``.

    ``texts``: preservation and cost are tried on them. ``cache``: a counts cache of the base; its samples are texts
    too, its counts give coverage, its pieces the exact cost. ``presets``: names to report on, all plain ones if None.

    >>> compare(TokenizerSpec.load("minilm"), TokenizerSpec.load("minilm-small")).problems
    []
    """
    old_to_new, foreign = _map(base, other)
    ids = Renumbering(old_to_new)
    kept = old_to_new >= 0
    order = old_to_new[kept]
    report = CompareReport(
        base=base.source,
        other=other.source,
        tokens=Change(before=base.vocab_size, after=other.vocab_size),
        subset=not foreign,
        foreign=foreign[:_SHOWN],
        foreign_count=len(foreign),
        order_kept=bool((np.diff(order) > 0).all()),
        contiguous=all(token is not None for token in other.tokens),
    )
    _structure(report, base, kept)
    _groups(report, base, kept, presets)
    _reachability(report, base, kept)
    _documents(report, base, other)
    counts = cache.read_counts() if cache is not None else None
    every = list(dict.fromkeys([*texts, *(counts.samples if counts is not None else ())]))
    if every:
        report.texts = check_texts(base.tokenizer, other.tokenizer, ids, every, unknown=base.unk_id)
    if cache is not None and counts is not None:
        _cached(report, base, cache, counts, kept)
    _judge(report)
    return report


def _map(base: TokenizerSpec, other: TokenizerSpec) -> tuple[np.ndarray, list[str]]:
    """(int64[base ids]: the other's id of each token by name, -1 where it lacks it; names only the other has)."""
    old_to_new = np.full(base.vocab_size, -1, dtype=np.int64)
    foreign = []
    known: dict[str, int] = {}
    for number, token in enumerate(base.tokens):
        if token is not None:
            known.setdefault(token, number)
    for number, token in enumerate(other.tokens):
        if token is None:
            continue
        if token in known:
            old_to_new[known[token]] = number
        else:
            foreign.append(token)
    return old_to_new, foreign


def _structure(report: CompareReport, base: TokenizerSpec, kept: np.ndarray) -> None:
    for number, reason in base.structural_ids().items():
        if not kept[number]:
            report.structural_losses.append(TokenLoss(id=number, token=base.tokens[number] or "", reason=reason))


def _groups(report: CompareReport, base: TokenizerSpec, kept: np.ndarray, presets: Sequence[str] | None) -> None:
    from trimbed.selection.presets import available_presets, resolve_preset

    scripts = np.array([script or "none" for script in base.scripts()], dtype=object)
    before, after = Counter(scripts.tolist()), Counter(scripts[kept].tolist())
    report.scripts = [GroupShare(name=name, before=n, after=after[name]) for name, n in before.most_common()]
    names = presets if presets is not None else [p.name for p in available_presets() if not p.name.endswith(":…")]
    for name in names:
        mask = resolve_preset(name, base)
        if mask.any():
            report.presets.append(GroupShare(name=name, before=int(mask.sum()), after=int((mask & kept).sum())))


def _reachability(report: CompareReport, base: TokenizerSpec, kept: np.ndarray) -> None:
    """Kept tokens whose canonical derivation passes through a token that is gone."""
    dependencies = base.dependencies()
    for number in np.flatnonzero(kept).tolist():
        lost = [int(part) for part in dependencies.parents(number) if not kept[part]]
        if lost:
            report.unreachable_count += 1
            if len(report.unreachable) < _SHOWN:
                names = ", ".join(repr(base.tokens[part]) for part in lost[:3])
                report.unreachable.append(
                    TokenLoss(id=number, token=base.tokens[number] or "", reason=f"built from {names}, which is gone")
                )


def _documents(report: CompareReport, base: TokenizerSpec, other: TokenizerSpec) -> None:
    if base.algorithm != other.algorithm:
        report.settings.append(f"algorithm: {base.algorithm} became {other.algorithm}")
        return
    for key in ("normalizer", "pre_tokenizer", "decoder", "truncation"):
        if base.document.data.get(key) != other.document.data.get(key):
            report.settings.append(f"{key} differs")
    ignored = ("vocab", "merges", "unk_id")
    for key in sorted(set(base.document.model) | set(other.document.model)):
        if key not in ignored and base.document.model.get(key) != other.document.model.get(key):
            report.settings.append(
                f"model.{key}: {base.document.model.get(key)!r} became {other.document.model.get(key)!r}"
            )
    flags = {token.content: token for token in base.added_tokens}
    for token in other.added_tokens:
        one = flags.get(token.content)
        if one is not None and _flags(one) != _flags(token):
            report.settings.append(f"the flags of {token.content!r} differ: {_flags(one)} became {_flags(token)}")
    if base.algorithm == "bpe":
        report.merges = Change(before=len(base.document.merges), after=len(other.document.merges))
        rank = {tuple(pair): index for index, pair in enumerate(base.document.merges)}
        last = {tuple(pair): index for index, pair in enumerate(other.document.merges)}
        ranks = [rank.get(pair, -1) for pair in sorted(last, key=lambda pair: last[pair])]
        report.merges_in_order = all(a < b for a, b in pairwise(ranks)) and -1 not in ranks


def _flags(token: Any) -> dict[str, bool]:
    return {name: getattr(token, name) for name in ("special", "single_word", "lstrip", "rstrip", "normalized")}


def _cached(
    report: CompareReport, base: TokenizerSpec, cache: CountsCache, counts: CorpusCounts, kept: np.ndarray
) -> None:
    from trimbed.selection.cost import PieceCosts

    if cache.manifest.tokenizer.fingerprint != base.fingerprint:
        report.notes.append("the cache was counted with another tokenizer than the base; its counts aren't used")
        return
    report.coverage = float(counts.coverage_of(np.flatnonzero(kept)))
    try:
        costs = PieceCosts.from_cache(cache, base.document.data, counts)
        after = costs.tokens(kept)
    except TrimbedError as error:
        report.notes.append(f"no exact cost from the cache's pieces: {error}")
        return
    if after is None:
        report.notes.append("no exact cost from the cache's pieces: unknown characters could fuse across them")
    elif report.unreachable_count or report.foreign_count or report.settings or report.merges_in_order is False:
        report.notes.append("no exact cost from the cache's pieces: the other isn't a cut of the base")
    else:
        report.piece_tokens = Change(before=costs.original_tokens, after=after)


def _judge(report: CompareReport) -> None:
    if report.foreign_count:
        report.problems.append(f"{report.foreign_count} tokens aren't the base's, such as {report.foreign[0]!r}")
    if not report.order_kept:
        report.problems.append("kept tokens don't stand in the base's order")
    if not report.contiguous:
        report.problems.append("the ids have holes")
    for loss in report.structural_losses[:_SHOWN]:
        report.problems.append(f"{loss.token!r} (id {loss.id}) is gone: {loss.reason}")
    if report.unreachable_count:
        first = report.unreachable[0]
        report.problems.append(
            f"{report.unreachable_count} kept tokens can't be built as before, such as {first.token!r} ({first.reason})"
        )
    if report.merges_in_order is False:
        report.problems.append("merges were added or reordered")
    report.problems += report.settings
    if report.texts is not None and report.texts.violation_count:
        report.problems.append(
            f"{report.texts.violation_count} of {report.texts.kept} texts whose tokens are all kept encode otherwise"
        )

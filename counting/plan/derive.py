"""From a tokenizer document to its kernel plan, or to why there is none. Knows in which order the stages work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from trimbed.counting.plan.added_tokens import guard, raw_matches
from trimbed.counting.plan.automaton import compact
from trimbed.counting.plan.explanation import explain
from trimbed.counting.plan.kernel_plan import ALWAYS, CODE_POINTS, NEVER, UNLESS_JOINED, KernelPlan, NoPlan
from trimbed.counting.plan.normalizers import apply_normalizer, flat_normalizers, inner_normalizer
from trimbed.counting.plan.pipeline import Pipeline
from trimbed.counting.plan.pre_tokenizers import (
    apply_pre_tokenizer,
    flat_pre_tokenizers,
    has_prefix,
    prepend_scheme,
    without_prefix,
)
from trimbed.counting.plan.regex import NotUnderstood
from trimbed.counting.plan.vocabulary import VocabularyCuts, model_pairs, vocabulary_cuts

__all__ = ["make_plan", "plan_with_documents"]

MOST_CLASSES = 256


@dataclass(eq=False)
class _Stages:
    """The pre-tokenizers as read: how far cuts may come from, and what inner pieces go without."""

    inner: list[dict[str, Any]] = field(default_factory=list)
    once: bool = False
    prefixed: bool = False
    complete: bool = True


def make_plan(document: Mapping[str, Any]) -> KernelPlan | NoPlan:
    """The plan of a tokenizer.json ``document``.

    Where the document uses something whose effect at a cut isn't known for certain, or nothing can be cut, the answer
    is a NoPlan that says what. Raises nothing of its own for a document that the library loads.

    >>> model = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    >>> make_plan({"model": model, "pre_tokenizer": {"type": "WhitespaceSplit"}}).cut.tolist()
    [[0, 1], [1, 1]]
    """
    planned = plan_with_documents(document)
    return planned if isinstance(planned, NoPlan) else planned[0]


def plan_with_documents(document: Mapping[str, Any]) -> tuple[KernelPlan, dict[str, Any], dict[str, Any]] | NoPlan:
    """``make_plan``'s plan with its inner and its initial document as they were before they became text."""
    try:
        return _plan(document)
    except NotUnderstood as error:
        return NoPlan(str(error))


def _plan(document: Mapping[str, Any]) -> tuple[KernelPlan, dict[str, Any], dict[str, Any]]:
    full = _bare(document)
    model = full["model"]
    if model.get("dropout"):
        raise NotUnderstood("a BPE model with dropout encodes at random")
    try:
        tokenizer = Tokenizer.from_str(json.dumps({**full, "model": _without_merges(model)}))
    except Exception as error:
        raise NotUnderstood(f"the library doesn't load this document: {error}") from error
    pipeline = Pipeline()
    normalizers = flat_normalizers(full["normalizer"])
    for spec in normalizers:
        apply_normalizer(pipeline, spec)
    added, hidden = raw_matches(tokenizer, normalizes=bool(normalizers))
    inside: tuple[str, ...] = ()
    if hidden:
        if pipeline.initial or any(match.single_word for match in added):
            raise NotUnderstood("added tokens matched in normalized text beside what is done to a segment's start")
        inside = guard(pipeline, tokenizer, hidden)
    by_segment = pipeline.initial
    stages = _apply_pre_tokenizers(pipeline, full["pre_tokenizer"])
    by_segment |= stages.prefixed
    if by_segment and stages.once:
        raise NotUnderstood("both each segment's start and the document's start are changed")
    if stages.once or by_segment:
        if hidden:
            raise NotUnderstood("added tokens matched in normalized text beside what is done to a segment's start")
        pipeline.not_after |= pipeline.vanishing
    vocabulary = _vocabulary(model, pipeline) if stages.complete else None

    classes, samples = _classes(pipeline, vocabulary)
    cut, joined = _table(pipeline, vocabulary, classes, samples)
    classes, cut = _merged(classes, cut)
    if not (cut != NEVER).any():
        raise NotUnderstood("; ".join(["no place is certain to be a cut", *pipeline.lines]))
    if not hidden:
        full["added_tokens"] = []
    inner = full
    inner_text = initial_text = json.dumps(full, ensure_ascii=False)
    if by_segment or stages.once:
        rest = {"type": "Sequence", "pretokenizers": stages.inner} if stages.inner else None
        inner = {**full, "normalizer": inner_normalizer(full["normalizer"]), "pre_tokenizer": rest}
        inner_text = json.dumps(inner, ensure_ascii=False)
    lines = explain(classes, cut, pipeline.lines, added=len(added), joined=len(joined), inside=inside)
    plan = KernelPlan(
        classes=classes,
        cut=cut,
        joined=joined,
        added=added,
        initial=by_segment or stages.once,
        inner_document=inner_text,
        initial_document=initial_text,
        explanation=lines,
        initial_once=stages.once,
        inside=inside,
    )
    return plan, inner, full


def _bare(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without what doesn't bear on the ids of a text."""
    bare = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, **document}
    bare.update(truncation=None, padding=None, post_processor=None, decoder=None)
    return bare


def _without_merges(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model with the same vocabulary, for what only the ids matter to; it loads sooner."""
    return {**model, "merges": []} if "merges" in model else dict(model)


def _apply_pre_tokenizers(pipeline: Pipeline, spec: Mapping[str, Any] | None) -> _Stages:
    stages = _Stages()
    parts = flat_pre_tokenizers(spec)
    before = len(pipeline.verdicts)
    for number, part in enumerate(parts):
        if has_prefix(part):
            parted = len(pipeline.verdicts) > before
            if part["type"] == "Metaspace" and prepend_scheme(part) == "first":
                stages.once = True
            elif parted:
                # Every part that the earlier stages made gets the prefix, a piece that begins there as well.
                stages.complete = False
                stages.inner.extend(parts[number:])
                pipeline.lines.append(
                    f"{part['type']} puts a prefix before every part: only the parts before it are cut"
                )
                return stages
            else:
                stages.prefixed = True
            pipeline.lines.append(f"{part['type']} puts a prefix before the first piece only")
        try:
            apply_pre_tokenizer(pipeline, part)
        except NotUnderstood as error:
            if number == 0:
                raise
            stages.complete = False
            stages.inner.extend(parts[number:])
            pipeline.lines.append(f"not understood, so not cut by: {error}")
            return stages
        stages.inner.append(without_prefix(part))
    return stages


def _vocabulary(model: Mapping[str, Any], pipeline: Pipeline) -> VocabularyCuts | None:
    if pipeline.byte_level and any(verdict.sure.any() for verdict in pipeline.verdicts):
        pipeline.lines.append("no cuts inside words: they're made of bytes, nearly any two of which some token joins")
        return None
    pairs = model_pairs(model)
    if isinstance(pairs, str):
        pipeline.lines.append(f"no cuts inside words: {pairs}")
        return None
    pipeline.lines.append(f"cuts inside words where none of {len(pairs.pairs):,} pairs of the vocabulary is parted")
    return vocabulary_cuts(pairs, pipeline)


def _classes(pipeline: Pipeline, vocabulary: VocabularyCuts | None) -> tuple[np.ndarray, np.ndarray]:
    """uint8[0x110000] classes, and a code point of each."""
    label = pipeline.not_after * 2 + pipeline.not_before
    columns = [column for verdict in pipeline.verdicts for column in (verdict.last, verdict.first)]
    if vocabulary is not None:
        columns.append(vocabulary.label)
    label = label.astype(np.int64)
    for column in columns:
        narrow, found = compact(column)
        label, _ = compact(label * len(found) + narrow)
    label[0xD800:0xE000] = label[0]
    label, samples = compact(label)
    order = np.argsort(samples)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    label, samples = place[label], samples[order]
    if len(samples) > MOST_CLASSES:
        # The classes that begin furthest up in Unicode become one class beside which is no cut.
        rest = label >= MOST_CLASSES - 1
        label = np.minimum(label, MOST_CLASSES - 1)
        samples = samples[:MOST_CLASSES]
        pipeline.not_after |= rest
        pipeline.not_before |= rest
        pipeline.lines.append(f"{int(rest.sum()):,} code points of rare classes are never cut at")
    return label.astype(np.uint8), samples


def _table(
    pipeline: Pipeline, vocabulary: VocabularyCuts | None, classes: np.ndarray, samples: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The cut table, and the joined pairs that matter to it."""
    count = len(samples)
    clear = np.ones((count, count), dtype=bool)
    sure = np.zeros((count, count), dtype=bool)
    for verdict in pipeline.verdicts:
        rows, columns = verdict.last[samples], verdict.first[samples]
        sure |= clear & verdict.sure[np.ix_(rows, columns)]
        clear &= verdict.clear[np.ix_(rows, columns)]
    cut = np.where(sure, ALWAYS, NEVER).astype(np.uint8)
    joined = np.zeros(0, dtype=np.uint64)
    if vocabulary is not None:
        free = clear & ~(vocabulary.loose_left[samples][:, None] & vocabulary.loose_right[samples][None, :])
        free &= ~vocabulary.not_after[samples][:, None] & ~vocabulary.not_before[samples][None, :]
        joined = vocabulary.joined
        left = classes[(joined >> np.uint64(32)).astype(np.int64)]
        right = classes[(joined & np.uint64(0xFFFFFFFF)).astype(np.int64)]
        held = np.bincount(left.astype(np.int64) * count + right, minlength=count * count).reshape(count, count)
        sizes = np.bincount(classes, minlength=count)
        every = held >= sizes[:, None] * sizes[None, :]
        cut = np.where(~sure & free, np.where(held == 0, ALWAYS, np.where(every, NEVER, UNLESS_JOINED)), cut)
        cut = cut.astype(np.uint8)
    cut[pipeline.not_after[samples], :] = NEVER
    cut[:, pipeline.not_before[samples]] = NEVER
    if len(joined):
        joined = joined[cut[left, right] == UNLESS_JOINED]
    assert len(classes) == CODE_POINTS
    return cut, joined


def _merged(classes: np.ndarray, cut: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same plan with classes that no cut tells apart made one, numbered by their first code point."""
    _, label = np.unique(np.concatenate([cut, cut.T], axis=1), axis=0, return_inverse=True)
    merged = label.reshape(-1)[classes]
    merged, samples = compact(merged)
    order = np.argsort(samples)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    old = classes[samples[order]]
    return place[merged].astype(np.uint8), cut[np.ix_(old, old)]

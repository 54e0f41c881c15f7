"""Cuts that the model can't see across although it gets both sides in one word: no vocabulary entry holds the pair.

Knows BPE and Unigram. Why it is exact: a BPE symbol that spans the cut, and a Unigram piece that does, would hold the
pair; without one, merges on either side, and best paths on either side, are those of that side alone. Neighbouring
unknowns may fuse, so they stay together; Unigram scores must add up without rounding, or a sum's place in a long text
could decide ties.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np

from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.neighbours import expand
from trimbed.counting.plan.pipeline import Pipeline

__all__ = ["ModelPairs", "VocabularyCuts", "model_pairs", "vocabulary_cuts"]

UNK_PENALTY = 10
LONGEST_WORD = 1 << 24
MOST_PREIMAGES = 4
MOST_SCRIPTS = 24


@dataclass(frozen=True, eq=False)
class ModelPairs:
    """What a model may join. ``pairs``: uint64[n], sorted, ``u << 32 | v``. ``loose_left``/``loose_right``:
    bool[0x110000], characters of which one of the first before one of the second stays joined (unknowns).
    ``shunned``: bool[0x110000], characters beside which is no cut (the model drops them, and joins what they part)."""

    pairs: np.ndarray
    loose_left: np.ndarray
    loose_right: np.ndarray
    shunned: np.ndarray


@dataclass(frozen=True, eq=False)
class VocabularyCuts:
    """The same for raw code points. ``joined``: uint64[n] raw pairs; ``label``: int64[0x110000], raw code points that
    differ in anything here, or that are better told apart, have different labels; ``not_after``, ``not_before`` as
    elsewhere."""

    joined: np.ndarray
    label: np.ndarray
    loose_left: np.ndarray
    loose_right: np.ndarray
    not_after: np.ndarray
    not_before: np.ndarray


def _adjacent(tokens: Iterable[str]) -> np.ndarray:
    """uint64[n], sorted, distinct: the adjacent pairs inside ``tokens``."""
    several = [token for token in tokens if len(token) > 1]
    if not several:
        return np.zeros(0, dtype=np.uint64)
    text = np.frombuffer("".join(several).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    ends = np.cumsum([len(token) for token in several]) - 1
    inside = np.ones(len(text), dtype=bool)
    inside[ends] = False
    places = np.flatnonzero(inside)
    return np.unique((text[places] << np.uint64(32)) | text[places + 1])


def _known(tokens: Iterable[str]) -> np.ndarray:
    known = np.zeros(CODE_POINTS, dtype=bool)
    known[[ord(token) for token in tokens if len(token) == 1]] = True
    return known


def _bytes_present(vocabulary: Iterable[str]) -> set[int]:
    names = {f"<0x{value:02X}>": value for value in range(256)}
    return {names[token] for token in vocabulary if token in names}


def _fallback(present: set[int]) -> np.ndarray:
    """bool[0x110000]: the characters all of whose bytes are in ``present``."""
    if len(present) == 256:
        return np.ones(CODE_POINTS, dtype=bool)
    result = np.zeros(CODE_POINTS, dtype=bool)
    for value in range(CODE_POINTS):
        result[value] = set(chr(value).encode("utf-8", "surrogatepass")) <= present
    return result


def model_pairs(model: Mapping[str, Any]) -> ModelPairs | str:
    """What ``model`` (a tokenizer.json ``model``) may join, or why that can't be said."""
    kind = model.get("type")
    if kind == "BPE" or (kind is None and "merges" in model):
        return _bpe_pairs(model)
    if kind == "Unigram":
        return _unigram_pairs(model)
    return f"a {kind} model takes whole words"


def _bpe_pairs(model: Mapping[str, Any]) -> ModelPairs | str:
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        return "affixes tell a word's first and last part from others"
    if model.get("ignore_merges"):
        return "a whole word is looked up before any merge, and a part of one would be, too"
    vocabulary = model["vocab"]
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    unk = model.get("unk_token")
    present = _bytes_present(vocabulary) if model.get("byte_fallback") else set()
    apart = {f"<0x{value:02X}>" for value in present} | ({unk} if unk is not None else set())
    if not set(map(len, merges)) <= {2}:
        return "merges of the unknown token or of bytes"
    lefts, rights = zip(*merges, strict=True) if merges else ((), ())
    if not (apart.isdisjoint(lefts) and apart.isdisjoint(rights)):
        return "merges of the unknown token or of bytes"
    known = _known(vocabulary)
    lost = ~known & ~_fallback(present)
    lost[0xD800:0xE000] = False
    nothing = np.zeros(CODE_POINTS, dtype=bool)
    pairs = _adjacent(set(map(add, lefts, rights)))
    if not lost.any():
        return ModelPairs(pairs, nothing, nothing, nothing)
    if unk is None:
        return ModelPairs(pairs, nothing, nothing, lost)
    return ModelPairs(pairs, ~known, ~known, nothing)


def _unigram_pairs(model: Mapping[str, Any]) -> ModelPairs | str:
    tokens = [token for token, _ in model["vocab"]]
    scores = np.array([score for _, score in model["vocab"]], dtype=np.float64)
    unk_id = model.get("unk_id")
    if not len(scores) or unk_id is None:
        return "a Unigram model without an unknown token"
    bits = next((bits for bits in range(40) if not np.modf(scores * 2.0**bits)[0].any()), None)
    if bits is None or (float(np.abs(scores).max()) + UNK_PENALTY) * 2.0**bits * LONGEST_WORD >= 2.0**53:
        return "Unigram scores whose sums are rounded"
    known = _known(tokens)
    unknown = ~known
    surface = tokens[unk_id]
    left, right = unknown.copy(), unknown.copy()
    whole = len(_bytes_present(tokens)) == 256 and bool(model.get("byte_fallback"))
    if surface:
        left[ord(surface[-1])] = True
        right[ord(surface[0])] = True
    if whole and surface:
        # Runs of unknowns come to the same bytes wherever they're cut; only beside the unknown token's own text they
        # don't.
        beside = np.zeros(CODE_POINTS, dtype=bool)
        beside[[ord(surface[-1]), ord(surface[0])]] = True
        return ModelPairs(_adjacent(tokens), np.zeros_like(known), np.zeros_like(known), beside)
    return ModelPairs(_adjacent(tokens), left, right, np.zeros(CODE_POINTS, dtype=bool))


def vocabulary_cuts(pairs: ModelPairs, pipeline: Pipeline) -> VocabularyCuts:
    """``pairs`` carried back through ``pipeline`` (past all stages) to raw code points."""
    unsure_last, unsure_first = pipeline.uncertain()
    unsure_first = unsure_first | (pipeline.first.single < 0)
    values = np.arange(CODE_POINTS, dtype=np.int64)
    last = pipeline.last.single.astype(np.int64)
    first_from = np.concatenate([values[~unsure_first], pipeline.first.raw])
    first_to = np.concatenate([pipeline.first.single.astype(np.int64)[~unsure_first], pipeline.first.extra])
    not_after = unsure_last | _too_many(last, values, ~unsure_last)
    not_before = unsure_first.copy()
    # Beyond a few raw code points for one character, the others are simply never parted from what they touch.
    rare = np.zeros(CODE_POINTS, dtype=bool)
    rare[first_from[_rank(first_to, first_from) >= MOST_PREIMAGES]] = True
    not_before |= rare
    kept = ~not_before[first_from]
    first_from, first_to = first_from[kept], first_to[kept]

    left = (pairs.pairs >> np.uint64(32)).astype(np.int64)
    right = (pairs.pairs & np.uint64(0xFFFFFFFF)).astype(np.int64)
    whole_last = values[~not_after]
    position, raw_left = expand(left, last[~not_after], whole_last)
    again, raw_right = expand(right[position], first_to, first_from)
    raw_left = raw_left[again]
    joined = np.unique((raw_left.astype(np.uint64) << np.uint64(32)) | raw_right.astype(np.uint64))

    not_after |= pipeline.last.touching(pairs.shunned)
    not_before |= pipeline.first.touching(pairs.shunned)
    loose_left = pipeline.last.touching(pairs.loose_left)
    loose_right = pipeline.first.touching(pairs.loose_right)
    label = _labels(joined, loose_left, loose_right, not_after, not_before)
    return VocabularyCuts(joined, label, loose_left, loose_right, not_after, not_before)


def _rank(key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """int64[n]: each entry's place, by ``value``, among those with the same ``key``."""
    order = np.lexsort((value, key))
    ordered = key[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(np.append(starts, len(ordered)))
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.arange(len(key)) - np.repeat(starts, sizes)
    return rank


def _too_many(image: np.ndarray, values: np.ndarray, certain: np.ndarray) -> np.ndarray:
    result = np.zeros(CODE_POINTS, dtype=bool)
    result[values[certain][_rank(image[certain], values[certain]) >= MOST_PREIMAGES]] = True
    return result


def _labels(joined: np.ndarray, *flags: np.ndarray) -> np.ndarray:
    """Labels that tell apart flags, what is joined to anything on either side, ASCII characters, and scripts."""
    left = np.unique(joined >> np.uint64(32)).astype(np.int64)
    right = np.unique(joined & np.uint64(0xFFFFFFFF)).astype(np.int64)
    label = np.zeros(CODE_POINTS, dtype=np.int64)
    for members in flags:
        label = label * 2 + members
    for chosen in (left, right):
        held = np.zeros(CODE_POINTS, dtype=np.int64)
        held[chosen] = 1
        label = label * 2 + held
    involved = np.union1d(left, right)
    names = {value: unicodedata.name(chr(value), "").partition(" ")[0] for value in involved.tolist() if value >= 128}
    common = {name: 129 + n for n, (name, _) in enumerate(Counter(names.values()).most_common(MOST_SCRIPTS))}
    part = np.full(CODE_POINTS, 128, dtype=np.int64)
    part[:128] = np.arange(128)
    for value, name in names.items():
        part[value] = common.get(name, 128)
    return label * 256 + part

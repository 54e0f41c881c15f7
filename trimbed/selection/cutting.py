"""A native encoder's recipe, cut to the kept ids: the arrays of the trimmed tokenizer's model without its document.

Knows the arrays that ``counting.encoders.models`` makes. What a cut recipe encodes is held against really trimmed
documents by tests; ids stay the original's, but for Unigram, whose ids are places in its list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from trimbed.counting.encoders import EncoderRecipe

__all__ = ["cut_recipe"]

NONE = 0xFFFFFFFF


def cut_recipe(recipe: EncoderRecipe, kept: np.ndarray) -> tuple[EncoderRecipe, np.ndarray]:
    """The recipe with only the tokens of ``kept`` (bool[vocab_size]), and the original ids of its ids, int64[n].

    Merges survive in their order if both parts and the product do, as in a trimmed document.
    """
    from trimbed.counting.encoders import EncoderRecipe

    arrays = dict(recipe.arrays)
    size = int(arrays["vocab_size"][0])
    alive = np.zeros(size + 1, dtype=bool)  # one more for NONE, which is never alive
    alive[: min(size, len(kept))] = kept[:size]
    ids = np.arange(size)
    if "unigram.tokens.ends" in arrays:
        ids = np.flatnonzero(alive)
        _cut_strings(arrays, "unigram.tokens", alive[:size])
        arrays["unigram.scores"] = arrays["unigram.scores"][alive[:size]]
        new = np.full(size + 1, NONE, dtype=np.uint32)
        new[ids] = np.arange(len(ids))
        for name in ("unigram.unknown", "unigram.bytes"):
            arrays[name] = new[_place(arrays[name], size)]
        arrays["vocab_size"] = np.array([len(ids)], dtype=np.uint32)
    if "bpe.left" in arrays:
        merges = ("bpe.left", "bpe.right", "bpe.merged")
        survive = np.logical_and.reduce([alive[_place(arrays[name], size)] for name in merges])
        for name in merges:
            arrays[name] = arrays[name][survive]
        for name in [name for name in arrays if name == "bpe.bytes" or name.startswith("bpe.characters.")]:
            if name.endswith((".pages", ".bytes")):
                arrays[name] = np.where(alive[_place(arrays[name], size)], arrays[name], np.uint32(NONE))
    for words, numbers in (
        ("bpe.words", "bpe.word_ids"),
        ("words.first", "words.first_ids"),
        ("words.inner", "words.inner_ids"),
    ):
        if numbers in arrays:
            stay = alive[_place(arrays[numbers], size)]
            _cut_strings(arrays, words, stay)
            arrays[numbers] = arrays[numbers][stay]
    return EncoderRecipe(arrays, recipe.explanation), ids


def _place(numbers: np.ndarray, size: int) -> np.ndarray:
    """Ids as indexes; NONE, and whatever lies beyond the vocabulary, becomes ``size``."""
    found: np.ndarray = np.minimum(numbers, size).astype(np.int64)
    return found


def _cut_strings(arrays: dict[str, np.ndarray], name: str, stay: np.ndarray) -> None:
    ends = arrays[f"{name}.ends"].astype(np.int64)
    lengths = np.diff(ends, prepend=0)
    arrays[f"{name}.bytes"] = arrays[f"{name}.bytes"][np.repeat(stay, lengths)]
    arrays[f"{name}.ends"] = np.cumsum(lengths[stay]).astype(np.uint32)

"""A hand-made tokenizer with a plan of every feature, and comparisons of the kernel with the plain Python executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from trimbed.counting.engine import EngineRecipe, TextCounts
from trimbed.counting.kernel.engine import KernelEngine
from trimbed.counting.plan import AddedMatch, KernelPlan, PlanExecutor

LETTERS = "abcdeé日本語𝒳\u0301_'"
SPACES = " \n\t\u00a0\u3000"
ADDED = (
    AddedMatch("<s>", 900),
    AddedMatch("<s>x", 901),
    AddedMatch("  ", 902),
    AddedMatch("    ", 903),
    AddedMatch("<l>", 904, lstrip=True),
    AddedMatch("<r>", 905, rstrip=True),
    AddedMatch("<b>", 906, lstrip=True, rstrip=True),
    AddedMatch("ab", 907, single_word=True),
    AddedMatch("語", 908, stage=1),
    AddedMatch("<w>", 909, single_word=True, lstrip=True, stage=1),
    AddedMatch("\n", 910, rstrip=True, stage=1),
)
CHUNKS = [one.content for one in ADDED] + [
    *LETTERS,
    *SPACES,
    *[
        "a long word that has more than sixteen bytes",
        "日本語" * 7,
        "0123456789abcdef",
        "0123456789abcdefg",
        "\x00",
        "a\x00",
        "<",
        "<s",
    ],
    *["ü" * 40, "x" * 130, "0" * 15, "\U0010ffff", "\ud7ff", "\ue000"],
]
VOCABULARY_SIZE = 1000


@cache
def documents() -> tuple[str, str]:
    """Two tokenizers that give every character an id of its own: pieces' ids then say exactly what the pieces held."""
    texts = []
    for first in (0, 400):
        characters = sorted({c for chunk in CHUNKS for c in chunk})
        vocab = {c: first + i + 1 for i, c in enumerate(characters)} | {"?": first}
        model = models.BPE(vocab=vocab, merges=[], unk_token="?")
        texts.append(Tokenizer(model).to_str())
    return texts[0], texts[1]


def make_plan(
    *, joined: bool = True, initial: bool = True, once: bool = False, added: Sequence[AddedMatch] = ADDED
) -> KernelPlan:
    inner, first = documents()
    cuts = {("other", "space"): 1, ("space", "other"): 2 if joined else 1, ("digit", "other"): 1, ("cjk", "cjk"): 2}
    pairs = [(ord(" "), ord("a")), (ord("日"), ord("本")), (ord("\u3000"), ord("語")), (ord("語"), ord("日"))]
    return KernelPlan.from_classes(
        {"space": SPACES, "digit": "0123456789", "cjk": "日本語"},
        cuts,
        document=inner,
        initial_document=first if initial else None,
        initial_once=once,
        joined=pairs,
        added=added,
    )


def kernel(plan: KernelPlan, *, keep_pieces: int = 0, encoder: Any = None, **options: int) -> KernelEngine:
    recipe = EngineRecipe("kernel", plan.inner_document, keep_pieces=keep_pieces, options=options)
    return KernelEngine(recipe, plan, vocab_size=VOCABULARY_SIZE, encoder=encoder)


def count(engine: KernelEngine, *arrays: Any) -> TextCounts:
    tally = engine.tally()
    for array in arrays:
        tally.add(array)
    return tally.finish()


def text_array(texts: Sequence[str | None], kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(texts, kind or pa.string())


def executed(plan: KernelPlan, texts: Sequence[str]) -> np.ndarray:
    """The counts that the plain Python executor gives: int64[VOCABULARY_SIZE]."""
    counts = np.zeros(VOCABULARY_SIZE, dtype=np.int64)
    for token, number in PlanExecutor(plan).count(texts).items():
        counts[token] = number
    return counts


def executed_pieces(plan: KernelPlan, texts: Sequence[str]) -> Counter[tuple[bytes, bool]]:
    executor = PlanExecutor(plan)
    pieces: Counter[tuple[bytes, bool]] = Counter()
    for text in texts:
        pieces.update((piece.encode(), first) for piece, first, number in executor.pieces(text) if number is None)
    return pieces


def kept(result: TextCounts) -> dict[tuple[bytes, bool], int]:
    assert result.pieces is not None
    return {(row["piece"], row["initial"]): row["count"] for row in result.pieces.to_pylist()}


texts = st.lists(st.lists(st.sampled_from(CHUNKS), max_size=12).map("".join), max_size=8)
"""Documents made of what the plan treats specially."""

"""What an engine is: something that turns Arrow text into token counts. Knows no datasets, no cache, no files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

__all__ = ["Engine", "EngineRecipe", "Tally", "TextCounts", "load_engine", "prepare_recipe"]


@dataclass(frozen=True)
class TextCounts:
    """What a stretch of text came to.

    ``counts``: int64[vocab_size], occurrences of each token id, special tokens not added.
    ``pieces``: None, or a table (piece: binary, initial: bool, count: int64) of distinct pieces sorted by
    (piece, initial); ``pieces_dropped`` and ``pieces_dropped_count`` say how many distinct pieces, and how many
    occurrences of pieces, fell out of it because of the bound.
    """

    counts: np.ndarray
    documents: int
    empty_documents: int
    bytes: int
    pieces: pa.Table | None = None
    pieces_dropped: int = 0
    pieces_dropped_count: int = 0

    @property
    def tokens(self) -> int:
        return int(self.counts.sum())


class Tally(Protocol):
    """Counts for one shard, being added up."""

    def add(self, texts: pa.Array) -> None:
        """Count ``texts`` (string, large_string or string_view; valid UTF-8; nulls are passed over, not documents)."""

    def finish(self) -> TextCounts:
        """The totals. The tally can't be used afterwards."""


class Engine(Protocol):
    """A loaded tokenizer that counts. Reused for many shards in one process; not shared between threads."""

    name: str
    vocab_size: int

    def identity(self) -> Mapping[str, str]:
        """Name and versions of what counts, for the manifest."""

    def tally(self) -> Tally: ...


@dataclass(frozen=True)
class EngineRecipe:
    """All a worker process needs to load an engine: plain values, cheap to pickle.

    ``name`` is ``reference``, ``kernel`` or ``auto`` (the kernel where the tokenizer has a plan, else the reference).
    ``document`` is the tokenizer.json text. ``options`` are the engine's settings about speed and memory, which never
    change a count, and ``keep_pieces`` (0: none; n: at most n distinct pieces a shard; the
    reference engine cuts no pieces and keeps none).
    """

    name: str
    document: str
    keep_pieces: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    prepared: Any = field(default=None, compare=False, repr=False)
    """What ``prepare_recipe`` made of ``document`` beforehand, or None."""


def prepare_recipe(recipe: EngineRecipe) -> EngineRecipe:
    """The same recipe with all that takes seconds to make of its document, for any number of workers to load.

    A document that can't be read comes back unprepared: loading it says what is wrong.
    """
    from trimbed.storage.errors import TokenizerError

    if recipe.name not in ("auto", "kernel") or recipe.prepared is not None:
        return recipe
    from trimbed.counting.kernel import prepare_kernel

    try:
        return replace(recipe, prepared=prepare_kernel(recipe.document))
    except TokenizerError:
        return recipe


def load_engine(recipe: EngineRecipe) -> Engine:
    """Load the engine that ``recipe`` names.

    Raises TokenizerError where the document can't be loaded, UsageError where there is no such engine or where
    ``kernel`` was asked for and the tokenizer has no plan.
    """
    from trimbed.storage.errors import UsageError

    if recipe.name == "reference":
        from trimbed.counting.reference import ReferenceEngine

        return ReferenceEngine(recipe)
    if recipe.name in ("auto", "kernel"):
        from trimbed.counting.kernel import load_kernel_engine

        return load_kernel_engine(recipe, required=recipe.name == "kernel")
    raise UsageError(f"there is no engine {recipe.name!r}; choose auto, kernel or reference")

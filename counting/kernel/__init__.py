"""The counting kernel: cut, count, encode once. Knows how to load it, and what to fall back on without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimbed.counting.engine import Engine, EngineRecipe

__all__ = ["load_kernel_engine"]


def load_kernel_engine(recipe: EngineRecipe, *, required: bool) -> Engine:
    """The kernel engine for a tokenizer that has a plan; otherwise the reference engine, whose ``reason`` says why.

    Raises UsageError instead of falling back where ``required``; TokenizerError where the document can't be loaded.
    """
    from trimbed.counting.kernel.engine import load

    return load(recipe, required=required)

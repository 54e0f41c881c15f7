"""The counting kernel: cut, count, encode once. Knows how to load it, and what to fall back on without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimbed.counting.engine import Engine, EngineRecipe
    from trimbed.counting.kernel.prepared import PreparedKernel

__all__ = ["load_kernel_engine", "prepare_kernel"]


def load_kernel_engine(recipe: EngineRecipe, *, required: bool) -> Engine:
    """The kernel engine for a tokenizer that has a plan; otherwise the reference engine, whose ``reason`` says why.

    Raises UsageError instead of falling back where ``required``; TokenizerError where the document can't be loaded.
    """
    from trimbed.counting.kernel.engine import load

    return load(recipe, required=required)


def prepare_kernel(document: str) -> PreparedKernel | None:
    """All that loading the kernel for this tokenizer.json text takes, to be made once and sent to every worker.

    None where there's no kernel here. Raises TokenizerError where the text isn't a tokenizer.
    """
    try:
        from trimbed.counting.kernel import _kernel  # noqa: F401
    except ImportError:
        return None
    from trimbed.counting.kernel.prepared import prepare

    return prepare(document)

"""What a kernel engine is loaded from: a tokenizer's plan and its encoder's recipe, made once and sent to workers.

Knows how to make it and whether it may be used here. Knows neither workers nor Arrow.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimbed.counting.kernel.library import vocabulary_size
from trimbed.counting.plan.kernel_plan import KernelPlan, NoPlan
from trimbed.storage.errors import TokenizerError

__all__ = ["PreparedKernel", "library_version", "prepare", "word_characters"]


@dataclass(frozen=True, eq=False)
class PreparedKernel:
    """Plain values only: pickled, it crosses to other processes and machines.

    ``encoder``: uint8[n], the packed recipe of a native encoder, or None where pieces are left to the library, which
    ``reason`` explains. ``word``: uint8[0x110000], or uint8[0] where no added token asks for word characters.
    ``library``: the version of tokenizers that was asked; another one may know other characters.
    """

    plan: KernelPlan | NoPlan
    vocab_size: int
    library: str
    encoder: np.ndarray | None = None
    reason: str = ""
    word: np.ndarray | None = None


def library_version() -> str:
    import tokenizers

    return str(tokenizers.__version__)


def prepare(text: str) -> PreparedKernel:
    """Make the plan and the encoder's recipe of a tokenizer.json ``text``: seconds of work.

    Raises TokenizerError where the text isn't a tokenizer.
    """
    # A worker that is given all this loads none of what makes it.
    from trimbed.counting.encoders import NoRecipe, make_encoder_recipe
    from trimbed.counting.plan.derive import plan_with_documents

    try:
        document: Any = json.loads(text)
        planned = plan_with_documents(document)
        vocab_size = vocabulary_size(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TokenizerError(f"this tokenizer.json can't be read: {type(error).__name__}: {error}") from error
    if isinstance(planned, NoPlan):
        return PreparedKernel(planned, vocab_size, library_version())
    plan, inner, initial = planned
    recipe = make_encoder_recipe(inner, initial)
    packed, reason = None, ""
    if isinstance(recipe, NoRecipe):
        reason = recipe.reason
    else:
        packed = np.frombuffer(recipe.pack(), dtype=np.uint8)
    return PreparedKernel(plan, vocab_size, library_version(), packed, reason, word_characters(plan))


def word_characters(plan: KernelPlan) -> np.ndarray:
    """uint8[0x110000], or uint8[0] where no added token of ``plan`` asks for word characters."""
    if not any(one.single_word for one in plan.added):
        return np.zeros(0, dtype=np.uint8)
    from trimbed.counting.plan.probes import word_members

    return np.ascontiguousarray(word_members(), dtype=np.uint8)

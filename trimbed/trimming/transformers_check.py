"""Compares AutoTokenizer on source and result, where transformers is installed: some classes rebuild pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from trimbed.trimming.plan import TrimPlan

__all__ = ["check_auto_tokenizer"]


def check_auto_tokenizer(plan: TrimPlan, folder: Path, texts: Sequence[str]) -> tuple[str, str | None]:
    """(what was found, the failure or None).

    A text whose ids by the source's AutoTokenizer are all kept must get them, renumbered, from the result's, with and
    without special tokens. Only the classes of transformers are run, never code from the checkpoint.
    """
    if find_spec("transformers") is None:
        return "not run: transformers isn't installed", None
    if plan.model_folder is None or not (plan.model_folder / "tokenizer_config.json").is_file():
        return "not run: no tokenizer_config.json, so AutoTokenizer has nothing to go by", None
    old = _load(plan.model_folder)
    new = _load(folder)
    if isinstance(old, str):
        return f"not run: AutoTokenizer can't load the source ({old})", None
    if isinstance(new, str):
        return (
            f"AutoTokenizer loads the source but not the result ({new})",
            f"AutoTokenizer can't load the result: {new}",
        )
    checked = 0
    for special in (False, True):
        for text in texts:
            one = np.asarray(_ids(old, text, special), dtype=np.int64)
            if (one >= plan.ids.old_size).any() or (plan.ids.many(one) < 0).any():
                continue
            checked += 1
            two = np.asarray(_ids(new, text, special), dtype=np.int64)
            if not np.array_equal(plan.ids.many(one), two):
                return "failed", (
                    f"AutoTokenizer ({type(new).__name__}) encodes {text[:60]!r} to {two[:20].tolist()} "
                    f"{'with' if special else 'without'} special tokens; expected {plan.ids.many(one)[:20].tolist()}"
                )
    different = _differences_from_raw(plan, old, texts)
    note = (
        f"; on {different} texts {type(old).__name__} itself differs from the source's tokenizer.json"
        if different
        else ""
    )
    return f"{checked} encodings by {type(new).__name__} equal{note}", None


def _differences_from_raw(plan: TrimPlan, old: Any, texts: Sequence[str]) -> int:
    return sum(1 for text in texts if list(_ids(old, text, False)) != plan.spec.encode(text))


def _ids(tokenizer: Any, text: str, special: bool) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=special, truncation=False, padding=False)["input_ids"]
    return found


def _load(folder: Path) -> Any:
    """The tokenizer, or, as text, why it doesn't load."""
    import os

    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # its loaders raise whatever they meet; the reason goes into the report
        return f"{type(error).__name__}: {str(error)[:200]}"

"""Runs source and result on the same texts with transformers and compares what they compute. Needs the model extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.trimming.config import TrimConfig
from trimbed.trimming.report import ModelCheck

if TYPE_CHECKING:
    from trimbed.trimming.plan import TrimPlan

__all__ = ["check_model", "compare_models", "load_model"]

# Both models compute in float32 from the same stored rows; what differs is the order of sums in smaller matrices.
_TOLERANCE = {"F64": 1e-6, "F32": 1e-5, "F16": 1e-4, "BF16": 1e-4}
_MAX_TOKENS = 64


def check_model(plan: TrimPlan, folder: Path, config: TrimConfig, texts: Sequence[str]) -> ModelCheck:
    """Hidden states and, where the model has a head, logits through the id map, on texts whose ids are all kept."""
    assert plan.model_folder is not None and plan.weights is not None
    dtype = next((c.dtype for c in plan.weights.changes if c.role == "input"), "F32")
    check = ModelCheck(tolerance=config.tolerance or _TOLERANCE.get(dtype, 1e-3))
    samples = _samples(plan, texts, config.verify_model_texts)
    if not samples:
        check.skipped = "no text has only kept ids"
        return check
    try:
        old = load_model(plan.model_folder)
        new = load_model(folder)
    except Exception as error:  # transformers raises whatever a config leads it to; the reason goes into the report
        check.skipped = f"transformers can't load it ({type(error).__name__}: {str(error)[:200]})"
        return check
    for ids in samples:
        try:
            hidden, logits = compare_models(old, new, ids, plan.ids.old_to_new)
        except (
            Exception
        ) as error:  # a model that wants more than text (pixels, masks of its own) says so in its own way
            check.skipped = f"the model doesn't run on text alone ({type(error).__name__}: {str(error)[:200]})"
            return check
        check.texts += 1
        for name, value in (("hidden_difference", hidden), ("logit_difference", logits)):
            if value is not None:
                setattr(check, name, max(getattr(check, name) or 0.0, value))
    for what, found in (("hidden states", check.hidden_difference), ("logits", check.logit_difference)):
        if found is not None and not found <= check.tolerance:
            check.failures.append(f"the models' {what} differ by {found:.3g}, more than {check.tolerance:g}")
    return check


def _samples(plan: TrimPlan, texts: Sequence[str], wanted: int) -> list[np.ndarray]:
    """Old ids of the first texts that have only kept ids that have rows, cut to a length any model takes."""
    assert plan.weights is not None
    rows = min(change.before[0] for change in plan.weights.changes if change.role == "input")
    found = []
    for text in texts:
        ids = np.asarray(plan.spec.encode(text[:2000], add_special_tokens=True), dtype=np.int64)[:_MAX_TOKENS]
        if len(ids) and (plan.ids.many(ids) >= 0).all() and (ids < rows).all():
            found.append(ids)
            if len(found) == wanted:
                break
    return found


def load_model(folder: Path) -> Any:
    """The model that config.json names, in float32 and eval mode, with its head where it has one."""
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    names = getattr(config, "architectures", None) or []
    kind = getattr(transformers, names[0], None) if names else None
    kind = kind or transformers.AutoModel
    model = kind.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, dtype=torch.float32)
    return model.eval()


def compare_models(old: Any, new: Any, ids: np.ndarray, old_to_new: np.ndarray) -> tuple[float | None, float | None]:
    """(largest difference of last hidden states, of logits at the kept ids); None for what a model doesn't give."""
    one, two = _run(old, ids), _run(new, old_to_new[ids])
    hidden = logits = None
    if one[0] is not None and two[0] is not None:
        hidden = _largest(one[0] - two[0])
    if one[1] is not None and two[1] is not None:
        kept = np.flatnonzero(old_to_new[: one[1].shape[-1]] >= 0)
        logits = _largest(one[1][..., kept] - two[1][..., old_to_new[kept]])
    return hidden, logits


def _largest(difference: Any) -> float:
    """Not a number counts as infinitely different."""
    value = float(difference.abs().max())
    return value if value == value else float("inf")


def _run(model: Any, ids: np.ndarray) -> tuple[Any, Any]:
    import torch

    batch = torch.tensor(ids[None, :])
    inputs = {"input_ids": batch, "attention_mask": torch.ones_like(batch)}
    if getattr(model, "main_input_name", "") == "input_features":  # speech in, text out
        frames = (model.config.num_mel_bins, 2 * model.config.max_source_positions)
        inputs = {"input_features": torch.linspace(-1, 1, frames[0] * frames[1]).reshape(1, *frames)}
    if getattr(model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = batch
    with torch.inference_mode():
        out = model(**inputs, output_hidden_states=True)
    logits = getattr(out, "logits", None)
    hidden = getattr(out, "last_hidden_state", None)
    if hidden is None:
        states = getattr(out, "hidden_states", None) or getattr(out, "decoder_hidden_states", None)
        hidden = states[-1] if states else None
    if logits is not None and logits.ndim < 3:
        logits = None  # a classifier's
    return hidden, logits

"""What a tokenizer is, in plain values: for ``trimbed inspect`` and for notebooks. Computes nothing new."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from trimbed.errors import UsageError
from trimbed.tokenizer.backend import components
from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["describe", "describe_counting", "describe_tensors"]


def describe(spec: TokenizerSpec) -> dict[str, Any]:
    """Names and values, plain types only: identity, sizes, parts, special tokens, family, templates, what must stay."""
    document = spec.document
    kinds = Counter(spec.kinds())
    structural = Counter(spec.structural_ids().values())
    found: dict[str, Any] = {
        "source": spec.source,
        "revision": spec.revision,
        "decided by": spec.decided_by,
        "fingerprint": spec.fingerprint,
        "algorithm": spec.algorithm,
        "byte level": spec.byte_level,
        "byte fallback": bool(document.model.get("byte_fallback")),
        "ids": spec.vocab_size,
        "tokens by kind": dict(sorted(kinds.items())),
        "normalizer": [part.get("type") for part in components(document.data.get("normalizer"))],
        "pre-tokenizer": [part.get("type") for part in components(document.data.get("pre_tokenizer"))],
        "post-processor": [part.get("type") for part in components(document.data.get("post_processor"))],
        "truncation": document.data.get("truncation"),
        "padding": document.data.get("padding"),
        "special tokens": {role: {"token": spec.tokens[i], "id": i} for role, i in spec.special_ids.items()},
        "family": None,
        "chat templates": {name: len(text) for name, text in spec.chat_templates().items()},
        "structural": dict(structural.most_common()),
        "must stay": sum(structural.values()),
        "notes": list(spec.notes),
    }
    if spec.family is not None:
        family = spec.family
        found["family"] = {
            "name": family.name,
            "template": family.template,
            "tool calling": family.tool_calling,
            "markers": [marker for marker in family.markers if spec.token_to_id(marker) is not None],
        }
    if spec.algorithm == "bpe":
        found["merges"] = len(document.merges)
        found["ignore merges"] = bool(document.model.get("ignore_merges"))
        found["built by merges"] = int((np.diff(spec.dependencies().starts) > 0).sum())
    return found


def describe_counting(spec: TokenizerSpec) -> dict[str, Any]:
    """How the tokenizer is counted: whether the kernel has a plan for it, and the plan's explanation or the reason."""
    from trimbed.counting.plan import NoPlan, make_plan

    plan = make_plan(spec.document.data)
    if isinstance(plan, NoPlan):
        return {"engine": "reference", "reason": plan.reason}
    return {"engine": "kernel", "explanation": list(plan.explanation)}


def describe_tensors(spec: TokenizerSpec) -> list[dict[str, Any]]:
    """The tensors of the checkpoint beside the tokenizer that hold something for each token, and why we think so.

    Raises UsageError where the tokenizer comes from no folder, TrimError where there are no safetensors or where they
    can't be told apart.
    """
    from trimbed.trimming.tensors import find_vocabulary_tensors
    from trimbed.trimming.weight_files import SafetensorsCheckpoint, find_weights

    if spec.folder is None:
        raise UsageError(f"{spec.source} is not a checkpoint's folder, so there is no model to look at")
    with SafetensorsCheckpoint(find_weights(spec.folder)) as checkpoint:
        shapes = checkpoint.shapes()
    by_name = {shape.name: shape for shape in shapes}
    return [
        {
            "name": tensor.name,
            "role": tensor.role,
            "dtype": by_name[tensor.name].dtype,
            "shape": list(by_name[tensor.name].shape),
            "reason": tensor.reason,
        }
        for tensor in find_vocabulary_tensors(shapes, spec.side.config, spec.vocab_size)
    ]

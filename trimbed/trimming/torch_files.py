"""Trims PyTorch's own .bin files through torch, weights only. Needs the model extra; safetensors don't come here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trimbed.errors import MissingExtra, TrimError
from trimbed.trimming.checkpoint import TensorChange
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.report import RowCheck
from trimbed.trimming.tensors import TensorShape, VocabularyTensor, find_vocabulary_tensors
from trimbed.trimming.ties import decide_ties
from trimbed.trimming.weight_files import Weights, read_json
from trimbed.trimming.weight_values import PADDING_BIAS

__all__ = ["TorchPlan", "plan_torch_files"]

_DTYPES = {
    "torch.float64": "F64",
    "torch.float32": "F32",
    "torch.float16": "F16",
    "torch.bfloat16": "BF16",
    "torch.uint8": "U8",
    "torch.int8": "I8",
    "torch.int32": "I32",
    "torch.int64": "I64",
    "torch.bool": "BOOL",
}


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra(
            "this checkpoint is in PyTorch's .bin format, which needs torch: pip install 'trimbed[model]'"
        ) from None
    return torch


def plan_torch_files(
    weights: Weights, model_config: Mapping[str, Any], ids: Renumbering, config: TrimConfig
) -> TorchPlan:
    """Settle the trim of .bin files. Raises MissingExtra without torch, TrimError for files that hold code."""
    return TorchPlan(weights, model_config, ids, config)


class TorchPlan:
    """See trimbed.trimming.weights.WeightPlan."""

    def __init__(self, weights: Weights, model_config: Mapping[str, Any], ids: Renumbering, config: TrimConfig) -> None:
        self._torch = _torch()
        self._weights = weights
        self._ids = ids
        self._config = config
        self._states = {path: self._load(path) for path in weights.files}
        where = {name: path for path, state in self._states.items() for name in state}
        shapes = [
            TensorShape(name, _DTYPES.get(str(value.dtype), str(value.dtype)), tuple(value.shape))
            for state in self._states.values()
            for name, value in state.items()
        ]
        self._vocabulary = find_vocabulary_tensors(shapes, model_config, ids.old_size, overrides=config.tensors)
        by_name = {name: self._states[path][name] for name, path in where.items()}
        ties = decide_ties(self._vocabulary, model_config, lambda a, b: bool(self._torch.equal(by_name[a], by_name[b])))
        # A pickle stores tensors that share memory once, so tied twins cost nothing: both names stay.
        self.untie = ties.untie
        self.warnings = list(ties.notes) if ties.untie else []
        self.table_rows = sorted({tensor.rows for tensor in self._vocabulary})
        self.changes = [self._change(by_name[tensor.name], tensor) for tensor in self._vocabulary]
        sizes = _unique(by_name.values())
        self.bytes_before = sum(v.numel() * v.element_size() for v in sizes)
        self.parameters_before = sum(v.numel() for v in sizes)
        saved = {by_name[c.name].data_ptr(): c for c in self.changes}.values()
        self.bytes_after = self.bytes_before - sum(c.bytes_before - c.bytes_after for c in saved)
        self.parameters_after = self.parameters_before - sum(
            int(np.prod(c.before)) - int(np.prod(c.after or ())) for c in saved
        )

    def _load(self, path: Path) -> dict[str, Any]:
        try:
            state = self._torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:  # torch raises pickle's errors, its own and RuntimeError alike
            raise TrimError(f"{path} can't be read as plain weights ({type(error).__name__}: {error})") from None
        if not isinstance(state, dict) or not all(isinstance(v, self._torch.Tensor) for v in state.values()):
            raise TrimError(f"{path} is no plain table of tensors")
        return state

    def _change(self, value: Any, tensor: VocabularyTensor) -> TensorChange:
        before = tuple(value.shape)
        after = list(before)
        after[tensor.axis] = self._ids.table_size(tensor.rows)
        row = value.numel() // max(1, tensor.rows) * value.element_size()
        dtype = _DTYPES.get(str(value.dtype), str(value.dtype))
        return TensorChange(
            tensor.name,
            tensor.role,
            dtype,
            before,
            tuple(after),
            row * tensor.rows,
            row * after[tensor.axis],
            tensor.reason,
        )

    @property
    def bytes_to_write(self) -> int:
        return sum(size for _, size in self.rewritten)

    @property
    def rewritten(self) -> list[tuple[Path, int]]:
        saved = self.bytes_before - self.bytes_after
        found = [(p, max(0, p.stat().st_size - saved)) for p in self._weights.files if self._has_vocabulary(p)]
        if self._weights.index is not None:
            found.append((self._weights.index, self._weights.index.stat().st_size))
        return found

    @property
    def unchanged(self) -> list[Path]:
        return [path for path in self._weights.files if not self._has_vocabulary(path)]

    def _has_vocabulary(self, path: Path) -> bool:
        return any(tensor.name in self._states[path] for tensor in self._vocabulary)

    def write(self, folder: Path) -> None:
        tensors = {tensor.name: tensor for tensor in self._vocabulary}
        for path, state in self._states.items():
            if not self._has_vocabulary(path):
                continue
            made: dict[tuple[int, tuple[int, ...], str], Any] = {}
            result = {}
            for name, value in state.items():
                if name in tensors:
                    # Names that share memory must share it afterwards too.
                    key = (value.data_ptr(), tuple(value.shape), "bias" if tensors[name].role == "bias" else "table")
                    if key not in made:
                        made[key] = self._gather(value, tensors[name])
                    result[name] = made[key]
                else:
                    result[name] = value
            self._torch.save(result, folder / path.name)
        if self._weights.index is not None:
            content = read_json(self._weights.index)
            metadata = {**(content.get("metadata") or {}), "total_size": self.bytes_after}
            text = json.dumps({**content, "metadata": metadata}, indent=2) + "\n"
            (folder / self._weights.index.name).write_text(text, encoding="utf-8")

    def _gather(self, value: Any, tensor: VocabularyTensor) -> Any:
        torch = self._torch
        rows = torch.from_numpy(self._ids.rows(tensor.rows))
        kept = rows >= 0
        table = value.movedim(tensor.axis, 0)
        made = torch.zeros((len(rows), *table.shape[1:]), dtype=value.dtype)
        made[kept] = table[rows[kept]]
        if tensor.role == "bias":
            made[~kept] = PADDING_BIAS
        elif self._config.pad_fill == "mean" and bool((~kept).any()):
            made[~kept] = made[kept].to(torch.float64).mean(dim=0).to(value.dtype)
        return made.movedim(0, tensor.axis).contiguous()

    def check(self, folder: Path) -> RowCheck:
        check = RowCheck(tensors=0, rows=0)
        for path, state in self._states.items():
            if not self._has_vocabulary(path):
                continue
            result = self._load(folder / path.name)
            check.differences += [f"{name} is missing or unexpected" for name in sorted(set(state) ^ set(result))]
            for tensor in self._vocabulary:
                if tensor.name not in state or tensor.name not in result:
                    continue
                rows = self._torch.from_numpy(self._ids.rows(tensor.rows))
                kept = rows >= 0
                old = state[tensor.name].movedim(tensor.axis, 0)[rows[kept]]
                new = result[tensor.name].movedim(tensor.axis, 0)
                check.tensors += 1
                if len(new) != len(rows) or not _same_bits(self._torch, old, new[kept]):
                    check.differences.append(f"{tensor.name}: its rows are not their originals")
                else:
                    check.rows += len(rows)
        return check


def _unique(values: Any) -> list[Any]:
    """Tensors by their memory: names that share it count once."""
    return list({(value.data_ptr(), value.numel()): value for value in values}.values())


def _same_bits(torch: Any, one: Any, two: Any) -> bool:
    """NaNs with the same bits are the same."""
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool(torch.equal(one.contiguous().view(torch.uint8), two.contiguous().view(torch.uint8)))

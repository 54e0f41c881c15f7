"""Rewrites a checkpoint's safetensors files as raw rows, file by file in bounded memory. Never loads a tensor whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trimbed.errors import TrimError
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.safetensors_file import SafetensorsFile, TensorInfo, encode_header
from trimbed.trimming.tensors import VocabularyTensor, find_vocabulary_tensors
from trimbed.trimming.ties import TieDecision, decide_ties
from trimbed.trimming.weight_files import SafetensorsCheckpoint, Weights, read_json
from trimbed.trimming.weight_values import PADDING_BIAS, encode, mean_row

__all__ = ["CheckpointPlan", "TensorChange", "fill_for", "plan_checkpoint", "row_view", "write_checkpoint"]


@dataclass(frozen=True)
class TensorChange:
    """One vocabulary tensor before and after; ``after`` is None for a tied twin that isn't written."""

    name: str
    role: str
    dtype: str
    before: tuple[int, ...]
    after: tuple[int, ...] | None
    bytes_before: int
    bytes_after: int
    reason: str


@dataclass
class CheckpointPlan:
    """What will be written where: decided before a byte is."""

    weights: Weights
    vocabulary: list[VocabularyTensor]
    ties: TieDecision
    changes: list[TensorChange]
    bytes_before: int
    bytes_after: int
    parameters_before: int
    parameters_after: int
    warnings: list[str] = field(default_factory=list)

    @property
    def table_rows(self) -> list[int]:
        return sorted({tensor.rows for tensor in self.vocabulary})


def plan_checkpoint(
    checkpoint: SafetensorsCheckpoint, model_config: Mapping[str, Any], ids: Renumbering, config: TrimConfig
) -> CheckpointPlan:
    """Find the vocabulary's tensors and settle ties, sizes and warnings. Reads data only to compare tied twins."""
    shapes = checkpoint.shapes()
    vocabulary = find_vocabulary_tensors(shapes, model_config, ids.old_size, overrides=config.tensors)
    ties = decide_ties(vocabulary, model_config, lambda a, b: _equal(checkpoint, a, b, config.block_bytes))
    changes = [_change(checkpoint.info(tensor.name), tensor, ids, ties) for tensor in vocabulary]
    warnings = list(ties.notes)
    for tensor in vocabulary:
        if tensor.role == "input":
            warnings += _past_the_tokenizer(checkpoint, tensor, ids, config.block_bytes)
    warnings += _about_padding(vocabulary, ids, config)
    infos = [checkpoint.info(shape.name) for shape in shapes]
    before = sum(info.bytes for info in infos)
    parameters = sum(info.parameters for info in infos)
    saved = sum(change.bytes_before - change.bytes_after for change in changes)
    saved_parameters = sum(
        int(np.prod(c.before)) - (int(np.prod(c.after)) if c.after is not None else 0) for c in changes
    )
    return CheckpointPlan(
        checkpoint.weights,
        vocabulary,
        ties,
        changes,
        before,
        before - saved,
        parameters,
        parameters - saved_parameters,
        warnings,
    )


def new_shape(shape: tuple[int, ...], tensor: VocabularyTensor, ids: Renumbering) -> tuple[int, ...]:
    """The shape that a vocabulary tensor has afterwards."""
    changed = list(shape)
    changed[tensor.axis] = ids.table_size(tensor.rows)
    return tuple(changed)


def _change(info: TensorInfo, tensor: VocabularyTensor, ids: Renumbering, ties: TieDecision) -> TensorChange:
    if info.name in ties.drop:
        return TensorChange(
            info.name, tensor.role, info.dtype, info.shape, None, info.bytes, 0, "equal to the embeddings and tied"
        )
    after = new_shape(info.shape, tensor, ids)
    size = info.bytes // max(1, tensor.rows) * after[tensor.axis]
    if tensor.axis == 0:
        size = info.row_bytes * after[0]
    return TensorChange(info.name, tensor.role, info.dtype, info.shape, after, info.bytes, size, tensor.reason)


def row_view(info: TensorInfo, tensor: VocabularyTensor) -> TensorInfo:
    """A [1, V] bias seen as V rows of one element."""
    if tensor.axis == 1:
        return TensorInfo(info.name, info.dtype, (info.shape[1], 1), info.begin, info.end)
    return info


def _equal(checkpoint: SafetensorsCheckpoint, a: str, b: str, block_bytes: int) -> bool:
    one, two = checkpoint.info(a), checkpoint.info(b)
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        return False
    file_a, file_b = checkpoint.file(a), checkpoint.file(b)
    rows_a, rows_b = file_a.rows(one), file_b.rows(two)
    step = max(1, block_bytes // max(1, one.row_bytes))
    for start in range(0, len(rows_a), step):
        same = np.array_equal(rows_a[start : start + step], rows_b[start : start + step])
        file_a.forget_pages()
        file_b.forget_pages()
        if not same:
            return False
    return True


def _past_the_tokenizer(
    checkpoint: SafetensorsCheckpoint, tensor: VocabularyTensor, ids: Renumbering, block_bytes: int
) -> list[str]:
    """A line about rows that no token has, and about tokens that have no row."""
    if tensor.rows < ids.old_size:
        lost = int((ids.old_to_new[tensor.rows :] >= 0).sum())
        return [f"{tensor.name} has {tensor.rows} rows for {ids.old_size} ids; {lost} kept tokens have none, as before"]
    if tensor.rows == ids.old_size:
        return []
    file, info = checkpoint.file(tensor.name), checkpoint.info(tensor.name)
    filled = 0
    past = np.arange(ids.old_size, tensor.rows)
    for block in file.gather(info, past, b"", block_bytes=block_bytes):
        filled += int(block.any(axis=1).sum())
    return [
        f"{tensor.name} has {len(past)} rows past the tokenizer's {ids.old_size} ids, {filled} of them not zero; no "
        "text reaches them, and they are dropped"
    ]


def _about_padding(vocabulary: list[VocabularyTensor], ids: Renumbering, config: TrimConfig) -> list[str]:
    extra = ids.padded_size - ids.new_size
    if extra == 0:
        return []
    rows = f"{extra} rows of padding ({ids.new_size} to {ids.padded_size - 1})"
    if any(tensor.role == "bias" for tensor in vocabulary):
        return [f"{rows}: the head's bias is {PADDING_BIAS:g} there, so they can't be generated"]
    if config.pad_fill == "mean":
        return [f"{rows} hold the mean of the kept rows: their logit is the mean of the others, so never the largest"]
    return [
        f"{rows} are zero, so their logit is 0 and wins where every other logit is negative; "
        "pad_fill=mean rules that out"
    ]


def fill_for(
    file: SafetensorsFile, info: TensorInfo, tensor: VocabularyTensor, rows: np.ndarray, config: TrimConfig
) -> bytes:
    """One row of what stands where no old row goes; b"" where every row has an old one."""
    if not (rows < 0).any():
        return b""
    if tensor.role == "bias":
        return encode(np.full(info.row_bytes * 8 // _bits(info), PADDING_BIAS), info.dtype)
    if config.pad_fill == "mean" and tensor.role in ("input", "output"):
        kept = rows[rows >= 0]
        return mean_row(file.gather(info, kept, b"", block_bytes=config.block_bytes), info.dtype)
    return bytes(info.row_bytes)


def _bits(info: TensorInfo) -> int:
    from trimbed.trimming.safetensors_file import DTYPE_BITS

    return DTYPE_BITS[info.dtype]


def write_checkpoint(
    checkpoint: SafetensorsCheckpoint, plan: CheckpointPlan, ids: Renumbering, folder: Path, config: TrimConfig
) -> list[Path]:
    """Write the files that hold vocabulary tensors, and the shard index, into ``folder``. Returns their paths.

    Files without such tensors are the caller's to bring along. Raises OSError where the disk doesn't take them.
    """
    tensors = {tensor.name: tensor for tensor in plan.vocabulary}
    written = []
    for name, file in checkpoint.files.items():
        if any(tensor in tensors for tensor in file.tensors):
            target = folder / name
            _write_file(file, target, tensors, plan, ids, config)
            written.append(target)
    if plan.weights.index is not None:
        target = folder / plan.weights.index.name
        target.write_text(json.dumps(_index(plan), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(target)
    return written


def _index(plan: CheckpointPlan) -> dict[str, Any]:
    assert plan.weights.index is not None
    content = read_json(plan.weights.index)
    metadata = dict(content.get("metadata") or {})
    if "total_size" in metadata:
        metadata["total_size"] = plan.bytes_after
    if "total_parameters" in metadata:
        metadata["total_parameters"] = plan.parameters_after
    weight_map = {name: file for name, file in content["weight_map"].items() if name not in plan.ties.drop}
    return {**content, "metadata": metadata, "weight_map": weight_map}


def _write_file(
    file: SafetensorsFile,
    target: Path,
    tensors: Mapping[str, VocabularyTensor],
    plan: CheckpointPlan,
    ids: Renumbering,
    config: TrimConfig,
) -> None:
    changes = {change.name: change for change in plan.changes}
    layout: dict[str, tuple[str, tuple[int, ...], int]] = {}
    for name, info in file.tensors.items():
        change = changes.get(name)
        if change is None:
            layout[name] = (info.dtype, info.shape, info.bytes)
        elif change.after is not None:
            layout[name] = (info.dtype, change.after, change.bytes_after)
    with target.open("wb") as out:
        out.write(encode_header(layout, file.metadata))
        pending: tuple[int, int] | None = None  # a stretch of unchanged data, copied in one go
        for name, info in file.tensors.items():
            if name not in changes:
                if pending is not None and pending[1] == info.begin:
                    pending = (pending[0], info.end)
                else:
                    _copy(file, out, pending)
                    pending = (info.begin, info.end)
                continue
            _copy(file, out, pending)
            pending = None
            if changes[name].after is None:
                continue
            view = row_view(info, tensors[name])
            rows = ids.rows(tensors[name].rows)
            fill = fill_for(file, view, tensors[name], rows, config)
            for block in file.gather(view, rows, fill, block_bytes=config.block_bytes):
                out.write(block.data)
        _copy(file, out, pending)
        out.flush()
        os.fsync(out.fileno())
    if target.stat().st_size != sum(size for _, _, size in layout.values()) + len(encode_header(layout, file.metadata)):
        raise TrimError(f"{target} was not written whole; is the disk full?")


def _copy(file: SafetensorsFile, out: BinaryIO, stretch: tuple[int, int] | None) -> None:
    """Copy a stretch of the data part. The kernel does it where it can: nothing passes through this process."""
    if stretch is None or stretch[0] == stretch[1]:
        return
    at, end = file.data_start + stretch[0], file.data_start + stretch[1]
    out.flush()
    if hasattr(os, "copy_file_range"):
        try:
            while at < end:
                done = os.copy_file_range(file.fileno(), out.fileno(), min(end - at, 1 << 30), at)
                if done == 0:
                    break
                at += done
        except OSError:
            pass  # other file systems, old kernels: what is missing is copied below
        out.seek(0, os.SEEK_END)
    while at < end:
        data = os.pread(file.fileno(), min(end - at, 8 << 20), at)
        if not data:
            raise TrimError(f"{file.path} ended while it was being read")
        out.write(data)
        at += len(data)

"""Reads a written checkpoint again and compares every vocabulary row with its original, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trimbed.trimming.checkpoint import CheckpointPlan, fill_for, row_view
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.report import RowCheck
from trimbed.trimming.safetensors_file import SafetensorsFile, TensorInfo
from trimbed.trimming.weight_files import SafetensorsCheckpoint, find_weights

__all__ = ["check_rows"]


def check_rows(
    source: SafetensorsCheckpoint, plan: CheckpointPlan, ids: Renumbering, folder: Path, config: TrimConfig
) -> RowCheck:
    """Compare what ``folder`` holds with ``source``.

    Every kept row must equal its original, every row of padding what was announced; every other tensor must be there
    with the same dtype, shape and size, and nothing else.
    """
    check = RowCheck(tensors=0, rows=0)
    with SafetensorsCheckpoint(find_weights(folder)) as result:
        expected = {name for name in source.where if name not in plan.ties.drop}
        for name in sorted(expected ^ set(result.where)):
            check.differences.append(f"{name} is {'missing' if name in expected else 'unexpected'} in the result")
        changed = {tensor.name for tensor in plan.vocabulary}
        for name in sorted((expected & set(result.where)) - changed):
            one, two = source.info(name), result.info(name)
            if (one.dtype, one.shape, one.bytes) != (two.dtype, two.shape, two.bytes):
                check.differences.append(f"{name} changed from {one.dtype} {one.shape} to {two.dtype} {two.shape}")
        for tensor in plan.vocabulary:
            if tensor.name in plan.ties.drop or tensor.name not in result.where:
                continue
            check.tensors += 1
            old_file, new_file = source.file(tensor.name), result.file(tensor.name)
            old = row_view(source.info(tensor.name), tensor)
            new = row_view(result.info(tensor.name), tensor)
            rows = ids.rows(tensor.rows)
            if new.shape[0] != len(rows) or new.shape[1:] != old.shape[1:] or new.dtype != old.dtype:
                check.differences.append(f"{tensor.name} has the shape {new.shape}, expected {len(rows)} rows")
                continue
            fill = fill_for(old_file, old, tensor, rows, config)
            differing = _compare(old_file, old, new_file, new, rows, fill, config.block_bytes)
            check.rows += len(rows) - len(differing)
            if differing:
                check.differences.append(f"{tensor.name}: rows {differing[:8]} are not their originals")
    return check


def _compare(
    old_file: SafetensorsFile,
    old: TensorInfo,
    new_file: SafetensorsFile,
    new: TensorInfo,
    rows: np.ndarray,
    fill: bytes,
    block_bytes: int,
) -> list[int]:
    """The new row numbers that differ."""
    differing: list[int] = []
    step = max(1, block_bytes // max(1, new.row_bytes))
    before, after = old_file.rows(old), new_file.rows(new)
    for start in range(0, len(rows), step):
        wanted = rows[start : start + step]
        block = after[start : start + step]
        kept = wanted >= 0
        wrong = np.zeros(len(wanted), dtype=bool)
        wrong[kept] = (block[kept] != before[wanted[kept]]).any(axis=1)
        if fill:
            wrong[~kept] = (block[~kept] != np.frombuffer(fill, dtype=np.uint8)).any(axis=1)
        differing += (start + np.flatnonzero(wrong)).tolist()
        old_file.forget_pages()
        new_file.forget_pages()
    return differing

"""The few numbers a trim makes itself: rows of padding, in any float dtype. Everything else is copied as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimbed.errors import TrimError

__all__ = ["PADDING_BIAS", "decode", "encode", "mean_row"]

# What the head's bias says for a row of padding: far below any logit, and a number in every float dtype that has rows.
PADDING_BIAS = -30000.0

_NUMPY = {"F64": np.float64, "F32": np.float32, "F16": np.float16}


def decode(raw: np.ndarray, dtype: str) -> np.ndarray:
    """uint8[n, bytes] -> float64[n, values]. Raises TrimError for dtypes that aren't F64, F32, F16 or BF16."""
    if dtype == "BF16":
        wide = np.ascontiguousarray(raw).view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    if dtype in _NUMPY:
        return np.ascontiguousarray(raw).view(_NUMPY[dtype]).astype(np.float64)
    raise TrimError(f"values of dtype {dtype} can't be computed with here; use pad_fill=zero")


def encode(values: np.ndarray, dtype: str) -> bytes:
    """float64 values -> bytes of ``dtype``, rounded to nearest."""
    if dtype == "BF16":
        bits = values.astype(np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return rounded.astype("<u2").tobytes()
    if dtype in _NUMPY:
        return values.astype(_NUMPY[dtype]).tobytes()
    raise TrimError(f"values of dtype {dtype} can't be made here; use pad_fill=zero")


def mean_row(blocks: Iterator[np.ndarray], dtype: str) -> bytes:
    """The mean of all rows (uint8 blocks), as bytes of one row. Its logit is the mean of the rows' logits."""
    total: np.ndarray | None = None
    count = 0
    for block in blocks:
        values = decode(block, dtype)
        total = values.sum(axis=0) if total is None else total + values.sum(axis=0)
        count += len(block)
    if total is None:
        raise TrimError("there are no rows to take the mean of")
    return encode(total / count, dtype)

"""What a token costs a checkpoint: the rows that its tensors have for every token. Reads headers, never weights."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["TokenRows", "token_rows"]

_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int8": 1}
_WIDTHS = ("embedding_size", "hidden_size", "d_model", "n_embd", "dim", "word_embed_proj_dim")
_LARGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class TokenRows:
    """``rows``: how many there are. ``parameters`` and ``bytes``: in one row of all such tensors together.

    ``source``: ``safetensors`` where tensors were looked at, ``config`` where it follows from config.json alone.
    """

    rows: int
    parameters: int
    bytes: int
    source: str


def token_rows(folder: Path | None, config: Mapping[str, Any]) -> TokenRows | None:
    """What a checkpoint holds for each token; None where there is no config.json that says how many rows there are.

    From the safetensors headers in ``folder`` (tensors with as many rows as the config has tokens), else from the
    config: its width, its dtype, and a second matrix for an untied head.
    """
    parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
    rows = next((part["vocab_size"] for part in parts if isinstance(part.get("vocab_size"), int)), None)
    if rows is None or rows < 1:
        return None
    if folder is not None:
        shapes = [tensor for tensor in _tensors(folder) if tensor[0] and tensor[0][0] == rows]
        if shapes:
            elements = sum(_product(shape[1:]) for shape, _ in shapes)
            return TokenRows(rows, elements, sum(size for _, size in shapes) // rows, "safetensors")
    widths = (part[name] for name in _WIDTHS for part in parts if isinstance(part.get(name), int))
    width = next(widths, None)
    if width is None:
        return None
    dtype = next(
        (part[k] for part in parts for k in ("dtype", "torch_dtype") if isinstance(part.get(k), str)), "float32"
    )
    generates = any("LM" in name or "Generation" in name for name in config.get("architectures") or ())
    tied = all(part.get("tie_word_embeddings", True) for part in parts)
    matrices = 2 if generates and not tied else 1
    return TokenRows(rows, matrices * width, matrices * width * _BYTES.get(dtype, 4), "config")


def _tensors(folder: Path) -> Iterator[tuple[list[int], int]]:
    """(shape, bytes) of every tensor in the folder's safetensors files; files that aren't such are passed over."""
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 0 < length <= _LARGEST_HEADER:
                continue
            try:
                header = json.loads(file.read(length))
            except ValueError:
                continue
        for name, tensor in header.items():
            if name != "__metadata__":
                first, end = tensor["data_offsets"]
                yield tensor["shape"], end - first


def _product(shape: list[int]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product

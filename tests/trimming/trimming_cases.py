"""Tokenizers and checkpoints by hand, small enough to know every id and row, and what a test does with them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import made
import numpy as np
from tokenizers import Tokenizer

Document = dict[str, Any]


def added(number: int, content: str, **flags: bool) -> Document:
    entry = {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False}
    return {**entry, "normalized": False, "special": False, **flags}


def special(number: int, content: str) -> Document:
    return added(number, content, special=True)


bpe, document = made.bare_bpe, made.bare_document


def wordlevel(vocab: Iterable[str] | dict[str, int], unk: str = "<unk>") -> Document:
    table = vocab if isinstance(vocab, dict) else {token: number for number, token in enumerate(vocab)}
    return {"type": "WordLevel", "vocab": table, "unk_token": unk}


def wordpiece(vocab: Iterable[str]) -> Document:
    table = {token: number for number, token in enumerate(vocab)}
    return {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": table,
    }


def unigram(pieces: Iterable[tuple[str, float]], unk_id: int | None) -> Document:
    return {"type": "Unigram", "unk_id": unk_id, "vocab": [list(piece) for piece in pieces], "byte_fallback": False}


def load(content: Document) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(content))


def tokens(content: Document, text: str, *, specials: bool = False) -> list[str]:
    return load(content).encode(text, add_special_tokens=specials).tokens


def ids(content: Document, text: str, *, specials: bool = False) -> list[int]:
    return load(content).encode(text, add_special_tokens=specials).ids


# -- checkpoints ----------------------------------------------------------------------------------------------------

_DTYPE_NAMES = {"float32": "F32", "float16": "F16", "int64": "I64", "uint8": "U8", "uint16": "BF16", "float64": "F64"}


def save_tensors(path: Path, tensors: dict[str, np.ndarray], dtypes: dict[str, str] | None = None) -> None:
    """A safetensors file by the format's description alone; uint16 arrays stand for BF16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, value in tensors.items():
        dtype = (dtypes or {}).get(name, _DTYPE_NAMES[str(value.dtype)])
        raw = value.tobytes()
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The inverse of ``save_tensors``."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    names = {dtype: name for name, dtype in _DTYPE_NAMES.items()} | {"F8_E4M3": "uint8"}
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(raw[8 + length + begin : 8 + length + end], dtype=names[entry["dtype"]])
            found[name] = values.reshape(entry["shape"])
    return found


def numbered(rows: int, width: int = 4, *, dtype: str = "float32", start: int = 0) -> np.ndarray:
    """Row i is filled with start + i."""
    return np.repeat(np.arange(start, start + rows, dtype=dtype)[:, None], width, axis=1)


def save_model(
    folder: Path,
    tokenizer: Document,
    tensors: dict[str, np.ndarray],
    config: Document,
    *,
    shards: dict[str, list[str]] | None = None,
    **files: Document,
) -> Path:
    """A checkpoint's folder. ``files``: name without .json -> content."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    if shards is None:
        save_tensors(folder / "model.safetensors", tensors)
    else:
        weight_map = {}
        for file, names in shards.items():
            save_tensors(folder / file, {name: tensors[name] for name in names})
            weight_map |= dict.fromkeys(names, file)
        total = sum(value.nbytes for value in tensors.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def words(count: int, *, start: int = 0) -> Document:
    """A WordLevel tokenizer of ``count`` ids: <unk> first, then w1, w2, …"""
    names = ["<unk>", *(f"w{number}" for number in range(1 + start, count + start))]
    return document(wordlevel(names), pre_tokenizer={"type": "Whitespace"})

"""Cuts a GGUF file to kept tokens: metadata, and rows of the vocabulary's tensors, quantised or not. Uses ``gguf``.

Rows of block-quantised tensors are whole blocks, so they are copied as bytes like any others. ``tokenizer.ggml.pre``
stays: readers choose their pre-tokenizer by it, and a converter couldn't recognise the trimmed tokenizer any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trimbed.errors import MissingExtra, TrimError
from trimbed.trimming.checkpoint import TensorChange
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.report import RowCheck

__all__ = ["GgufPlan", "plan_gguf"]

_ROLES = {
    "token_embd.weight": "input",
    "output.weight": "output",
    "output.bias": "bias",
    "per_layer_token_embd.weight": "per_layer",
}
_BY_TOKEN = ("tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type")
_ID_KEY = re.compile(r"_token_ids?$")
_REQUIRED = ("eos_token_id", "padding_token_id", "unknown_token_id")
_STRUCTURE = ("general.architecture",)  # the writer sets it itself


@dataclass
class GgufPlan:
    """What will be written; ``write`` does it and ``check`` proves it."""

    path: Path
    reader: Any
    ids: Renumbering
    document_text: str
    changes: list[TensorChange]
    warnings: list[str] = field(default_factory=list)
    config_changes: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    dropped_keys: frozenset[str] = frozenset()

    @property
    def bytes_before(self) -> int:
        return sum(int(tensor.n_bytes) for tensor in self.reader.tensors)

    @property
    def bytes_after(self) -> int:
        return self.bytes_before - sum(c.bytes_before - c.bytes_after for c in self.changes)

    @property
    def parameters_before(self) -> int:
        return sum(int(tensor.n_elements) for tensor in self.reader.tensors)

    @property
    def parameters_after(self) -> int:
        saved = sum(int(np.prod(c.before)) - int(np.prod(c.after or ())) for c in self.changes)
        return self.parameters_before - saved

    def write(self, target: Path, *, block_bytes: int) -> None:
        """Write the file. Holds one block of rows at a time."""
        from gguf import GGUFEndian, GGUFValueType, GGUFWriter

        architecture = self.reader.fields["general.architecture"].contents()
        little = self.reader.byte_order == "I"
        writer = GGUFWriter(None, architecture, endianess=GGUFEndian.LITTLE if little else GGUFEndian.BIG)
        writer.data_alignment = self.reader.alignment
        for key, entry in self.reader.fields.items():
            if key.startswith("GGUF.") or key in _STRUCTURE or key in self.dropped_keys:
                continue
            value = self.values[key] if key in self.values else entry.contents()
            kind = entry.types[0]
            sub_type = entry.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(key, value, kind, sub_type=sub_type)
        changed = {change.name for change in self.changes}
        for tensor in self.reader.tensors:
            shape = list(tensor.data.shape)
            size = int(tensor.n_bytes)
            if tensor.name in changed:
                shape[0] = len(self.ids.rows(shape[0]))
                size = size // len(tensor.data) * shape[0]
            writer.add_tensor_info(tensor.name, shape, tensor.data.dtype, size, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file(target)
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        assert writer.fout is not None
        out = writer.fout[0]
        for tensor in self.reader.tensors:
            writer.write_padding(out, out.tell())
            written = 0
            for block in self._blocks(tensor, tensor.name in changed, block_bytes):
                block.tofile(out)
                written += block.nbytes
            writer.write_padding(out, written)
        writer.close()

    def _blocks(self, tensor: Any, changed: bool, block_bytes: int) -> Iterator[np.ndarray]:
        data = tensor.data
        if not changed:
            yield np.ascontiguousarray(data)
            return
        rows = self.ids.rows(len(data))
        step = max(1, block_bytes // max(1, int(tensor.n_bytes) // len(data)))
        for start in range(0, len(rows), step):
            yield np.ascontiguousarray(data[rows[start : start + step]])

    def check(self, target: Path) -> RowCheck:
        """Read the file again: every row, and every other tensor, against its original."""
        from gguf import GGUFReader

        check = RowCheck(tensors=0, rows=0)
        found = {tensor.name: tensor for tensor in GGUFReader(target).tensors}
        changed = {change.name for change in self.changes}
        if set(found) != {tensor.name for tensor in self.reader.tensors}:
            check.differences.append("the tensors of the result are not those of the source")
            return check
        for tensor in self.reader.tensors:
            new = found[tensor.name]
            old = tensor.data[self.ids.rows(len(tensor.data))] if tensor.name in changed else tensor.data
            if new.tensor_type != tensor.tensor_type or new.data.tobytes() != old.tobytes():
                check.differences.append(f"{tensor.name}: its rows are not their originals")
            elif tensor.name in changed:
                check.tensors += 1
                check.rows += len(new.data)
        return check


def plan_gguf(path: Path, ids: Renumbering, document_text: str) -> GgufPlan:
    """Settle the trim of one GGUF file. Raises TrimError with the reason, MissingExtra without ``gguf``.

    ``document_text`` is the trimmed tokenizer.json, for files that carry one.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise MissingExtra("a GGUF file needs the gguf package: pip install 'trimbed[convert]'") from None
    try:
        reader = GGUFReader(path)
    except (ValueError, KeyError, IndexError, OSError) as error:
        raise TrimError(f"{path} can't be read as GGUF: {error}") from None
    split = reader.fields.get("split.count")
    if split is not None and int(split.contents()) > 1:
        raise TrimError(f"{path} is one of {split.contents()} parts; merge them first (gguf-split --merge)")
    if (ids.new_to_old < 0).any():
        raise TrimError(f"{path}: two tokens share an id, which a GGUF file can't say")
    if ids.padded_size != ids.new_size:
        raise TrimError(
            "a GGUF file has a row for each token, so its vocabulary can't be padded; drop pad_to_multiple_of"
        )
    tokens = reader.fields["tokenizer.ggml.tokens"]
    count = len(tokens.data)
    if count != ids.old_size:
        raise TrimError(f"{path} lists {count} tokens, its tokenizer was read with {ids.old_size} ids")
    plan = GgufPlan(path, reader, ids, document_text, _changes(reader, ids, count, path))
    _edit_fields(plan, tokens.contents())
    return plan


def _changes(reader: Any, ids: Renumbering, count: int, path: Path) -> list[TensorChange]:
    changes = []
    rows = {len(t.data) for t in reader.tensors if t.name in _ROLES and t.name != "per_layer_token_embd.weight"} | {
        count
    }
    for tensor in reader.tensors:
        role = _ROLES.get(tensor.name)
        if role is None:
            if len(tensor.data) in rows and not tensor.name.startswith(("blk.", "v.", "mm.", "a.", "enc.", "dec.")):
                raise TrimError(
                    f"{path}: tensor {tensor.name!r} has as many rows as the vocabulary ({len(tensor.data)}), and its "
                    "name doesn't say what it is"
                )
            continue
        before = tuple(int(n) for n in reversed(tensor.shape.tolist()))
        after = (ids.table_size(before[0]), *before[1:])
        row = int(tensor.n_bytes) // before[0]
        changes.append(
            TensorChange(
                tensor.name,
                role,
                tensor.tensor_type.name,
                before,
                after,
                row * before[0],
                row * after[0],
                "by its name",
            )
        )
    return changes


def _edit_fields(plan: GgufPlan, tokens: list[str]) -> None:
    """New values for every field that has tokens or ids in it."""
    gone: set[str] = set()
    kept = {tokens[int(number)] for number in plan.ids.new_to_old}
    for key, entry in plan.reader.fields.items():
        if key in _BY_TOKEN:
            values = entry.contents()
            plan.values[key] = [values[int(number)] for number in plan.ids.new_to_old]
        elif key == "tokenizer.ggml.merges":
            plan.values[key] = [merge for merge in entry.contents() if _survives(merge, kept)]
            if not plan.values[key]:
                raise TrimError(f"{plan.path}: no merge survives, and GGUF can't say so; keep a token that needs one")
        elif key == "tokenizer.huggingface.json":
            plan.values[key] = plan.document_text
        elif key.endswith(".vocab_size"):
            plan.values[key] = plan.ids.table_size(int(entry.contents()))
            plan.config_changes.append(f"{key} {entry.contents()} -> {plan.values[key]}")
        elif _ID_KEY.search(key):
            _edit_id(plan, key, entry.contents(), gone)
    plan.dropped_keys = frozenset(gone)


def _edit_id(plan: GgufPlan, key: str, value: Any, gone: set[str]) -> None:
    if isinstance(value, list):
        plan.values[key] = [new for number in value if (new := plan.ids.new(int(number))) is not None]
        if not plan.values[key]:
            gone.add(key)
        return
    new = plan.ids.new(int(value))
    if new is None:
        if key.endswith(_REQUIRED) and 0 <= int(value) < plan.ids.old_size:
            raise TrimError(f"{plan.path}: {key} is {value}, which isn't kept; the model can't do without it")
        gone.add(key)
        plan.warnings.append(f"{key} named id {value}, which is not kept; removed")
        return
    plan.values[key] = new
    if new != int(value):
        plan.config_changes.append(f"{key} {value} -> {new}")


def _survives(merge: str, kept: set[str]) -> bool:
    left, _, right = merge.partition(" ")
    return left in kept and right in kept and left + right in kept

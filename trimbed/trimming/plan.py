"""Everything a trim will do, settled before a byte is written: document, side files, configs, weights, sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import TrimError
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.layout import read_layout
from trimbed.trimming.model_config import edit_config
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.rest_files import FileNote, Sorted, is_checkpoint, sort_files
from trimbed.trimming.side_files import Names, edit_added_tokens, edit_special_tokens_map, edit_tokenizer_config
from trimbed.trimming.surgery import trim_document
from trimbed.trimming.ties import set_everywhere
from trimbed.trimming.vocabulary_files import CannotRewrite, Vocabularies, rewrite
from trimbed.trimming.weight_files import find_model_folder, find_weights, read_json, text_config_of
from trimbed.trimming.weights import WeightPlan, plan_weights

if TYPE_CHECKING:
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["TrimPlan", "check_kept", "plan_trim"]


@dataclass
class TrimPlan:
    """What ``trim`` executes. ``contents``: file (relative to the output) -> its bytes; ``along``: files to bring."""

    spec: TokenizerSpec
    kept: np.ndarray
    ids: Renumbering
    document: dict[str, Any]
    root: Path | None
    model_folder: Path | None
    contents: dict[Path, bytes]
    along: list[Path]
    weights: WeightPlan | None
    notes: list[FileNote]
    config_changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def prefix(self) -> Path:
        """Where tokenizer, config and weights are, relative to the output."""
        if self.root is None or self.model_folder is None:
            return Path()
        return self.model_folder.relative_to(self.root)

    @property
    def bytes_needed(self) -> int:
        along = sum((self.root / path).stat().st_size for path in self.along) if self.root is not None else 0
        weights = self.weights.bytes_to_write if self.weights is not None else 0
        return along + weights + sum(len(data) for data in self.contents.values()) + 4_000_000


def check_kept(spec: TokenizerSpec, kept: np.ndarray) -> None:
    """Raise TrimError unless ``kept`` (sorted ids) has every structural id and all that kept tokens are built from."""
    mask = np.zeros(spec.vocab_size, dtype=bool)
    if len(kept) and (kept[0] < 0 or kept[-1] >= spec.vocab_size):
        raise TrimError(
            f"kept ids go from {kept[0]} to {kept[-1]}, the tokenizer has 0 to {spec.vocab_size - 1}; the selection "
            "was made for another tokenizer"
        )
    mask[kept] = True
    missing = [(number, reason) for number, reason in spec.structural_ids().items() if not mask[number]]
    if missing:
        shown = ", ".join(f"{spec.tokens[number]!r} (id {number}: {reason})" for number, reason in missing[:8])
        raise TrimError(f"{len(missing)} ids that the tokenizer can't do without aren't kept: {shown}")
    closed = spec.dependencies().closure(mask)
    lost = np.flatnonzero(closed & ~mask)
    if lost.size:
        shown = ", ".join(f"{spec.tokens[int(number)]!r} (id {number})" for number in lost[:8])
        raise TrimError(
            f"the kept tokens can't all be built: {lost.size} that they are made of aren't kept, such as {shown}. "
            "trimbed select adds them; ids chosen by hand go through keep_token_ids"
        )


def plan_trim(
    spec: TokenizerSpec, kept: np.ndarray, *, config: TrimConfig, folder: Path | None, stack: ExitStack
) -> TrimPlan:
    """Settle everything; open weight files stay open until ``stack`` closes. Raises TrimError with the reason."""
    check_kept(spec, kept)
    document, old_to_new = trim_document(spec.document.data, kept)
    ids = Renumbering(old_to_new, config.pad_to_multiple_of)
    plan = TrimPlan(spec, kept, ids, document, None, None, {}, [], None, [])
    if folder is not None:
        plan.root = _root(folder)
        plan.model_folder = find_model_folder(plan.root) if plan.root != folder else _where(folder)
        _plan_folder(plan, config, stack)
    file = plan.prefix / "tokenizer.json"
    plan.contents[file] = _json_like(spec.document.text(), document)
    plan.notes.append(FileNote(str(file), "rewritten", "the tokenizer", len(plan.contents[file])))
    return plan


def _where(folder: Path) -> Path:
    inner = find_model_folder(folder)
    return inner if (inner / "tokenizer.json").is_file() or not (folder / "tokenizer.json").is_file() else folder


def _root(folder: Path) -> Path:
    """The sentence-transformers folder that a transformer module's folder belongs to, or the folder itself."""
    listing = folder.parent / "modules.json"
    if listing.is_file() and find_model_folder(folder.parent).resolve() == folder.resolve():
        return folder.parent
    return folder


def _plan_folder(plan: TrimPlan, config: TrimConfig, stack: ExitStack) -> None:
    assert plan.root is not None and plan.model_folder is not None
    whole = is_checkpoint(plan.root) or is_checkpoint(plan.model_folder)
    weights = find_weights(plan.model_folder)
    model_config = text_config_of(plan.model_folder)
    if config.weights and weights.kind != "none":
        plan.weights = stack.enter_context(plan_weights(weights, model_config, plan.ids, config))
        plan.warnings += plan.weights.warnings
        whole = True
    handled = [*weights.files, *([weights.index] if weights.index is not None else [])]
    files = sort_files(plan.root, plan.model_folder, handled, with_rest=whole and config.weights)
    if plan.weights is not None:
        _weight_notes(plan)
    plan.notes += files.left_out
    plan.along += files.along
    plan.notes += [
        FileNote(str(path), "brought along", "nothing in it has ids", (plan.root / path).stat().st_size)
        for path in files.along
    ]
    _edit_tokenizer_files(plan, files)
    _edit_configs(plan, files)
    _rewrite_vocabularies(plan, files)


def _weight_notes(plan: TrimPlan) -> None:
    assert plan.weights is not None and plan.root is not None
    for path in plan.weights.unchanged:
        relative = path.relative_to(plan.root)
        plan.along.append(relative)
        plan.notes.append(FileNote(str(relative), "brought along", "no vocabulary tensor in it", path.stat().st_size))
    for path, size in plan.weights.rewritten:
        plan.notes.append(FileNote(str(path.relative_to(plan.root)), "rewritten", "vocabulary tensors cut", size))


def _edit_tokenizer_files(plan: TrimPlan, files: Sorted) -> None:
    assert plan.root is not None
    names = Names(
        read_layout(plan.spec.document.data).names(plan.spec.document.data),
        read_layout(plan.document).names(plan.document),
    )
    for path in files.tokenizer_json:
        content = read_json(plan.root / path)
        if path.name == "tokenizer_config.json":
            edit = edit_tokenizer_config(content, names, plan.ids)
        elif path.name == "added_tokens.json":
            edit = edit_added_tokens(content, names)
        else:
            edit = edit_special_tokens_map(content, names)
        plan.warnings += edit.warnings
        _put_json(plan, path, content, edit.data, "token names and ids")


def _edit_configs(plan: TrimPlan, files: Sorted) -> None:
    assert plan.root is not None
    token_names = {number: name for number, name in enumerate(plan.spec.tokens) if name is not None}
    for path in files.config_json:
        content = read_json(plan.root / path)
        rows = plan.weights.table_rows if plan.weights is not None else None
        edit = edit_config(content, plan.ids, where=path.name, table_rows=rows, names=token_names)
        if plan.weights is not None and plan.weights.untie and path.name == "config.json":
            edit.data = set_everywhere(edit.data, False)
            edit.changes.append("config.json: tie_word_embeddings True -> False")
        plan.warnings += edit.warnings
        plan.config_changes += edit.changes
        _put_json(plan, path, content, edit.data, "vocabulary sizes and ids")


def _put_json(plan: TrimPlan, path: Path, before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> None:
    """Write an edited JSON file; one that didn't change keeps its very bytes."""
    assert plan.root is not None
    original = (plan.root / path).read_bytes()
    data = original if before == after else _json_like(original.decode("utf-8"), after)
    plan.contents[path] = data
    note = FileNote(str(path), "rewritten", what, len(data))
    if data == original:
        note = FileNote(str(path), "brought along", "nothing in it had to change", len(data))
    plan.notes.append(note)


def _rewrite_vocabularies(plan: TrimPlan, files: Sorted) -> None:
    assert plan.root is not None
    vocabularies = Vocabularies(plan.spec.document.data, plan.document, plan.ids)
    for path in files.vocabulary:
        source = plan.root / path
        try:
            data = rewrite(path.name, source.read_bytes(), vocabularies)
        except (CannotRewrite, KeyError, TypeError, ValueError) as error:
            reason = f"can't be rewritten: {error}" if isinstance(error, CannotRewrite) else "not in a form we know"
            plan.notes.append(FileNote(str(path), "left out", reason, source.stat().st_size))
            plan.warnings.append(f"{path} is left out: {reason}")
        else:
            plan.contents[path] = data
            plan.notes.append(FileNote(str(path), "rewritten", "the vocabulary in this file's own form", len(data)))


def _json_like(original: str, content: Mapping[str, Any]) -> bytes:
    """JSON in the manner of the original text: indented or not, escaped or not, with or without a last line end."""
    head = original[:4000]
    indent = None
    if head.startswith(("{\n", "{\r\n")):
        second = head.split("\n", 2)[1]
        indent = len(second) - len(second.lstrip(" \t")) or None
    separators = (",", ":") if indent is None and '": ' not in head else None
    text = json.dumps(
        content, ensure_ascii=original.isascii() and "\\u" in original, indent=indent, separators=separators
    )
    return (text + ("\n" if original.endswith("\n") else "")).encode("utf-8")

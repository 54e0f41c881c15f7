"""Follows names and ids through the JSON files beside a tokenizer.json. Knows their keys; reads and writes no files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimbed.trimming.renumbering import Renumbering

__all__ = ["Names", "SideEdit", "edit_added_tokens", "edit_special_tokens_map", "edit_tokenizer_config"]


@dataclass(frozen=True)
class Names:
    """Token names before and after: name -> id."""

    old: Mapping[str, int]
    new: Mapping[str, int]

    def dropped(self, name: str) -> bool:
        """Whether a name meant a token before and doesn't now."""
        return name in self.old and name not in self.new


@dataclass
class SideEdit:
    """An edited file: ``data``, and a line for each thing that a user should know."""

    data: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


def edit_tokenizer_config(
    config: Mapping[str, Any], names: Names, renumbering: Renumbering, *, where: str = "tokenizer_config.json"
) -> SideEdit:
    """Renumber ``added_tokens_decoder`` and take dropped names out of every list and role.

    Entries of ``added_tokens_decoder`` follow their name, not their id: a stale one would bring a dropped token back,
    at an id that another token has.
    """
    edit = SideEdit({})
    for key, value in config.items():
        if key == "added_tokens_decoder" and isinstance(value, Mapping):
            edit.data[key] = _decoder(value, names, edit, where)
        elif key in ("vocab_size",) and isinstance(value, int):
            edit.data[key] = renumbering.table_size(value)
        elif key.endswith("_token_id") and isinstance(value, int) and value >= 0:
            edit.data[key] = renumbering.new(value)
            if edit.data[key] is None:
                edit.warnings.append(f"{where}: {key} named id {value}, which is not kept; removed")
        else:
            edit.data[key] = _roles(key, value, names, edit, where)
    return edit


def edit_special_tokens_map(
    content: Mapping[str, Any], names: Names, *, where: str = "special_tokens_map.json"
) -> SideEdit:
    """Take dropped names out of special_tokens_map.json."""
    edit = SideEdit({})
    for key, value in content.items():
        edit.data[key] = _roles(key, value, names, edit, where)
    return edit


def edit_added_tokens(content: Mapping[str, Any], names: Names, *, where: str = "added_tokens.json") -> SideEdit:
    """Renumber added_tokens.json (name -> id) by name."""
    edit = SideEdit({})
    for name, number in content.items():
        if name in names.new:
            edit.data[name] = names.new[name]
        elif name not in names.old:
            edit.warnings.append(f"{where}: {name!r} ({number}) is no token of the tokenizer; left out")
    return edit


def _decoder(value: Mapping[str, Any], names: Names, edit: SideEdit, where: str) -> dict[str, Any]:
    kept: dict[int, Any] = {}
    for number, entry in value.items():
        content = _content(entry)
        if content is None or content not in names.old:
            edit.warnings.append(
                f"{where}: added_tokens_decoder has {content!r} at {number}, which is no token of the tokenizer; "
                "left out"
            )
            continue
        if str(names.old[content]) != str(number):
            edit.warnings.append(
                f"{where}: added_tokens_decoder has {content!r} at {number}, but its id is {names.old[content]}; "
                "corrected"
            )
        if content in names.new:
            kept[names.new[content]] = entry
    return {str(number): kept[number] for number in sorted(kept)}


def _roles(key: str, value: Any, names: Names, edit: SideEdit, where: str) -> Any:
    """``*_token`` values, and lists or tables of special tokens; anything else is left alone."""
    if key in ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"):
        if isinstance(value, list):
            return [entry for entry in value if not _gone(entry, names)]
        if isinstance(value, Mapping):
            return {name: entry for name, entry in value.items() if not _gone(entry, names)}
    elif key.endswith("_token") and _gone(value, names):
        edit.warnings.append(f"{where}: {key} was {_content(value)!r}, which is not kept; set to null")
        return None
    return value


def _gone(entry: Any, names: Names) -> bool:
    content = _content(entry)
    return content is not None and names.dropped(content)


def _content(entry: Any) -> str | None:
    """The text of a token that is written as a string or as an AddedToken."""
    if isinstance(entry, Mapping):
        entry = entry.get("content")
    return entry if isinstance(entry, str) else None

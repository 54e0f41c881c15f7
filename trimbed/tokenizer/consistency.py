"""Contradictions between a checkpoint's files: sizes, special tokens, ids. Reports; changes and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.side_files import SideFiles

__all__ = ["contradictions"]


def contradictions(document: TokenizerDocument, side: SideFiles, folder: Path, *, decided_by: str) -> list[str]:
    """A sentence for each thing that another file of the folder says otherwise than the document."""
    ids = {**{token.content: token.id for token in document.added_tokens}, **document.vocab}
    return [
        *_sizes(ids, side.config, decided_by),
        *_listed_ids(ids, side.tokenizer_config, decided_by),
        *_names(ids, side),
        *_config_ids(ids, side),
        *_other_vocabularies(document, folder, decided_by),
    ]


def _sizes(ids: Mapping[str, int], config: Mapping[str, Any], decided_by: str) -> list[str]:
    needed = max(ids.values(), default=-1) + 1
    text = config.get("text_config") if isinstance(config.get("text_config"), Mapping) else {}
    found = []
    for name, part in (("config.json", config), ("config.json text_config", text)):
        size = part.get("vocab_size") if isinstance(part, Mapping) else None
        if isinstance(size, int) and size < needed:
            found.append(f"{name} has vocab_size {size}, but {decided_by} has ids up to {needed - 1}")
    return found


def _listed_ids(ids: Mapping[str, int], config: Mapping[str, Any], decided_by: str) -> list[str]:
    listed = config.get("added_tokens_decoder")
    found = []
    for key, value in listed.items() if isinstance(listed, Mapping) else ():
        content = value.get("content") if isinstance(value, Mapping) else None
        if content is not None and str(ids.get(content)) != str(key):
            where = f"is {ids[content]}" if content in ids else "is missing"
            found.append(f"tokenizer_config.json gives {content!r} the id {key}; in {decided_by} it {where}")
    return found[:20] + ([f"and {len(found) - 20} more such ids"] if len(found) > 20 else [])


def _names(ids: Mapping[str, int], side: SideFiles) -> list[str]:
    found = []
    for role, name in side.special_names().items():
        other = side.special_tokens_map.get(f"{role}_token")
        other = other.get("content") if isinstance(other, Mapping) else other
        if name is not None and name not in ids:
            found.append(f"the {role} token {name!r} is not in the vocabulary")
        if isinstance(other, str) and other != name:
            found.append(
                f"the {role} token is {name!r} in tokenizer_config.json and {other!r} in special_tokens_map.json"
            )
    return found


def _config_ids(ids: Mapping[str, int], side: SideFiles) -> list[str]:
    found = []
    for role, name in side.special_names().items():
        value = side.config.get(f"{role}_token_id")
        values = value if isinstance(value, list) else [value]
        if name is not None and name in ids and isinstance(values[0], int) and ids[name] not in values:
            found.append(f"config.json has {role}_token_id {value}, but {name!r} is {ids[name]}")
    return found


def _other_vocabularies(document: TokenizerDocument, folder: Path, decided_by: str) -> list[str]:
    path = folder / "vocab.txt"
    if decided_by == path.name or not path.is_file():
        return []
    lines = path.read_text("utf-8", errors="replace").removesuffix("\n").split("\n")
    differing = sum(document.vocab.get(line.removesuffix("\r")) != index for index, line in enumerate(lines))
    if len(lines) != len(document.vocab) or differing:
        return [
            f"vocab.txt has {len(lines)} tokens, {differing} of them with another id than in {decided_by} "
            f"({len(document.vocab)} tokens)"
        ]
    return []

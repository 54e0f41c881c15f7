"""What a checkpoint's other files say about its tokenizer: special names, chat templates, architecture.

Knows tokenizer_config.json, special_tokens_map.json, config.json and where templates are kept. All are optional, and
none of them changes an id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimbed.errors import TokenizerError

__all__ = ["SideFiles", "read_json"]

_ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, {} where the file isn't there. Raises TokenizerError where it is broken."""
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is not valid JSON ({error}); is the file whole?") from None
    if not isinstance(value, dict):
        raise TokenizerError(f"{path} holds a {type(value).__name__}, not an object")
    return value


@dataclass(frozen=True)
class SideFiles:
    """The parsed files; empty mappings where a checkpoint lacks them. ``templates``: name -> Jinja source from files
    of their own; ``names``: special names that another source gives (GGUF), used where the files are silent."""

    tokenizer_config: dict[str, Any] = field(default_factory=dict)
    special_tokens_map: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    generation_config: dict[str, Any] = field(default_factory=dict)
    templates: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    architecture: str | None = None

    @classmethod
    def read(cls, folder: Path) -> SideFiles:
        """All of them from a checkpoint's folder."""
        templates: dict[str, str] = {}
        single = folder / "chat_template.jinja"
        if single.is_file():
            templates["default"] = single.read_text("utf-8")
        for extra in ("additional_chat_templates", "chat_templates"):
            for path in sorted((folder / extra).glob("*.jinja")) if (folder / extra).is_dir() else []:
                templates.setdefault(path.stem, path.read_text("utf-8"))
        legacy = read_json(folder / "chat_template.json").get("chat_template")
        if isinstance(legacy, str):
            templates.setdefault("default", legacy)
        return cls(
            tokenizer_config=read_json(folder / "tokenizer_config.json"),
            special_tokens_map=read_json(folder / "special_tokens_map.json"),
            config=read_json(folder / "config.json"),
            generation_config=read_json(folder / "generation_config.json"),
            templates=templates,
        )

    def special_names(self) -> dict[str, str | None]:
        """Role -> the token's text, from tokenizer_config.json, else special_tokens_map.json, else ``names``."""
        found: dict[str, str | None] = {}
        for role in _ROLES:
            for mapping in (self.tokenizer_config, self.special_tokens_map):
                value = mapping.get(f"{role}_token")
                if isinstance(value, dict):
                    value = value.get("content")
                if isinstance(value, str):
                    found[role] = value
                    break
            else:
                found[role] = self.names.get(role)
        return found

    @property
    def add_bos_token(self) -> bool:
        return bool(self.tokenizer_config.get("add_bos_token"))

    @property
    def add_eos_token(self) -> bool:
        return bool(self.tokenizer_config.get("add_eos_token"))

    def chat_templates(self) -> dict[str, str]:
        """Name -> source. A file of its own wins over tokenizer_config.json, as loaders have it."""
        found: dict[str, str] = {}
        inline = self.tokenizer_config.get("chat_template")
        if isinstance(inline, str):
            found["default"] = inline
        elif isinstance(inline, dict):
            found.update((name, text) for name, text in inline.items() if isinstance(text, str))
        elif isinstance(inline, list):
            found.update(
                (entry["name"], entry["template"])
                for entry in inline
                if isinstance(entry, dict) and isinstance(entry.get("template"), str) and "name" in entry
            )
        return {**found, **self.templates}

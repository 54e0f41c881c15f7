"""Model families as data: how a checkpoint names its architecture, and which markers its conversations need.

The descriptors are in families.yaml; users add theirs with ``register_family``. Markers are names, looked up in each
checkpoint's own vocabulary, never ids. An architecture that nobody described is no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from trimbed.errors import TokenizerError

__all__ = ["Family", "families", "family_of", "register_family"]


@dataclass(frozen=True)
class Family:
    """``architectures``: config.json ``architectures``; ``model_types``: config.json ``model_type``; ``gguf``: GGUF
    ``general.architecture``. ``stop``: markers that open or end turns and answers; ``tools``: markers of tool calls.
    ``template``: the family of its chat templates, "none" for models without. ``tool_calling``: whether those know
    tools."""

    name: str
    architectures: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    gguf: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    template: str = "none"
    tool_calling: bool = False

    @property
    def markers(self) -> tuple[str, ...]:
        """Everything that becomes structural where the vocabulary has it."""
        return (*self.stop, *self.tools)


_registered: list[Family] = []


def register_family(family: Family) -> None:
    """Know ``family`` from now on, before all others. A family of the same name is replaced."""
    _registered[:] = [other for other in _registered if other.name != family.name]
    _registered.insert(0, family)


def families() -> list[Family]:
    """All known families: the registered ones first, then ours."""
    names = {family.name for family in _registered}
    return [*_registered, *(family for family in _ours() if family.name not in names)]


@cache
def _ours() -> tuple[Family, ...]:
    import yaml

    entries = yaml.safe_load(files("trimbed.tokenizer").joinpath("families.yaml").read_text("utf-8"))
    return tuple(_family(entry) for entry in entries)


def _family(entry: Mapping[str, Any]) -> Family:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    try:
        return Family(**values)
    except TypeError as error:
        raise TokenizerError(f"family {entry.get('name')!r}: {error}") from None


def family_of(config: Mapping[str, Any], *, gguf_architecture: str | None = None) -> Family | None:
    """The family of a config.json (its nested text config counts too) or a GGUF architecture; None if unknown.

    ``model_type`` is looked at before ``architectures``: some models carry another's class name.
    """
    known = families()
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
    assert text is not None
    for kind in (config.get("model_type"), text.get("model_type")):
        for family in known:
            if kind in family.model_types:
                return family
    architectures = [*(config.get("architectures") or []), *(text.get("architectures") or [])]
    for architecture in architectures:
        for family in known:
            if architecture in family.architectures:
                return family
    for family in known:
        if gguf_architecture is not None and gguf_architecture in family.gguf:
            return family
    return None

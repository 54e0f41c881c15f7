"""Which ids no policy may drop, and why: what the model, the document and the checkpoint's files can't do without.

Gathers; each backend knows its own rules. Ids that a file names but the tokenizer hasn't are passed over here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trimbed.tokenizer.backend import components

if TYPE_CHECKING:
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["config_ids", "structural_ids"]

# config.json and generation_config.json: pad_token_id, forced_bos_token_id, image_token_index, eos_token_ids, …
_ID_KEY = re.compile(r"(\w+_)?token_(ids?|index)|(suppress|begin_suppress)_tokens")
_SUPPRESSED = ("suppress_tokens", "begin_suppress_tokens")


def structural_ids(spec: TokenizerSpec) -> dict[int, str]:
    """Id -> one reason, sorted by id: the backend's ids, every added token, what the post-processor and padding use,
    the roles that the checkpoint's files name, the ids in its configs, and its family's markers."""
    found = dict(spec.backend.structural_ids())
    for token in spec.added_tokens:
        found.setdefault(token.id, "special token" if token.special else "added token")
    for role, index in spec.special_ids.items():
        found.setdefault(index, f"{role} token")
    for index in _processor_ids(spec):
        found.setdefault(index, "post-processor")
    padding = spec.document.data.get("padding")
    if isinstance(padding, dict):
        for pad in (spec.token_to_id(str(padding.get("pad_token"))), padding.get("pad_id")):
            if isinstance(pad, int):
                found.setdefault(pad, "padding")
    for name, config in (("config.json", spec.side.config), ("generation_config.json", spec.side.generation_config)):
        for key, index in config_ids(config):
            found.setdefault(index, f"{key} in {name}")
    if spec.family is not None:
        for marker in spec.family.markers:
            if (index_of := spec.token_to_id(marker)) is not None:
                found.setdefault(index_of, f"{spec.family.name} marker")
    tokens = spec.tokens
    return {i: found[i] for i in sorted(found) if 0 <= i < len(tokens) and tokens[i] is not None}


def config_ids(config: Mapping[str, Any], *, within: str = "") -> Iterator[tuple[str, int]]:
    """Every token id that a model's config names, with its key; nested configs of a model's parts included.

    Lists of suppressed tokens are left out: a token that may not be generated need not exist.
    """
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from config_ids(value, within=f"{within}{key}.")
        elif _ID_KEY.fullmatch(key) and key not in _SUPPRESSED:
            for index in value if isinstance(value, list) else [value]:
                if type(index) is int:
                    yield within + key, index


def _processor_ids(spec: TokenizerSpec) -> list[int]:
    """The ids that the post-processor puts into encodings, by id and, where the vocabulary has them, by name."""
    found: list[int] = []
    names: list[str] = []
    for part in components(spec.document.data.get("post_processor")):
        special = part.get("special_tokens")
        for entry in special.values() if isinstance(special, dict) else ():
            names += entry.get("tokens") or []
            found += [index for index in entry.get("ids") or [] if isinstance(index, int)]
        for key in ("sep", "cls"):
            pair = part.get(key)
            if isinstance(pair, list | tuple) and len(pair) == 2:
                names.append(str(pair[0]))
                found += [pair[1]] if isinstance(pair[1], int) else []
    return found + [index for name in names if (index := spec.token_to_id(name)) is not None]

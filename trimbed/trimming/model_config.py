"""Follows the ids through config.json, generation_config.json and processor files. Knows keys, not models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimbed.errors import TrimError
from trimbed.trimming.renumbering import Renumbering

__all__ = ["ConfigEdit", "edit_config", "find_sizes", "find_value"]

ID_KEY = re.compile(r"(^|_)tokens?_(id|ids|index|indexes|indices)$|^(pad|bos|eos|unk|mask)_index$")
SIZE_KEY = re.compile(r"(^|_)(?<!type_)vocab(ulary)?_size($|_)")
ID_LISTS = ("suppress_tokens", "begin_suppress_tokens")
ID_TABLES = ("lang_to_id", "task_to_id")

# Without these a model pads, ends, starts or places images with a random word.
REQUIRED = re.compile(r"^(pad|eos|decoder_start|forced_bos|forced_eos|(image|video|audio|vision)\w*)_(token|tokens)_")

# Parts of a configuration that describe something without this vocabulary.
OTHER_PARTS = re.compile(r"^(vision|audio|image|video|codec|vq|quantization|rope|speech|acoustic|semantic)\w*$")


@dataclass
class ConfigEdit:
    """An edited configuration: ``data``; ``changes`` and ``warnings`` one line each."""

    data: dict[str, Any]
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def edit_config(
    config: Mapping[str, Any],
    renumbering: Renumbering,
    *,
    where: str,
    table_rows: Sequence[int] | None = None,
    names: Mapping[int, str] | None = None,
) -> ConfigEdit:
    """Renumber every id and vocabulary size of a configuration, nested ones too.

    ``table_rows``: the row counts of the checkpoint's vocabulary tables; sizes that match none of them are left, with a
    warning. None where there are no weights: then every size of a part that has this vocabulary changes.

    Ids of dropped tokens leave lists, and become null where they stand alone, with a warning each. Raises TrimError
    where the model can't do without one (padding, end, decoder start, image placeholders). ``names`` (old id -> token)
    only serves the messages.
    """
    offset = _find_offset(config)
    if offset is not None:
        raise TrimError(
            f"{where}: {offset} places ids of images or sound behind the text vocabulary by their number, and a cut "
            "would move them; trim the text model alone (its text_config and language model)"
        )
    edit = ConfigEdit({})
    editor = _Editor(renumbering, where, table_rows, names or {}, edit)
    edit.data = editor.part(config, "")
    return edit


@dataclass
class _Editor:
    ids: Renumbering
    where: str
    table_rows: Sequence[int] | None
    names: Mapping[int, str]
    edit: ConfigEdit

    def part(self, config: Mapping[str, Any], path: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in config.items():
            here = f"{path}.{key}" if path else key
            result[key] = self.value(key, value, here)
            if result[key] != value and not isinstance(value, Mapping):
                self.edit.changes.append(f"{self.where}: {here} {_short(value)} -> {_short(result[key])}")
        return result

    def value(self, key: str, value: Any, here: str) -> Any:
        if value is None:
            return None
        if SIZE_KEY.search(key) and _is_id(value):
            return self.size(value, here)
        if ID_KEY.search(key):
            return self.id_or_list(key, value, here)
        if key in ID_LISTS and isinstance(value, list):
            return self.flat(value, here, required=False)
        if key in ("bad_words_ids", "force_words_ids") and isinstance(value, list):
            return self.phrases(value, here)
        if key == "sequence_bias" and isinstance(value, list):
            return self.pairs(value, here, lambda pair: (pair[0], lambda ids: [ids, pair[1]]))
        if key == "forced_decoder_ids" and isinstance(value, list):
            return self.forced(value, here)
        if key in ID_TABLES and isinstance(value, Mapping):
            table = {name: self.one(number, f"{here}.{name}") for name, number in value.items()}
            return {name: number for name, number in table.items() if number is not None}
        if isinstance(value, Mapping):
            return dict(value) if OTHER_PARTS.match(key) else self.part(value, here)
        return value

    def size(self, value: int, here: str) -> int:
        if self.table_rows is not None and value not in self.table_rows:
            self.edit.warnings.append(
                f"{self.where}: {here} is {value}, which is the size of no vocabulary table here "
                f"({', '.join(map(str, sorted(set(self.table_rows)))) or 'none found'}); left as it is"
            )
            return value
        return self.ids.table_size(value)

    def id_or_list(self, key: str, value: Any, here: str) -> Any:
        required = bool(REQUIRED.match(key))
        if isinstance(value, list):
            return self.flat(value, here, required=required)
        if isinstance(value, Mapping):
            return self.part(value, here)
        if not _is_id(value) or value < 0:  # -1 and the like mean "none" where they stand
            return value
        new = self.one(value, here)
        if new is None and required:
            raise TrimError(
                f"{self.where}: {here} is {value} ({self.names.get(value, 'no token')!r}), which the model can't do "
                "without, and it isn't kept; keep this id"
            )
        return new

    def one(self, number: Any, here: str) -> int | None:
        if not _is_id(number) or number < 0:
            return number if isinstance(number, int) else None
        new = self.ids.new(number)
        if new is None:
            self.edit.warnings.append(
                f"{self.where}: {here} named id {number} ({self.names.get(number, 'no token')!r}), which is not kept; "
                "removed"
            )
        return new

    def flat(self, value: list[Any], here: str, *, required: bool) -> list[Any]:
        if value and all(isinstance(inner, list) for inner in value):
            return self.phrases(value, here)
        kept = [new for number in value if (new := self.one(number, here)) is not None]
        if required and value and not kept:
            raise TrimError(f"{self.where}: none of the ids of {here} ({value}) is kept; the model can't do without")
        return kept

    def phrases(self, value: list[Any], here: str) -> list[Any]:
        """Lists of ids; one that lost an id can't be matched any more and goes as a whole. May be nested once more."""
        kept = []
        for phrase in value:
            if isinstance(phrase, list) and phrase and all(isinstance(inner, list) for inner in phrase):
                inner = self.phrases(phrase, here)
                if inner:
                    kept.append(inner)
                continue
            ids = [self.one(number, here) for number in phrase]
            if None not in ids:
                kept.append(ids)
        return kept

    def pairs(self, value: list[Any], here: str, split: Callable[[Any], Any]) -> list[Any]:
        kept = []
        for pair in value:
            ids, build = split(pair)
            new = [self.one(number, here) for number in ids]
            if None not in new:
                kept.append(build(new))
        return kept

    def forced(self, value: list[Any], here: str) -> list[Any]:
        """[position, id] pairs; an id of null means that the position is free."""
        kept = []
        for position, number in value:
            new = None if number is None else self.one(number, here)
            if number is None or new is not None:
                kept.append([position, new])
        return kept


def _find_offset(config: Mapping[str, Any], path: str = "") -> str | None:
    for key, value in config.items():
        here = f"{path}.{key}" if path else key
        if key == "vocab_offset" and _is_id(value):
            return here
        if isinstance(value, Mapping):
            found = _find_offset(value, here)
            if found is not None:
                return found
    return None


def find_sizes(config: Mapping[str, Any]) -> dict[str, int]:
    """Dotted path -> value of every vocabulary size that a configuration states, nested ones included."""
    found: dict[str, int] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            if not OTHER_PARTS.match(key):
                found |= {f"{key}.{inner}": size for inner, size in find_sizes(value).items()}
        elif SIZE_KEY.search(key) and _is_id(value):
            found[key] = value
    return found


def find_value(config: Mapping[str, Any], key: str) -> tuple[list[str], Any] | None:
    """Where a key stands: at the top, or in the part that describes the text model. (path, value) or None."""
    if key in config:
        return [key], config[key]
    for part in ("text_config", "language_config", "llm_config", "decoder", "thinker_config"):
        inner = config.get(part)
        if isinstance(inner, Mapping):
            found = find_value(inner, key)
            if found is not None:
                return [part, *found[0]], found[1]
    return None


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"

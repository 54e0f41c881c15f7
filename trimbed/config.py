"""One configuration for every command: YAML file, then flags, then ``key.path=value`` overrides; later wins.

Knows how a configuration is put together and checked, not what its parts mean: those stand with the code that acts
on them (``counting.config``, ``selection.policy``, ``trimming.config``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trimbed.counting.config import CorpusConfig
from trimbed.errors import UsageError
from trimbed.selection.policy import SelectionConfig, SweepConfig
from trimbed.trimming.config import TrimConfig

__all__ = ["ModelConfig", "TrimbedConfig", "load_config", "parse_override", "read_yaml"]


class ModelConfig(BaseModel):
    """Which tokenizer or checkpoint."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(default=None, description="A folder, a file or a Hub id.")
    revision: str | None = Field(default=None, description="The Hub revision: a commit, a tag or a branch.")


class TrimbedConfig(BaseModel):
    """Everything a run can be told."""

    model_config = ConfigDict(extra="forbid")

    model: ModelConfig = Field(default_factory=ModelConfig, description="The tokenizer or checkpoint.")
    cache: str | None = Field(default=None, description="The counts cache: a folder or a URL.")
    corpus: CorpusConfig = Field(default_factory=CorpusConfig, description="What to count.")
    selection: SelectionConfig = Field(default_factory=SelectionConfig, description="What to keep.")
    sweep: SweepConfig = Field(default_factory=SweepConfig, description="Which policies to compare.")
    trim: TrimConfig = Field(default_factory=TrimConfig, description="How to write the result.")
    output: str | None = Field(default=None, description="The folder that trim writes.")

    def require_model(self) -> str:
        if not self.model.path:
            raise UsageError("no tokenizer given: use --model, or model.path in the config")
        return self.model.path

    def require_cache(self) -> str:
        if not self.cache:
            raise UsageError("no counts cache given: use --cache, or cache in the config")
        return self.cache


def load_config(
    path: str | Path | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
) -> TrimbedConfig:
    """Read, merge and check a configuration.

    ``flags`` maps dotted paths to values; those that are None were not given. ``overrides`` are ``key.path=value``
    strings, the value in YAML; a number in the path is a list index.

    Raises UsageError naming each offending key and, for one that doesn't exist, the nearest that does.
    """
    where = str(path) if path is not None else "the configuration"
    data: Any = read_yaml(path) if path is not None else {}
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise UsageError(f"{where}: expected keys and values at the top, found {type(data).__name__}")
    for dotted, value in (flags or {}).items():
        if value is not None:
            _assign(data, dotted.split("."), value, dotted)
    for text in overrides:
        keys, value = parse_override(text)
        _assign(data, keys, value, text)
    try:
        config = TrimbedConfig.model_validate(data)
    except ValidationError as error:
        raise UsageError("\n".join(f"{where}: {line}" for line in _explain(error))) from None
    if config.model.revision and config.model.path and Path(config.model.path).expanduser().exists():
        raise UsageError(
            f"{where}: model.revision is {config.model.revision!r}, but model.path {config.model.path!r} is on this "
            "disk and has no revisions; drop one of the two"
        )
    return config


class _StrictLoader(yaml.SafeLoader):
    """YAML without code, and without keys that silently overwrite each other."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.MarkedYAMLError(problem=f"the key {key!r} stands twice", problem_mark=key_node.start_mark)
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: str | Path) -> Any:
    """One YAML document from a local file. Raises UsageError with file and line."""
    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8")
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory; give the YAML file in it") from None
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from None
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise UsageError(f"{path}, line {line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path} isn't YAML: {error}") from None


def parse_override(text: str) -> tuple[list[str], Any]:
    """``a.b[0].c=value`` or ``a.b.0.c=value`` -> (["a", "b", "0", "c"], value). Raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{text!r} is not an override; write key.path=value, such as selection.coverage=0.999")
    try:
        parsed = yaml.load(value, Loader=_StrictLoader)
    except yaml.YAMLError:
        parsed = value
    return re.sub(r"\[(\d+)\]", r".\1", key.strip()).split("."), parsed


def _assign(data: Any, keys: Sequence[str], value: Any, text: str) -> None:
    """Set ``value`` below ``keys``; lists are entered by index, one past the end appends."""
    here = data
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if isinstance(here, list):
            if not key.isdigit() or int(key) > len(here):
                known = f"0 to {len(here)}" if here else "0"
                raise UsageError(f"{text!r}: {'.'.join(keys[:depth])} is a list; {key!r} is no index of it ({known})")
            if int(key) == len(here):
                here.append({})
            if last:
                here[int(key)] = value
            else:
                here = here[int(key)]
        elif isinstance(here, dict):
            if last:
                here[key] = value
            else:
                if here.get(key) is None:
                    here[key] = [] if keys[depth + 1].isdigit() else {}
                here = here[key]
        else:
            raise UsageError(f"{text!r}: {'.'.join(keys[:depth])} is a plain value and has no {key!r} in it")


def _explain(error: ValidationError) -> Iterable[str]:
    for problem in error.errors():
        location = _dotted(problem["loc"])
        if problem["type"] == "extra_forbidden":
            known = _fields_at(TrimbedConfig, problem["loc"][:-1])
            near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
            yield f"unknown key {location}; {hint}"
        else:
            message = problem["msg"].removeprefix("Value error, ")
            given = problem.get("input")
            shown = "" if isinstance(given, (dict, list)) or problem["type"] == "missing" else f" (got {given!r})"
            yield f"{location + ': ' if location else ''}{message[:1].lower()}{message[1:]}{shown}"


def _dotted(location: Sequence[str | int]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """The keys that may stand at ``location``."""
    for part in location:
        field = model.model_fields.get(str(part)) if isinstance(part, str) else None
        if field is None:
            continue
        for candidate in _models_in(field.annotation):
            model = candidate
            break
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)

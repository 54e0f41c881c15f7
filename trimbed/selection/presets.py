"""Named sets of tokens: the registry that users and other packages add to, and the built-in ones without a parameter.

A preset is a function from a ``PresetContext`` to a mask over the vocabulary. It chooses among the tokens there are
and never adds any. Parametrised ones (``script:Latin``) are in ``selection.alphabets``.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import UsageError
from trimbed.selection.surfaces import SurfaceTable, code_points, white_space

if TYPE_CHECKING:
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = [
    "ENTRY_POINTS",
    "PresetContext",
    "PresetInfo",
    "available_presets",
    "check_preset",
    "preset_rows",
    "register_parametrised_preset",
    "register_preset",
    "resolve_preset",
]

ENTRY_POINTS = "trimbed.presets"


class PresetContext:
    """What a preset can look at: ``spec``, and its surfaces as arrays in ``table``."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.spec = spec

    @cached_property
    def table(self) -> SurfaceTable:
        return SurfaceTable.of(self.spec.surfaces())

    def mask(self, ids: list[int]) -> np.ndarray:
        """bool[vocab_size] with ``ids`` marked."""
        found = np.zeros(self.spec.vocab_size, dtype=bool)
        found[ids] = True
        return found


Preset = Callable[[PresetContext], np.ndarray]
ParametrisedPreset = Callable[[PresetContext, str], np.ndarray]


@dataclass(frozen=True)
class PresetInfo:
    """``name`` (``script:…`` for a family), whether its tokens are kept anyway, and what it holds, in one line."""

    name: str
    always_kept: bool
    summary: str


_presets: dict[str, tuple[Preset, bool]] = {}
_families: dict[str, ParametrisedPreset] = {}
_loaded: set[str] = set()


def register_preset(name: str, *, always_kept: bool = False) -> Callable[[Preset], Preset]:
    """A decorator that makes ``name`` usable in ``keep_presets``.

    The function gets a PresetContext and returns bool[vocab_size]; the first line of its docstring is what
    ``trimbed presets`` shows. Raises UsageError for a name that is taken or has a colon in it.

    >>> @register_preset("arrows")
    ... def arrows(context):
    ...     "Tokens of nothing but arrows."
    ...     return context.table.wholly(code_points("←↑→↓"))
    """

    def add(preset: Preset) -> Preset:
        if ":" in name:
            raise UsageError(f"the preset name {name!r} has a colon in it; that is for register_parametrised_preset")
        if name in _presets:
            raise UsageError(f"there is a preset {name!r} already")
        _presets[name] = (preset, always_kept)
        return preset

    return add


def register_parametrised_preset(prefix: str) -> Callable[[ParametrisedPreset], ParametrisedPreset]:
    """A decorator that makes ``prefix:argument`` usable in ``keep_presets``; the function gets (context, argument)."""

    def add(preset: ParametrisedPreset) -> ParametrisedPreset:
        if ":" in prefix:
            raise UsageError(f"the preset family {prefix!r} has a colon in its name")
        if prefix in _families:
            raise UsageError(f"there is a preset family {prefix!r} already")
        _families[prefix] = preset
        return preset

    return add


def available_presets() -> list[PresetInfo]:
    """All presets: those kept anyway, the opt-in ones, the families; each group by name."""
    _load()
    plain = [PresetInfo(name, always, _summary(preset)) for name, (preset, always) in _presets.items()]
    families = [PresetInfo(f"{prefix}:…", False, _summary(preset)) for prefix, preset in _families.items()]
    return sorted(plain, key=lambda info: (not info.always_kept, info.name)) + sorted(families, key=lambda i: i.name)


def resolve_preset(name: str, context: TokenizerSpec | PresetContext) -> np.ndarray:
    """bool[vocab_size]: the tokens that ``name`` stands for. Raises UsageError for a name or argument unknown."""
    check_preset(name)
    context = context if isinstance(context, PresetContext) else PresetContext(context)
    if name in _presets:
        found = _presets[name][0](context)
    else:
        prefix, _, argument = name.partition(":")
        found = _families[prefix](context, argument)
    present = np.array([token is not None for token in context.spec.tokens], dtype=bool)
    chosen: np.ndarray = np.asarray(found, dtype=bool) & present
    return chosen


def preset_rows(names: Sequence[str], spec: TokenizerSpec | None = None) -> list[dict[str, Any]]:
    """Rows to show: the presets ``names``, or all; with ``spec``, how many tokens each holds there, and a few of them.

    Families have no number of their own, but are shown by script where ``spec`` has tokens of one. Raises UsageError.
    """
    for name in names:
        check_preset(name)
    infos = {info.name: info for info in available_presets()}
    context = PresetContext(spec) if spec is not None else None
    wanted = list(names) or list(infos)
    if context is not None and not names:
        scripts = {script for script in context.spec.scripts() if script not in (None, "mixed", "Zyyy", "Zinh", "Zzzz")}
        wanted += sorted(f"script:{script}" for script in scripts)
    rows = []
    for name in wanted:
        info = infos.get(name) or infos.get(f"{name.partition(':')[0]}:…")
        row: dict[str, Any] = {"preset": name, "kept": "always" if info and info.always_kept else "on request"}
        if context is not None and not name.endswith(":…"):
            ids = np.flatnonzero(resolve_preset(name, context)).tolist()
            row["tokens"] = len(ids)
            step = max(1, len(ids) // 5)
            row["examples"] = " ".join(repr(context.spec.tokens[index]) for index in ids[::step][:5])
        elif context is not None:
            row["tokens"], row["examples"] = None, ""
        row["what"] = info.summary if info else ""
        rows.append(row)
    return rows


def check_preset(name: str) -> None:
    """Raise UsageError, with the nearest names, where there is no preset ``name``."""
    _load()
    prefix, colon, argument = name.partition(":")
    if name in _presets or (colon and prefix in _families and argument):
        return
    if prefix in _families:
        raise UsageError(f"the preset {prefix!r} needs an argument: {prefix}:…; see trimbed presets")
    known = [*_presets, *(f"{family}:" for family in _families)]
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(sorted(known))}"
    raise UsageError(f"there is no preset {name!r}; {hint}")


def _load() -> None:
    """Import the families, and the presets that installed packages announce under ``trimbed.presets``."""
    from importlib import import_module
    from importlib.metadata import entry_points

    import_module("trimbed.selection.alphabets")
    for entry in entry_points(group=ENTRY_POINTS):
        key = f"{entry.name}={entry.value}"
        if key not in _loaded:
            _loaded.add(key)
            found = entry.load()  # a module registers on import; a function is registered here, by the entry's name
            if callable(found) and entry.name not in _presets:
                register_preset(entry.name)(found)


def _summary(preset: Callable[..., object]) -> str:
    lines = (preset.__doc__ or "").strip().splitlines()
    return lines[0].strip() if lines else ""


# -- kept anyway --------------------------------------------------------------------------------------------------


@register_preset("structural", always_kept=True)
def _structural(context: PresetContext) -> np.ndarray:
    """Everything that no policy may drop: the four below, what the post-processor names, and what the model needs."""
    return context.mask(list(context.spec.structural_ids()))


@register_preset("added_tokens", always_kept=True)
def _added_tokens(context: PresetContext) -> np.ndarray:
    """Every entry of the tokenizer's added tokens, special or not."""
    return context.mask([token.id for token in context.spec.added_tokens])


@register_preset("special_tokens", always_kept=True)
def _special_tokens(context: PresetContext) -> np.ndarray:
    """Added tokens that are marked special, such as <|endoftext|> or [SEP]."""
    return context.mask([token.id for token in context.spec.added_tokens if token.special])


@register_preset("unk", always_kept=True)
def _unk(context: PresetContext) -> np.ndarray:
    """The token for what can't be encoded, if there is one."""
    unk = context.spec.unk_id
    return context.mask([] if unk is None else [unk])


@register_preset("byte_alphabet", always_kept=True)
def _byte_alphabet(context: PresetContext) -> np.ndarray:
    """The characters that stand for single bytes (byte-level), or <0x00> to <0xFF> (byte fallback)."""
    return context.mask([i for i, reason in context.spec.backend.structural_ids().items() if reason == "byte"])


# -- opt-in -------------------------------------------------------------------------------------------------------


@register_preset("single_characters")
def _single_characters(context: PresetContext) -> np.ndarray:
    """Tokens of one character, with or without a space before it."""
    return context.table.of_length(1)


@register_preset("ascii_letters")
def _ascii_letters(context: PresetContext) -> np.ndarray:
    """Tokens of nothing but A to Z and a to z, with or without spaces around."""
    return context.table.wholly(code_points(string.ascii_letters))


@register_preset("digits")
def _digits(context: PresetContext) -> np.ndarray:
    """Tokens of nothing but 0 to 9, with or without spaces around."""
    return context.table.wholly(code_points(string.digits))


@register_preset("alphanumeric")
def _alphanumeric(context: PresetContext) -> np.ndarray:
    """Tokens of nothing but A to Z, a to z and 0 to 9, with or without spaces around."""
    return context.table.wholly(code_points(string.ascii_letters + string.digits))


@register_preset("punctuation")
def _punctuation(context: PresetContext) -> np.ndarray:
    """Tokens of nothing but ASCII punctuation, with or without spaces around."""
    return context.table.wholly(code_points(string.punctuation))


@register_preset("whitespace")
def _whitespace(context: PresetContext) -> np.ndarray:
    """Tokens of nothing but white space."""
    return context.table.wholly(white_space(), trimmed=False)


@register_preset("ascii_printable")
def _ascii_printable(context: PresetContext) -> np.ndarray:
    """Tokens of nothing but printable ASCII and ASCII white space."""
    return context.table.wholly(code_points(string.printable), trimmed=False)

"""Presets from Unicode's and CLDR's data: emoji, ``script:``, ``language:`` and ``range:``.

Scripts come from fontTools' copy of Unicode's script data, languages from the CLDR exemplar characters that
``gflanguages`` carries (the ``languages`` extra).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Any

import numpy as np

from trimbed.errors import MissingExtra, UsageError
from trimbed.selection.presets import PresetContext, register_parametrised_preset, register_preset
from trimbed.selection.surfaces import CODE_POINTS, code_points, white_space

__all__ = ["exemplar_characters", "script_table"]

_SHARED = ("Zyyy", "Zinh")  # digits, punctuation, marks: written in every script

# Emoji that are no pictographs by themselves but parts of their sequences: the joiner, the keycap, the presentation
# selector, skin tones (in the range below), flags' letters and their tags.
_EMOJI_PARTS = [0x200D, 0x20E3, 0xFE0F, *range(0x1F1E6, 0x1F200), *range(0xE0020, 0xE0080)]
# Blocks whose assigned symbols are pictographs, and the older symbols that have emoji presentation by default.
_EMOJI_BLOCKS = [(0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1F9FF), (0x1FA70, 0x1FAFF)]
_EMOJI_SINGLES = (
    "⌚⌛⏩⏪⏫⏬⏰⏳◽◾☔☕♈♉♊♋♌♍♎♏♐♑♒♓♿⚓⚡⚪⚫⚽⚾⛄⛅⛎⛔⛪⛲⛳⛵⛺⛽✅✊✋✨❌❎❓❔❕❗➕➖➗➰➿⬛⬜⭐⭕🀄🃏🆎"
    "🆑🆒🆓🆔🆕🆖🆗🆘🆙🆚🈁🈚🈯🈲🈳🈴🈵🈶🈸🈹🈺🉐🉑🟠🟡🟢🟣🟤🟥🟦🟧🟨🟩🟪🟫🟰❤☀☁☂☃☄☎☑☘☝☠☢☣☦☪☮☯☸☹☺♀♂♠♣♥♦♨♻♾⚒⚔⚕⚖⚗⚙⚛⚜⚠⚧⚰⚱✂✈✉✌✍✏✒✔✖✝✡✳✴❄❇❣➡⤴⤵⬅⬆⬇〰〽㊗㊙"
)


@functools.cache
def _emoji_tables() -> tuple[np.ndarray, np.ndarray]:
    """(pictographs, pictographs and what joins them), bool[0x110000] each."""
    pictographs = code_points(_EMOJI_SINGLES)
    for first, last in _EMOJI_BLOCKS:
        for code in range(first, last + 1):
            pictographs[code] = unicodedata.category(chr(code)) in ("So", "Sk", "Cn")
    pictographs[0x1F1E6:0x1F200] = True
    return pictographs, pictographs | code_points(_EMOJI_PARTS)


@register_preset("emoji")
def _emoji(context: PresetContext) -> np.ndarray:
    """Tokens of nothing but emoji and what joins them (skin tones, flags, joiners), with or without spaces around."""
    pictographs, allowed = _emoji_tables()
    table = context.table
    return table.wholly(allowed) & (table.number(pictographs[table.codes]) > 0)


@functools.cache
def _script_numbers() -> tuple[np.ndarray, tuple[str, ...]]:
    """uint16[0x110000], each code point's script as an index into the codes that follow."""
    from fontTools.unicodedata import Scripts

    names = tuple(dict.fromkeys(Scripts.VALUES))
    number = {name: index for index, name in enumerate(names)}
    starts = np.array(Scripts.RANGES)
    values = np.array([number[value] for value in Scripts.VALUES], dtype=np.uint16)
    return np.repeat(values, np.diff(np.append(starts, CODE_POINTS))), names


def script_table(name: str) -> np.ndarray:
    """bool[0x110000]: the characters of one script, by its Unicode name or ISO 15924 code, in any case.

    Characters that several scripts share by Unicode's extensions (such as the Japanese length mark) are in each of
    them. ``Jpan``, ``Hans``, ``Hant``, ``Kore`` and ``Hrkt`` are the unions that ISO defines. Raises UsageError.
    """
    from fontTools import unicodedata as tables
    from fontTools.unicodedata import ScriptExtensions

    unions = {
        "jpan": ("Hani", "Hira", "Kana"),
        "hans": ("Hani",),
        "hant": ("Hani",),
        "kore": ("Hani", "Hang"),
        "hrkt": ("Hira", "Kana"),
    }
    numbers, codes = _script_numbers()
    found = np.zeros(CODE_POINTS, dtype=bool)
    for code in unions.get(name.strip().lower()) or (_script_code(name),):
        if code in codes:
            found |= numbers == codes.index(code)
        ends = [*ScriptExtensions.RANGES[1:], CODE_POINTS]
        for first, end, scripts in zip(ScriptExtensions.RANGES, ends, ScriptExtensions.VALUES, strict=True):
            if scripts and code in scripts and tables.script(chr(first)) in _SHARED:
                found[first:end] = True
    return found


def _script_code(name: str) -> str:
    from fontTools import unicodedata as tables
    from fontTools.unicodedata import Scripts

    wanted = name.strip().replace(" ", "_").replace("-", "_").lower()
    for code, long_name in Scripts.NAMES.items():
        if wanted in (code.lower(), long_name.lower()):
            return str(code)
    try:
        return str(tables.script_code(name))
    except KeyError:
        import difflib

        known = [*Scripts.NAMES.values(), *Scripts.NAMES]
        near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "use a Unicode name such as Latin, or an ISO code"
        raise UsageError(f"there is no script {name!r}; {hint}") from None


@register_parametrised_preset("script")
def _script(context: PresetContext, name: str) -> np.ndarray:
    """Tokens written in one Unicode script, by name or ISO code; shared digits and punctuation may stand beside it."""
    own = script_table(name)
    numbers, codes = _script_numbers()
    shared = np.isin(numbers, [codes.index(code) for code in _SHARED])
    table = context.table
    # Characters that are the script's only by extension (a comma of several) don't make a token the script's.
    marking = own & ~shared if (own & ~shared).any() else own
    return table.wholly(own | shared) & (table.number(marking[table.codes]) > 0)


@register_parametrised_preset("range")
def _range(context: PresetContext, text: str) -> np.ndarray:
    """Tokens of nothing but the characters of a range such as U+0400-U+04FF (several: commas), spaces around aside."""
    allowed = np.zeros(CODE_POINTS, dtype=bool)
    for part in text.split(","):
        match = re.fullmatch(r"\s*U\+([0-9A-Fa-f]{1,6})(?:\s*(?:-|\.\.)\s*(?:U\+)?([0-9A-Fa-f]{1,6}))?\s*", part)
        if not match:
            raise UsageError(f"{part.strip()!r} is no range of code points; write U+0400-U+04FF or U+00DF")
        first = int(match[1], 16)
        last = int(match[2], 16) if match[2] else first
        if first > last or last >= CODE_POINTS:
            raise UsageError(f"{part.strip()!r} is no range of code points: it must ascend and end by U+10FFFF")
        allowed[first : last + 1] = True
    # A range may be of spaces themselves.
    found: np.ndarray = context.table.wholly(allowed) | context.table.wholly(allowed & white_space(), trimmed=False)
    return found


@register_parametrised_preset("language")
def _language(context: PresetContext, code: str) -> np.ndarray:
    """Tokens of nothing but the letters and marks that CLDR lists for a language, such as language:de or sr_Cyrl."""
    return context.table.wholly(code_points(sorted(exemplar_characters(code))))


def exemplar_characters(code: str) -> frozenset[str]:
    """The letters and marks of CLDR's main exemplar set for a language, in both cases, composed and decomposed.

    ``code``: a language (``de``; its most used script, or each of several equally used ones) or a language and script
    (``sr_Cyrl``, ``zh-Hant``). Raises UsageError where none is listed, MissingExtra without ``gflanguages``.
    """
    languages = _languages()
    wanted = code.strip().replace("-", "_").lower()
    matches = [key for key in languages if key.lower() == wanted]
    if not matches:
        matches = [
            key for key in languages if key.lower().split("_")[0] == wanted and languages[key].exemplar_chars.base
        ]
        most = max((languages[key].population for key in matches), default=0)
        matches = [key for key in matches if languages[key].population == most]
    characters: set[str] = set()
    for key in matches:
        exemplars = languages[key].exemplar_chars
        characters |= _expand(exemplars.base)
        # Its list of marks mixes those of foreign letters in, which for Latin, Greek and Cyrillic are the generic
        # combining ones: those come with the letters that have them. The marks of a script of its own are letters.
        characters |= {c for c in _expand(exemplars.marks) if not 0x300 <= ord(c) < 0x370}
    if not characters:
        raise UsageError(f"CLDR lists no characters for the language {code!r}; use a code such as de, el or sr_Cyrl")
    return frozenset(characters)


def _expand(text: str) -> set[str]:
    """Every character of an exemplar list: its clusters' parts, both cases, both normal forms."""
    found: set[str] = set()
    for character in re.sub(r"[{}\s◌]", "", text):
        for cased in (character, character.lower(), character.upper(), character.title()):
            for form in ("NFC", "NFD"):
                found.update(unicodedata.normalize(form, cased))
    return found


@functools.cache
def _languages() -> dict[str, Any]:
    try:
        import gflanguages
    except ImportError:
        raise MissingExtra("language: presets need the languages extra: pip install 'trimbed[languages]'") from None
    return dict(gflanguages.LoadLanguages())

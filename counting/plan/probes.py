"""What the `tokenizers` library itself thinks of every code point: each of its parts carries its own Unicode tables.

Knows how to ask a regex atom, a character predicate and a character-wise normalizer about all code points at once.
Knows nothing of cuts. Answers are kept for the life of the process: they depend on the library alone.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from tokenizers import PreTokenizedString, Regex, Tokenizer, decoders, pre_tokenizers

from trimbed.counting.plan.kernel_plan import CODE_POINTS

__all__ = [
    "Images",
    "all_text",
    "atom_members",
    "categories",
    "changes",
    "code_points",
    "folding_letters",
    "folds_to_one",
    "images",
    "library_part",
    "other_members",
    "predicate_members",
    "scalar_values",
    "without_matches",
    "word_members",
]

FENCE = "\u16a0"  # a letter without case, decomposition or any other history: every normalizer gives it back


@lru_cache(maxsize=1)
def scalar_values() -> np.ndarray:
    """uint32[n]: every code point that can occur in text, in order."""
    every = np.arange(CODE_POINTS, dtype=np.uint32)
    return every[(every < 0xD800) | (every > 0xDFFF)]


@lru_cache(maxsize=1)
def all_text() -> str:
    """Every code point that can occur in text, in order."""
    return scalar_values().tobytes().decode("utf-32-le")


def code_points(text: str) -> np.ndarray:
    """uint32[n]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def without_matches(pattern: str, text: str) -> str:
    """``text`` without the matches of ``pattern`` in the library's regex engine.

    Raises an Exception of the library's where that isn't a valid regex.
    """
    # The decoder searches as the normalizer Replace does, but keeps no account of where every byte came from.
    left: str = decoders.Replace(Regex(pattern), "").decode([text])
    return left


@lru_cache(maxsize=512)
def atom_members(atom: str) -> np.ndarray:
    """bool[0x110000]: the code points that the one-character regex ``atom`` matches, in the library's regex engine.

    Raises an Exception of the library's where the atom isn't a valid regex.
    """
    members = np.zeros(CODE_POINTS, dtype=bool)
    members[scalar_values()] = True
    members[code_points(without_matches(f"(?:{atom})+", all_text()))] = False
    members.flags.writeable = False
    return members


def _pieces(pre_tokenizer: Any, text: str) -> Iterator[str]:
    """What ``pre_tokenizer`` makes of ``text``, in stretches that are quick to split."""
    for start in range(0, len(text), 4096):
        stretch = PreTokenizedString(text[start : start + 4096])
        pre_tokenizer.pre_tokenize(stretch)
        # Places in bytes, which nobody asks for here, need no second look at the text.
        for piece, _, _ in stretch.get_splits("original", "byte"):
            yield piece


def _kept(pre_tokenizer: Any) -> np.ndarray:
    """bool[0x110000]: what a pre-tokenizer that removes characters leaves of all code points."""
    kept = np.zeros(CODE_POINTS, dtype=bool)
    kept[code_points("".join(_pieces(pre_tokenizer, all_text())))] = True
    return kept


@lru_cache(maxsize=8)
def predicate_members(name: str) -> np.ndarray:
    """bool[0x110000]: the code points for which Rust says ``whitespace``, ``punctuation`` or ``numeric``."""
    if name == "whitespace":
        members = ~_kept(pre_tokenizers.WhitespaceSplit())
    elif name == "punctuation":
        members = ~_kept(pre_tokenizers.Punctuation("removed"))
    elif name == "numeric":
        members = _runs(pre_tokenizers.Digits(individual_digits=False), "a")
    else:
        raise KeyError(name)
    members[0xD800:0xE000] = False
    return members


def _runs(splitter: Any, letter: str) -> np.ndarray:
    """The code points of the runs that ``splitter`` makes, whose first character it parts from ``letter``."""
    apart = (piece for piece in _pieces(splitter, all_text()) if len(splitter.pre_tokenize_str(letter + piece[0])) == 2)
    members = np.zeros(CODE_POINTS, dtype=bool)
    members[code_points("".join(apart))] = True
    return members


@lru_cache(maxsize=1)
def _words_and_others() -> tuple[np.ndarray, np.ndarray]:
    splitter = pre_tokenizers.Whitespace()
    others = _runs(splitter, "a")
    words: np.ndarray = _kept(splitter) & ~others
    return words, others


def word_members() -> np.ndarray:
    r"""bool[0x110000]: ``\w`` of Rust's regex crate, which the pre-tokenizer Whitespace and ``single_word`` use."""
    return _words_and_others()[0]


def other_members() -> np.ndarray:
    r"""bool[0x110000]: ``[^\w\s]`` of Rust's regex crate."""
    return _words_and_others()[1]


@dataclass(frozen=True, eq=False)
class Images:
    """What a normalizer makes of each code point on its own.

    ``first``, ``last``: int32[0x110000], the first and last code point of the image, -1 where the image is empty.
    ``texts``: the images that are longer than one character.
    """

    first: np.ndarray
    last: np.ndarray
    texts: Mapping[int, str]


def library_part(kind: str, part: Mapping[str, Any]) -> Any:
    """The library's own object for one entry of a document; ``kind`` is normalizer or pre_tokenizer."""
    shell: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
    }
    return getattr(Tokenizer.from_str(json.dumps({**shell, kind: part})), kind)


def _each(normalize: Callable[[str], str], text: str) -> list[str]:
    """What ``normalize`` makes of each character of ``text`` on its own."""
    fenced = normalize(FENCE + (FENCE * 2).join(text) + FENCE)
    parts = fenced[1:-1].split(FENCE * 2)
    if len(parts) != len(text) or FENCE in text or fenced[:1] + fenced[-1:] != FENCE * 2:
        return [normalize(char) for char in text]
    return parts


@lru_cache(maxsize=64)
def _changes(spec: str) -> Mapping[int, str]:
    normalize: Callable[[str], str] = library_part("normalizer", json.loads(spec)).normalize_str
    changed: dict[int, str] = {}

    def look(text: str, steps: tuple[int, ...]) -> None:
        """Stretches that stay as they are, or vanish whole, are seen at a glance."""
        whole = normalize(text)
        if whole == text:
            return
        if not whole:
            changed.update(dict.fromkeys(map(ord, text), ""))
        elif steps:
            for start in range(0, len(text), steps[0]):
                look(text[start : start + steps[0]], steps[1:])
        else:
            compare(text)

    def compare(text: str) -> None:
        changed.update(
            (ord(char), part) for char, part in zip(text, _each(normalize, text), strict=True) if char != part
        )

    for start in range(0, len(all_text()), 4096):
        stretch = all_text()[start : start + 4096]
        if "Precompiled" in spec:
            compare(stretch)  # works on graphemes: what a stretch becomes doesn't tell of each character
        else:
            look(stretch, (512, 64))
    return changed


def changes(normalizer: Mapping[str, Any]) -> Mapping[int, str]:
    """What ``normalizer`` (a tokenizer.json normalizer) makes of each code point that stands alone, where that isn't
    itself, in order."""
    return _changes(json.dumps(normalizer, sort_keys=True))


@lru_cache(maxsize=32)
def _images(spec: str) -> Images:
    if json.loads(spec).get("type") == "ByteLevel":
        return _byte_images()
    changed = _changes(spec)
    first = np.arange(CODE_POINTS, dtype=np.int32)
    last = first.copy()
    values = list(changed)
    first[values] = [ord(text[0]) if text else -1 for text in changed.values()]
    last[values] = [ord(text[-1]) if text else -1 for text in changed.values()]
    return Images(first, last, {value: text for value, text in changed.items() if len(text) > 1})


def _byte_images() -> Images:
    """What GPT-2's byte alphabet makes of the first and last UTF-8 byte of each character."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = np.zeros(256, dtype=np.int32)
    alphabet[visible] = visible
    alphabet[[byte for byte in range(256) if byte not in set(visible)]] = np.arange(256, 256 + 256 - len(visible))
    value = np.arange(CODE_POINTS, dtype=np.int64)
    lead = np.select(
        [value < 0x80, value < 0x800, value < 0x10000],
        [value, 0xC0 | value >> 6, 0xE0 | value >> 12],
        0xF0 | value >> 18,
    )
    tail = np.where(value < 0x80, value, 0x80 | (value & 0x3F))
    return Images(alphabet[lead], alphabet[tail], {})


@lru_cache(maxsize=1)
def categories() -> np.ndarray:
    """str[0x110000]: the general category of each code point in Python's Unicode data."""
    result = np.full(CODE_POINTS, "Cn", dtype="<U2")
    result[0xF0000:0xFFFFE] = result[0x100000:0x10FFFE] = "Co"
    for start, stop in ((0, 0x40000), (0xE0000, 0xE1000)):
        result[start:stop] = list(map(unicodedata.category, map(chr, range(start, stop))))
    return result


@lru_cache(maxsize=1)
def folding_letters() -> dict[str, np.ndarray]:
    """For each ASCII letter, bool[0x110000]: what the library's regex engine takes for it without regard to case."""
    others = np.flatnonzero(atom_members("(?i:[a-z])"))
    result = {}
    for letter in string.ascii_lowercase:
        result[letter] = np.zeros(CODE_POINTS, dtype=bool)
        text = "".join(chr(value) for value in others.tolist())
        rest = without_matches(f"(?i:{letter})", text)
        result[letter][[ord(char) for char in set(text) - set(rest)]] = True
    return result


@lru_cache(maxsize=1)
def _long_folds() -> str:
    """The characters that fold to, or become in the other case, several."""
    stretches = (all_text()[start : start + 64] for start in range(0, len(all_text()), 64))
    return "".join(char for text in stretches if _grows(text) for char in text if _grows(char))


def _grows(text: str) -> bool:
    return any(len(other) != len(text) for other in (text.casefold(), text.upper(), text.lower()))


@lru_cache(maxsize=512)
def folds_to_one(text: str) -> bool:
    """Whether one character may match the several of ``text`` without regard to case."""
    found = without_matches(f"(?i:{re.escape(text)})", _long_folds())
    return len(found) != len(_long_folds())


def images(normalizer: Mapping[str, Any]) -> Images:
    """The images of all code points under ``normalizer``, a tokenizer.json normalizer that works character by
    character."""
    return _images(json.dumps(normalizer, sort_keys=True))

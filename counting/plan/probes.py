"""What the `tokenizers` library itself thinks of every code point: each of its parts carries its own Unicode tables.

Knows how to ask a regex atom, a character predicate and a character-wise normalizer about all code points at once.
Knows nothing of cuts. Answers are kept for the life of the process: they depend on the library alone.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from trimbed.counting.plan.kernel_plan import CODE_POINTS

__all__ = [
    "Images",
    "atom_members",
    "categories",
    "folding_letters",
    "folds_to_one",
    "images",
    "predicate_members",
    "scalar_values",
    "word_members",
]

SEPARATOR = "|1|0|"


@lru_cache(maxsize=1)
def scalar_values() -> np.ndarray:
    """uint32[n]: every code point that can occur in text, in order."""
    every = np.arange(CODE_POINTS, dtype=np.uint32)
    return every[(every < 0xD800) | (every > 0xDFFF)]


@lru_cache(maxsize=1)
def _all_text() -> str:
    return scalar_values().tobytes().decode("utf-32-le")


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


@lru_cache(maxsize=512)
def atom_members(atom: str) -> np.ndarray:
    """bool[0x110000]: the code points that the one-character regex ``atom`` matches, in the library's regex engine.

    Raises an Exception of the library's where the atom isn't a valid regex.
    """
    rest = _code_points(normalizers.Replace(Regex(f"(?:{atom})+"), "").normalize_str(_all_text()))
    members = np.zeros(CODE_POINTS, dtype=bool)
    members[scalar_values()] = True
    members[rest] = False
    return members


def _stretches() -> Iterator[tuple[int, str]]:
    """All code points in stretches that are quick to split, with where each starts among the scalar values."""
    text = _all_text()
    return ((start, text[start : start + 4096]) for start in range(0, len(text), 4096))


def _kept(pre_tokenizer: Any) -> np.ndarray:
    """bool[0x110000]: what a pre-tokenizer that removes characters leaves of all code points."""
    kept = np.zeros(CODE_POINTS, dtype=bool)
    values = scalar_values()
    for at, text in _stretches():
        for _, (start, end) in pre_tokenizer.pre_tokenize_str(text):
            kept[values[at + start : at + end]] = True
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
    members = np.zeros(CODE_POINTS, dtype=bool)
    values = scalar_values()
    for at, text in _stretches():
        for piece, (start, end) in splitter.pre_tokenize_str(text):
            members[values[at + start : at + end]] = len(splitter.pre_tokenize_str(letter + piece[0])) == 2
    return members


@lru_cache(maxsize=1)
def word_members() -> np.ndarray:
    r"""bool[0x110000]: ``\w`` of Rust's regex crate, which the pre-tokenizer Whitespace and ``single_word`` use."""
    splitter = pre_tokenizers.Whitespace()
    apart = _runs(splitter, "a")
    result: np.ndarray = _kept(splitter) & ~apart
    return result


@dataclass(frozen=True, eq=False)
class Images:
    """What a normalizer makes of each code point on its own.

    ``first``, ``last``: int32[0x110000], the first and last code point of the image, -1 where the image is empty.
    ``texts``: the images that are longer than one character.
    """

    first: np.ndarray
    last: np.ndarray
    texts: Mapping[int, str]


def _normalizer(spec: str) -> Any:
    shell = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": json.loads(spec),
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
    }
    return Tokenizer.from_str(json.dumps(shell)).normalizer


def _parts(normalizer: Any, text: str) -> list[str]:
    """The images of the characters of ``text``, one by one."""
    parts: list[str] = normalizer.normalize_str(SEPARATOR.join(text)).split(SEPARATOR)
    if len(parts) != len(text):
        raise ValueError(f"can't tell the images of {text!r} apart")
    return parts


@lru_cache(maxsize=32)
def _images(spec: str) -> Images:
    if json.loads(spec).get("type") == "ByteLevel":
        return _byte_images()
    normalizer = _normalizer(spec)
    first = np.arange(CODE_POINTS, dtype=np.int32)
    last = first.copy()
    texts: dict[int, str] = {}
    values = scalar_values()

    def look(start: int, stop: int) -> None:
        """Stretches that stay as they are, or vanish whole, are seen at a glance."""
        text = _all_text()[start:stop]
        whole = normalizer.normalize_str(text)
        if whole == text:
            return
        if not whole:
            first[values[start:stop]] = last[values[start:stop]] = -1
            return
        if stop - start > 64:
            step = 64 if stop - start <= 4096 else 4096
            for place in range(start, stop, step):
                look(place, min(place + step, stop))
            return
        for value, part in zip(values[start:stop].tolist(), _parts(normalizer, text), strict=True):
            first[value], last[value] = (ord(part[0]), ord(part[-1])) if part else (-1, -1)
            if len(part) > 1:
                texts[value] = part

    look(0, len(values))
    return Images(first, last, texts)


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
        result[start:stop] = [unicodedata.category(chr(value)) for value in range(start, stop)]
    return result


@lru_cache(maxsize=1)
def folding_letters() -> dict[str, np.ndarray]:
    """For each ASCII letter, bool[0x110000]: what the library's regex engine takes for it without regard to case."""
    others = np.flatnonzero(atom_members("(?i:[a-z])"))
    result = {}
    for letter in string.ascii_lowercase:
        result[letter] = np.zeros(CODE_POINTS, dtype=bool)
        text = "".join(chr(value) for value in others.tolist())
        rest = normalizers.Replace(Regex(f"(?i:{letter})"), "").normalize_str(text)
        result[letter][[ord(char) for char in set(text) - set(rest)]] = True
    return result


@lru_cache(maxsize=1)
def _long_folds() -> str:
    """The characters that fold to, or become in the other case, several."""
    stretches = (_all_text()[start : start + 64] for start in range(0, len(_all_text()), 64))
    return "".join(char for text in stretches if _grows(text) for char in text if _grows(char))


def _grows(text: str) -> bool:
    return any(len(other) != len(text) for other in (text.casefold(), text.upper(), text.lower()))


@lru_cache(maxsize=512)
def folds_to_one(text: str) -> bool:
    """Whether one character may match the several of ``text`` without regard to case."""
    found = normalizers.Replace(Regex(f"(?i:{re.escape(text)})"), "").normalize_str(_long_folds())
    return len(found) != len(_long_folds())


def images(normalizer: Mapping[str, Any]) -> Images:
    """The images of all code points under ``normalizer``, a tokenizer.json normalizer that works character by
    character.

    Raises ValueError where the images run together.
    """
    return _images(json.dumps(normalizer, sort_keys=True))

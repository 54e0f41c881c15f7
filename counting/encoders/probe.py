"""Asks the library what it does to each code point: classes of regex atoms and of pre-tokenizers, maps of normalizers.
Knows no Unicode data of its own, so that it can't disagree with the library's version of Unicode."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["CODE_POINTS", "Decomposition", "atom_members", "character_map", "decomposition", "library_part", "splits"]

CODE_POINTS = 0x110000
_FENCE = "\u16a0"  # a letter without case, decomposition or any other history: every normalizer gives it back


def library_part(kind: str, part: Mapping[str, Any]) -> Any:
    """The library's own object for one entry of a document; ``kind`` is normalizer or pre_tokenizer."""
    from tokenizers import Tokenizer

    model = {"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "x"}
    document: dict[str, Any] = {"version": "1.0", "added_tokens": [], "model": model, kind: part}
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding"):
        document.setdefault(name, None)
    return getattr(Tokenizer.from_str(json.dumps(document)), kind)


@lru_cache(maxsize=1)
def _all_characters() -> str:
    return "".join(map(chr, (c for c in range(CODE_POINTS) if not 0xD800 <= c < 0xE000)))


@lru_cache(maxsize=1)
def _characters_by_history() -> tuple[str, str]:
    """The characters of the planes that Unicode assigns characters in, and those of the others (unassigned or for
    private use), which libraries mostly leave alone."""
    used = "".join(c for c in _all_characters() if ord(c) < 0x40000 or 0xE0000 <= ord(c) < 0xF0000)
    rest = "".join(c for c in _all_characters() if 0x40000 <= ord(c) < 0xE0000 or ord(c) >= 0xF0000)
    return used, rest


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


@lru_cache(maxsize=256)
def atom_members(pattern: str) -> np.ndarray:
    """bool[0x110000]: the code points that the regex atom ``pattern`` matches, by the library's regex engine."""
    from tokenizers import Regex, normalizers

    # ASCII letters without regard to case can't mean an ideograph or a syllable; asking only the rest is quicker.
    asked = _characters_with_case() if pattern.startswith("(?i:") and pattern.isascii() else _all_characters()
    left_over = normalizers.Replace(Regex(pattern), "").normalize_str(asked)
    members = np.zeros(CODE_POINTS, bool)
    members[_points(asked)] = True
    members[_points(left_over)] = False
    members.flags.writeable = False
    return members


@lru_cache(maxsize=1)
def _characters_with_case() -> str:
    ranges = [(0, 0x3400), (0xA000, 0xAC00), (0xE000, 0x20000)]
    return "".join(chr(c) for begin, end in ranges for c in range(begin, end))


def matches_one_character(pattern: str) -> bool:
    """Whether some single code point is a whole match of ``pattern`` (as ``(?i:ss)`` matches ß)."""
    return bool(atom_members(pattern).any())


@lru_cache(maxsize=64)
def _probed_map(text: str) -> Mapping[int, str]:
    normalize = library_part("normalizer", json.loads(text)).normalize_str
    used, rest = _characters_by_history()
    changed = _map_of(normalize, used)
    if normalize(rest) != rest:
        changed |= _map_of(normalize, rest)
    return changed


def character_map(normalizer: Mapping[str, Any]) -> Mapping[int, str]:
    """What the normalizer makes of each code point that stands alone, where that isn't itself."""
    return _probed_map(json.dumps(normalizer, sort_keys=True))


def _map_of(normalize: Callable[[str], str], characters: str) -> dict[int, str]:
    changed: dict[int, str] = {}
    for begin in range(0, len(characters), 4096):
        part = characters[begin : begin + 4096]
        fenced = normalize(_FENCE + (_FENCE * 2).join(part) + _FENCE)
        results = fenced[1:-1].split(_FENCE * 2)
        if len(results) != len(part) or _FENCE in part or fenced[:1] + fenced[-1:] != _FENCE * 2:
            results = [normalize(c) for c in part]
        if results != list(part):
            changed.update((ord(c), result) for c, result in zip(part, results, strict=True) if c != result)
    return changed


class Decomposition:
    """The library's NFD or NFKD, and what it orders and composes.

    ``full``: each code point's full decomposition where that isn't itself. ``order``: uint8[0x110000], 0 for starters,
    else a rank such that marks are sorted by it. ``pairs``: (first, second) -> composite.
    """

    def __init__(self, full: Mapping[int, str], order: np.ndarray, pairs: Mapping[tuple[int, int], int]) -> None:
        self.full = full
        self.order = order
        self.pairs = pairs


@lru_cache(maxsize=2)
def decomposition(compatibility: bool) -> Decomposition:
    """Decomposition, mark order and composition as the library does them. ``compatibility``: NFKD rather than NFD."""
    canonical = character_map({"type": "NFD"})
    full = character_map({"type": "NFKD"}) if compatibility else canonical
    return Decomposition(full, _mark_order(canonical), _pairs(canonical))


def _mark_order(canonical: Mapping[int, str]) -> np.ndarray:
    # U+0345 has the highest combining class there is (240), U+0334 the lowest (1): around a starter they stay where
    # they are, around a mark they change places.
    normalize = library_part("normalizer", {"type": "NFD"}).normalize_str
    # A private or unassigned character is no mark in any version of Unicode, so the planes of those aren't asked.
    characters = "".join(c for c in _characters_by_history()[0] if ord(c) not in canonical and c != _FENCE)
    marks = []
    for begin in range(0, len(characters), 4096):
        part = [f"\u0345{c}\u0334" for c in characters[begin : begin + 4096]]
        results = normalize(_FENCE.join(part)).split(_FENCE)
        if results != part:
            marks += [p[1] for p, result in zip(part, results, strict=True) if p != result]
    # The class of a mark as a rank: how many of the marks are sorted before it.
    classes: list[list[str]] = []
    for mark in marks:
        low, high = 0, len(classes)
        while low < high:
            middle = (low + high) // 2
            other = classes[middle][0]
            if normalize(f"a{other}{mark}") == f"a{mark}{other}":
                high = middle
            elif normalize(f"a{mark}{other}") == f"a{other}{mark}":
                low = middle + 1
            else:
                classes[middle].append(mark)
                break
        else:
            classes.insert(low, [mark])
    order = np.zeros(CODE_POINTS, np.uint8)
    for rank, members in enumerate(classes, 1):
        order[[ord(c) for c in members]] = rank
    return order


def _pairs(canonical: Mapping[int, str]) -> dict[tuple[int, int], int]:
    compose = library_part("normalizer", {"type": "NFC"}).normalize_str
    pairs = {}
    for point, parts in canonical.items():
        if len(parts) > 1 and compose(parts) == chr(point):
            first = compose(parts[:-1])
            if len(first) == 1 and compose(first + parts[-1]) == chr(point):
                pairs[ord(first), ord(parts[-1])] = point
    return pairs


@lru_cache(maxsize=64)
def _probed_splits(text: str, characters: str | None) -> tuple[tuple[int, int], ...]:
    cut = library_part("pre_tokenizer", json.loads(text)).pre_tokenize_str
    return tuple(span for _, span in cut(characters if characters is not None else _all_characters()))


def splits(pre_tokenizer: Mapping[str, Any], *, without: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The text of all code points in order, minus those in ``without``, as uint32, and the spans int64[n, 2] that the
    pre-tokenizer cuts it into."""
    characters = _all_characters()
    if without is not None:
        characters = "".join(c for c in characters if not without[ord(c)])
    spans = _probed_splits(json.dumps(pre_tokenizer, sort_keys=True), None if without is None else characters)
    return _points(characters), np.array(spans, np.int64).reshape(-1, 2)

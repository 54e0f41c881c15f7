"""Asks the library what it does to each code point: classes of regex atoms and of pre-tokenizers, maps of normalizers.
Knows no Unicode data of its own, so that it can't disagree with the library's version of Unicode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.probes import (
    all_text,
    atom_members,
    changes,
    code_points,
    library_part,
    scalar_values,
    without_matches,
)

__all__ = ["CODE_POINTS", "Decomposition", "atom_members", "changes", "decomposition", "library_part"]

_FENCE = "\u16a0"  # a letter without case, decomposition or any other history: every normalizer gives it back


@lru_cache(maxsize=1)
def _characters_with_case() -> str:
    ranges = [(0, 0x3400), (0xA000, 0xAC00), (0xE000, 0x20000)]
    return "".join(chr(c) for begin, end in ranges for c in range(begin, end))


@lru_cache(maxsize=256)
def matches_one_character(pattern: str) -> bool:
    """Whether some single code point is a whole match of ``pattern`` (as ``(?i:ss)`` matches ß). ASCII letters without
    regard to case can't mean an ideograph or a syllable, so these aren't asked."""
    asked = _characters_with_case() if pattern.startswith("(?i:") and pattern.isascii() else all_text()
    return len(without_matches(pattern, asked)) < len(asked)


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
    canonical = changes({"type": "NFD"})
    full = changes({"type": "NFKD"}) if compatibility else canonical
    return Decomposition(full, _mark_order(canonical), _pairs(canonical))


def _mark_order(canonical: Mapping[int, str]) -> np.ndarray:
    # U+0345 has the highest combining class there is (240), U+0334 the lowest (1): around a starter they stay where
    # they are, around a mark they change places.
    normalize = library_part("normalizer", {"type": "NFD"}).normalize_str
    # A private or unassigned character is no mark in any version of Unicode, so the planes of those aren't asked.
    values = scalar_values()
    asked = (values < 0x40000) | ((values >= 0xE0000) & (values < 0xF0000))
    asked[np.isin(values, [*canonical, ord(_FENCE)])] = False
    values = values[asked]
    marks = []
    for begin in range(0, len(values), 4096):
        part = np.full((len(values[begin : begin + 4096]), 4), ord(_FENCE), dtype=np.uint32)
        part[:, 0], part[:, 1], part[:, 2] = 0x345, values[begin : begin + 4096], 0x334
        text = part.tobytes().decode("utf-32-le")
        result = normalize(text)
        if result != text:
            found = code_points(result).reshape(-1, 4)
            marks += list(map(chr, part[(found != part).any(axis=1), 1].tolist()))
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

    def composed(texts: list[str]) -> list[str]:
        """Each on its own: nothing composes with a fence."""
        results: list[str] = compose(_FENCE.join(texts)).split(_FENCE)
        return results

    several = [(point, parts) for point, parts in canonical.items() if len(parts) > 1]
    wholes = composed([parts for _, parts in several])
    several = [(point, parts) for (point, parts), whole in zip(several, wholes, strict=True) if whole == chr(point)]
    firsts = composed([parts[:-1] for _, parts in several])
    again = composed([first + parts[-1] for first, (_, parts) in zip(firsts, several, strict=True)])
    return {
        (ord(first), ord(parts[-1])): point
        for (point, parts), first, whole in zip(several, firsts, again, strict=True)
        if len(first) == 1 and whole == chr(point)
    }

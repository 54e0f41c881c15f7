"""A plan in words, for `trimbed inspect --plan`. Knows how to show classes and cuts; decides nothing."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from trimbed.counting.plan.kernel_plan import ALWAYS, NEVER, UNLESS_JOINED

__all__ = ["explain"]

SHOWN = 40


def _shown(value: int) -> str:
    char = chr(value)
    if value < 0x20 or not char.isprintable():
        return f"U+{value:04X}"
    return f"U+{value:04X}" if unicodedata.category(char)[0] in "MZ" and value > 0x20 else repr(char)


def _sample(members: np.ndarray) -> str:
    some = ", ".join(_shown(int(value)) for value in members[:6])
    return f"{len(members):,} code points ({some}{', …' if len(members) > 6 else ''})"


def explain(
    classes: np.ndarray, cut: np.ndarray, lines: Sequence[str], *, added: int, joined: int, inside: Sequence[str]
) -> tuple[str, ...]:
    """Lines that say which rules gave which cuts: ``lines`` of the stages, then each class and what it's cut before."""
    count = len(cut)
    result = [f"{count} classes, {added:,} added tokens matched in raw text, {joined:,} pairs kept together"]
    result.extend(lines)
    if inside:
        result.append(f"{len(inside):,} added tokens may lie inside pieces, for the normalized text shows them only")
    for number in range(min(count, SHOWN)):
        members = np.flatnonzero(classes == number)
        always = np.flatnonzero(cut[number] == ALWAYS).tolist()
        some = int((cut[number] == UNLESS_JOINED).sum())
        never = int((cut[number] == NEVER).sum())
        names = "all" if len(always) == count else ("none" if not always else f"{_ranges(always)}")
        unless = f", unless joined: {some} classes" if some else ""
        result.append(f"class {number}: {_sample(members)}: cut before classes {names}{unless}; never: {never}")
    if count > SHOWN:
        result.append(f"… and {count - SHOWN} more classes")
    return tuple(result)


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[str] = []
    start = previous = numbers[0]
    for number in [*numbers[1:], -1]:
        if number != previous + 1:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
            start = number
        previous = number
    return " ".join(parts)

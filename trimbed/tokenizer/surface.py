"""What a token looks like in text, what kind of token it is, and in which script it is written.

Knows the byte-level alphabet, ``##``, ``▁`` and ``</w>``; knows no model.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["BYTE_CHARACTERS", "BYTE_OF_CHARACTER", "byte_level_surface", "script_of"]


def _byte_characters() -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(shifted)) for byte in range(256)]


# The character that stands for each byte in byte-level vocabularies: printable Latin-1 for itself, the rest in order
# from U+0100.
BYTE_CHARACTERS: list[str] = _byte_characters()
BYTE_OF_CHARACTER: dict[str, int] = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}

_BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_level_surface(token: str) -> str | None:
    """The text of a byte-level token, None where its bytes aren't whole UTF-8 or a character stands for no byte."""
    try:
        return bytes(BYTE_OF_CHARACTER[c] for c in token).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return None


def byte_of_name(token: str) -> int | None:
    """65 for ``<0x41>``, None for anything else."""
    match = _BYTE_NAME.fullmatch(token)
    return int(match[1], 16) if match else None


@lru_cache(maxsize=1 << 16)
def _character_script(character: str) -> str:
    from fontTools import unicodedata

    return str(unicodedata.script(character))


_SHARED = frozenset(("Zyyy", "Zinh", "Zzzz"))


def script_of(surface: str | None) -> str | None:
    """The Unicode script of a text: an ISO 15924 code such as Latn, Cyrl, Hani.

    Characters that scripts share (digits, punctuation, marks) don't count beside others; a text of nothing else is
    Zyyy (Zinh, Zzzz: marks, unassigned characters alone). One with several scripts is "mixed". None for None and "".
    """
    if not surface:
        return None
    scripts = {_character_script(character) for character in surface}
    own = scripts - _SHARED
    if len(own) == 1:
        return own.pop()
    if own:
        return "mixed"
    return "Zyyy" if "Zyyy" in scripts else scripts.pop() if len(scripts) == 1 else "Zyyy"

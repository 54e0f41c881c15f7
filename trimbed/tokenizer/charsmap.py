"""SentencePiece's normalization map, unpacked: which character sequences become what, by longest match.

Knows the blob's layout (a double-array trie, then zero-terminated strings) and how near the library's own normalizers
come to it; knows no models.
"""

from __future__ import annotations

import struct
import unicodedata
from typing import Any

from trimbed.errors import TokenizerError

__all__ = ["charsmap_entries", "charsmap_normalizer"]

# Subtrees are shared, so a walk takes more steps than there are nodes: half a million for the NFKC map. A broken trie
# may have loops; these bounds end the walk in time.
_MOST_STEPS = 4_000_000
_LONGEST_KEY = 64


def charsmap_entries(blob: bytes) -> dict[str, str]:
    """Every sequence the map replaces, with its replacement. Raises TokenizerError for a blob that isn't a map."""
    try:
        (size,) = struct.unpack_from("<I", blob)
        if size % 4 or size + 4 > len(blob):
            raise ValueError("the trie is cut short")
        units = struct.unpack_from(f"<{size // 4}I", blob, 4)
        return _walk(units, blob[4 + size :])
    except (struct.error, ValueError, IndexError) as error:
        raise TokenizerError(f"the SentencePiece normalization map can't be read: {error}") from None


def _walk(units: tuple[int, ...], strings: bytes) -> dict[str, str]:
    # A node's child for a byte lies at node ^ byte and carries the byte as its label: so each unit knows its parent.
    children: dict[int, list[tuple[int, int]]] = {}
    for child, unit in enumerate(units):
        label = unit & 0x8000_00FF
        if 0 < label < 256:
            children.setdefault(child ^ label, []).append((child, label))
    entries: dict[str, str] = {}
    stack = [(_offset(units[0]), b"")]
    steps = 0
    while stack:
        node, key = stack.pop()
        steps += 1
        if steps > _MOST_STEPS or len(key) > _LONGEST_KEY:
            raise ValueError("the trie has no end")
        for child, label in children.get(node, ()):
            unit, longer = units[child], key + bytes((label,))
            below = child ^ _offset(unit)
            if unit >> 8 & 1:
                start = units[below] & 0x7FFF_FFFF
                value = strings[start : strings.index(b"\0", start)]
                entries[longer.decode("utf-8")] = value.decode("utf-8")
            stack.append((below, longer))
    if not entries:
        raise ValueError("the trie is empty")
    return entries


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 1 << 9) >> 6)


def charsmap_normalizer(blob: bytes) -> tuple[list[dict[str, Any]], str | None]:
    """Normalizers of the reference library for the map, and a note on what they do differently, None if nothing.

    The library's ``Precompiled`` looks at one character at a time where SentencePiece takes the longest sequence. For
    maps made from NFKC, composing first (``NFKC``) makes up for that but for rare orders of marks. Whichever of the two
    gives more of the map's entries is taken. Raises TokenizerError where neither gives all single characters.
    """
    import base64

    if not blob:
        return [], None
    entries = charsmap_entries(blob)
    single = {key: value for key, value in entries.items() if len(key) == 1}

    def per_character(text: str) -> str:
        return "".join(single.get(character, character) for character in text)

    def composed(text: str) -> str:
        return per_character(unicodedata.normalize("NFKC", text))

    wrong = {rule: [key for key, value in entries.items() if rule(key) != value] for rule in (per_character, composed)}
    # NFKC must also leave alone, or change alike, what the map does not mention.
    stray = [
        character
        for character in map(chr, (*range(0xD800), *range(0xE000, 0x3FFFF)))
        if character not in single and not unicodedata.is_normalized("NFKC", character)
    ]
    rule = composed if len(wrong[composed]) + len(stray) < len(wrong[per_character]) else per_character
    if lost := [key for key in wrong[rule] if len(key) == 1]:
        raise TokenizerError(
            f"the SentencePiece normalization map can't be converted: {len(lost)} characters would come out otherwise, "
            f"such as U+{ord(lost[0]):04X}"
        )
    parts: list[dict[str, Any]] = [{"type": "NFKC"}] if rule is composed else []
    crlf = per_character("\r") + per_character("\n")
    if crlf != "\r\n" and "\r\n" not in entries:
        # The library sees CR LF as one and would map the first of them only.
        parts.append({"type": "Replace", "pattern": {"String": "\r\n"}, "content": crlf})
    parts.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode("ascii")})
    if not wrong[rule]:
        return parts, None
    shown = wrong[rule][0].encode("unicode_escape").decode()
    return parts, (
        f"normalization: {len(wrong[rule])} of the map's {len(entries)} sequences (such as {shown}), all of several "
        "characters, come out otherwise than with sentencepiece"
    )

"""SentencePiece's compiled character map around a cut. Knows the map's binary form and graphemes just enough to avoid
them.

The library looks up a whole grapheme of fewer than six bytes and replaces it by what the shortest of the map's keys
that begin it becomes; longer graphemes go character by character.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from trimbed.counting.plan.kernel_plan import CODE_POINTS
from trimbed.counting.plan.pipeline import Pipeline
from trimbed.counting.plan.probes import categories
from trimbed.counting.plan.regex import NotUnderstood

__all__ = ["apply_precompiled", "read_charsmap"]

SHORT = 6
# Letters and controls that join what follows or precedes them in one grapheme, besides marks (Unicode's data files call
# them Prepend, SpacingMark and Extend).
JOIN_NEXT = ["0600-0605", "06DD", "070F", "0890-0891", "08E2", "0D4E", "110BD", "110CD", "111C2-111C3", "113D1"]
JOIN_NEXT += ["1193F", "11941", "11A3A", "11A84-11A89", "11D46", "11F02"]
JOIN_LAST = ["0E33", "0EB3", "FF9E-FF9F", "1F3FB-1F3FF"]
HANGUL_PARTS = ["1100-11FF", "A960-A97F", "D7B0-D7FF"]
REGIONAL = ["1F1E6-1F1FF"]


def _members(*lists: list[str]) -> np.ndarray:
    members = np.zeros(CODE_POINTS, dtype=bool)
    for ranges in lists:
        for text in ranges:
            low, _, high = text.partition("-")
            members[int(low, 16) : int(high or low, 16) + 1] = True
    return members


def read_charsmap(charsmap: str) -> dict[str, str]:
    """What each key of fewer than six bytes in a ``precompiled_charsmap`` (base64) becomes; longer ones are never used.

    Raises NotUnderstood for a broken map.
    """
    data = base64.b64decode(charsmap)
    if not data:
        return {}
    (size,) = struct.unpack_from("<I", data)
    if size % 4 or size == 0 or size + 4 > len(data):
        raise NotUnderstood("a broken precompiled_charsmap")
    units = np.frombuffer(data, dtype="<u4", count=size // 4, offset=4).astype(np.int64)
    texts = data[4 + size :]
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    labels = units & ((1 << 31) | 0xFF)
    byte = np.arange(1, 256, dtype=np.int64)

    result: dict[str, str] = {}
    keys, places = np.zeros((1, 0), dtype=np.uint8), offsets[:1]
    try:
        for _ in range(SHORT - 1):
            at = places[:, None] ^ byte[None, :]
            parent, child = np.nonzero((at < len(units)) & (labels[np.minimum(at, len(units) - 1)] == byte[None, :]))
            at = at[parent, child]
            keys = np.concatenate([keys[parent], byte[child, None].astype(np.uint8)], axis=1)
            places = at ^ offsets[at]
            for ended in np.flatnonzero((units[at] >> 8) & 1).tolist():
                start = int(units[places[ended]]) & ((1 << 31) - 1)
                result[keys[ended].tobytes().decode()] = texts[start : texts.index(b"\0", start)].decode()
    except (UnicodeDecodeError, ValueError, IndexError) as error:
        raise NotUnderstood(f"a broken precompiled_charsmap: {error}") from error
    return result


def apply_precompiled(pipeline: Pipeline, spec: Mapping[str, Any]) -> None:
    """Take ``pipeline`` past a Precompiled normalizer; see the module's first lines."""
    table = read_charsmap(spec["precompiled_charsmap"] or "")
    prepending = _members(JOIN_NEXT)
    marks = np.char.startswith(categories(), "M")
    unclear = np.isin(categories(), ["Cf", "Cn"]) | _members(HANGUL_PARTS, REGIONAL)
    if any(prepending[ord(key[0])] for key in table):
        raise NotUnderstood("a precompiled_charsmap that changes characters that join the next")
    pipeline.forbid_before(marks | unclear | _members(JOIN_LAST))
    carriage_return = np.zeros(CODE_POINTS, dtype=bool)
    carriage_return[0x0D] = True
    pipeline.forbid_after(unclear | prepending | carriage_return)

    first = np.arange(CODE_POINTS, dtype=np.int32)
    last = first.copy()
    longer_from, longer_to = [], []
    endings = np.zeros(CODE_POINTS, dtype=bool)
    vanishing_ending = False
    for key, text in table.items():
        if len(key) == 1:
            first[ord(key)] = ord(text[0]) if text else -1
            last[ord(key)] = ord(text[-1]) if text else -1
        elif len(key.encode()) < SHORT:
            if not text:
                raise NotUnderstood("a precompiled_charsmap that takes out a whole grapheme")
            longer_from.append(ord(key[0]))
            longer_to.append(ord(text[0]))
        if len(key.encode()) < SHORT:
            vanishing_ending |= not text
            if text:
                endings[ord(text[-1])] = True
    if vanishing_ending:
        endings[:] = True
    # A grapheme that ends in a mark may have become any key's text; a line feed may have been part of CR LF.
    moved = pipeline.last.touching(marks | _members(JOIN_LAST))
    feed = pipeline.last.touching(np.arange(CODE_POINTS) == 0x0A)
    before = [int(last[0x0D])]
    pipeline.map_with_first_extras(
        first, last, np.array(longer_from, dtype=np.int64), np.array(longer_to, dtype=np.int64)
    )
    pipeline.last.spread(moved, endings)
    raw = np.flatnonzero(feed)
    pipeline.last.add(raw, np.full(len(raw), before[0], dtype=np.int64))

"""Cuts a SentencePiece .model file to kept pieces, in the protobuf's own bytes. Needs no protobuf package.

A model is a message whose field 1 repeats once a piece (1: text, 2: score as float32, 3: type) and whose field 2 is the
trainer's settings, among them the vocabulary size (4) and the ids of unk, bos, eos and pad (40 to 43). Every other byte
is passed through. Source of the numbers: sentencepiece_model.proto of google/sentencepiece.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trimbed.errors import TrimError

__all__ = ["Piece", "cut_model", "read_pieces"]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_SIZE_FIELD = 4
_ID_FIELDS = (40, 41, 42, 43)


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary; its index is its id."""

    text: str
    score: float
    kind: int


def read_pieces(data: bytes) -> list[Piece]:
    """All pieces of a model, in order. Raises TrimError where the bytes are no SentencePiece model."""
    return [_piece(payload) for number, _, payload in _fields(data) if number == 1]


def cut_model(data: bytes, keep: Sequence[bool]) -> bytes:
    """The model with only the pieces whose flag is true, the trainer's size and special ids renumbered.

    ``keep`` has one flag a piece. A special id whose piece is gone becomes -1, which means "none".
    """
    new_ids: list[int] = []
    following = 0
    for flag in keep:
        new_ids.append(following if flag else -1)
        following += bool(flag)
    out = bytearray()
    index = 0
    for number, raw, payload in _fields(data):
        if number == 1:
            if keep[index]:
                out += raw
            index += 1
        elif number == 2:
            out += _message(2, _trainer(payload, new_ids, following))
        else:
            out += raw
    if index != len(keep):
        raise TrimError(f"the SentencePiece model has {index} pieces, not {len(keep)}")
    return bytes(out)


def _trainer(payload: bytes, new_ids: Sequence[int], size: int) -> bytes:
    out = bytearray()
    seen = set()
    for number, raw, _ in _fields(payload):
        if number == _SIZE_FIELD:
            out += _integer(number, size)
        elif number in _ID_FIELDS:
            out += _integer(number, _moved(_signed(raw), new_ids))
        else:
            out += raw
            continue
        seen.add(number)
    # A field that isn't written has its default: unk 0, bos 1, eos 2, pad -1. Write those that are wrong now.
    for number, default in zip(_ID_FIELDS, (0, 1, 2, -1), strict=True):
        moved = _moved(default, new_ids)
        if number not in seen and moved != default:
            out += _integer(number, moved)
    return bytes(out)


def _moved(old: int, new_ids: Sequence[int]) -> int:
    return new_ids[old] if 0 <= old < len(new_ids) else old


def _piece(payload: bytes) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for number, raw, inner in _fields(payload):
        if number == 1:
            text = inner.decode("utf-8", "replace")
        elif number == 2:
            score = struct.unpack("<f", inner)[0]
        elif number == 3:
            kind = _signed(raw)
    return Piece(text, score, kind)


def _fields(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(field number, all bytes of the field, its payload) for each field of a message."""
    at = 0
    while at < len(data):
        start = at
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        begin = at
        if wire == 0:
            _, at = _varint(data, at)
        elif wire == 1:
            at += 8
        elif wire == 2:
            length, begin = _varint(data, at)
            at = begin + length
        elif wire == 5:
            at += 4
        else:
            raise TrimError(f"not a SentencePiece model: wire type {wire} at byte {start}")
        if at > len(data) or number == 0:
            raise TrimError(f"not a SentencePiece model: a field at byte {start} runs past the end")
        yield number, data[start:at], data[begin:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise TrimError(f"not a SentencePiece model: no number at byte {at}")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(raw: bytes) -> int:
    _, begin = _varint(raw, 0)
    value, _ = _varint(raw, begin)
    return value - (1 << 64) if value >> 63 else value


def _write_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _integer(number: int, value: int) -> bytes:
    return _write_varint(number << 3) + _write_varint(value)


def _message(number: int, payload: bytes) -> bytes:
    return _write_varint(number << 3 | 2) + _write_varint(len(payload)) + payload

"""Rewrites files that repeat a vocabulary: vocab.txt, vocab.json, merges.txt, SentencePiece, Tekken, tiktoken.

Takes and gives bytes; a file that doesn't agree with the tokenizer is not rewritten, and the reason says why.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trimbed.errors import TrimError
from trimbed.trimming.layout import model_type, read_layout
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.sentencepiece_model import CONTROL, UNKNOWN, cut_model, read_pieces
from trimbed.trimming.surgery import split_merge

__all__ = ["CannotRewrite", "Vocabularies", "is_vocabulary_file", "rewrite"]


class CannotRewrite(Exception):
    """Why a vocabulary file is left out. Never leaves this package: the reason goes into the report."""


@dataclass(frozen=True)
class Vocabularies:
    """The tokenizer before and after, and the ids between."""

    old: Mapping[str, Any]
    new: Mapping[str, Any]
    ids: Renumbering

    @cached_property
    def old_names(self) -> dict[str, int]:
        return read_layout(self.old).names(self.old)

    @cached_property
    def new_names(self) -> dict[str, int]:
        return read_layout(self.new).names(self.new)

    @cached_property
    def old_model(self) -> Mapping[str, int]:
        return read_layout(self.old).model_ids

    @cached_property
    def new_model(self) -> Mapping[str, int]:
        return read_layout(self.new).model_ids


def is_vocabulary_file(name: str) -> bool:
    """Whether a file of this name repeats the vocabulary."""
    return (
        name in ("vocab.txt", "vocab.json", "merges.txt", "tekken.json", "sentencepiece.bpe.model", "vocab.bpe")
        or name.endswith((".model", ".tiktoken", ".spm", ".vocab"))
        or ".model.v" in name
        or (name.startswith("tekken") and name.endswith(".json"))
    )


def rewrite(name: str, data: bytes, vocabularies: Vocabularies) -> bytes:
    """The content of the vocabulary file ``name`` for the trimmed tokenizer. Raises CannotRewrite with the reason."""
    if name == "vocab.txt":
        return _lines(data, vocabularies)
    if name == "vocab.json":
        return _vocab_json(data, vocabularies)
    if name in ("merges.txt", "vocab.bpe"):
        return _merges(data, vocabularies)
    if name.startswith("tekken") and name.endswith(".json"):
        return _tekken(data, vocabularies)
    if name.endswith(".vocab"):
        raise CannotRewrite("a list for reading that no loader needs")
    if _looks_like_ranks(data):
        return _ranks(data, vocabularies)
    return _sentencepiece(data, vocabularies)


def _lines(data: bytes, v: Vocabularies) -> bytes:
    """One token a line, the line number is the id."""
    ending = "\r\n" if b"\r\n" in data else "\n"
    lines = data.decode("utf-8").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    tokens = [line.rstrip("\r") for line in lines]
    found = {token: index for index, token in enumerate(tokens)}
    if len(tokens) != len(found):
        raise CannotRewrite("it lists a token twice")
    if found != dict(v.old_model) and found != v.old_names:
        raise CannotRewrite("it doesn't list the vocabulary of tokenizer.json")
    source = v.new_model if found == dict(v.old_model) else v.new_names
    names = sorted(source, key=lambda token: source[token])
    if [source[token] for token in names] != list(range(len(names))):
        raise CannotRewrite("two tokens share an id, which a list of lines can't say")
    last = ending if data.endswith(b"\n") else ""
    return (ending.join(names) + last).encode("utf-8")


def _vocab_json(data: bytes, v: Vocabularies) -> bytes:
    content = json.loads(data)
    wrong = [name for name, number in content.items() if v.old_names.get(name) != number]
    missing = [name for name in v.old_model if name not in content and name not in _added_names(v.old)]
    if wrong or missing:
        raise CannotRewrite(f"it doesn't agree with tokenizer.json on {(wrong or missing)[0]!r}")
    kept = {name: v.new_names[name] for name in content if name in v.new_names}
    indent = 2 if data[:3] in (b"{\n ", b"{\r\n") else None
    separators = None if indent is None and b'": ' in data[:200] else (",", ":") if indent is None else None
    ascii_only = all(byte < 0x80 for byte in data)
    return json.dumps(kept, ensure_ascii=ascii_only, indent=indent, separators=separators).encode("utf-8")


def _added_names(document: Mapping[str, Any]) -> set[str]:
    return {entry["content"] for entry in document.get("added_tokens") or ()}


def _merges(data: bytes, v: Vocabularies) -> bytes:
    if model_type(v.old) != "BPE":
        raise CannotRewrite("the tokenizer has no merges")
    lines = [line.rstrip("\r") for line in data.decode("utf-8").split("\n")]
    header = [lines[0]] if lines and lines[0].startswith("#version") else []
    body = [tuple(line.split(" ")) for line in lines[len(header) :] if line]
    old = [split_merge(merge, index) for index, merge in enumerate(v.old["model"].get("merges") or ())]
    if body != old:
        raise CannotRewrite("its merges are not those of tokenizer.json")
    new = [split_merge(merge, index) for index, merge in enumerate(v.new["model"]["merges"])]
    if any(" " in part or "\n" in part for merge in new for part in merge):
        raise CannotRewrite("a token of its merges has a space or a line end in it")
    return ("\n".join([*header, *(" ".join(merge) for merge in new)]) + "\n").encode("utf-8")


def _sentencepiece(data: bytes, v: Vocabularies) -> bytes:
    try:
        pieces = read_pieces(data)
    except TrimError as error:
        raise CannotRewrite(str(error)) from None
    if not pieces:
        raise CannotRewrite("it has no pieces; no SentencePiece model")
    special = {index for index, piece in enumerate(pieces) if piece.kind in (UNKNOWN, CONTROL)}
    keep = []
    for index, piece in enumerate(pieces):
        if index not in special and piece.text not in v.old_names:
            raise CannotRewrite(f"its piece {piece.text!r} is no token of tokenizer.json")
        keep.append(index in special or piece.text in v.new_names)
    # Some models put tokens before the pieces (XLM-R: ids are one higher). What was a constant distance must stay one.
    old_shift = {v.old_names[p.text] - i for i, p in enumerate(pieces) if i not in special}
    kept = [(piece, index in special) for index, piece in enumerate(pieces) if keep[index]]
    new_shift = {v.new_names[p.text] - i for i, (p, is_special) in enumerate(kept) if not is_special}
    if len(old_shift) > 1 or (new_shift and new_shift != old_shift):
        raise CannotRewrite("its ids and those of tokenizer.json don't run in parallel")
    return cut_model(data, keep)


def _byte_characters() -> dict[int, str]:
    """The printable character that byte-level tokenizers write for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    for offset, byte in enumerate(byte for byte in range(256) if byte not in table):
        table[byte] = chr(256 + offset)
    return table


_BYTE_CHARACTERS = _byte_characters()


def _spelled(raw: bytes) -> str:
    return "".join(_BYTE_CHARACTERS[byte] for byte in raw)


def _tekken(data: bytes, v: Vocabularies) -> bytes:
    content = json.loads(data)
    config = dict(content["config"])
    special = config["default_num_special_tokens"]
    used = config["default_vocab_size"] - special
    entries = content["vocab"][:used]
    specials = content.get("special_tokens")
    if any(v.ids.new(number) != number for number in range(special)):
        raise CannotRewrite(f"its first {special} ids are special tokens and must all be kept")
    kept = []
    for entry in entries:
        name = _spelled(base64.b64decode(entry["token_bytes"]))
        number = special + entry["rank"]
        if v.old_names.get(name) != number:
            raise CannotRewrite(f"it doesn't agree with tokenizer.json on the token at {number}")
        new = v.ids.new(number)
        if new is not None:
            kept.append({**entry, "rank": new - special})
    if [entry["rank"] for entry in kept] != list(range(len(kept))):
        raise CannotRewrite("the kept ranks don't run from 0 without a gap")
    config["default_vocab_size"] = special + len(kept)
    config["num_vocab_tokens"] = len(kept)
    result = {**content, "config": config, "vocab": kept}
    if specials is not None:
        result["special_tokens"] = specials
    indent = 4 if data[:6] == b"{\n    " else 2 if data[:4] == b"{\n  " else None
    return json.dumps(result, indent=indent, ensure_ascii=b"\\u" in data).encode("utf-8")


def _looks_like_ranks(data: bytes) -> bool:
    first = data.split(b"\n", 1)[0].split()
    if len(first) != 2 or not first[1].isdigit():
        return False
    try:
        base64.b64decode(first[0], validate=True)
    except binascii.Error:
        return False
    return True


def _ranks(data: bytes, v: Vocabularies) -> bytes:
    """tiktoken: the token's bytes in base64 and its rank, which is its id, a line each."""
    kept = []
    for line in data.splitlines():
        if not line:
            continue
        encoded, rank = line.split()
        name = _spelled(base64.b64decode(encoded))
        if v.old_names.get(name) != int(rank):
            raise CannotRewrite(f"it doesn't agree with tokenizer.json on the token at rank {int(rank)}")
        new = v.ids.new(int(rank))
        if new is not None:
            kept.append((new, encoded))
    kept.sort()
    if [new for new, _ in kept] != list(range(len(kept))):
        raise CannotRewrite("the kept ranks don't run from 0 without a gap")
    return b"".join(b"%s %d\n" % (encoded, new) for new, encoded in kept)

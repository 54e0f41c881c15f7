"""Tokenizer documents by hand, small enough to know every id, and what a test does with one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer

Document = dict[str, Any]


def added(number: int, content: str, **flags: bool) -> Document:
    entry = {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False}
    return {**entry, "normalized": False, "special": False, **flags}


def special(number: int, content: str) -> Document:
    return added(number, content, special=True)


def document(model: Document, added_tokens: Iterable[Document] = (), **parts: Any) -> Document:
    base: Document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(added_tokens),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    return {**base, **parts}


def bpe(vocab: Iterable[str], merges: Iterable[Any], **settings: Any) -> Document:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: number for number, token in enumerate(vocab)},
        "merges": list(merges),
        **settings,
    }


def wordlevel(vocab: Iterable[str] | dict[str, int], unk: str = "<unk>") -> Document:
    table = vocab if isinstance(vocab, dict) else {token: number for number, token in enumerate(vocab)}
    return {"type": "WordLevel", "vocab": table, "unk_token": unk}


def wordpiece(vocab: Iterable[str]) -> Document:
    table = {token: number for number, token in enumerate(vocab)}
    return {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": table,
    }


def unigram(pieces: Iterable[tuple[str, float]], unk_id: int | None) -> Document:
    return {"type": "Unigram", "unk_id": unk_id, "vocab": [list(piece) for piece in pieces], "byte_fallback": False}


def load(content: Document) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(content))


def tokens(content: Document, text: str, *, specials: bool = False) -> list[str]:
    return load(content).encode(text, add_special_tokens=specials).tokens


def ids(content: Document, text: str, *, specials: bool = False) -> list[int]:
    return load(content).encode(text, add_special_tokens=specials).ids

"""Translates a document's model into the arrays of the native one, and checks what the native algorithms rely on.
Knows no normalizers and no pre-tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import add
from typing import Any

import numpy as np

from trimbed.counting.encoders.pretokenizers import BYTES
from trimbed.counting.encoders.probe import CODE_POINTS
from trimbed.counting.encoders.recipe import NONE, RecipeBuilder
from trimbed.counting.encoders.regex import UnsupportedPattern

__all__ = ["takes_bytes", "translate_model"]

_MISSING = 0xFFFFFFFE


def takes_bytes(model: Mapping[str, Any]) -> bool:
    """Whether the model can read raw bytes in place of the characters that stand for them."""
    affixes = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    return model.get("type") == "BPE" and not affixes and not model.get("byte_fallback")


def translate_model(
    builder: RecipeBuilder, model: Mapping[str, Any], *, raw_bytes: bool, document: Mapping[str, Any]
) -> None:
    """Adds the model's arrays to the recipe. ``raw_bytes``: pre-tokens come as bytes, not as the characters that stand
    for them. ``document`` is the whole tokenizer.json. Raises UnsupportedPattern where there's no translation."""
    kinds: dict[str, Callable[[], None]] = {
        "BPE": lambda: _bpe(builder, model, raw_bytes=raw_bytes),
        "Unigram": lambda: _unigram(builder, document),
        "WordPiece": lambda: _word_piece(builder, model),
        "WordLevel": lambda: _word_level(builder, model),
    }
    kind = str(model.get("type"))
    if kind not in kinds:
        raise UnsupportedPattern(f"the model {kind}")
    kinds[kind]()
    builder.number("model", list(kinds).index(kind))


def _vocab_size(builder: RecipeBuilder, ids: Iterable[int]) -> None:
    builder.number("vocab_size", max(ids, default=0) + 1)


def _merges(merges: Sequence[Any]) -> tuple[Sequence[str], Sequence[str]]:
    """Both spellings, as the left and the right sides. Of the old one, lines with a comment don't count."""
    if any(isinstance(merge, str) for merge in merges):
        commented = (merge for merge in merges if not (isinstance(merge, str) and merge.startswith("#version")))
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in commented]
        for merge in merges:
            if len(merge) != 2:
                raise UnsupportedPattern(f"the merge {' '.join(merge)!r}, which isn't two tokens")
    if not merges:
        return (), ()
    left, right = zip(*merges, strict=True)
    return left, right


def _bpe(builder: RecipeBuilder, model: Mapping[str, Any], *, raw_bytes: bool) -> None:
    if model.get("dropout"):
        raise UnsupportedPattern("dropout")
    vocab: dict[str, int] = model["vocab"]
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    lefts, rights = _merges(model["merges"])
    skip = len(prefix.encode())
    if "" in rights or (skip and any(len(b.encode()) <= skip for b in rights)):
        raise UnsupportedPattern("a merge whose right side is no longer than the prefix it loses")
    joined: Iterable[str] = map(add, lefts, rights)
    if skip:
        joined = (
            (a.encode() + b.encode()[skip:]).decode("utf-8", "replace") for a, b in zip(lefts, rights, strict=True)
        )
    left, right, merged = (_ids(vocab, tokens, len(lefts)) for tokens in (lefts, rights, joined))
    if (np.stack([left, right, merged]) == NONE).any():
        raise UnsupportedPattern("a merge of tokens that are not in the vocabulary")
    if len(set(vocab.values())) != len(vocab):
        # The library tells outdated merges by their product's id alone, which takes a name for each id.
        raise UnsupportedPattern("two tokens with one id")
    _vocab_size(builder, vocab.values())
    builder.add("bpe.left", left)
    builder.add("bpe.right", right)
    builder.add("bpe.merged", merged)
    unk = model.get("unk_token")
    builder.number("bpe.unknown", NONE if unk is None else vocab.get(unk, _MISSING))
    fallback, whole = bool(model.get("byte_fallback")), bool(model.get("ignore_merges"))
    builder.number("bpe.flags", raw_bytes | bool(model.get("fuse_unk")) << 1 | fallback << 2 | whole << 3)
    if raw_bytes:
        builder.add("bpe.bytes", np.array([vocab.get(c, NONE) for c in BYTES], np.uint32))
    else:
        builder.add("bpe.bytes", _byte_tokens(vocab))
        builder.add("bpe.prefix", np.frombuffer(prefix.encode(), np.uint8))
        builder.add("bpe.suffix", np.frombuffer(suffix.encode(), np.uint8))
        affixes = [("", ""), (prefix, ""), (prefix, suffix), ("", suffix)]
        tables = {affix: _characters(vocab, *affix) for affix in dict.fromkeys(affixes)}
        for i, affix in enumerate(affixes):
            builder.pages(f"bpe.characters.{i}", tables[affix])
    if whole:
        _whole_words(builder, vocab, raw_bytes=raw_bytes)


def _ids(vocab: Mapping[str, int], tokens: Iterable[str], count: int) -> np.ndarray:
    """uint32[count]; NONE for what is not in the vocabulary."""
    return np.fromiter(map(vocab.get, tokens, repeat(NONE)), np.uint32, count)


def _byte_tokens(vocab: Mapping[str, int]) -> np.ndarray:
    return np.array([vocab.get(f"<0x{b:02X}>", NONE) for b in range(256)], np.uint32)


def _characters(vocab: Mapping[str, int], before: str, after: str) -> np.ndarray:
    """The id of each character that is in the vocabulary with these affixes; NONE for the others."""
    ids = np.full(CODE_POINTS, NONE, np.uint32)
    size = len(before) + len(after) + 1
    for token, number in vocab.items():
        if len(token) == size and token.startswith(before) and token.endswith(after):
            ids[ord(token[len(before)])] = number
    return ids


def _whole_words(builder: RecipeBuilder, vocab: Mapping[str, int], *, raw_bytes: bool) -> None:
    words: list[bytes] = []
    ids: list[int] = []
    # A character that stands for no byte must not become one.
    undo = dict.fromkeys(range(256), "\uffff") | {ord(c): chr(b) for b, c in enumerate(BYTES)}
    for token, number in vocab.items():
        try:
            words.append(token.translate(undo).encode("latin-1") if raw_bytes else token.encode())
        except UnicodeEncodeError:
            continue  # no text comes to such a pre-token
        ids.append(number)
    builder.strings("bpe.words", words)
    builder.add("bpe.word_ids", np.array(ids, np.uint32))


def _unigram(builder: RecipeBuilder, document: Mapping[str, Any]) -> None:
    from tokenizers import Tokenizer

    # The library's own reading of the scores: its parser of numbers may differ from Python's in the last bit.
    model = json.loads(Tokenizer.from_str(json.dumps(document, ensure_ascii=False)).to_str())["model"]
    if model.get("alpha") or model.get("nbest_size"):
        raise UnsupportedPattern("sampling")
    tokens = [str(token) for token, _ in model["vocab"]]
    _vocab_size(builder, range(len(tokens)))
    builder.strings("unigram.tokens", (token.encode() for token in tokens))
    builder.add("unigram.scores", np.array([score for _, score in model["vocab"]], np.float64))
    builder.number("unigram.unknown", NONE if model.get("unk_id") is None else int(model["unk_id"]))
    ids = {token: number for number, token in enumerate(tokens)}
    builder.add("unigram.bytes", _byte_tokens(ids) if model.get("byte_fallback") else np.zeros(0, np.uint32))


def _words(builder: RecipeBuilder, name: str, words: Mapping[bytes, int]) -> None:
    builder.strings(f"words.{name}", words)
    builder.add(f"words.{name}_ids", np.array(list(words.values()), np.uint32))


def _word_piece(builder: RecipeBuilder, model: Mapping[str, Any]) -> None:
    vocab: dict[str, int] = model["vocab"]
    prefix = str(model["continuing_subword_prefix"])
    _vocab_size(builder, vocab.values())
    _words(builder, "first", {token.encode(): number for token, number in vocab.items() if token})
    inner = {t[len(prefix) :].encode(): number for t, number in vocab.items() if t.startswith(prefix) and t != prefix}
    _words(builder, "inner", inner)
    builder.number("words.unknown", vocab.get(model["unk_token"], NONE))
    builder.number("words.longest", min(int(model["max_input_chars_per_word"]), NONE - 1))


def _word_level(builder: RecipeBuilder, model: Mapping[str, Any]) -> None:
    vocab: dict[str, int] = model["vocab"]
    _vocab_size(builder, vocab.values())
    _words(builder, "first", {token.encode(): number for token, number in vocab.items()})
    builder.number("words.unknown", vocab.get(model["unk_token"], NONE))

"""A SentencePiece model (BPE or Unigram) into a tokenizer.json. Knows its pieces, specs and odd rules.

Pieces come from a ``.model`` protobuf here, or from a GGUF file's metadata; both give a ``Pieces``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimbed.errors import MissingExtra, TokenizerError
from trimbed.tokenizer.charsmap import charsmap_normalizer
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.merge_ranks import ranked_merges, untranslatable_ties
from trimbed.tokenizer.rank_files import added_token

__all__ = ["Pieces", "document_of_pieces", "read_model"]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "▁"


@dataclass(frozen=True)
class Pieces:
    """What defines a SentencePiece tokenizer. ``kinds``: the types of its protobuf, 1 normal to 6 byte."""

    algorithm: str  # bpe or unigram
    pieces: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    byte_fallback: bool
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = False
    escape_whitespaces: bool = True
    whitespace_as_suffix: bool = False
    charsmap: bytes = b""
    names: dict[str, str] = field(default_factory=dict)  # role -> special token


def read_model(path: Path) -> Pieces:
    """A ``.model`` file. Raises TokenizerError for another file or kind of model, MissingExtra without its packages."""
    try:
        from google.protobuf.message import DecodeError
        from sentencepiece import sentencepiece_model_pb2 as schema
    except ImportError:
        raise MissingExtra(
            f"reading {path.name} needs the packages sentencepiece and protobuf: pip install 'trimbed[convert]'"
        ) from None
    model = schema.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError:
        raise TokenizerError(f"{path} is not a SentencePiece model, or is cut short") from None
    if not model.pieces:
        raise TokenizerError(f"{path} is not a SentencePiece model: it has no pieces")
    if not model.HasField("trainer_spec") or not model.HasField("normalizer_spec"):
        raise TokenizerError(f"{path} lacks the model's settings, which stand behind its pieces; is the file whole?")
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    algorithms = {schema.TrainerSpec.UNIGRAM: "unigram", schema.TrainerSpec.BPE: "bpe"}
    if trainer.model_type not in algorithms:
        name = schema.TrainerSpec.ModelType.Name(trainer.model_type).lower()
        raise TokenizerError(f"{path}: a SentencePiece model of type {name!r} can't be converted, only BPE and Unigram")
    pieces = [piece.piece for piece in model.pieces]
    kinds = [piece.type for piece in model.pieces]
    ids = {"bos": trainer.bos_id, "eos": trainer.eos_id, "pad": trainer.pad_id, "unk": trainer.unk_id}
    return Pieces(
        algorithm=algorithms[trainer.model_type],
        pieces=pieces,
        scores=[piece.score for piece in model.pieces],
        kinds=kinds,
        byte_fallback=trainer.byte_fallback,
        add_dummy_prefix=normalizer.add_dummy_prefix,
        remove_extra_whitespaces=normalizer.remove_extra_whitespaces,
        escape_whitespaces=normalizer.escape_whitespaces,
        whitespace_as_suffix=trainer.treat_whitespace_as_suffix,
        charsmap=normalizer.precompiled_charsmap,
        names={role: pieces[n] for role, n in ids.items() if 0 <= n < len(pieces) and kinds[n] in (UNKNOWN, CONTROL)},
    )


def document_of_pieces(model: Pieces, *, origin: str) -> tuple[TokenizerDocument, list[str]]:
    """The tokenizer.json that encodes as the model does, and notes on what comes out otherwise in rare cases.

    Raises TokenizerError naming the feature that has no counterpart.
    """
    repeated = [piece for piece, times in Counter(model.pieces).items() if times > 1]
    if repeated:
        raise TokenizerError(f"{origin}: the piece {repeated[0]!r} comes twice; its ids can't both be reached")
    if not model.pieces or model.kinds.count(UNKNOWN) > 1:
        raise TokenizerError(f"{origin}: there must be pieces, and one unknown piece at most")
    added = [
        added_token(index, piece, special=kind != USER_DEFINED, normalized=kind == USER_DEFINED)
        for index, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    normalizers, notes = _normalizers(model, origin)
    body, pre_tokenizer = _bpe(model, origin) if model.algorithm == "bpe" else _unigram(model, origin, notes)
    decoders: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    if model.byte_fallback:
        decoders.append({"type": "ByteFallback"})
    decoders.append({"type": "Fuse"})
    if model.add_dummy_prefix and not model.whitespace_as_suffix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    data = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": body,
    }
    return TokenizerDocument(data, origin=origin), notes


def _replace(pattern: str, content: str, *, regex: bool = True) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def _normalizers(model: Pieces, origin: str) -> tuple[list[dict[str, Any]], list[str]]:
    """SentencePiece's normalizer step by step: the map, spaces at the ends and in runs, the dummy prefix, escaping."""
    parts, note = charsmap_normalizer(model.charsmap)
    notes = [note] if note else []
    space = SPACE if model.escape_whitespaces else " "
    user = [piece for piece, kind in zip(model.pieces, model.kinds, strict=True) if kind == USER_DEFINED]
    if model.remove_extra_whitespaces:
        parts += [_replace(r"\A +", ""), _replace(" {2,}", " ")]
    prefix = model.add_dummy_prefix and not model.whitespace_as_suffix
    if prefix and user:
        # User-defined symbols are matched in normalized text, so the library normalizes them too. They must come out
        # unchanged, while every other text gets the prefix, once.
        alone = "|".join(re.escape(piece) for piece in user)
        parts.append(_replace(rf"\A(?=[\s\S])(?!(?:{alone})\z)", space))
        notes.append(
            "a text that is one user-defined symbol and nothing else gets no prefix, unlike with sentencepiece"
        )
    elif prefix:
        parts.append({"type": "Prepend", "prepend": space})
    if model.escape_whitespaces:
        parts.append(_replace(" ", SPACE, regex=False))
    if model.remove_extra_whitespaces:
        parts.append(_replace(rf"{space}+\z", ""))
    if model.add_dummy_prefix and model.whitespace_as_suffix:
        if user:
            raise TokenizerError(f"{origin}: user-defined symbols beside white space as a suffix can't be converted")
        parts.append(_replace(r"(?<=[\s\S])\z", space))
    if model.remove_extra_whitespaces or model.charsmap:
        for piece in user:
            if piece != piece.strip(SPACE + " ") or "  " in piece or not piece.isascii():
                raise TokenizerError(
                    f"{origin}: the user-defined symbol {piece!r} would be changed by the model's normalization, "
                    "which SentencePiece spares it; that can't be converted"
                )
    return parts, notes


def _bpe(model: Pieces, origin: str) -> tuple[dict[str, Any], None]:
    """Scores become merges: the better the score of what two pieces make, the earlier."""
    ordinary = [n for n, kind in enumerate(model.kinds) if kind in (NORMAL, UNUSED)]
    names = [model.pieces[n] for n in ordinary]
    known = set(names)
    characters = {character for name in names if len(name) > 1 for character in name}
    if missing := sorted(characters - known):
        raise TokenizerError(
            f"{origin}: {len(missing)} characters (such as {missing[0]!r}) are in pieces but no pieces themselves; "
            "merging unknown characters can't be converted"
        )
    # Equal scores get equal ranks here: the leftmost goes first, which merges in a list can't say.
    order = {score: rank for rank, score in enumerate(sorted({model.scores[n] for n in ordinary}, reverse=True))}
    ranks = [order[model.scores[n]] for n in ordinary]
    merges = ranked_merges(names, ranks)
    for _, _, product in merges:
        if model.kinds[ordinary[product]] == UNUSED:
            raise TokenizerError(
                f"{origin}: the unused piece {names[product]!r} can be built and is taken apart again; that can't be "
                "converted"
            )
    merges.sort(key=lambda merge: (ranks[merge[2]], -len(names[merge[2]])))
    if tied := untranslatable_ties(names, ranks, merges):
        raise TokenizerError(
            f"{origin}: the pieces {tied[0]!r} and {tied[1]!r} have the same score, so their order depends on where "
            "they stand in a text; that can't be converted"
        )
    unknown = model.kinds.index(UNKNOWN) if UNKNOWN in model.kinds else None
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None if unknown is None else model.pieces[unknown],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": False,
        "vocab": {piece: index for index, piece in enumerate(model.pieces)},
        "merges": [[names[a], names[b]] for a, b, _ in merges],
    }, None


_BYTE_TEXT = re.compile(r"<0x[0-9A-F]{2}>")


def _unigram(model: Pieces, origin: str, notes: list[str]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Pieces with their scores. Unused pieces and the names of bytes must match no text."""
    if UNKNOWN not in model.kinds:
        raise TokenizerError(f"{origin}: a Unigram model without an unknown piece can't be converted")
    names = list(model.pieces)
    for index, kind in enumerate(model.kinds):
        if kind == UNUSED:
            if not model.escape_whitespaces:
                raise TokenizerError(
                    f"{origin}: unused pieces (such as {names[index]!r}) match no text, which can't be converted for a "
                    "model that keeps spaces"
                )
            # No text reaches the model with a space in it, so a name with one keeps the id and matches nothing.
            names[index] = " " + names[index]
            notes.append(
                f"the unused piece {model.pieces[index]!r} is named {names[index]!r}, so that no text matches it"
            )
    normal = [score for score, kind in zip(model.scores, model.kinds, strict=True) if kind == NORMAL]
    lowest = min(normal, default=0.0)
    # The unknown's score hangs on the lowest of all; those of pieces that never compete must not lower it.
    scores = [max(score, lowest) for score in model.scores]
    notes.append(
        "scores are added up in double precision, by sentencepiece in single: deep in a text of many thousand "
        "characters it may take the other of two nearly equal ways"
    )
    pre_tokenizer = None
    if model.byte_fallback:
        pre_tokenizer = _byte_guard(model, notes)
    return {
        "type": "Unigram",
        "unk_id": model.kinds.index(UNKNOWN),
        "vocab": [[name, score] for name, score in zip(names, scores, strict=True)],
        "byte_fallback": model.byte_fallback,
    }, pre_tokenizer


def _byte_guard(model: Pieces, notes: list[str]) -> dict[str, Any] | None:
    """A split inside texts such as ``<0x41>``, where no piece crosses, so that none is taken for the byte's name."""
    ordinary = [piece for piece, kind in zip(model.pieces, model.kinds, strict=True) if kind == NORMAL]
    places = {
        "<(?=0x[0-9A-F]{2}>)": "<0",
        "<0(?=x[0-9A-F]{2}>)": "0x",
    }
    for pattern, crossing in places.items():
        if not any(crossing in piece for piece in ordinary):
            return {
                "type": "Split",
                "pattern": {"Regex": pattern},
                "behavior": "MergedWithPrevious",
                "invert": False,
            }
    if not any(re.search("[0-9A-F]>", piece) for piece in ordinary):
        return {
            "type": "Split",
            "pattern": {"Regex": "(?<=<0x[0-9A-F]{2})>"},
            "behavior": "MergedWithNext",
            "invert": False,
        }
    notes.append("a text such as <0x41> is taken for the byte it names, unlike with sentencepiece")
    return None

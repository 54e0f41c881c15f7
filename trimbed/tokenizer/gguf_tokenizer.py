"""The tokenizer in a GGUF file's metadata, as a tokenizer.json. Knows what the ``tokenizer.*`` keys stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimbed.errors import TokenizerError
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.gguf_metadata import read_metadata, read_tensor_shapes
from trimbed.tokenizer.patterns import BY_GGUF_NAME, Pattern, byte_level_bpe
from trimbed.tokenizer.rank_files import added_token
from trimbed.tokenizer.sentencepiece_model import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Pieces,
    document_of_pieces,
)
from trimbed.tokenizer.side_files import SideFiles
from trimbed.tokenizer.vocab_files import bert_document

__all__ = ["GgufTokenizer", "read_gguf"]

_ROLES = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",  # spelled so in the format
    "pad": "padding_token_id",
    "cls": "cls_token_id",
    "mask": "mask_token_id",
}


@dataclass(frozen=True)
class GgufTokenizer:
    """``decided_by``: the metadata key that the document comes from."""

    document: TokenizerDocument
    side: SideFiles
    notes: tuple[str, ...]
    decided_by: str


def read_gguf(path: Path) -> GgufTokenizer:
    """The document, special names, templates and architecture.

    A ``tokenizer.huggingface.json`` in the metadata is taken as it is. Otherwise ``tokenizer.ggml.model`` decides: gpt2
    (byte-level BPE, split as ``tokenizer.ggml.pre`` says), llama (SentencePiece BPE), t5 (Unigram), bert (WordPiece).
    Raises TokenizerError for other kinds, for an unknown ``pre``, and for a file that is cut short.
    """
    data = read_metadata(path)
    side = _side(data)
    notes: list[str] = []
    whole = data.get("tokenizer.huggingface.json")
    if isinstance(whole, str) and whole:
        document = TokenizerDocument.parse(whole, origin=f"{path} (tokenizer.huggingface.json)")
        return GgufTokenizer(document, side, (), "tokenizer.huggingface.json")
    model, tokens = data.get("tokenizer.ggml.model"), data.get("tokenizer.ggml.tokens")
    if not isinstance(model, str) or not isinstance(tokens, list) or not all(isinstance(t, str) for t in tokens):
        raise TokenizerError(f"{path} holds no tokenizer (no tokenizer.ggml.model or no tokens)")
    kinds = data.get("tokenizer.ggml.token_type") or [NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise TokenizerError(f"{path}: {len(tokens)} tokens but {len(kinds)} token types")
    readers = {"gpt2": _byte_level, "llama": _sentencepiece, "t5": _sentencepiece, "bert": _bert}
    if model not in readers:
        raise TokenizerError(f"{path}: tokenizer model {model!r} can't be converted; known are {', '.join(readers)}")
    document = readers[model](data, tokens, kinds, notes, str(path))
    rows = read_tensor_shapes(path).get("token_embd.weight", (len(tokens),))[0]
    if rows != len(tokens):
        notes.append(f"{path.name}: the embedding has {rows} rows for {len(tokens)} tokens")
    return GgufTokenizer(document, side, tuple(notes), f"tokenizer.ggml.model = {model}")


def _side(data: Mapping[str, Any]) -> SideFiles:
    tokens = data.get("tokenizer.ggml.tokens") or []
    names = {}
    for role, key in _ROLES.items():
        index = data.get(f"tokenizer.ggml.{key}")
        if isinstance(index, int) and index < len(tokens):
            names[role] = tokens[index]
    templates = {
        "default" if key == "tokenizer.chat_template" else key.removeprefix("tokenizer.chat_template."): value
        for key, value in data.items()
        if (key == "tokenizer.chat_template" or key.startswith("tokenizer.chat_template.")) and isinstance(value, str)
    }
    flags = {
        name: bool(data[f"tokenizer.ggml.{name}"])
        for name in ("add_bos_token", "add_eos_token")
        if f"tokenizer.ggml.{name}" in data
    }
    return SideFiles(
        tokenizer_config=flags, templates=templates, names=names, architecture=data.get("general.architecture")
    )


def _byte_level(
    data: Mapping[str, Any], tokens: list[str], kinds: list[int], notes: list[str], origin: str
) -> TokenizerDocument:
    name = data.get("tokenizer.ggml.pre")
    if name not in BY_GGUF_NAME:
        raise TokenizerError(
            f"{origin}: tokenizer.ggml.pre is {name!r}, whose way to split text is not known here; use the "
            "tokenizer.json of the original model"
        )
    pattern: Pattern = BY_GGUF_NAME[name]
    merges = data.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise TokenizerError(f"{origin}: a byte-level BPE without tokenizer.ggml.merges")
    if not pattern.ignore_merges:
        built = {merge.replace(" ", "") for merge in merges if isinstance(merge, str)}
        orphans = [t for t, k in zip(tokens, kinds, strict=True) if k == NORMAL and len(t) > 1 and t not in built]
        if orphans:
            notes.append(
                f"{len(orphans)} ordinary tokens (such as {orphans[0]!r}) are no merge's product, so text never comes "
                f"to them; a tokenizer.json of the model may look whole pieces up first, which {name!r} doesn't say"
            )
    added = [
        added_token(index, token, special=kind != USER_DEFINED)
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (CONTROL, USER_DEFINED, UNKNOWN)
    ]
    return TokenizerDocument(
        byte_level_bpe(pattern, _distinct(tokens, origin), merges, added_tokens=added),
        origin=origin,
    )


def _distinct(tokens: list[str], origin: str) -> dict[str, int]:
    vocab = {token: index for index, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        twice = next(token for index, token in enumerate(tokens) if vocab[token] != index)
        raise TokenizerError(f"{origin}: the token {twice!r} comes twice")
    return vocab


def _sentencepiece(
    data: Mapping[str, Any], tokens: list[str], kinds: list[int], notes: list[str], origin: str
) -> TokenizerDocument:
    unigram = data.get("tokenizer.ggml.model") == "t5"
    scores = data.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise TokenizerError(f"{origin}: a SentencePiece vocabulary needs a score a token")
    charsmap = bytes(value & 0xFF for value in data.get("tokenizer.ggml.precompiled_charsmap") or ())
    model = Pieces(
        algorithm="unigram" if unigram else "bpe",
        pieces=tokens,
        scores=scores,
        kinds=kinds,
        byte_fallback=BYTE in kinds,
        add_dummy_prefix=bool(data.get("tokenizer.ggml.add_space_prefix", True)),
        remove_extra_whitespaces=bool(data.get("tokenizer.ggml.remove_extra_whitespaces", unigram)),
        charsmap=charsmap,
    )
    document, more = document_of_pieces(model, origin=origin)
    notes += more
    return document


def _bert(
    data: Mapping[str, Any], tokens: list[str], kinds: list[int], notes: list[str], origin: str
) -> TokenizerDocument:
    """Word starts carry ▁ in GGUF, and continuations nothing: the reverse of ##."""
    names = [
        token if kind in (CONTROL, UNKNOWN, UNUSED) else token[1:] if token.startswith("▁") else "##" + token
        for token, kind in zip(tokens, kinds, strict=True)
    ]
    roles = {
        role: names[data[f"tokenizer.ggml.{key}"]]
        for role, key in _ROLES.items()
        if isinstance(data.get(f"tokenizer.ggml.{key}"), int) and data[f"tokenizer.ggml.{key}"] < len(names)
    }
    if "cls" not in roles and "bos" in roles:
        roles["cls"] = roles["bos"]
    vocab = _distinct(names, origin)
    for role, name in (("unk", "[UNK]"), ("cls", "[CLS]"), ("sep", "[SEP]"), ("pad", "[PAD]"), ("mask", "[MASK]")):
        if name in vocab:
            roles.setdefault(role, name)
    marked = {name for name, kind in zip(names, kinds, strict=True) if kind != NORMAL}
    lowercase = not any(name != name.lower() for name in names if name not in marked and name[:1] != "[")
    notes.append(
        f"a GGUF doesn't say whether text is lower-cased; the vocabulary says it is{'' if lowercase else ' not'}"
    )
    roles = {role: roles[role] for role in ("unk", "sep", "pad", "cls", "mask") if role in roles}
    return bert_document(vocab, roles, lowercase=lowercase, strip_accents=None, chinese=True, origin=origin)

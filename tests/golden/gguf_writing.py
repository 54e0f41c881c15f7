"""Vocabulary-only GGUF files, written with the ``gguf`` package as model converters write them. For tests only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
from sentencepiece import sentencepiece_model_pb2 as schema

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def _finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.close()
    return path


def write_byte_level(path: Path, document: dict[str, Any], *, pre: str, architecture: str = "llama") -> Path:
    """A byte-level BPE tokenizer.json: tokens by id, types from the added tokens, merges as strings."""
    vocab = dict(document["model"]["vocab"])
    kinds = {}
    for entry in document["added_tokens"]:
        vocab[entry["content"]] = entry["id"]
        kinds[entry["id"]] = CONTROL if entry["special"] else USER_DEFINED
    names = {index: token for token, index in vocab.items()}
    tokens, types = [], []
    for index in range(max(names) + 1):
        tokens.append(names.get(index, f"[PAD{index}]"))
        types.append(kinds.get(index, NORMAL if index in names else UNUSED))
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in document["model"]["merges"]])
    return _finish(writer, path)


def write_sentencepiece(path: Path, model: Path, *, architecture: str = "llama") -> Path:
    """A ``.model`` file: pieces, scores, types, and what the normalizer does."""
    proto = schema.ModelProto()
    proto.ParseFromString(model.read_bytes())
    writer = gguf.GGUFWriter(path, architecture)
    unigram = proto.trainer_spec.model_type == schema.TrainerSpec.UNIGRAM
    writer.add_tokenizer_model("t5" if unigram else "llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.piece.encode() for piece in proto.pieces])
    writer.add_token_scores([piece.score for piece in proto.pieces])
    writer.add_token_types([piece.type for piece in proto.pieces])
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    if proto.normalizer_spec.precompiled_charsmap:
        writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    for role, index in (("bos", proto.trainer_spec.bos_id), ("eos", proto.trainer_spec.eos_id)):
        if index >= 0:
            getattr(writer, f"add_{role}_token_id")(index)
    writer.add_unk_token_id(proto.trainer_spec.unk_id)
    return _finish(writer, path)


def write_wordpiece(path: Path, document: dict[str, Any]) -> Path:
    """A BERT tokenizer.json: word starts get ▁, continuations lose ##."""
    vocab = document["model"]["vocab"]
    special = {entry["content"] for entry in document["added_tokens"]}
    tokens, types = [], []
    for token in sorted(vocab, key=vocab.__getitem__):
        types.append(CONTROL if token in special else NORMAL)
        tokens.append(token if token in special else token[2:] if token.startswith("##") else "▁" + token)
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_cls_token_id(vocab["[CLS]"]) if hasattr(writer, "add_cls_token_id") else None
    writer.add_sep_token_id(vocab["[SEP]"])
    writer.add_unk_token_id(vocab["[UNK]"])
    writer.add_pad_token_id(vocab["[PAD]"])
    return _finish(writer, path)

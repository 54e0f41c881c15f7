"""Bare vocabulary files into a tokenizer.json: WordPiece vocab.txt, and vocab.json with merges.txt.

Knows what the classes named in tokenizer_config.json do around the model. Without that file the choices made are noted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trimbed.errors import TokenizerError
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.patterns import GPT2, QWEN2, Pattern, byte_level_bpe
from trimbed.tokenizer.rank_files import added_token
from trimbed.tokenizer.surface import BYTE_CHARACTERS

__all__ = ["bert_document", "from_vocab_json", "from_vocab_txt", "with_added_tokens"]

_BERT_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


def from_vocab_txt(path: Path, config: Mapping[str, Any]) -> tuple[TokenizerDocument, list[str]]:
    """A BERT vocabulary, one token a line, the id is the line. ``config``: tokenizer_config.json, {} if there is none.

    A token on two lines has the id of the last one, as BERT's own reader has it; the other id is a hole.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path} is not UTF-8 text: {error}") from None
    if lines and lines[-1] == "":
        lines.pop()
    vocab = {line.removesuffix("\r"): index for index, line in enumerate(lines)}
    if not any(token.startswith("##") for token in vocab):
        raise TokenizerError(f"{path} is not a WordPiece vocabulary: no token begins with ##")
    notes = []
    lowercase = config.get("do_lower_case")
    if lowercase is None:
        roles = set(_BERT_ROLES.values())
        lowercase = not any(token != token.lower() for token in vocab if token not in roles and token[:1] != "[")
        notes.append(
            f"{path.name} doesn't say whether text is lower-cased; it has "
            + ("no upper-case tokens, so it is" if lowercase else "upper-case tokens, so it isn't")
        )
    names = {role: _name(config.get(f"{role}_token"), default) for role, default in _BERT_ROLES.items()}
    document = bert_document(
        vocab,
        names,
        lowercase=bool(lowercase),
        strip_accents=config.get("strip_accents"),
        chinese=bool(config.get("tokenize_chinese_chars", True)),
        origin=str(path),
    )
    return document, notes


def _name(value: Any, default: str) -> str:
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else default


def bert_document(
    vocab: Mapping[str, int],
    names: Mapping[str, str],
    *,
    lowercase: bool,
    strip_accents: bool | None,
    chinese: bool,
    origin: str,
) -> TokenizerDocument:
    """BERT's pipeline around a WordPiece vocabulary. ``names``: role -> special token; those it lacks are left out."""
    specials = {role: name for role, name in names.items() if name in vocab}
    if "unk" not in specials:
        raise TokenizerError(f"{origin}: the vocabulary has no {names.get('unk')}, so unknown words have no id")
    post_processor = None
    if "cls" in specials and "sep" in specials:
        cls, sep = specials["cls"], specials["sep"]
        first = [{"SpecialToken": {"id": cls, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        first.append({"SpecialToken": {"id": sep, "type_id": 0}})
        second = [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": sep, "type_id": 1}}]
        post_processor = {
            "type": "TemplateProcessing",
            "single": first,
            "pair": first + second,
            "special_tokens": {name: {"id": name, "ids": [vocab[name]], "tokens": [name]} for name in (cls, sep)},
        }
    added = sorted({vocab[name]: name for name in specials.values()}.items())
    data: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(index, name) for index, name in added],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": chinese,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": post_processor,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": specials["unk"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": dict(vocab),
        },
    }
    return TokenizerDocument(data, origin=origin)


# tokenizer_class (without "Tokenizer" and "Fast") -> what surrounds the merges.
_CLASSES: dict[str, Pattern] = {
    "GPT2": GPT2,
    "Roberta": GPT2,
    "Bart": GPT2,
    "Longformer": GPT2,
    "LED": GPT2,
    "Whisper": GPT2,
    "Blenderbot": GPT2,
    "GPTNeoX": GPT2,
    "Deberta": GPT2,
    "Qwen2": QWEN2,
}


def from_vocab_json(path: Path, merges: Path, config: Mapping[str, Any]) -> tuple[TokenizerDocument, list[str]]:
    """vocab.json and merges.txt. ``config`` (tokenizer_config.json) names the class that says how text is split."""
    try:
        vocab = json.loads(path.read_bytes())
        lines = merges.read_text("utf-8").split("\n")
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} or {merges.name} can't be read ({error}); are they whole?") from None
    if not isinstance(vocab, dict):
        raise TokenizerError(f"{path} is not a vocabulary: it holds a {type(vocab).__name__}, not an object")
    pairs = []
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise TokenizerError(f"{merges} line {number} is not two tokens with a space between")
        pairs.append(parts)
    notes: list[str] = []
    name = str(config.get("tokenizer_class") or "")
    short = name.removesuffix("Fast").removesuffix("Tokenizer")
    if short == "CLIP":
        return _clip(vocab, pairs, config, origin=str(path)), notes
    if name and short not in _CLASSES:
        raise TokenizerError(
            f"{path}: how {name} splits text is not known here; use a tokenizer.json of this model (its class can save "
            "one)"
        )
    if not name:
        missing = [character for character in BYTE_CHARACTERS if character not in vocab]
        if len(missing) > 13:  # bytes that never come in UTF-8 may be left out
            raise TokenizerError(f"{path}: not a byte-level vocabulary, and no tokenizer_config.json names its class")
        notes.append("no tokenizer_config.json names a class; text is split as GPT-2 does")
    pattern = _CLASSES.get(short, GPT2)
    spaced = bool(config.get("add_prefix_space", False))
    data = byte_level_bpe(pattern, vocab, pairs, add_prefix_space=spaced, affix="")
    names = [_name(config.get(f"{role}_token"), "") for role in ("bos", "eos", "unk", "pad", "sep", "cls", "mask")]
    if not config:
        names.append("<|endoftext|>")
    return with_added_tokens(TokenizerDocument(data, origin=str(path)), config, [n for n in names if n]), notes


def _clip(
    vocab: dict[str, int], merges: Sequence[Sequence[str]], config: Mapping[str, Any], *, origin: str
) -> TokenizerDocument:
    start, end = (
        _name(config.get(key), default)
        for key, default in (("bos_token", "<|startoftext|>"), ("eos_token", "<|endoftext|>"))
    )
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    data: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "NFC"},
                {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
                {"type": "Lowercase"},
            ],
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            ],
        },
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": [end, vocab.get(end, 0)],
            "cls": [start, vocab.get(start, 0)],
            "trim_offsets": False,
            "add_prefix_space": False,
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": _name(config.get("unk_token"), end),
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "</w>",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in merges],
        },
    }
    return with_added_tokens(TokenizerDocument(data, origin=origin), config, [start, end])


def with_added_tokens(
    document: TokenizerDocument, config: Mapping[str, Any], names: Sequence[str]
) -> TokenizerDocument:
    """The document with the added tokens of a tokenizer_config.json: ``added_tokens_decoder``, else ``names``.

    Names that the vocabulary lacks and that no file gives an id are left out. Raises TokenizerError where an id could
    not be given by the loader.
    """
    listed = config.get("added_tokens_decoder")
    entries: dict[int, dict[str, Any]] = {entry["id"]: entry for entry in document.data["added_tokens"]}
    if isinstance(listed, Mapping):
        for key, value in listed.items():
            if not isinstance(value, Mapping) or not isinstance(value.get("content"), str) or not str(key).isdigit():
                raise TokenizerError(f"tokenizer_config.json: added_tokens_decoder entry {key!r} has no content or id")
            entry = added_token(int(key), value["content"], special=bool(value.get("special", False)))
            entry.update(
                (flag, bool(value.get(flag, False))) for flag in ("single_word", "lstrip", "rstrip", "normalized")
            )
            entries[int(key)] = entry
    present = {entry["content"] for entry in entries.values()}
    for name in names:
        if name in document.vocab and name not in present:
            entries[document.vocab[name]] = added_token(document.vocab[name], name)
            present.add(name)
    data = {**document.data, "added_tokens": [entries[index] for index in sorted(entries)]}
    return TokenizerDocument(data, origin=document.origin)

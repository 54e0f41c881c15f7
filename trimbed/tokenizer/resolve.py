"""From whatever names a tokenizer to a TokenizerSpec: which file decides, and who reads it.

In a folder the first of these decides, because it says most of what the tokenizer does:

1. ``tokenizer.json``
2. ``tekken.json`` (or ``tekken_*.json``)
3. a SentencePiece model: ``tokenizer.model``, ``spiece.model``, ``sentencepiece.bpe.model``, ``spm.model``,
   ``*.model.v*``, else the only other ``*.model``
4. tiktoken ranks: ``*.tiktoken``, or a ``*.model`` that holds base64 lines
5. ``vocab.json`` with ``merges.txt``
6. ``vocab.txt``
7. the only ``*.gguf``

Others that are there and contradict it are reported in the spec's notes, never mixed in. A file may be named directly.
A Hub id is resolved by downloading just these files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimbed.errors import TokenizerError, UsageError
from trimbed.tokenizer.consistency import contradictions
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.side_files import SideFiles, read_json
from trimbed.tokenizer.slow_classes import listed_added_tokens, refuse_renumbering
from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["resolve"]

_SENTENCEPIECE_NAMES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
_HUB_PATTERNS = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "config.json",
    "generation_config.json",
    "tekken.json",
    "*.model",
    "*.tiktoken",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*.jinja",
]


def resolve(source: Any, *, revision: str | None = None) -> TokenizerSpec:
    """See TokenizerSpec.load."""
    if isinstance(source, TokenizerSpec):
        return source
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return TokenizerSpec(TokenizerDocument.parse(source, origin="JSON text"), source="JSON text")
    if isinstance(source, dict):
        return TokenizerSpec(TokenizerDocument.parse(source))
    if isinstance(source, str | os.PathLike):
        path = Path(source).expanduser()
        if path.exists():
            if revision is not None:
                raise UsageError(f"{path} is local; a revision ({revision}) is for Hub ids only")
            return _from_path(path, source=str(source))
        return _from_hub(str(source), revision)
    return _from_object(source)


def _from_object(source: Any) -> TokenizerSpec:
    """A tokenizers.Tokenizer, or a transformers tokenizer that has one inside."""
    backend = getattr(source, "backend_tokenizer", source)
    if not callable(getattr(backend, "to_str", None)):
        raise TokenizerError(
            f"a tokenizer can't be read from a {type(source).__module__}.{type(source).__name__}; give a path, a Hub "
            "id, JSON text, a tokenizers.Tokenizer or a fast transformers tokenizer"
        )
    document = TokenizerDocument.parse(backend.to_str(), origin=f"a {type(source).__name__} object")
    config: dict[str, Any] = {}
    if backend is not source:
        for role in ("bos", "eos", "pad", "unk", "sep", "cls", "mask"):
            value = getattr(source, f"{role}_token", None)
            if value is not None:
                config[f"{role}_token"] = str(value)
        template = getattr(source, "chat_template", None)
        if template:
            config["chat_template"] = template
        for flag in ("add_bos_token", "add_eos_token"):
            if isinstance(getattr(source, flag, None), bool):
                config[flag] = getattr(source, flag)
    name = getattr(source, "name_or_path", "") or type(source).__name__
    return TokenizerSpec(
        document, source=str(name), decided_by=type(source).__name__, side=SideFiles(tokenizer_config=config)
    )


def _from_hub(name: str, revision: str | None) -> TokenizerSpec:
    if name.count("/") > 1 or name.startswith((".", "/", "~")) or not name:
        raise TokenizerError(f"{name!r} is neither a file or folder here nor a Hub id")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(name, revision=revision, allow_patterns=_HUB_PATTERNS)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TokenizerError(f"{name!r} is no folder here and can't be had from the Hub: {first}") from None
    # The snapshot's folder is named by the commit, which says more than a branch name.
    return _from_path(Path(folder), source=name, revision=Path(folder).name)


def _from_path(path: Path, *, source: str, revision: str | None = None) -> TokenizerSpec:
    folder = path if path.is_dir() else path.parent
    file = _deciding_file(path) if path.is_dir() else path
    if file.suffix == ".gguf" or (file.suffix not in (".json", ".txt") and _begins(file, b"GGUF")):
        from trimbed.tokenizer.gguf_tokenizer import read_gguf

        found = read_gguf(file)
        return TokenizerSpec(
            found.document,
            source=source,
            revision=revision,
            folder=folder,
            decided_by=f"{file.name} ({found.decided_by})",
            side=found.side,
            notes=found.notes,
        )
    side = SideFiles.read(folder)
    document, side, notes = _read(file, side)
    notes += contradictions(document, side, folder, decided_by=file.name)
    return TokenizerSpec(
        document,
        source=source,
        revision=revision,
        folder=folder,
        decided_by=file.name,
        side=side,
        notes=tuple(notes),
    )


def _begins(file: Path, magic: bytes) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(magic)) == magic


def _deciding_file(folder: Path) -> Path:
    """By the precedence of the module's docstring. Raises TokenizerError naming what is there if nothing can decide."""
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    choices: list[Callable[[], list[str]]] = [
        lambda: [n for n in names if n == "tokenizer.json"],
        lambda: [n for n in names if n == "tekken.json"] or [n for n in names if _like(n, "tekken", ".json")],
        lambda: [n for known in _SENTENCEPIECE_NAMES for n in names if n == known][:1],
        lambda: [n for n in names if n.endswith(".model") or ".model.v" in n],
        lambda: [n for n in names if n.endswith(".tiktoken")],
        lambda: ["vocab.json"] if {"vocab.json", "merges.txt"} <= set(names) else [],
        lambda: [n for n in names if n == "vocab.txt"],
        lambda: [n for n in names if n.endswith(".gguf")],
    ]
    for choice in choices:
        found = choice()
        if len(found) > 1:
            raise TokenizerError(f"{folder} has {', '.join(found)}; name the one you mean")
        if found:
            return folder / found[0]
    raise TokenizerError(
        f"{folder} has no tokenizer we can read (tokenizer.json, tekken.json, *.model, *.tiktoken, vocab.json with "
        f"merges.txt, vocab.txt or *.gguf); it has {', '.join(names[:12]) or 'no files'}"
    )


def _like(name: str, start: str, end: str) -> bool:
    return name.startswith(start) and name.endswith(end)


def _read(file: Path, side: SideFiles) -> tuple[TokenizerDocument, SideFiles, list[str]]:
    """The document of one file, by its name and, where that leaves a doubt, its content."""
    from trimbed.tokenizer import rank_files, vocab_files

    config = side.tokenizer_config
    if file.name == "vocab.json" or (file.suffix == ".txt" and file.name == "merges.txt"):
        vocab, merges = file.with_name("vocab.json"), file.with_name("merges.txt")
        if not vocab.is_file() or not merges.is_file():
            raise TokenizerError(f"{file.parent} must have both vocab.json and merges.txt")
        document, notes = vocab_files.from_vocab_json(vocab, merges, config)
        if "added_tokens_decoder" not in config:
            listed = listed_added_tokens(file.parent, side, document.vocab, len(document.vocab))
            document = vocab_files.with_added_tokens(document, {"added_tokens_decoder": listed}, [])
        return document, side, notes
    if file.suffix == ".txt":
        document, notes = vocab_files.from_vocab_txt(file, config)
        return document, side, notes
    if file.suffix == ".json":
        data = _json_object(file)
        if rank_files.is_tekken(data):
            return rank_files.from_tekken(file), side, []
        return TokenizerDocument.parse(data, origin=str(file)), side, []
    if file.suffix == ".tiktoken" or _looks_like_ranks(file):
        specials = _listed_specials(config)
        document = rank_files.from_tiktoken(file, specials)
        return vocab_files.with_added_tokens(document, config, []), side, []
    from trimbed.tokenizer.sentencepiece_model import document_of_pieces, read_model

    refuse_renumbering(file, side)
    pieces = read_model(file)
    document, notes = document_of_pieces(pieces, origin=str(file))
    listed = listed_added_tokens(file.parent, side, document.vocab, len(pieces.pieces))
    document = vocab_files.with_added_tokens(document, {"added_tokens_decoder": listed}, [])
    return document, replace(side, names=pieces.names), notes


def _json_object(file: Path) -> dict[str, Any]:
    data = read_json(file)
    if not data:
        raise TokenizerError(f"{file} is not a tokenizer.json or tekken.json: it is empty")
    return data


def _looks_like_ranks(file: Path) -> bool:
    """Whether a *.model is a tiktoken rank file, as Llama 3's is: lines of base64, a space and a number."""
    with file.open("rb") as opened:
        line = opened.read(256).split(b"\n")[0].split()
    return len(line) == 2 and line[1].isdigit() and all(c < 128 for c in line[0])


def _listed_specials(config: dict[str, Any]) -> list[tuple[str, int]]:
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return []
    return [
        (value["content"], int(key))
        for key, value in listed.items()
        if str(key).isdigit() and isinstance(value, dict) and isinstance(value.get("content"), str)
    ]

"""tekken.json and tiktoken rank files into a tokenizer.json. Knows base64 and ranks; merge_ranks.py makes merges."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trimbed.errors import TokenizerError
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.merge_ranks import ranked_merges
from trimbed.tokenizer.patterns import Pattern, byte_level_bpe, pattern_of_vocabulary
from trimbed.tokenizer.surface import BYTE_CHARACTERS

__all__ = ["added_token", "byte_level_document", "from_tekken", "from_tiktoken", "is_tekken"]

# What Tekken files up to v7 leave to the library: the names of the first special tokens, in order of their ids.
_TEKKEN_SPECIALS = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
]


def added_token(index: int, content: str, *, special: bool = True, normalized: bool = False) -> dict[str, Any]:
    """An ``added_tokens`` entry that matches exactly its text."""
    return {
        "id": index,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": normalized,
        "special": special,
    }


def byte_level_document(
    tokens: Sequence[bytes], ids: Sequence[int], specials: Sequence[tuple[str, int]], pattern: Pattern, *, origin: str
) -> TokenizerDocument:
    """A byte-level BPE from ranked byte strings (best first) with their ids, and special tokens.

    Whole pieces are looked up before merging, as tiktoken does, so tokens that no merges build stay reachable.
    """
    names = ["".join(BYTE_CHARACTERS[byte] for byte in token) for token in tokens]
    vocab = dict(zip(names, ids, strict=True))
    # Special tokens go into the model's vocabulary: only so can their ids be other than the next free ones. Their names
    # are no pieces: as added tokens they are matched before the model sees the text.
    for name, index in specials:
        if name in vocab and vocab[name] != index:
            raise TokenizerError(f"{origin}: the special token {name!r} is also an ordinary token, with another id")
        vocab[name] = index
    merges = ranked_merges(tokens, range(len(tokens)))
    data = byte_level_bpe(
        pattern,
        dict(sorted(vocab.items(), key=lambda item: item[1])),
        [[names[a], names[b]] for a, b, _ in merges],
        added_tokens=[added_token(index, name) for name, index in sorted(specials, key=lambda item: item[1])],
        ignore_merges=True,
    )
    return TokenizerDocument(data, origin=origin)


def is_tekken(data: dict[str, Any]) -> bool:
    """Whether parsed JSON is a Tekken file."""
    config = data.get("config")
    return isinstance(data.get("vocab"), list) and isinstance(config, dict) and "pattern" in config


def from_tekken(path: Path) -> TokenizerDocument:
    """A tekken.json: the first ``default_vocab_size - default_num_special_tokens`` ranks, after the special tokens.

    Raises TokenizerError where fields are missing or ranks have gaps.
    """
    try:
        data = json.loads(path.read_bytes())
        config = data["config"]
        size, specials = int(config["default_vocab_size"]), int(config["default_num_special_tokens"])
        entries = data["vocab"][: size - specials]
        tokens = [base64.b64decode(entry["token_bytes"], validate=True) for entry in entries]
        ranks = [int(entry["rank"]) for entry in entries]
        pattern = str(config["pattern"])
        listed = data.get("special_tokens")
        names = [str(entry["token_str"]) for entry in listed] if listed is not None else list(_TEKKEN_SPECIALS)
        placed = [int(entry["rank"]) for entry in listed] if listed is not None else list(range(len(names)))
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
        raise TokenizerError(f"{path} is not a whole tekken.json: {type(error).__name__}: {error}") from None
    if ranks != list(range(size - specials)) or len(set(tokens)) != len(tokens):
        raise TokenizerError(
            f"{path}: the vocabulary's ranks aren't 0 to {size - specials - 1} without gaps or repeats"
        )
    if placed != list(range(len(names))) or len(names) > specials:
        raise TokenizerError(f"{path}: special tokens must have the ids 0, 1, 2, … of {specials} places")
    names += [f"<SPECIAL_{index}>" for index in range(len(names), specials)]
    ids = range(specials, size)
    return byte_level_document(
        tokens, ids, list(zip(names, range(specials), strict=True)), Pattern((pattern,)), origin=str(path)
    )


def from_tiktoken(path: Path, specials: Sequence[tuple[str, int]] = ()) -> TokenizerDocument:
    """A tiktoken rank file. It carries no pattern, so only vocabularies that we know are read.

    ``specials``: special tokens and ids that a side file names; else the known vocabulary's.
    """
    tokens: list[bytes] = []
    ranks: list[int] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                token, rank = line.split()
                tokens.append(base64.b64decode(token, validate=True))
                ranks.append(int(rank))
            except (ValueError, binascii.Error):
                raise TokenizerError(f"{path} line {number} is not a base64 token and its rank") from None
    if ranks != sorted(set(ranks)) or len(set(tokens)) != len(tokens):
        raise TokenizerError(f"{path}: ranks must rise from line to line, and no token may come twice")
    known = pattern_of_vocabulary(len(tokens), set(tokens[-5:]))
    if known is None:
        raise TokenizerError(
            f"{path}: a rank file says nothing of its regular expression, and no vocabulary of {len(tokens)} ranks is "
            "known; use a tokenizer.json of this model"
        )
    _, pattern, defaults = known
    return byte_level_document(tokens, ranks, list(specials or defaults), pattern, origin=str(path))

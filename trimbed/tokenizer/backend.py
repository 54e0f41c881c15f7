"""What trimming must know of each model algorithm: which tokens must stay, and what a token is built from.

One class an algorithm, and a registry that users can add to. Knows the model level only; added tokens, side files and
policies are other modules' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from trimbed.errors import TokenizerError
from trimbed.tokenizer.dependencies import Dependencies
from trimbed.tokenizer.document import TokenizerDocument

__all__ = [
    "Backend",
    "UnigramBackend",
    "WordLevelBackend",
    "backend_for",
    "byte_fallback_names",
    "components",
    "is_byte_level",
    "register_backend",
]


class Backend(Protocol):
    """One algorithm's rules, for one document. ``vocab_size`` is the highest id + 1, added tokens included."""

    algorithm: str

    def __init__(self, document: TokenizerDocument, vocab_size: int) -> None: ...

    def structural_ids(self) -> dict[int, str]:
        """Ids that no policy may drop, each with its reason."""

    def dependencies(self) -> Dependencies:
        """What each token is built from: the closure of a kept set over it preserves all kept text."""


_REGISTRY: dict[str, Callable[[TokenizerDocument, int], Backend]] = {}


def register_backend(algorithm: str, make: Callable[[TokenizerDocument, int], Backend]) -> None:
    """Use ``make(document, vocab_size)`` for documents of ``algorithm``; the last registration wins."""
    _REGISTRY[algorithm] = make


def backend_for(document: TokenizerDocument, vocab_size: int) -> Backend:
    """The backend of the document's algorithm. Raises TokenizerError where none is registered."""
    from trimbed.tokenizer.bpe import BpeBackend
    from trimbed.tokenizer.wordpiece import WordPieceBackend

    ours: dict[str, Callable[[TokenizerDocument, int], Backend]] = {
        "bpe": BpeBackend,
        "unigram": UnigramBackend,
        "wordpiece": WordPieceBackend,
        "wordlevel": WordLevelBackend,
    }
    make = _REGISTRY.get(document.algorithm) or ours.get(document.algorithm)
    if make is None:
        raise TokenizerError(f"no backend is registered for the algorithm {document.algorithm!r}")
    return make(document, vocab_size)


def components(part: Any) -> Iterator[dict[str, Any]]:
    """A normalizer, pre-tokenizer, decoder or post-processor and all that a Sequence in it holds, in order."""
    if isinstance(part, dict):
        yield part
        for key in ("normalizers", "pretokenizers", "decoders", "processors"):
            for inner in part.get(key) or []:
                yield from components(inner)


def is_byte_level(document: TokenizerDocument) -> bool:
    """Whether text reaches the model as characters that stand for bytes."""
    return any(
        part.get("type") == "ByteLevel"
        for name in ("normalizer", "pre_tokenizer")
        for part in components(document.data.get(name))
    )


def byte_fallback_names(document: TokenizerDocument) -> list[str]:
    """``<0x00>`` to ``<0xFF>``, as far as the vocabulary has them."""
    names = (f"<0x{byte:02X}>" for byte in range(256))
    return [name for name in names if name in document.vocab]


class WordLevelBackend:
    """Whole words: nothing is built from anything."""

    algorithm = "wordlevel"

    def __init__(self, document: TokenizerDocument, vocab_size: int) -> None:
        self.document = document
        self.vocab_size = vocab_size

    def structural_ids(self) -> dict[int, str]:
        unk = self.document.vocab.get(self.document.model.get("unk_token") or "<unk>")
        return {} if unk is None else {unk: "unk"}

    def dependencies(self) -> Dependencies:
        return Dependencies.none(self.vocab_size)


class UnigramBackend:
    """Scored pieces: no token is built from others, but the lowest score sets the price of the unknown.

    The library's unknown costs (lowest score in the vocabulary) - 10. Without the lowest-scoring piece it would be
    cheaper, and could win where kept pieces won. So one piece of that score stays (the first, if several share it).
    """

    algorithm = "unigram"

    def __init__(self, document: TokenizerDocument, vocab_size: int) -> None:
        self.document = document
        self.vocab_size = vocab_size

    def structural_ids(self) -> dict[int, str]:
        document, found = self.document, {}
        if document.scores:
            found[int(np.argmin(document.scores))] = "lowest score"
        if document.model.get("byte_fallback"):
            found.update((document.vocab[name], "byte") for name in byte_fallback_names(document))
        if is_byte_level(document):
            from trimbed.tokenizer.surface import BYTE_CHARACTERS

            found.update((document.vocab[c], "byte") for c in BYTE_CHARACTERS if c in document.vocab)
        unk = document.model.get("unk_id")
        if unk is not None:
            found[int(unk)] = "unk"
        return found

    def dependencies(self) -> Dependencies:
        return Dependencies.none(self.vocab_size)

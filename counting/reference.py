"""The reference engine: the tokenizers library, document by document. Slow, and right by definition."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from trimbed.counting.engine import EngineRecipe, TextCounts
from trimbed.storage.errors import TokenizerError

__all__ = ["ReferenceEngine", "clear_word_cache", "load_tokenizer", "raise_signals"]

_BATCH_BYTES = 256 * 1024
"""Text per call. While it encodes, the library takes some 200 times the text in memory, so a call stays at 50 MB."""
_BATCH_DOCUMENTS = 1024
_CLEAR_EVERY = 8 * 1024 * 1024
"""The word cache is emptied after so much text, so that it can't grow on text without word boundaries."""


class ReferenceEngine:
    """Counts with ``tokenizers``: no truncation, no padding, special tokens not added."""

    name = "reference"

    def __init__(self, recipe: EngineRecipe) -> None:
        """Load the tokenizer; of ``keep_pieces`` it keeps none, since it cuts no pieces. Raises TokenizerError if the
        library refuses the document."""
        self._tokenizer = load_tokenizer(recipe.document)
        ids = self._tokenizer.get_vocab(with_added_tokens=True).values()
        self.vocab_size: int = max(ids, default=-1) + 1

    def identity(self) -> Mapping[str, str]:
        import tokenizers

        return {"name": self.name, "tokenizers": tokenizers.__version__}

    def tally(self) -> ReferenceTally:
        return ReferenceTally(self._tokenizer, self.vocab_size)


class ReferenceTally:
    """Counts for one shard, being added up. Memory is bounded by the longest document."""

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._counts = np.zeros(vocab_size, dtype=np.int64)
        self._documents = 0
        self._empty = 0
        self._bytes = 0
        self._since_clear = 0

    def add(self, texts: pa.Array) -> None:
        """Count ``texts``; nulls are passed over."""
        batch: list[str] = []
        size = 0
        for text in _strings(texts):
            length = len(text.encode())
            self._documents += 1
            self._bytes += length
            if not length:
                self._empty += 1
                continue
            if batch and (size + length > _BATCH_BYTES or len(batch) >= _BATCH_DOCUMENTS):
                self._encode(batch)
                batch, size = [], 0
            batch.append(text)
            size += length
            self._since_clear += length
        if batch:
            self._encode(batch)
        if self._since_clear >= _CLEAR_EVERY:
            clear_word_cache(self._tokenizer)
            self._since_clear = 0

    def finish(self) -> TextCounts:
        return TextCounts(
            counts=self._counts, documents=self._documents, empty_documents=self._empty, bytes=self._bytes
        )

    def _encode(self, batch: list[str]) -> None:
        # One long document. A heap that has grown stays the process's, in pieces too small for the next such document.
        long = sum(map(len, batch)) > _BATCH_BYTES
        if long:
            trim_heap()
        try:
            encodings = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        except BaseException as error:
            raise_signals(error)
            raise TokenizerError(self._culprit(batch, error)) from None
        ids = [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]
        del encodings
        self._counts += np.bincount(np.concatenate(ids), minlength=len(self._counts))
        if long:
            del ids
            trim_heap()

    def _culprit(self, batch: list[str], error: BaseException) -> str:
        for text in batch:
            try:
                self._tokenizer.encode(text, add_special_tokens=False)
            except BaseException as cause:
                raise_signals(cause)
                return f"the tokenizer can't encode the document that begins {text[:80]!r}: {cause}"
        return f"the tokenizer can't encode a batch of {len(batch)} documents: {error}"


def trim_heap() -> None:
    """Give freed memory back to the system: Arrow's, and the heap's where the C library has a malloc_trim (glibc)."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none


def load_tokenizer(document: str) -> Any:
    """The library's tokenizer of a tokenizer.json text, with truncation and padding off. Raises TokenizerError."""
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_str(document)
    except BaseException as error:
        raise_signals(error)
        raise TokenizerError(f"the tokenizers library can't load this tokenizer.json: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def raise_signals(error: BaseException) -> None:
    """Raise ``error`` again unless it's the library's: on some input the library panics, and its panic is no
    Exception."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)):
        raise error


def clear_word_cache(tokenizer: Any) -> None:
    """Empty the model's cache of words, where the model has one."""
    clear = getattr(tokenizer.model, "_clear_cache", None)
    if clear is not None:
        clear()


def _strings(texts: pa.Array) -> list[str]:
    return [text for text in texts.to_pylist() if text is not None]

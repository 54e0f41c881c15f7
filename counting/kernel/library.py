"""What the kernel asks of the tokenizers library: ids of pieces and the size of a vocabulary. Knows no Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trimbed.counting.reference import clear_word_cache, load_tokenizer, raise_signals
from trimbed.storage.errors import TokenizerError

__all__ = ["PieceLibrary", "vocabulary_size"]

_CLEAR_EVERY = 32 * 1024 * 1024


class PieceLibrary:
    """Encodes pieces with the library, loading its two tokenizers when they are first needed."""

    def __init__(self, inner_document: str, initial_document: str) -> None:
        self._documents = (inner_document, initial_document)
        self._tokenizers: list[Any] = [None, None]
        self._since_clear = 0

    def encode(self, pieces: Sequence[bytes], initial: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ids of valid UTF-8 ``pieces``: (ids: uint32[sum of sizes], sizes: int64[len(pieces)]).

        ``initial``: bool-like[len(pieces)]. Raises TokenizerError naming the piece that the library can't encode.
        """
        found: list[Sequence[int]] = [()] * len(pieces)
        for kind in (0, 1):
            places = np.flatnonzero(initial == kind).tolist()
            if not places:
                continue
            texts = [pieces[place].decode() for place in places]
            for place, encoding in zip(places, self._encode(self._tokenizer(kind), texts), strict=True):
                found[place] = encoding.ids
        sizes = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        ids = np.fromiter((one for ids in found for one in ids), dtype=np.uint32, count=int(sizes.sum()))
        return ids, sizes

    def _tokenizer(self, kind: int) -> Any:
        if self._documents[0] == self._documents[1]:
            kind = 0
        if self._tokenizers[kind] is None:
            self._tokenizers[kind] = load_tokenizer(self._documents[kind])
        return self._tokenizers[kind]

    def _encode(self, tokenizer: Any, texts: list[str]) -> Any:
        try:
            encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except BaseException as error:
            raise_signals(error)
            raise TokenizerError(_culprit(tokenizer, texts, error)) from None
        self._since_clear += sum(map(len, texts))
        if self._since_clear >= _CLEAR_EVERY:
            # Pieces are distinct, so what the library remembers of them is of no use to it.
            for one in self._tokenizers:
                if one is not None:
                    clear_word_cache(one)
            self._since_clear = 0
        return encodings


def _culprit(tokenizer: Any, texts: list[str], error: BaseException) -> str:
    for text in texts:
        try:
            tokenizer.encode(text, add_special_tokens=False)
        except BaseException as cause:
            raise_signals(cause)
            return f"the tokenizer can't encode the text {text[:80]!r}: {cause}"
    return f"the tokenizer can't encode a batch of {len(texts)} pieces: {error}"


def vocabulary_size(document: Mapping[str, Any]) -> int:
    """The highest id of a tokenizer.json plus one, with the ids that the library gives when it loads the file.

    The file's ids of added tokens are not looked at, as the library doesn't: a token of the model's vocabulary has
    its id there, the others follow the vocabulary in the file's order.
    """
    model = document["model"]
    vocab = model["vocab"]
    if isinstance(vocab, Mapping):
        ids: Mapping[str, int] = vocab
    else:
        ids = {}
        for number, (token, _) in enumerate(vocab):
            ids.setdefault(token, number)
    size = len(vocab)
    highest = max(ids.values(), default=-1) if isinstance(vocab, Mapping) else size - 1
    known: dict[str, int] = {}
    for token in document.get("added_tokens") or ():
        content = token["content"]
        if not content or content in known:
            continue
        if content in ids:
            known[content] = ids[content]
        else:
            last = max(known.values(), default=-1)
            known[content] = last + 1 if last >= size else size
    return max(highest, max(known.values(), default=-1)) + 1

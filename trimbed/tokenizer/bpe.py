"""BPE: byte characters and unk stay, and a token is built from the two parts of its canonical derivation.

Knows the model's fields (affixes, byte fallback, ``unk_token``); the derivation itself is ``derivation.py``'s.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from trimbed.tokenizer.backend import byte_fallback_names, is_byte_level
from trimbed.tokenizer.dependencies import Dependencies
from trimbed.tokenizer.derivation import MergeTable, derive
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.surface import BYTE_CHARACTERS

__all__ = ["BpeBackend"]


class BpeBackend:
    """Merges. Dropout, if the document has any, is taken as null: it changes encodings at random, not derivations."""

    algorithm = "bpe"

    def __init__(self, document: TokenizerDocument, vocab_size: int) -> None:
        self.document = document
        self.vocab_size = vocab_size

    def structural_ids(self) -> dict[int, str]:
        document, vocab = self.document, self.document.vocab
        found: dict[int, str] = {}
        if is_byte_level(document):
            found.update((vocab[c], "byte") for c in BYTE_CHARACTERS if c in vocab)
        if document.model.get("byte_fallback"):
            found.update((vocab[name], "byte") for name in byte_fallback_names(document))
        unk = document.model.get("unk_token")
        if unk is not None and unk in vocab:
            found[vocab[unk]] = "unk"
        return found

    @property
    def rules(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The merges by id, in order: left, right, product, int64[n] each."""
        return self.document.merge_ids

    @cached_property
    def table(self) -> MergeTable:
        return MergeTable.build(self.vocab_size, *self.rules)

    @cached_property
    def derivations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens that merges build, and the two parts of the last merge: ``token, left, right``, int64[n] each.

        A token appears twice only where its string can be read in two ways (as a word's start or its continuation,
        as its end or not); then both derivations are wanted.
        """
        document, vocab = self.document, self.document.vocab
        products = np.unique(self.rules[2]).tolist()
        wanted = set(products)
        prefix, suffix = document.affix("continuing_subword_prefix"), document.affix("end_of_word_suffix")
        targets: list[int] = []
        lengths: list[int] = []
        symbols: list[int] = []
        lookup = vocab.get
        for token, index in vocab.items():
            if index not in wanted:
                continue
            readings = [token] if not prefix and not suffix else _readings(token, prefix, suffix)
            for reading in readings:
                ids = [lookup(symbol, -1) for symbol in reading]
                if len(ids) > 1 and -1 not in ids:
                    targets.append(index)
                    lengths.append(len(ids))
                    symbols += ids
        target = np.array(targets, dtype=np.int64)
        left, right = derive(self.table, target, np.array(symbols, dtype=np.int64), np.array(lengths, dtype=np.int64))
        built = left >= 0
        return target[built], left[built], right[built]

    @cached_property
    def _beyond_characters(self) -> tuple[np.ndarray, np.ndarray]:
        """Token and part, for tokens that rules build from unk or byte-fallback symbols rather than from characters.

        Real files have no such rules, but the loader takes them, and then a token's string doesn't tell how text
        reaches it. Every rule on the way is kept.
        """
        left, right, product = self.rules
        tainted = np.zeros(self.vocab_size, dtype=bool)
        names = byte_fallback_names(self.document) if self.document.model.get("byte_fallback") else []
        unk = self.document.model.get("unk_token")
        for name in [*names, *([unk] if unk is not None else [])]:
            if name in self.document.vocab:
                tainted[self.document.vocab[name]] = True
        while True:
            rules = tainted[left] | tainted[right]
            new = product[rules]
            if tainted[new].all():
                break
            tainted[new] = True
        return np.tile(product[rules], 2), np.concatenate((left[rules], right[rules]))

    def dependencies(self) -> Dependencies:
        token, left, right = self.derivations
        odd_token, odd_part = self._beyond_characters
        return Dependencies.from_pairs(
            self.vocab_size,
            np.concatenate((token, token, odd_token)),
            np.concatenate((left, right, odd_part)),
        )


def _readings(token: str, prefix: str, suffix: str) -> list[list[str]]:
    """The ways in which a token's string falls into initial symbols, given a continuing prefix and an end suffix.

    Text gives the first character of a word as it is and each later one with the prefix; the last one carries the
    suffix. A token that begins with the prefix was built inside a word; it might also be one whose text is that.
    """
    found = []
    fronts = [(token, False)]
    if prefix and token.startswith(prefix) and len(token) > len(prefix):
        fronts.append((token[len(prefix) :], True))
    for body, inside in fronts:
        ends = [(body, False)]
        if suffix and body.endswith(suffix) and len(body) > len(suffix):
            ends.append((body[: -len(suffix)], True))
        for text, ended in ends:
            symbols = [(prefix if at or inside else "") + c for at, c in enumerate(text)]
            if ended:
                symbols[-1] += suffix
            found.append(symbols)
    return found

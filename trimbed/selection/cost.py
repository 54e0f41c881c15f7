"""What a corpus would cost in tokens under a smaller vocabulary: exactly, from its distinct pieces.

A cut of the original tokenizer is a cut of any trimmed one: no token of a smaller vocabulary spans what none of the
larger one's spans. What could still reach over a cut is a run of unknown characters that the model fuses, so a policy
under which a piece begins or ends with an unknown has no exact cost here, and the row says so.

Pieces whose original ids all stay encode as before; only the others are encoded again, by the trimmed tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import SelectionError
from trimbed.selection.pieces import Encoded, PieceEncoding, Pieces, plan_of

if TYPE_CHECKING:
    import pyarrow as pa

    from trimbed.storage.cache import CountsCache
    from trimbed.storage.counts import CorpusCounts

__all__ = ["PieceCosts"]


class PieceCosts:
    """The costs of one counted corpus under any kept set of its tokenizer.

    >>> costs = PieceCosts.from_cache(cache, spec.document.data, counts)
    >>> costs.columns(selection.mask)["length_ratio"]
    1.0041
    """

    def __init__(
        self, document: Mapping[str, Any], tables: Mapping[str, pa.Table], by_source: Mapping[str, np.ndarray]
    ) -> None:
        """``document``: the tokenizer.json. ``tables``: each source's pieces (piece: binary, initial: bool, count:
        int64). ``by_source``: each source's counts, int64[vocab_size].

        Raises SelectionError where the pieces aren't all of the corpus, or the tokenizer's text can't be cut.
        """
        plan = plan_of(document)
        inner = json.loads(plan.inner_document)
        same = plan.initial_document == plan.inner_document
        self._pieces = Pieces.of({name: tables[name] for name in sorted(by_source)})
        self._encoding = PieceEncoding(inner, inner if same else json.loads(plan.initial_document))
        self._original = self._encoding.encode(self._pieces, np.arange(len(self._pieces)))
        self._by_source = {name: by_source[name] for name in sorted(by_source)}
        contents = {match.id: len(match.content) for match in plan.added}
        self._check_complete(contents)
        counts = self._pieces.counts
        whole = np.array([int(number.sum()) for number in self._by_source.values()], dtype=np.int64)
        self._added = whole - counts @ self._original.sizes
        added_ids = np.array(sorted(contents), dtype=np.int64)
        lengths = np.array([contents[index] for index in added_ids.tolist()], dtype=np.int64)
        # Characters of added tokens as they are named; the white space that some eat is not counted.
        in_pieces = self._of_ids(self._original)
        self._added_characters = np.array(
            [
                int(((number - ours)[added_ids] * lengths).sum())
                for number, ours in zip(self._by_source.values(), in_pieces, strict=True)
            ],
            dtype=np.int64,
        )
        self._characters = counts @ self._pieces.characters + self._added_characters
        self._whole = whole
        self._known: dict[bytes, dict[str, Any]] = {}
        self._unk = _unknown(inner)

    @classmethod
    def from_cache(cls, cache: CountsCache, document: Mapping[str, Any], counts: CorpusCounts) -> PieceCosts:
        """From a cache that was counted with ``keep_pieces``. Raises SelectionError where it has none, or not all."""
        return cls(document, {name: cache.pieces(name) for name in counts.by_source}, counts.by_source)

    def columns(self, kept: np.ndarray) -> dict[str, Any]:
        """What the corpus costs with the ids of ``kept`` (bool[vocab_size]) alone.

        tokens, tokens:SOURCE: after the trim, weights left aside. length_ratio, length_ratio:SOURCE: that against the
        original's number. tokens_per_character. untouched: the share of the characters whose encoding stays the same.
        All are null where an unknown could fuse over a cut.
        """
        key = hashlib.sha256(np.packbits(kept).tobytes()).digest()
        if key not in self._known:  # in a grid many policies keep the same
            self._known[key] = self._columns(kept)
        return dict(self._known[key])

    def _columns(self, kept: np.ndarray) -> dict[str, Any]:
        sizes, changed = self._sizes(kept)
        names = [f"tokens:{name}" for name in self._by_source], [f"length_ratio:{name}" for name in self._by_source]
        plain = ["tokens", "length_ratio", "tokens_per_character", "untouched"]
        several = len(self._by_source) > 1
        if sizes is None:
            return dict.fromkeys([*plain, *(names[0] + names[1] if several else [])])
        tokens = self._pieces.counts @ sizes + self._added
        untouched = self._pieces.counts[:, ~changed] @ self._pieces.characters[~changed] + self._added_characters
        row: dict[str, Any] = {
            "tokens": int(tokens.sum()),
            "length_ratio": _ratio(tokens.sum(), self._whole.sum()),
            "tokens_per_character": _ratio(tokens.sum(), self._characters.sum()),
            "untouched": _ratio(untouched.sum(), self._characters.sum()),
        }
        if several:
            row.update(zip(names[0], tokens.tolist(), strict=True))
            row.update(zip(names[1], map(_ratio, tokens, self._whole), strict=True))
        return row

    def tokens(self, kept: np.ndarray, *, closed: bool = True) -> int | None:
        """The number of tokens alone; None where it isn't known exactly.

        ``closed``: whether ``kept`` holds all that its tokens are built from, as every selection does. For another set
        every piece is encoded again.
        """
        sizes, _ = self._sizes(kept, closed=closed)
        return None if sizes is None else int((self._pieces.counts @ sizes + self._added).sum())

    @property
    def original_tokens(self) -> int:
        return int(self._whole.sum())

    def _sizes(self, kept: np.ndarray, *, closed: bool = True) -> tuple[np.ndarray | None, np.ndarray]:
        """(int64[p], the number of tokens of each piece; bool[p], whether its encoding changes)."""
        gone = np.zeros(len(self._original.ids) + 1, dtype=np.int64)
        np.cumsum(~kept[self._original.ids], out=gone[1:])
        changed = gone[self._original.ends] > gone[self._original.starts]
        sizes = self._original.sizes
        chosen = np.flatnonzero(changed) if closed else np.arange(len(self._pieces))
        if len(chosen):
            encoded = self._encoding.trimmed(kept).encode(self._pieces, chosen)
            filled = encoded.sizes > 0
            edges = np.concatenate((encoded.ids[encoded.starts[filled]], encoded.ids[encoded.ends[filled] - 1]))
            if self._unk is not None and (edges == self._unk).any():
                return None, changed
            sizes[chosen] = encoded.sizes
        return sizes, changed

    def _of_ids(self, encoded: Encoded) -> list[np.ndarray]:
        """By source, int64[vocab_size]: how often the pieces hold each id."""
        found = []
        for number, counts in zip(self._by_source.values(), self._pieces.counts, strict=True):
            amounts = np.zeros(len(number), dtype=np.int64)
            np.add.at(amounts, encoded.ids, np.repeat(counts, encoded.sizes))
            found.append(amounts)
        return found

    def _check_complete(self, added: Mapping[int, int]) -> None:
        """The pieces' ids must be those that were counted; only added tokens are counted beside the pieces."""
        for (name, number), ours in zip(self._by_source.items(), self._of_ids(self._original), strict=True):
            rest = number - ours
            beside = rest.copy()
            beside[list(added)] = 0
            if beside.any() or (rest < 0).any():
                raise SelectionError(
                    f"exact costs need every piece of the corpus, and the cache holds those of {int(ours.sum()):,} of "
                    f"the {int(number.sum()):,} tokens of {name}; count with corpus.keep_pieces, and large enough"
                )


def _unknown(document: Mapping[str, Any]) -> int | None:
    """The id of the unknown, where the model fuses neighbouring unknowns."""
    model = document["model"]
    kind = model.get("type")
    if kind == "Unigram":
        return None if model.get("unk_id") is None else int(model["unk_id"])
    if kind == "BPE" and model.get("fuse_unk") and model.get("unk_token") is not None:
        found = model["vocab"].get(model["unk_token"])
        return None if found is None else int(found)
    return None


def _ratio(number: Any, whole: Any) -> float:
    return float(number) / float(whole) if whole else 1.0

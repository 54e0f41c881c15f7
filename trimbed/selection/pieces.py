"""A corpus's distinct pieces and an encoder for them, as arrays. Knows a tokenizer.json; no policy and no cache."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import SelectionError
from trimbed.selection.cutting import cut_recipe

if TYPE_CHECKING:
    import pyarrow as pa

    from trimbed.counting.encoders import EncoderRecipe
    from trimbed.counting.plan import KernelPlan

__all__ = ["Encoded", "PieceEncoding", "Pieces", "plan_of"]


@dataclass(frozen=True)
class Pieces:
    """``data``: uint8[n], all pieces' UTF-8 end to end; ``ends``: int64[p]; ``initial``: bool[p].

    ``counts``: int64[sources, p], in the order of ``sources``. ``characters``: int64[p].
    """

    data: np.ndarray
    ends: np.ndarray
    initial: np.ndarray
    sources: tuple[str, ...]
    counts: np.ndarray
    characters: np.ndarray

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> Pieces:
        """From tables (piece: binary, initial: bool, count: int64) by source; equal pieces are put together."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = tuple(sorted(tables))
        keys, sizes = [], []
        for name in names:
            table = tables[name].combine_chunks()
            piece = table.column("piece").cast(pa.large_binary())
            mark = pc.if_else(
                table.column("initial"), pa.scalar(b"\x01", pa.large_binary()), pa.scalar(b"\x00", pa.large_binary())
            )
            keys.append(pc.binary_join_element_wise(piece, mark, pa.scalar(b"", pa.large_binary())))
            sizes.append(table.num_rows)
        chunks = [chunk for key in keys for chunk in key.chunks]
        encoded = pa.chunked_array(chunks, pa.large_binary()).combine_chunks().dictionary_encode()
        index = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        distinct = encoded.dictionary
        edges = (
            np.frombuffer(distinct.buffers()[1], dtype=np.int64)[: len(distinct) + 1]
            if len(distinct)
            else np.zeros(1, np.int64)
        )
        raw = np.frombuffer(distinct.buffers()[2] or b"", dtype=np.uint8)[: edges[-1]]
        marks = np.zeros(len(raw), dtype=bool)
        marks[edges[1:] - 1] = True
        counts = np.zeros((len(names), len(distinct)), dtype=np.int64)
        at = 0
        for row, (name, size) in enumerate(zip(names, sizes, strict=True)):
            amounts = tables[name].column("count").to_numpy()
            np.add.at(counts[row], index[at : at + size], amounts)
            at += size
        data, ends = raw[~marks], edges[1:] - np.arange(1, len(edges))
        leads = np.zeros(len(data) + 1, dtype=np.int64)
        np.cumsum((data & 0xC0) != 0x80, out=leads[1:])
        characters = np.diff(leads[np.concatenate(([0], ends))])
        return cls(data, ends, raw[marks].astype(bool), names, counts, characters)

    def __len__(self) -> int:
        return len(self.ends)

    def some(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(uint8 data, int64 ends) of the ``chosen`` pieces (int64[k])."""
        starts = np.concatenate(([0], self.ends))[chosen]
        lengths = self.ends[chosen] - starts
        ends = np.cumsum(lengths)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
        return self.data[at], ends


@dataclass(frozen=True)
class Encoded:
    """``ids``: int64[n]; ``ends``: int64[k], where each piece's ids end."""

    ids: np.ndarray
    ends: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        found: np.ndarray = np.concatenate(([0], self.ends[:-1])) if len(self.ends) else self.ends
        return found

    @property
    def sizes(self) -> np.ndarray:
        found: np.ndarray = self.ends - self.starts
        return found


class PieceEncoding:
    """Encodes pieces as a plan's two documents say: natively where there is an encoder, else with the library."""

    def __init__(self, inner: Mapping[str, Any], initial: Mapping[str, Any]) -> None:
        recipe = _recipe(inner, initial)
        self._inner, self._initial = inner, initial
        self._set(recipe, None, None)

    def _set(self, recipe: EncoderRecipe | None, ids: np.ndarray | None, kept: np.ndarray | None) -> None:
        self._recipe, self._ids, self._kept = recipe, ids, kept
        self._native = None
        self._library: tuple[Any, np.ndarray | None] | None = None
        if recipe is not None:
            from trimbed.counting.kernel import _kernel

            self._native = _kernel.PieceEncoder.make(recipe.pack())

    def trimmed(self, kept: np.ndarray) -> PieceEncoding:
        """The encoding by the same tokenizer with only the ``kept`` ids (bool[vocab_size]); it gives the old ids."""
        found = object.__new__(PieceEncoding)
        found._inner, found._initial = self._inner, self._initial
        recipe, ids = cut_recipe(self._recipe, kept) if self._recipe is not None else (None, None)
        found._set(recipe, ids, kept)
        return found

    def encode(self, pieces: Pieces, chosen: np.ndarray) -> Encoded:
        """The ids of the ``chosen`` pieces (int64[k]), in that order."""
        sizes = np.zeros(len(chosen), dtype=np.int64)
        parts: list[tuple[np.ndarray, Encoded]] = []
        for kind in (False, True):
            places = np.flatnonzero(pieces.initial[chosen] == kind)
            if len(places):
                encoded = self._encode(pieces, chosen[places], kind)
                sizes[places] = encoded.sizes
                parts.append((places, encoded))
        ends = np.cumsum(sizes)
        ids = np.empty(ends[-1] if len(ends) else 0, dtype=np.int64)
        for places, encoded in parts:
            own = encoded.sizes
            at = np.arange(len(encoded.ids)) + np.repeat((ends - sizes)[places] - encoded.starts, own)
            ids[at] = encoded.ids
        return Encoded(ids, ends)

    def _encode(self, pieces: Pieces, chosen: np.ndarray, initial: bool) -> Encoded:
        data, ends = pieces.some(chosen)
        if self._native is None:
            return self._by_library(data, ends, initial)
        ids, id_ends, unknown = self._native.encode_many(data.tobytes(), ends.astype(np.uint64).tobytes(), initial)
        found = np.frombuffer(ids, dtype=np.uint32).astype(np.int64)
        if self._ids is not None:
            found = self._ids[found]
        marked = np.frombuffer(id_ends, dtype=np.uint64).astype(np.int64)
        native = Encoded(found, marked >> 1)
        if not unknown:
            return native
        # Pieces that only the library can tell: none of their ids is in the native answer.
        open_places = np.flatnonzero(marked & 1)
        rest = self._by_library(*pieces.some(chosen[open_places]), initial)
        sizes = native.sizes
        kept = np.repeat(marked & 1 == 0, sizes)
        sizes[open_places] = rest.sizes
        ends_of = np.cumsum(sizes)
        merged = np.empty(ends_of[-1], dtype=np.int64)
        ours = np.repeat(marked & 1 == 0, sizes)
        merged[ours], merged[~ours] = native.ids[kept], rest.ids
        return Encoded(merged, ends_of)

    def _by_library(self, data: np.ndarray, ends: np.ndarray, initial: bool) -> Encoded:
        library, old_ids = self._loaded()
        text, starts = data.tobytes(), np.concatenate(([0], ends[:-1])).tolist()
        pieces = [text[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
        ids, sizes = library.encode(pieces, np.full(len(pieces), initial))
        found = ids.astype(np.int64)
        return Encoded(found if old_ids is None else old_ids[found], np.cumsum(sizes))

    def _loaded(self) -> tuple[Any, np.ndarray | None]:
        """The library's tokenizers, loaded when a piece first needs them, and the old ids of their ids."""
        if self._library is None:
            from trimbed.counting.kernel.library import PieceLibrary

            documents, old_ids = [self._inner, self._initial], None
            if self._kept is not None:
                documents, old_ids = _trimmed(documents, self._kept)
            self._library = PieceLibrary(*(json.dumps(one, ensure_ascii=False) for one in documents)), old_ids
        return self._library


def plan_of(document: Mapping[str, Any]) -> KernelPlan:
    """The plan by which the corpus was cut. Raises SelectionError where the tokenizer has none."""
    from trimbed.counting.plan import NoPlan, make_plan

    plan = make_plan(document)
    if isinstance(plan, NoPlan):
        raise SelectionError(
            f"exact costs need the corpus's pieces, and this tokenizer's text can't be cut: {plan.reason}"
        )
    return plan


def _trimmed(documents: Sequence[Mapping[str, Any]], kept: np.ndarray) -> tuple[list[Mapping[str, Any]], np.ndarray]:
    """A plan's documents cut to ``kept``, and the old ids of their ids."""
    from trimbed.tokenizer.document import TokenizerDocument
    from trimbed.trimming.surgery import trim_document

    found: list[Mapping[str, Any]] = []
    old_ids = np.empty(0, dtype=np.int64)
    for document in documents:
        parsed = TokenizerDocument.parse(document)
        known = np.zeros(len(kept), dtype=bool)  # a plan's documents lack the added tokens that are matched before
        known[list(parsed.vocab.values())] = True
        known[[token.id for token in parsed.added_tokens]] = True
        if parsed.algorithm == "unigram":
            known[: len(parsed.scores)] = True
        small, new_ids = trim_document(document, np.flatnonzero(kept & known), check=False)
        found.append(small)
        old = np.flatnonzero(new_ids >= 0)
        old_ids = np.empty(len(old), dtype=np.int64)
        old_ids[new_ids[old]] = old
    return found, old_ids


def _recipe(inner: Mapping[str, Any], initial: Mapping[str, Any]) -> EncoderRecipe | None:
    """The native encoder's recipe; None where there is no native module, or no counterpart for the document."""
    try:
        from trimbed.counting.kernel import _kernel  # noqa: F401
    except ImportError:
        return None
    from trimbed.counting.encoders import NoRecipe, make_encoder_recipe

    recipe = make_encoder_recipe(inner, initial)
    return None if isinstance(recipe, NoRecipe) else recipe

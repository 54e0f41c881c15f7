"""A corpus's distinct pieces and an encoder for them, as arrays. Knows a tokenizer.json; no policy and no cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import SelectionError

if TYPE_CHECKING:
    import pyarrow as pa

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
        from trimbed.counting.kernel.library import PieceLibrary

        texts = [json.dumps(document, ensure_ascii=False) for document in (inner, initial)]
        if inner is initial:
            texts[1] = texts[0]
        self._library = PieceLibrary(*texts)
        self._native = _native_encoder(*texts)

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
        text, starts = data.tobytes(), np.concatenate(([0], ends[:-1])).tolist()
        pieces = [text[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
        ids, sizes = self._library.encode(pieces, np.full(len(pieces), initial))
        return Encoded(ids.astype(np.int64), np.cumsum(sizes))


def plan_of(document: Mapping[str, Any]) -> KernelPlan:
    """The plan by which the corpus was cut. Raises SelectionError where the tokenizer has none."""
    from trimbed.counting.plan import NoPlan, make_plan

    plan = make_plan(document)
    if isinstance(plan, NoPlan):
        raise SelectionError(
            f"exact costs need the corpus's pieces, and this tokenizer's text can't be cut: {plan.reason}"
        )
    return plan


def _native_encoder(inner: str, initial: str) -> Any:
    try:
        from trimbed.counting.kernel import _kernel
    except ImportError:
        return None
    from trimbed.counting.encoders import NoRecipe, make_encoder_recipe

    recipe = make_encoder_recipe(inner, initial)
    return None if isinstance(recipe, NoRecipe) else _kernel.PieceEncoder.make(recipe.pack())

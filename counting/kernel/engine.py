"""The kernel engine: a tokenizer's plan, its table of pieces, and the native scan. Makes neither plans nor encoders."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import IO, Any

import numpy as np
import pyarrow as pa

from trimbed.counting.engine import Engine, EngineRecipe, TextCounts
from trimbed.counting.kernel.library import PieceLibrary
from trimbed.counting.kernel.prepared import PreparedKernel, library_version, prepare, word_characters
from trimbed.counting.plan.kernel_plan import KernelPlan, NoPlan
from trimbed.storage.errors import CountingError, UsageError

__all__ = ["KERNEL_VERSION", "KernelEngine", "KernelTally", "load"]

KERNEL_VERSION = "1"
"""Goes up when counts could differ from those of an earlier kernel."""

TABLE_BYTES = 320 << 20
"""Memory for distinct pieces and their ids. With the library's tokenizer beside it a worker stays under 1 GB."""

_PENDING_PIECES = 4096
_PENDING_BYTES = 1 << 20
_OPTIONS = {"table_bytes": TABLE_BYTES, "table_pieces": 0}


class KernelEngine:
    """Counts by a plan. Pieces that were encoded once stay known from one shard to the next.

    Options: ``table_bytes`` (memory for distinct pieces and their ids) and ``table_pieces`` (at most so many of them, 0
    for no limit). They change speed and memory, never a count.
    """

    name = "kernel"

    def __init__(
        self,
        recipe: EngineRecipe,
        plan: KernelPlan,
        *,
        vocab_size: int,
        encoder: Any = None,
        word: np.ndarray | None = None,
    ) -> None:
        """``encoder``: a native encoder for the plan's pieces, or None to leave every piece to the library. ``word``:
        the plan's word characters where they're known already.

        Raises UsageError for options that there are not.
        """
        import trimbed.counting.kernel._kernel as _kernel

        self._options = _options(recipe.options)
        self.vocab_size = vocab_size
        self.encoder = encoder
        self.reason = ""
        self.keep_pieces = recipe.keep_pieces
        self.library = PieceLibrary(plan.inner_document, plan.initial_document)
        self.added_ids = np.array([one.id for one in plan.added], dtype=np.int64)
        self.plan = _kernel.Plan(
            classes=np.ascontiguousarray(plan.classes),
            cut=np.ascontiguousarray(plan.cut),
            joined=np.ascontiguousarray(plan.joined),
            added=[(a.content.encode(), a.id, a.single_word, a.lstrip, a.rstrip, a.stage) for a in plan.added],
            word=word_characters(plan) if word is None else word,
            initial=plan.initial,
            initial_once=plan.initial_once,
            initial_after_stage_1=plan.initial_after_stage_1,
        )
        self._spare: Any = None

    def identity(self) -> Mapping[str, str]:
        import tokenizers

        return {"name": self.name, "kernel": KERNEL_VERSION, "tokenizers": tokenizers.__version__}

    def tally(self) -> KernelTally:
        # The table of the last finished tally still knows the ids of its most frequent pieces.
        table, self._spare = self._spare, None
        return KernelTally(self, self._new_table() if table is None else table)

    def take_back(self, table: Any) -> None:
        """A finished tally's table, for the next one."""
        self._spare = table

    def _new_table(self) -> Any:
        import trimbed.counting.kernel._kernel as _kernel

        return _kernel.Table(bytes=self._options["table_bytes"], pieces=self._options["table_pieces"])


class KernelTally:
    """Counts for one shard. Memory is bounded by the engine's table and the largest document between two cuts."""

    def __init__(self, engine: KernelEngine, table: Any) -> None:
        import trimbed.counting.kernel._kernel as _kernel

        self._engine = engine
        self._table = table
        self._native = _kernel.Tally(
            plan=engine.plan,
            table=table,
            encoder=engine.encoder,
            id_count=engine.vocab_size,
            keep_pieces=engine.keep_pieces,
        )
        self._runs: IO[bytes] | None = None
        self._over = False
        self._stats: Mapping[str, int] = {}

    def add(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """Count ``texts``: anything that exports string, large_string or string_view by the Arrow C data interface.

        Raises UsageError for other arrays, CountingError (naming the row) for bytes that aren't UTF-8. After an error
        the tally can't be used any more: part of the array may have been counted.
        """
        import trimbed.counting.kernel._kernel as _kernel

        if self._over:
            raise UsageError("this tally is finished or failed; start a new one")
        self._over = True
        try:
            if hasattr(texts, "__arrow_c_array__"):
                schema, array = texts.__arrow_c_array__()
                self._native.scan_array(schema, array, self._make_room)
            elif hasattr(texts, "__arrow_c_stream__"):
                self._native.scan_stream(texts.__arrow_c_stream__(), self._make_room)
            else:
                raise UsageError(f"texts must be an Arrow array, not {type(texts).__name__}")
        except _kernel.NotText as error:
            raise UsageError(f"texts must be an Arrow array of strings: {error}") from None
        except _kernel.BadRow as error:
            raise CountingError(f"a text can't be counted: {error}") from None
        except ValueError as error:
            raise CountingError(f"an array of texts contradicts itself: {error}") from error
        self._over = False

    def finish(self) -> TextCounts:
        if self._over:
            raise UsageError("this tally is finished or failed; start a new one")
        self._over = True
        self._settle(-1)
        self._native.end()
        counts = self._native.counts()
        np.add.at(counts, self._engine.added_ids, self._native.added())
        totals = self._native.totals()
        pieces, dropped, dropped_count = None, 0, 0
        if self._engine.keep_pieces:
            *columns, dropped, dropped_count = self._native.kept()
            pieces = _pieces_table(*columns)
        self._stats = self._collect_stats()
        if self._runs is not None:
            self._runs.close()
        self._engine.take_back(self._table)
        del self._table, self._native
        return TextCounts(
            counts=counts,
            documents=totals["documents"],
            empty_documents=totals["empty"],
            bytes=totals["bytes"],
            pieces=pieces,
            pieces_dropped=dropped,
            pieces_dropped_count=dropped_count,
        )

    def stats(self) -> Mapping[str, int]:
        """How the work was done, at any time before or after ``finish``.

        ``pieces``: occurrences of pieces; ``distinct``: entries of the table; ``encoded_native``, ``encoded_library``:
        distinct pieces encoded by either way, and ``encoded_library_occurrences`` how often the latter came;
        ``remembered``: distinct pieces whose ids were known from before; ``rooms_made``: how often the table was full.
        """
        return self._stats or self._collect_stats()

    def _collect_stats(self) -> Mapping[str, int]:
        return {
            **self._native.stats(),
            "pieces": self._native.totals()["pieces"],
            "distinct": self._table.size,
            "table_bytes": self._table.memory,
        }

    def _make_room(self) -> None:
        if self._engine.keep_pieces and self._runs is None:
            self._runs = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish, or with the tally
        self._settle(-1 if self._runs is None else self._runs.fileno())
        self._native.make_room()

    def _settle(self, run_file: int) -> None:
        pending = self._native.settle(run_file)
        while pending:
            data, offsets, initial = self._native.pending(_PENDING_PIECES, _PENDING_BYTES)
            edges = offsets.tolist()
            pieces = [data[a:b] for a, b in pairwise(edges)]
            self._native.resolve(*self._engine.library.encode(pieces, initial))
            pending -= len(pieces)


def _pieces_table(data: bytes, offsets: np.ndarray, initial: np.ndarray, counts: np.ndarray) -> pa.Table:
    """(piece: binary, initial: bool, count: int64), in chunks that each hold less than 2 GiB of text."""
    schema = pa.schema([("piece", pa.binary()), ("initial", pa.bool_()), ("count", pa.int64())])
    batches = []
    buffer = pa.py_buffer(data)
    start = 0
    while start < len(counts):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + (1 << 30), side="right")) - 1)
        own = (offsets[start : stop + 1] - offsets[start]).astype(np.int32)
        text = buffer.slice(int(offsets[start]), int(offsets[stop] - offsets[start]))
        piece = pa.Array.from_buffers(pa.binary(), stop - start, [None, pa.py_buffer(own), text])
        columns = [piece, pa.array(initial[start:stop].astype(bool)), pa.array(counts[start:stop])]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        start = stop
    return pa.Table.from_batches(batches, schema=schema)


def _options(given: Mapping[str, object]) -> dict[str, int]:
    options = dict(_OPTIONS)
    for key, value in given.items():
        if key not in options:
            raise UsageError(f"the kernel has no option {key!r}; it has {', '.join(sorted(options))}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"the kernel's option {key} must be a whole number of at least 0, not {value!r}")
        options[key] = value
    return options


def load(recipe: EngineRecipe, *, required: bool) -> Engine:
    """See ``load_kernel_engine``."""
    engine = _load(recipe)
    if isinstance(engine, KernelEngine):
        return engine
    if required:
        raise UsageError(f"the kernel can't count with this tokenizer: {engine}. Choose the reference engine, or auto")
    from trimbed.counting.reference import ReferenceEngine

    fallback = ReferenceEngine(replace(recipe, name="reference", keep_pieces=0, options={}))
    fallback.reason = engine  # type: ignore[attr-defined]
    return fallback


def _load(recipe: EngineRecipe) -> KernelEngine | str:
    """The engine, or why there is none."""
    _options(recipe.options)
    try:
        import trimbed.counting.kernel._kernel as _kernel
    except ImportError as error:
        return f"the native module isn't there ({error})"
    prepared: PreparedKernel | None = recipe.prepared
    if prepared is None or prepared.library != library_version():
        prepared = prepare(recipe.document)
    if isinstance(prepared.plan, NoPlan):
        return prepared.plan.reason
    encoder = None if prepared.encoder is None else _kernel.PieceEncoder.make(prepared.encoder.tobytes())
    engine = KernelEngine(recipe, prepared.plan, vocab_size=prepared.vocab_size, encoder=encoder, word=prepared.word)
    engine.reason = prepared.reason
    return engine

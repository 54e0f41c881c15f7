"""The self-check: on every shard, a sample of documents is counted by the engine and by the reference library."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from trimbed.counting.engine import Engine, EngineRecipe
from trimbed.counting.sampling import DocumentSample
from trimbed.counting.shards import Shard
from trimbed.storage.errors import CountingError

__all__ = ["CHECK_BYTES", "SelfCheck"]

CHECK_BYTES = 64 * 1024
"""Text of a shard that is counted twice."""
_CHECK_DOCUMENTS = 64
_LONGEST_CHECKED = 16 * 1024


class SelfCheck:
    """Holds an engine against the reference. For the reference engine itself there is nothing to check."""

    def __init__(self, engine: Engine, recipe: EngineRecipe, cache: str) -> None:
        self._engine = engine
        self._recipe = replace(recipe, name="reference", keep_pieces=0, options={})
        self._cache = cache
        self._reference: Engine | None = None
        self._needed = engine.identity().get("name") != "reference"

    def sample(self, shard: Shard) -> DocumentSample:
        """The documents of ``shard`` to check, still to be added to."""
        size = _CHECK_DOCUMENTS if self._needed else 0
        return DocumentSample(shard.source, shard.key, size=size, max_bytes=_LONGEST_CHECKED)

    def verify(self, shard: Shard, sample: DocumentSample) -> None:
        """Count the sample both ways. Raises CountingError at a difference, with the document saved beside the
        cache."""
        taken: list[tuple[int, str]] = []
        size = 0
        for _, row, text in sample.documents():
            if taken and size + len(text.encode()) > CHECK_BYTES:
                break
            taken.append((row, text))
            size += len(text.encode())
        if not taken:
            return
        if self._reference is None:
            from trimbed.counting.reference import ReferenceEngine

            self._reference = ReferenceEngine(self._recipe)
        texts = [text for _, text in taken]
        if np.array_equal(_counts(self._engine, texts), _counts(self._reference, texts)):
            return
        row, text = next(
            (
                (row, text)
                for row, text in taken
                if not np.array_equal(_counts(self._engine, [text]), _counts(self._reference, [text]))
            ),
            (taken[0][0], "\n".join(texts)),
        )
        saved = self._save(shard, row, text)
        raise CountingError(
            f"{shard.where()}: the engine {self._engine.name} and the reference library count row {row} of shard "
            f"{shard.key} differently; nothing of the shard was kept and the document is in {saved}. Count with "
            "engine: reference, and report this"
        )

    def _save(self, shard: Shard, row: int, text: str) -> str:
        from trimbed.storage.atomic import write_file

        path = f"{self._cache.rstrip('/')}.differences/{shard.source}-{shard.key}-{row}.txt"
        write_file(path, text.encode())
        return path


def _counts(engine: Engine, texts: list[str]) -> np.ndarray:
    tally = engine.tally()
    tally.add(pa.array(texts, pa.large_string()))
    return tally.finish().counts

"""The old-to-new id map and what it does to single ids, lists and rows. Knows no files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

__all__ = ["Renumbering"]


@dataclass(frozen=True)
class Renumbering:
    """``old_to_new``: int64[V], V the source's largest id + 1, -1 for ids that are gone."""

    old_to_new: np.ndarray
    pad_to_multiple_of: int | None = None

    @property
    def old_size(self) -> int:
        """The source tokenizer's largest id + 1."""
        return len(self.old_to_new)

    @cached_property
    def new_to_old(self) -> np.ndarray:
        """int64[N]: the old id of each new one, -1 for a new id that no token has (two names that share an id)."""
        kept = np.flatnonzero(self.old_to_new >= 0)
        found = np.full(int(self.old_to_new.max(initial=-1)) + 1, -1, dtype=np.int64)
        found[self.old_to_new[kept]] = kept
        return found

    @property
    def new_size(self) -> int:
        return len(self.new_to_old)

    @property
    def padded_size(self) -> int:
        """Rows of a table that had a row for every token."""
        return self.table_size(self.old_size)

    def table_size(self, rows: int) -> int:
        """How many rows a table of ``rows`` rows has afterwards, those of padding included.

        Rows past the tokenizer go. A table shorter than the tokenizer (a token was added without a row; per-layer
        embeddings that leave out the last tokens) keeps the rows it has.
        """
        size = self.new_size if rows >= self.old_size else int(np.count_nonzero(self.old_to_new[:rows] >= 0))
        multiple = self.pad_to_multiple_of or 1
        return -(-size // multiple) * multiple

    def new(self, number: int) -> int | None:
        """The new id of an old one; None for one that is gone or never was."""
        if 0 <= number < self.old_size and self.old_to_new[number] >= 0:
            return int(self.old_to_new[number])
        return None

    def many(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """int64: the new ids, -1 where gone."""
        return self.old_to_new[np.asarray(numbers, dtype=np.int64)]

    def rows(self, table_rows: int) -> np.ndarray:
        """int64[table_size]: which old row each new row of a table of ``table_rows`` rows takes; -1 for one to fill."""
        found = np.full(self.table_size(table_rows), -1, dtype=np.int64)
        if table_rows >= self.old_size:
            found[: self.new_size] = self.new_to_old
        else:
            # The kept ids that the table has are the first ones, since kept ids keep their order.
            present = self.new_to_old[(self.new_to_old >= 0) & (self.new_to_old < table_rows)]
            found[: len(present)] = present
        return found

    def write(self, path: Path) -> None:
        """Parquet with old_id and new_id (null where dropped) for every id of the source."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        new = pa.array(self.old_to_new, type=pa.int64(), mask=self.old_to_new < 0)
        table = pa.table({"old_id": pa.array(np.arange(self.old_size, dtype=np.int64)), "new_id": new})
        pq.write_table(
            table,
            path,
            compression="zstd",
            use_dictionary=False,
            column_encoding={"old_id": "DELTA_BINARY_PACKED", "new_id": "DELTA_BINARY_PACKED"},
        )

"""A batch of rows, and the rule by which any column becomes valid text. Knows no files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from trimbed.storage.errors import CountingError

__all__ = ["RowBatch", "is_text_type", "row_batch", "valid_text"]


@dataclass(frozen=True)
class RowBatch:
    """Rows as they follow each other in a shard.

    ``texts``: string or large_string, valid UTF-8, one entry a row, null where the row was skipped. ``skipped``: how
    many rows were, by reason. ``replaced``: in how many rows invalid UTF-8 (or a lone surrogate) became U+FFFD.
    """

    texts: pa.Array
    skipped: Mapping[str, int] = field(default_factory=dict)
    replaced: int = 0

    def head(self, rows: int) -> RowBatch:
        """The first ``rows`` rows. What was skipped among the rest is no longer known, so nulls are counted again."""
        if rows >= len(self.texts):
            return self
        texts = self.texts.slice(0, rows)
        skipped = {"null": texts.null_count} if texts.null_count else {}
        return RowBatch(texts, skipped, min(self.replaced, rows))


def is_text_type(kind: pa.DataType) -> bool:
    """Whether such a column can hold text: strings, bytes (read as UTF-8), dictionaries of these, or only nulls."""
    if pa.types.is_dictionary(kind):
        return is_text_type(kind.value_type)
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_null(kind)
    )


def row_batch(column: pa.Array) -> RowBatch:
    """A batch from a column of any text type. Raises CountingError for another type."""
    texts, replaced = valid_text(column)
    return RowBatch(texts, {"null": texts.null_count} if texts.null_count else {}, replaced)


def valid_text(column: pa.Array) -> tuple[pa.Array, int]:
    """``column`` as valid UTF-8, and in how many rows something had to be replaced by U+FFFD.

    Bytes that aren't UTF-8 are replaced as Python's ``errors="replace"`` does. Raises CountingError if the column's
    type can't hold text.
    """
    kind = column.type
    if not is_text_type(kind):
        raise CountingError(f"the column has type {kind}, which isn't text")
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string()), 0
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    raw = column.cast(pa.large_binary() if large else pa.binary())
    text = pa.large_string() if large else pa.string()
    try:
        return raw.cast(text), 0
    except pa.ArrowInvalid:
        pass
    decoded: list[str | None] = []
    replaced = 0
    for value in raw.to_pylist():
        if value is None:
            decoded.append(None)
            continue
        try:
            decoded.append(value.decode())
        except UnicodeDecodeError:
            decoded.append(value.decode(errors="replace"))
            replaced += 1
    return pa.array(decoded, pa.large_string() if large else text), replaced

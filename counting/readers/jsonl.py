"""JSON lines: one column of a file with an object a line.

A row that isn't right is skipped and counted by reason (``blank``, ``malformed``, ``missing``, ``null``, ``not_text``);
the verdict on a line never depends on its neighbours.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from trimbed.counting.readers.batches import RowBatch
from trimbed.counting.readers.lines import line_blocks, split_lines
from trimbed.counting.shards import Extent, ReadOptions

__all__ = ["parse_lines", "read"]

_ARROW_LIMIT = 1 << 30
"""Arrow's reader counts bytes of a block in 32 bits; a longer line goes to Python's parser."""


def read(extent: Extent, options: ReadOptions, batch_bytes: int) -> Iterator[RowBatch]:
    """The lines that start within ``extent``."""
    for block in line_blocks(extent, batch_bytes):
        yield parse_lines(split_lines(block).to_pylist(), options.column)


def parse_lines(lines: Sequence[bytes], column: str) -> RowBatch:
    """The texts of ``column``, a row for each line."""
    skipped: Counter[str] = Counter()
    parts, replaced = _parse(list(lines), column, skipped)
    return RowBatch(pa.chunked_array(parts, pa.large_string()).combine_chunks(), dict(skipped), replaced)


def _parse(lines: list[bytes], column: str, skipped: Counter[str]) -> tuple[list[pa.Array], int]:
    """Try the fast parser on all lines, on failure on either half, down to the single bad line."""
    if not lines:
        return [], 0
    texts = _parse_fast(lines, column)
    if texts is not None:
        if texts.null_count:
            # Missing or null? Only these lines need a second look.
            missing = 0
            for index in np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False)).tolist():
                try:
                    missing += column not in json.loads(lines[index])
                except (ValueError, RecursionError):
                    pass
            skipped.update(
                {reason: n for reason, n in (("missing", missing), ("null", texts.null_count - missing)) if n}
            )
        return [texts], 0
    if len(lines) == 1:
        text, reason, was_replaced = _parse_one(lines[0], column)
        if reason:
            skipped[reason] += 1
        return [pa.array([text], pa.large_string())], int(was_replaced)
    middle = len(lines) // 2
    first, replaced_first = _parse(lines[:middle], column, skipped)
    second, replaced_second = _parse(lines[middle:], column, skipped)
    return first + second, replaced_first + replaced_second


def _parse_fast(lines: list[bytes], column: str) -> pa.Array | None:
    """All lines with Arrow's parser, or None where any of them isn't beyond doubt one object.

    Arrow takes several objects on a line, objects across lines, and crashes on a line that is ``null``; so every line
    must begin and end with a brace, and there must be as many rows as lines.
    """
    if not all(line[:1] == b"{" and line[-1:] == b"}" for line in lines):
        return None
    block = b"\n".join(lines)
    if len(block) >= _ARROW_LIMIT:
        return None
    try:
        table = pj.read_json(
            io.BytesIO(block),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([(column, pa.large_string())]),
                newlines_in_values=False,
                unexpected_field_behavior="ignore",
            ),
        )
        texts = table.column(0).combine_chunks()
        # The parser doesn't look at the encoding.
        texts = texts.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return None
    return texts if len(texts) == len(lines) else None


def _parse_one(line: bytes, column: str) -> tuple[str | None, str | None, bool]:
    """Text, or the reason why there is none; and whether something in the line was replaced."""
    stripped = line.strip(b" \t\r\n")
    if not stripped:
        return None, "blank", False
    try:
        source, replaced = stripped.decode(), False
    except UnicodeDecodeError:
        source, replaced = stripped.decode(errors="replace"), True
    try:
        value = json.loads(source)
    except (ValueError, RecursionError):
        return None, "malformed", False
    if not isinstance(value, dict):
        return None, "malformed", False
    if column not in value:
        return None, "missing", False
    text = value[column]
    if text is None:
        return None, "null", False
    if not isinstance(text, str):
        return None, "not_text", False
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        replaced = True
    return text, None, replaced

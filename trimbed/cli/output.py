"""How results are shown: rows on stdout in the format asked for, everything else on stderr. Computes nothing."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

__all__ = [
    "Format",
    "check_file",
    "count",
    "emit",
    "emit_json",
    "error",
    "note",
    "pick_format",
    "share",
    "size",
    "stderr",
    "stdout",
    "warning",
]


class Format(StrEnum):
    """What rows are printed as."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def stdout() -> Console:
    """A rich console on stdout; plain where it isn't a terminal, wide enough there not to wrap."""
    from rich.console import Console

    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False)


def stderr() -> Console:
    """A rich console on stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def note(message: str) -> None:
    """A line for the person watching, on stderr."""
    stderr().print(message, markup=False)


def warning(message: str) -> None:
    """Something the person should know but that stops nothing, on stderr."""
    stderr().print(f"warning: {message}", style="yellow", markup=False)


def error(message: str) -> None:
    """Why the command failed, on stderr."""
    stderr().print(f"error: {message}", style="red", markup=False)


def count(value: int | float) -> str:
    """1234567 -> 1,234,567."""
    return f"{value:,.0f}"


def share(value: float, *, digits: int = 2) -> str:
    """0.98765 -> 98.77%. Never rounds up to 100% what isn't all."""
    shown = f"{value:.{digits}%}"
    if value < 1 and float(shown[:-1]) >= 100:
        return f">{100 - 10**-digits:.{digits}f}%"
    return shown


def size(value: int | float) -> str:
    """Bytes in decimal units: 1234567 -> 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def pick_format(chosen: Format | None, as_json: bool) -> Format:
    """``--json`` is short for ``--format json``; both at once must agree."""
    from trimbed.errors import UsageError

    if as_json and chosen not in (None, Format.json):
        raise UsageError(f"--json and --format {chosen.value} contradict each other; give one of them")
    return Format.json if as_json else chosen or Format.table


def emit(
    rows: Sequence[Mapping[str, Any]] | pa.Table,
    format: Format = Format.table,
    *,
    output: Path | None = None,
    title: str | None = None,
) -> None:
    """Print rows, or write them to ``output``.

    A table is for reading: numbers get thousands separators. CSV, JSON (a list of objects, floats as they are) and
    Parquet carry the values unchanged.
    """
    if format is Format.parquet:
        _bytes_out(_parquet(rows), output)
        return
    if isinstance(rows, Sequence):
        records = list(rows)
        columns = list(dict.fromkeys(key for row in records for key in row))
    else:
        records, columns = rows.to_pylist(), list(rows.column_names)
    if format is Format.json:
        emit_json(records, output=output)
    elif format is Format.csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        _text_out(text.getvalue(), output)
    else:
        _table(records, columns, title=title, output=output)


def emit_json(value: Any, *, output: Path | None = None) -> None:
    """One JSON document. Numbers that JSON doesn't have (NaN, infinities) become null."""
    text = json.dumps(_finite(value), ensure_ascii=False, indent=2, default=_plain, allow_nan=False)
    _text_out(text + "\n", output)


def _table(records: list[Any], columns: list[str], *, title: str | None, output: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    numeric = {c: all(isinstance(r.get(c), (int, float, type(None))) for r in records) for c in columns}
    for column in columns:
        table.add_column(column, justify="right" if numeric[column] else "left", overflow="fold")
    for record in records:
        table.add_row(*(_cell(record.get(column)) for column in columns))
    if output is None and sys.stdout.isatty():
        console = stdout()
        natural = console.measure(table, options=console.options.update(width=10_000)).maximum
        if natural > console.width and (len(columns) > 6 or natural > 2 * console.width):
            for record in records:
                console.print(_record(record, columns))
        else:
            console.print(table)
        return
    text = io.StringIO()
    Console(file=text, width=10_000, highlight=False, color_system=None).print(table)
    _text_out(text.getvalue(), output)


def _record(record: Any, columns: list[str]) -> Any:
    """One row upright, for a terminal that is too narrow for the table."""
    from rich.table import Table

    upright = Table.grid(padding=(0, 2))
    for column in columns:
        if record.get(column) is not None:
            upright.add_row(column, _cell(record[column]))
    upright.add_row("", "")
    return upright


def _cell(value: Any) -> str:
    from rich.markup import escape

    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return escape(visible(str(value)))


def visible(text: str) -> str:
    """Text whose control characters are written out, so that a token can't move the cursor or break a table."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _parquet(rows: Sequence[Mapping[str, Any]] | pa.Table) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([dict(row) for row in rows]) if isinstance(rows, Sequence) else rows
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _text_out(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        _bytes_out(text.encode("utf-8"), output)


def check_file(output: Path | None) -> None:
    """Raise UsageError where ``output`` can't be a file because it's a folder: before the work that would be lost."""
    from trimbed.errors import UsageError

    if output is not None and output.is_dir():
        raise UsageError(f"{output} is a folder; name a file in it")


def _bytes_out(data: bytes, output: Path | None) -> None:
    from trimbed.errors import UsageError

    if output is not None:
        from trimbed.storage.atomic import write_file

        check_file(output)
        write_file(str(output), data)
    elif sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal; give --output FILE or redirect stdout")
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def _plain(value: Any) -> Any:
    """What json can't write by itself: numpy scalars and arrays, bytes, paths, dates."""
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)

"""``trimbed sql``: reads its options, asks the cache, shows the rows, or what can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimbed.cli.options import Json, Output, RowFormat

if TYPE_CHECKING:
    from trimbed.cli.output import Format

__all__ = ["register"]

Place = Annotated[str, typer.Argument(metavar="CACHE", help="The counts cache: a folder, or a URL such as s3://…")]


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)


def sql(
    cache: Place,
    query: Annotated[
        str | None, typer.Argument(help="One SELECT; without it, the views and their columns are listed.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", help="SOURCE=FACTOR: multiply a source's counts in tokens.weighted. May be repeated."),
    ] = None,
    max_rows: Annotated[
        int, typer.Option("--max-rows", min=0, help="Print at most so many rows; 0: all. --output writes all.")
    ] = 1000,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, help="Stop the query after so many seconds; 0: never.")
    ] = 300.0,
    memory_limit: Annotated[
        str, typer.Option("--memory-limit", help="What DuckDB may hold in memory before it spills to disk.")
    ] = "1GB",
    temp_dir: Annotated[
        Path | None, typer.Option("--temp-dir", help="Where DuckDB spills to; by default the system's folder for that.")
    ] = None,
    format: RowFormat = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Ask a counts cache in SQL. A query reads the views of the cache and nothing else, and changes nothing."""
    from trimbed.cli.output import Format, emit, note, pick_format
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.export import plain_rows, write_results
    from trimbed.storage.query import run_query, stream_query

    chosen = pick_format(format, json)
    opened = CountsCache.open(cache)
    if query is None:
        _views(chosen, output)
        return
    options: dict[str, Any] = {
        "timeout": timeout or None,
        "weights": _weights(weight or []),
        "memory_limit": memory_limit,
        "temp_dir": None if temp_dir is None else str(temp_dir),
    }
    if output is not None and chosen is not Format.table:
        with stream_query(opened, query, **options) as reader:
            rows = write_results(reader, str(output), format=chosen.value)
        note(f"{rows:,} rows written to {output}")
        return
    result = run_query(opened, query, max_rows=max_rows or None, **options)
    rows_as_they_are = chosen is Format.parquet or not result.table.num_rows
    emit(result.table if rows_as_they_are else plain_rows(result.table), chosen, output=output)
    if result.cut:
        note(f"cut after {max_rows:,} rows; --max-rows 0 prints all, --output FILE with --format csv writes all")


def _weights(given: list[str]) -> dict[str, float]:
    from trimbed.errors import UsageError

    weights = {}
    for text in given:
        source, equals, factor = text.rpartition("=")
        try:
            weights[source] = float(factor)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--weight {text!r}: give SOURCE=FACTOR, such as wiki=2.5")
    return weights


def _views(chosen: Format, output: Path | None) -> None:
    from trimbed.cli.output import Format, emit, note
    from trimbed.storage.query import describe_views, examples

    rows = [
        {"view": view.name, "column": name, "type": kind} for view in describe_views() for name, kind in view.columns
    ]
    emit(rows, chosen, output=output)
    if chosen is not Format.table:
        return
    note("")
    for view in describe_views():
        note(f"{view.name}: {view.description}")
    note("\nFor example:")
    for question, query in examples():
        note(f"-- {question}\n{query}")

"""``trimbed select``: reads its options, makes a selection, saves or explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trimbed.cli import output as out
from trimbed.cli.options import Cache, Config, Json, Model, Overrides, Revision, RowFormat

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command("select")(select)


def select(
    overrides: Overrides = None,
    config: Config = None,
    model: Model = None,
    revision: Revision = None,
    cache: Cache = None,
    coverage: Annotated[
        float | None, typer.Option("--coverage", help="Keep this share of the ordinary tokens counted.")
    ] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Keep at most this many because of the corpus.")] = None,
    min_count: Annotated[int | None, typer.Option("--min-count", help="Keep tokens counted this often.")] = None,
    coverage_per_source: Annotated[
        float | None, typer.Option("--coverage-per-source", help="Keep at least this share of every source.")
    ] = None,
    max_vocab_size: Annotated[int | None, typer.Option("--max-vocab-size", help="Keep at most this many.")] = None,
    keep_preset: Annotated[
        list[str] | None, typer.Option("--keep-preset", help="Keep a preset too (repeatable; see trimbed presets).")
    ] = None,
    keep_token: Annotated[
        list[str] | None, typer.Option("--keep-token", help="Keep a token, as the vocabulary writes it (repeatable).")
    ] = None,
    keep_text: Annotated[
        list[str] | None, typer.Option("--keep-text", help="Keep what this text needs (repeatable).")
    ] = None,
    explain: Annotated[
        list[str] | None,
        typer.Option("--explain", help="Say why a token is kept or dropped (repeatable); with # a token id: #42."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the selection to this file, for trimbed trim.")
    ] = None,
    format: RowFormat = None,
    json: Json = False,
) -> None:
    """Decide which tokens to keep, and say how many for which reason.

    With --output the selection is written as a file that trimbed trim --selection takes. The same inputs give the same
    bytes.
    """
    from trimbed.config import load_config
    from trimbed.selection.inputs import open_inputs
    from trimbed.selection.report import explanations, selection_rows
    from trimbed.selection.select import select_tokens

    shown = out.pick_format(format, json)
    settings = load_config(
        config,
        flags={
            "model.path": model,
            "model.revision": revision,
            "cache": cache,
            "selection.coverage": coverage,
            "selection.top_k": top_k,
            "selection.min_count": min_count,
            "selection.coverage_per_source": coverage_per_source,
            "selection.max_vocab_size": max_vocab_size,
            "selection.keep_presets": keep_preset or None,
            "selection.keep_tokens": keep_token or None,
            "selection.keep_texts": keep_text or None,
        },
        overrides=overrides or (),
    )
    out.check_file(output)
    spec, counts, _ = open_inputs(settings)
    selection = select_tokens(spec, counts, settings.selection)
    for line in selection.notes:
        out.warning(line)
    out.emit(explanations(selection, explain) if explain else selection_rows(selection), shown)
    if output is not None:
        selection.save(output)
        out.note(f"wrote {output}: {len(selection):,} of {selection.vocab_size:,} tokens")

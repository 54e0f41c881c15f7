"""``trimbed presets``: lists the presets, and how many tokens of a tokenizer each one holds."""

from __future__ import annotations

from typing import Annotated

import typer

from trimbed.cli import output as out
from trimbed.cli.options import Json, Model, Output, Revision, RowFormat

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command("presets")(presets)


def presets(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PRESET]...", help="Presets to show, such as script:Greek; all by default.", show_default=False
        ),
    ] = None,
    model: Model = None,
    revision: Revision = None,
    format: RowFormat = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """List the named sets of tokens: those that are always kept, and those to ask for in keep_presets.

    With --model each is shown with the number of tokens it holds there, and a few of them.
    """
    from trimbed.selection.presets import preset_rows

    shown = out.pick_format(format, json)
    spec = None
    if model is not None:
        from trimbed.tokenizer.spec import TokenizerSpec

        spec = TokenizerSpec.load(model, revision=revision)
    out.emit(preset_rows(names or [], spec), shown, output=output)

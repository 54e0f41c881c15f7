"""``trimbed import``: reads its options, has old counts brought into a cache, says what can't be vouched for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trimbed.cli import output as out
from trimbed.cli.options import Cache, Json, Model, Revision, RowFormat

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command("import")(import_)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The JSON counts file of trimbed 0.0.4.")],
    model: Model = None,
    revision: Revision = None,
    cache: Cache = None,
    source: Annotated[
        str | None, typer.Option("--source", help="What to call it in the cache; the file's name if not given.")
    ] = None,
    format: RowFormat = None,
    json: Json = False,
) -> None:
    """Bring the counts that trimbed 0.0.4 saved into a counts cache, and say what such a file leaves open."""
    from dataclasses import asdict

    from trimbed.config import load_config
    from trimbed.importing import import_counts
    from trimbed.tokenizer.spec import TokenizerSpec

    shown = out.pick_format(format, json)
    settings = load_config(None, flags={"model.path": model, "model.revision": revision, "cache": cache}, overrides=())
    place = settings.require_cache()
    spec = TokenizerSpec.load(settings.require_model(), revision=settings.model.revision)
    done = import_counts(file, spec, place, source=source)
    for line in done.warnings:
        out.warning(line)
    row = asdict(done)
    row.pop("warnings")
    out.emit([row], shown)
    out.note(f"imported {file} into {place} as {done.source}")

"""``trimbed sweep``: reads its options, has many policies answered, shows a row for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trimbed.cli import output as out
from trimbed.cli.options import Cache, Config, Json, Model, Output, Overrides, Revision, RowFormat

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command("sweep")(sweep)


def sweep(
    overrides: Overrides = None,
    config: Config = None,
    model: Model = None,
    revision: Revision = None,
    cache: Cache = None,
    coverage: Annotated[
        str | None, typer.Option("--coverage", help="Coverages to try, separated by commas: 0.99,0.999,0.9999.")
    ] = None,
    top_k: Annotated[str | None, typer.Option("--top-k", help="Sizes of top_k to try, separated by commas.")] = None,
    min_count: Annotated[
        str | None, typer.Option("--min-count", help="Minimal counts to try, separated by commas.")
    ] = None,
    max_vocab_size: Annotated[
        str | None, typer.Option("--max-vocab-size", help="Caps to try, separated by commas; null for none.")
    ] = None,
    exact_cost: Annotated[
        bool | None,
        typer.Option(
            "--exact-cost/--no-exact-cost",
            help="Work out what the corpus would cost in tokens, from the cache's pieces.",
        ),
    ] = None,
    best: Annotated[
        str | None,
        typer.Option("--best", help='Search the smallest vocabulary that meets a bound: "length_ratio<=1.01".'),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw size against cost: a .png, .svg or (needing nothing) .html.")
    ] = None,
    format: RowFormat = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Try many policies on counted tokens, a row for each: what it keeps, covers, saves and costs.

    Every combination of the lists is tried, on top of the selection in the config; then sweep.policies, if it has any.
    """
    from trimbed.config import load_config
    from trimbed.selection.inputs import open_inputs
    from trimbed.selection.sweep import run_sweep

    shown = out.pick_format(format, json)
    lists = {"coverage": coverage, "top_k": top_k, "min_count": min_count, "max_vocab_size": max_vocab_size}
    settings = load_config(
        config,
        flags={
            "model.path": model,
            "model.revision": revision,
            "cache": cache,
            **{f"sweep.{name}": _list(name, text) for name, text in lists.items()},
            "sweep.exact_cost": exact_cost,
            "sweep.best": best,
        },
        overrides=overrides or (),
    )
    settings.require_cache()
    spec, counts, opened = open_inputs(settings)
    table, notes = run_sweep(spec, counts, opened, settings.selection, settings.sweep)
    for line in notes:
        out.note(line)
    out.emit(table, shown, output=output)
    if plot is not None:
        from trimbed.selection.plot import plot_sweep

        plot_sweep(table, plot)
        out.note(f"wrote {plot}")


def _list(name: str, text: str | None) -> list[Any] | None:
    """``0.9,0.99`` or ``[0.9, 0.99]`` -> a list."""
    from trimbed.config import parse_override

    if text is None:
        return None
    bare = text.strip()
    _, values = parse_override(f"sweep.{name}={bare if bare.startswith('[') else f'[{bare}]'}")
    return list(values)

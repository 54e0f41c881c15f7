"""``trimbed trim``: cut a tokenizer and its model to a selection. Reads options, calls ``trim``, shows the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimbed.cli import output as out
from trimbed.cli.options import Cache, Config, Model, Revision

if TYPE_CHECKING:
    from trimbed.config import TrimbedConfig
    from trimbed.trimming.report import TrimReport

__all__ = ["register"]


def trim(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] [KEY=VALUE]...",
            help="The checkpoint (as with --model), and settings by their path in the config.",
            show_default=False,
        ),
    ] = None,
    config: Config = None,
    model: Model = None,
    revision: Revision = None,
    selection: Annotated[
        Path | None, typer.Option("--selection", "-s", help="A file that trimbed select wrote.")
    ] = None,
    cache: Cache = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The folder to write.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output folder, once the new one is proved.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    coverage: Annotated[float | None, typer.Option("--coverage", help="Keep this share of the counted tokens.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Keep at most this many because of the corpus.")] = None,
    min_count: Annotated[int | None, typer.Option("--min-count", help="Keep tokens counted this often.")] = None,
    max_vocab_size: Annotated[int | None, typer.Option("--max-vocab-size", help="Keep at most this many.")] = None,
    keep_preset: Annotated[
        list[str] | None, typer.Option("--keep-preset", help="Keep a preset too (repeatable; see trimbed presets).")
    ] = None,
    pad_to_multiple_of: Annotated[
        int | None, typer.Option("--pad-to-multiple-of", help="Round the model's rows up to a multiple of this.")
    ] = None,
    pad_fill: Annotated[
        str | None, typer.Option("--pad-fill", help="What the added rows hold: zero (logit 0) or mean (never wins).")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Prove the result before it is put in place.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Write a smaller checkpoint: tokenizer, side files, embeddings and head, proved and reported.

    The selection is a file (--selection), or is made from --cache and a policy as trimbed select would.
    """
    from trimbed.config import load_config

    named, overrides = _split(arguments or [])
    flags: dict[str, Any] = {
        "model.path": model or named,
        "model.revision": revision,
        "cache": cache,
        "output": str(output) if output is not None else None,
        "selection.coverage": coverage,
        "selection.top_k": top_k,
        "selection.min_count": min_count,
        "selection.max_vocab_size": max_vocab_size,
        "selection.keep_presets": keep_preset or None,
        "trim.overwrite": overwrite or None,
        "trim.pad_to_multiple_of": pad_to_multiple_of,
        "trim.pad_fill": pad_fill,
        "trim.verify": None if verify else False,
    }
    settings = load_config(config, flags=flags, overrides=overrides)
    report = _run(settings, selection, dry_run)
    if as_json:
        out.emit_json(report.model_dump(mode="json"))
    else:
        from trimbed.trimming.report_text import summary

        out.stdout().print(summary(report))
    for line in report.warnings:
        out.warning(line)
    out.note("dry run: nothing was written" if dry_run else f"wrote {settings.output}")


def _split(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The model, if the first argument isn't an override, and the overrides."""
    from trimbed.errors import UsageError

    models = [text for text in arguments if "=" not in text or Path(text).expanduser().exists()]
    if len(models) > 1:
        raise UsageError(f"more than one model given: {', '.join(models)}")
    return (models[0] if models else None), [text for text in arguments if text not in models]


def _run(settings: TrimbedConfig, selection: Path | None, dry_run: bool) -> TrimReport:
    from trimbed.errors import UsageError
    from trimbed.selection.frame import weigh
    from trimbed.selection.inputs import open_inputs
    from trimbed.selection.selection import Selection
    from trimbed.trimming.hub import load_checkpoint
    from trimbed.trimming.trim import trim as run

    if settings.output is None and not dry_run:
        raise UsageError("no output folder given: use --output, or output in the config")
    if selection is not None and settings.selection.cuts_corpus:
        raise UsageError("--selection already says what is kept; drop it, or drop the policy (coverage, top_k, …)")
    spec, counts, _ = open_inputs(settings, load=load_checkpoint)
    if selection is not None:
        chosen = Selection.load(selection)
    else:
        from trimbed.selection.select import select_tokens

        chosen = select_tokens(spec, counts, settings.selection)
    if counts is not None:
        counts = weigh(counts, settings.selection.source_weights)
    target = None if dry_run else Path(str(settings.output))
    return run(
        spec,
        chosen,
        target,
        config=settings.trim,
        counts=counts,
        resolved=settings.model_dump(mode="json", exclude_defaults=True),
        reproduce=_command(settings, settings.model.path or spec.source, selection),
    )


def _command(settings: TrimbedConfig, path: str, selection: Path | None) -> str:
    """What makes the same result from the files that lie beside it: selection.json is always written."""
    from shlex import quote

    parts = [
        "trimbed",
        "trim",
        quote(path),
        "--selection",
        quote(str(selection or "selection.json")),
        "--output",
        "DIR",
    ]
    if settings.model.revision:
        parts += ["--revision", quote(settings.model.revision)]
    changed = settings.trim.model_dump(mode="json", exclude_defaults=True)
    parts += [quote(f"trim.{key}={value}") for key, value in changed.items() if key != "overwrite"]
    return " ".join(parts)


def register(app: typer.Typer) -> None:
    app.command("trim")(trim)

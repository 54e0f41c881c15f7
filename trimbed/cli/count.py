"""``trimbed count``: reads its options, has the corpus counted, shows what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimbed.cli.options import Cache, Config, Json, Model, Output, Overrides, Revision, RowFormat

if TYPE_CHECKING:
    from trimbed.config import TrimbedConfig
    from trimbed.counting.counter import RunResult

__all__ = ["register", "termination_as_interrupt"]


def register(app: typer.Typer) -> None:
    app.command("count")(count)


def count(
    overrides: Overrides = None,
    config: Config = None,
    model: Model = None,
    revision: Revision = None,
    cache: Cache = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", "-d", help="A file, folder, glob, URL, Hub id or loader name. May be repeated."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The configuration (subset) of the Hub datasets.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="The split of the datasets.")] = None,
    data_files: Annotated[
        list[str] | None,
        typer.Option("--data-files", help="The files or globs of the one --dataset. May be repeated."),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="The column of the datasets that holds the text.")
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option("--max-samples", help="Only the first so many rows of each dataset.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", help="Worker processes.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="auto, kernel or reference.")] = None,
    executor: Annotated[str | None, typer.Option("--executor", help="multiprocess, inline or ray.")] = None,
    address: Annotated[str | None, typer.Option("--address", help="The Ray cluster, with --executor ray.")] = None,
    part: Annotated[
        str | None, typer.Option("--part", help="i/n: count only the i-th of n parts, from 0; see the docs on scale.")
    ] = None,
    strict: Annotated[
        bool | None, typer.Option("--strict/--no-strict", help="Stop at the first shard that fails for good.")
    ] = None,
    allow_missing_shards: Annotated[
        bool | None,
        typer.Option("--allow-missing-shards", help="Unreadable shards and files are reported, but are no failure."),
    ] = None,
    format: RowFormat = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Count how often each token of a tokenizer occurs in a corpus.

    The counts go to a cache that the other commands read. Run the same command again to go on after an interruption,
    or with more datasets to count what is new.
    """
    from trimbed.cli.output import emit, note, pick_format
    from trimbed.config import load_config

    shown = pick_format(format, json)
    loaded = load_config(
        config,
        flags={
            "model.path": model,
            "model.revision": revision,
            "cache": cache,
            **_datasets(
                dataset, name=name, split=split, data_files=data_files, text_column=text_column, max_samples=max_samples
            ),
            "corpus.workers": workers,
            "corpus.engine": engine,
            "corpus.executor": executor,
            "corpus.address": address,
            "corpus.part": part,
            "corpus.strict": strict,
            "corpus.allow_missing_shards": allow_missing_shards,
        },
        overrides=overrides or (),
    )
    try:
        result = _run(loaded)
    except KeyboardInterrupt:
        note("interrupted before the first shard was handed out.")
        raise typer.Exit(130) from None
    emit([_row(result)], shown, output=output)
    _report(result)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _datasets(paths: list[str] | None, **shared: Any) -> dict[str, Any]:
    """The datasets that flags name, in place of the config's."""
    from trimbed.errors import UsageError

    given = {key: value for key, value in shared.items() if value}
    if not paths:
        if given:
            flags = ", ".join("--" + key.replace("_", "-") for key in given)
            raise UsageError(f"{flags}: these describe a --dataset, and none is given")
        return {}
    if given.get("data_files") and len(paths) > 1:
        raise UsageError("--data-files goes with one --dataset; list several datasets in a config file")
    return {"corpus.datasets": [{"path": path, **given} for path in paths]}


def _run(config: TrimbedConfig) -> RunResult:
    from trimbed.counting.counter import CorpusCounter
    from trimbed.counting.progress import ProgressDisplay
    from trimbed.tokenizer.spec import TokenizerSpec

    cache = config.require_cache()
    if "://" not in cache:
        cache = str(Path(cache).expanduser())
    spec = TokenizerSpec.load(config.require_model(), revision=config.model.revision)
    counter = CorpusCounter(spec.for_counting(), config.corpus, cache)
    with termination_as_interrupt(), ProgressDisplay() as display:
        return counter.run(display.event, planned=display.planned)


def _row(result: RunResult) -> dict[str, Any]:
    return {
        "cache": result.cache,
        "shards": result.shards,
        "new": result.new,
        "present": result.present,
        "missing": result.missing,
        "documents": result.documents,
        "bytes": result.bytes,
        "tokens": result.tokens,
        "skipped_rows": sum(result.skipped_rows.values()),
        "replaced_rows": result.replaced_rows,
    }


def _report(result: RunResult) -> None:
    """What the person should know besides the numbers, on stderr."""
    from trimbed.cli.output import error, note, warning

    if result.skipped_rows:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in result.skipped_rows.items())
        warning(f"rows skipped: {reasons}")
    if result.replaced_rows:
        warning(f"invalid UTF-8 was replaced in {result.replaced_rows:,} rows")
    for engine, reason in result.engines.items():
        note(f"counted by the engine {engine}" + (f", because {reason}" if reason else ""))
    say = warning if result.allow_missing else error
    for name, why in result.left_out.items():
        say(f"not counted: {name}: {why}")
    if result.left_out and not result.allow_missing:
        note("all else was counted. Once a file is mended, count it as a dataset of its own into the same cache.")
    for failed in result.failed:
        say(f"not counted: shard {failed.shard.key} of {failed.shard.source}: {failed.failure}")
    if result.interrupted:
        note(f"interrupted; {result.new + result.present:,} of {result.shards:,} shards are in {result.cache}.")
        note("Run the same command again to go on.")
    elif result.missing:
        say(f"{result.missing:,} of {result.shards:,} shards are missing; run the same command again to try them again")


def termination_as_interrupt() -> Any:
    """SIGTERM (a scheduler's time is up) ends a run as Ctrl-C does: what is finished is kept."""
    import contextlib
    import signal
    import threading

    @contextlib.contextmanager
    def handled() -> Any:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: Any) -> None:
            raise KeyboardInterrupt

        previous = signal.signal(signal.SIGTERM, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)

    return handled()

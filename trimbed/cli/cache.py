"""``trimbed cache``: look at counts caches and look after them. Reads options, calls the library, shows the result."""

from __future__ import annotations

from typing import Annotated

import typer

from trimbed.cli.options import Json, Output, RowFormat

__all__ = ["register"]

Place = Annotated[str, typer.Argument(metavar="CACHE", help="The counts cache: a folder, or a URL such as s3://…")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Look at counts caches, check, repair, merge and compact them.")
    for command in (info, verify, repair, merge, compact):
        group.command(command.__name__)(command)
    app.add_typer(group, name="cache")


def info(cache: Place, format: RowFormat = None, json: Json = False, output: Output = None) -> None:
    """Show a cache's sources and sizes, and when and with what it was made."""
    from dataclasses import asdict

    from trimbed.cli.output import Format, emit, emit_json, note, pick_format, size
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.summary import summarize

    chosen = pick_format(format, json)
    summary = summarize(CountsCache.open(cache))
    if chosen is Format.json:
        emit_json(asdict(summary), output=output)
        return
    revision = f" at {summary.revision}" if summary.revision else ""
    note(f"{summary.location}, made {summary.created}, format {summary.format_version}")
    note(
        f"tokenizer {summary.tokenizer or 'unnamed'}{revision}, {summary.vocab_size:,} ids, {summary.fingerprint[:16]}…"
    )
    stored = sum(source.stored for source in summary.sources)
    note(f"{size(stored)} of counts; {'complete' if summary.complete else 'not complete: some shards are missing'}")
    emit([asdict(source) for source in summary.sources], chosen, output=output)


def verify(cache: Place, format: RowFormat = None, json: Json = False, output: Output = None) -> None:
    """Check every file's digest, every sum and the manifest; name what is wrong. Exit code 1 if anything is."""
    from trimbed.cli.output import emit, note, pick_format
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.verification import verify as check

    chosen = pick_format(format, json)
    found = check(CountsCache.open(cache))
    rows = [{"source": f.source, "file": f.where, "problem": f.problem} for f in found.findings]
    if rows or json or format is not None:
        emit(rows, chosen, output=output)
    if found.leftovers:
        note(f"{len(found.leftovers):,} files are left over from killed writers; nobody reads them")
    note(f"{found.shards:,} shards with {found.tokens:,} tokens checked, {len(rows):,} problems")
    if not found.sound:
        note("`trimbed cache repair` drops broken shards, so that the next count makes them again")
        raise typer.Exit(1)


def repair(cache: Place, format: RowFormat = None, json: Json = False, output: Output = None) -> None:
    """Drop broken shards, so that the next count makes them again."""
    from trimbed.cli.output import emit, note, pick_format
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.verification import repair as mend

    chosen = pick_format(format, json)
    found = mend(CountsCache.open(cache))
    rows = [{"source": f.source, "file": f.where, "problem": f.problem} for f in found.findings]
    if rows or json or format is not None:
        emit(rows, chosen, output=output)
    note(f"{len(rows):,} problems; count again to fill what was dropped" if rows else "nothing was wrong")


def merge(
    caches: Annotated[list[str], typer.Argument(metavar="CACHE...", help="The caches to join, of one tokenizer.")],
    into: Annotated[str, typer.Option("--output", "-o", help="The cache to make: a new or empty folder, or a URL.")],
    format: RowFormat = None,
    json: Json = False,
) -> None:
    """Join caches of one tokenizer into a new one. A shard that several have counts once."""
    from dataclasses import asdict

    from trimbed.cli.output import emit, note, pick_format
    from trimbed.storage.merging import merge as join

    chosen = pick_format(format, json)
    parts = join(caches, into)
    emit([asdict(part) for part in parts], chosen)
    note(f"merged into {into}")


def compact(
    cache: Place,
    shards_per_pack: Annotated[
        int, typer.Option("--shards-per-pack", min=2, help="How many shards go into one set of files.")
    ] = 10_000,
    format: RowFormat = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Make many small files few. No query's answer changes."""
    from dataclasses import asdict

    from trimbed.cli.output import emit, pick_format
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.compaction import compact as pack

    chosen = pick_format(format, json)
    done = pack(CountsCache.open(cache), shards_per_pack=shards_per_pack)
    emit([asdict(one) for one in done], chosen, output=output)

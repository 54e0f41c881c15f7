"""``trimbed compare``: audit a trimmed tokenizer against its base. Reads options, calls one function, renders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trimbed.cli import output as out
from trimbed.cli.options import Cache, Json, Output, RowFormat

__all__ = ["register"]


def compare(
    base: Annotated[str, typer.Argument(help="The original tokenizer: a folder, a file or a Hub id.")],
    other: Annotated[str, typer.Argument(help="What was made of it.")],
    texts: Annotated[
        list[Path] | None, typer.Option("--texts", "-t", help="A file whose lines both are tried on (repeatable).")
    ] = None,
    cache: Cache = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the audit as an HTML page too.")] = None,
    format: RowFormat = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Say whether OTHER is a faithful trim of BASE: what is lost, what can't be built, what it costs.

    Ends with exit code 1 where there is a problem. With --json everything is printed, not only the summary.
    """
    from trimbed.errors import UsageError
    from trimbed.tokenizer.spec import TokenizerSpec
    from trimbed.trimming.compare import compare as run
    from trimbed.trimming.compare_page import compare_page, compare_rows

    chosen = out.pick_format(format, as_json)
    contents: list[str] = []
    for path in texts or ():
        try:
            contents += path.expanduser().read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise UsageError(f"--texts {path} can't be read: {error.strerror}") from None
    opened = None
    if cache is not None:
        from trimbed.storage.cache import CountsCache

        opened = CountsCache.open(cache)
    report = run(TokenizerSpec.load(base), TokenizerSpec.load(other), texts=contents, cache=opened)
    if chosen is out.Format.json:
        out.emit_json(report.model_dump(mode="json"), output=output)
    else:
        out.emit(compare_rows(report), chosen, output=output)
    if html is not None:
        from trimbed.storage.atomic import write_file

        write_file(str(html.expanduser()), compare_page(report).encode("utf-8"))
        out.note(f"wrote {html}")
    if report.problems:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)

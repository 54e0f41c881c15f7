"""``trimbed demo``: the main job on this machine's own Python sources, each step shown as the command that does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to work in.")] = Path("trimbed-demo"),
) -> None:
    """Count Python's own standard library, compare a few cuts, trim a real tokenizer: no network, no data needed."""
    from trimbed.cli import output as out
    from trimbed.counting.progress import ProgressDisplay
    from trimbed.demo import run_demo
    from trimbed.trimming.report_text import summary

    def say(command: str) -> None:
        out.note(f"\n$ {command}")

    with ProgressDisplay() as display:
        result = run_demo(output, say=say, progress=display.event, planned=display.planned)
    counted, report = result.counted, result.report
    rows = [
        {
            "policy": row["policy"],
            "tokens kept": row["kept"],
            "of": report.tokens.before,
            "vocabulary left": out.share(row["kept"] / report.tokens.before, digits=1),
            "corpus covered": out.share(row["coverage"]),
        }
        for row in result.sweep.to_pylist()
    ]
    files, size, tokens = (out.count(counted.documents), out.size(counted.bytes), out.count(counted.tokens))
    out.note("")
    out.emit(rows, title=f"Python's standard library: {files} files, {size}, {tokens} tokens")
    out.stdout().print(summary(report))
    out.note(f"\nIn {result.folder}: corpus.parquet, tokenizer/, counts/, trimmed/ with trim_report.html. Go on with")
    out.note(
        f'  trimbed sql {result.folder / "counts"} "select token, surface, count from tokens order by rank limit 10"'
    )
    out.note("  trimbed count --model YOUR_MODEL --dataset YOUR_TEXT --cache counts")

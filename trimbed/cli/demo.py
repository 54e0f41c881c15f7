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

    def say(command: str) -> None:
        out.note(f"$ {command}")

    with ProgressDisplay() as display:
        result = run_demo(output, say=say, progress=display.event, planned=display.planned)
    out.note("")
    out.emit(result.sweep_rows, title="What each coverage of Python's standard library takes of 128,815 tokens")
    for line in result.summary:
        out.note(line)

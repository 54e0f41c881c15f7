"""Options that several commands share, spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trimbed.cli.output import Format

__all__ = ["Cache", "Config", "Json", "Model", "Output", "Overrides", "Revision", "RowFormat"]

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="A YAML file; flags and key=value overrides win over it.")
]
Model = Annotated[
    str | None, typer.Option("--model", "-m", help="A tokenizer or checkpoint: a folder, a file or a Hub id.")
]
Revision = Annotated[str | None, typer.Option("--revision", help="The revision on the Hub: a branch, tag or commit.")]
Cache = Annotated[str | None, typer.Option("--cache", help="The counts cache: a folder, or a URL such as s3://…")]
RowFormat = Annotated[Format | None, typer.Option("--format", "-f", help="What the rows are printed as.")]
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of stdout.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Settings by their path in the config, such as selection.coverage=0.999 or corpus.datasets.0.weight=2.",
        show_default=False,
    ),
]

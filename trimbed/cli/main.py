"""The command line: which commands there are, how errors end. Each command lives in a module of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from trimbed import __version__
from trimbed.errors import TrimbedError

__all__ = ["build_app", "main"]

# In the order in which a user meets them; each module has ``register(app)``.
COMMANDS = (
    "demo",
    "count",
    "select",
    "sweep",
    "trim",
    "sql",
    "inspect",
    "presets",
    "compare",
    "cache",
    "import_",
)

_state = {"debug": False}


def _version(value: bool) -> None:
    if value:
        typer.echo(f"trimbed {__version__}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """The typer application with every command registered."""
    app = typer.Typer(
        name="trimbed",
        help="Count which tokens a corpus needs, and shrink a tokenizer and its model to them.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
        ] = False,
    ) -> None:
        _state["debug"] = debug

    for name in COMMANDS:
        import_module(f"trimbed.cli.{name}").register(app)
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and end the process: 0 done, 1 failed, 2 bad usage, 130 interrupted."""
    from trimbed.cli import output

    _state["debug"] = False
    try:
        code = build_app()(args=list(argv) if argv is not None else None, standalone_mode=True)
    except TrimbedError as error:
        if _state["debug"]:
            raise
        output.error(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        output.error("interrupted")
        code = 130
    except BrokenPipeError:
        # The reader of our output went away (head, less): not our failure, and nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (OSError, MemoryError) as error:
        if _state["debug"]:
            raise
        output.error(f"{type(error).__name__}: {error}")
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()

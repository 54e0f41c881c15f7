"""Write docs/cli.md and docs/config.md from the code, so that they can't say something else than it does.

python docs/reference.py          # write both
python docs/reference.py --check  # exit 1 if they are out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

FOLDER = Path(__file__).parent


def command_pages() -> str:
    """Every command with its arguments and options."""
    import typer

    from trimbed.cli.main import build_app

    lines = [
        "# Commands",
        "",
        "Written by `docs/reference.py`; every command also has `--help`.",
        "",
        "Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 bad usage, 130 interrupted.",
        "`trimbed --debug COMMAND …` shows an error's traceback.",
    ]
    for path, command in _commands(typer.main.get_command(build_app()), "trimbed"):
        lines += ["", f"## {path}", "", _clean(command.help or "")]
        rows = [row for parameter in command.params if (row := _parameter(parameter))]
        if rows:
            lines += ["", "| argument or option | meaning |", "| --- | --- |", *rows]
    return "\n".join(lines) + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
    else:
        for name, child in children.items():
            yield from _commands(child, f"{path} {name}")


def _clean(text: str) -> str:
    return inspect.cleandoc(re.sub(r"\[/?\w*\]", "", text)).replace("\b", "")


def _parameter(parameter: Any) -> str:
    text = " ".join(_clean(parameter.help or "").split())
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    elif "--help" in parameter.opts:
        return ""
    else:
        name = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    if default not in (None, False, ()) and not callable(default) and parameter.show_default is not False:
        text += f" Default: `{getattr(default, 'value', default)}`."
    text = text.replace("|", "\\|")
    return f"| {name} | {text} |"


def config_page() -> str:
    """Every key of the configuration."""
    from trimbed.config import TrimbedConfig

    lines = [
        "# Configuration",
        "",
        "Written by `docs/reference.py`. A YAML file given with `-c`; flags win over it, and trailing",
        "`key.path=value` arguments win over both. Unknown keys are errors. `~` expands in paths.",
    ]
    for path, model in _models(TrimbedConfig, ""):
        lines += ["", f"## {path or 'top level'}", "", inspect.cleandoc(model.__doc__ or ""), ""]
        lines += ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
        for name, field in model.model_fields.items():
            default = field.get_default(call_default_factory=True)
            shown = "" if field.is_required() or isinstance(default, BaseModel) else f"`{_yaml(default)}`"
            meaning = (field.description or "").replace("|", "\\|")
            lines.append(f"| `{name}` | {_type(field.annotation)} | {shown} | {meaning} |")
    return "\n".join(lines) + "\n"


def _yaml(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return str(list(value))
    return str(value)


def _type(annotation: Any) -> str:
    return "`" + _type_name(annotation) + "`"


def _type_name(annotation: Any) -> str:
    """A type as a reader of YAML would say it; bounds stand in the meaning."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type_name(one) for one in arguments))
    if origin in (list, tuple):
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"{_type_name(arguments[0])}: {_type_name(arguments[1])}"
    names = {type(None): "null", str: "text", int: "whole number", float: "number", bool: "true or false", Any: "value"}
    return names.get(annotation) or getattr(annotation, "__name__", str(annotation))


def _models(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    from trimbed.config import _models_in

    yield path, model
    for name, field in model.model_fields.items():
        for child in _models_in(field.annotation):
            inside = f"{path}.{name}" if path else name
            yield from _models(child, inside + ("[]" if "list" in str(field.annotation) else ""))


PAGES = {"cli.md": command_pages, "config.md": config_page}


def main() -> int:
    """Write or check the pages."""
    stale = []
    for name, make in PAGES.items():
        file, text = FOLDER / name, make()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                file.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run python docs/reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``trimbed inspect``: what a tokenizer is, which file decided, and how it is counted and trimmed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from trimbed.cli.options import Json, Output, Revision, RowFormat

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command("inspect")(inspect)


def inspect(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A tokenizer or checkpoint: a folder, file or Hub id.")],
    revision: Revision = None,
    plan: Annotated[bool, typer.Option("--plan", help="Also explain how the counting kernel would cut text.")] = False,
    model: Annotated[
        bool, typer.Option("--model", help="Also list the tensors that hold a row for each token.")
    ] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="List every token instead: id, surface, kind, script.")
    ] = False,
    format: RowFormat = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Show what a tokenizer is: algorithm, sizes, special tokens, family, template, and what must stay in a trim."""
    from trimbed.cli.output import Format, emit, emit_json, pick_format, warning
    from trimbed.tokenizer.description import describe, describe_counting, describe_tensors
    from trimbed.tokenizer.spec import TokenizerSpec

    chosen = pick_format(format, json)
    spec = TokenizerSpec.load(path, revision=revision)
    if tokens:
        columns = zip(spec.tokens, spec.surfaces(), spec.kinds(), spec.scripts(), strict=True)
        emit(
            [
                {"id": index, "token": token, "surface": surface, "kind": kind, "script": script}
                for index, (token, surface, kind, script) in enumerate(columns)
            ],
            chosen,
            output=output,
        )
        return
    found = describe(spec)
    if plan:
        found["counting"] = describe_counting(spec)
    if model:
        found["tensors"] = describe_tensors(spec)
    if chosen is Format.json:
        emit_json(found, output=output)
        return
    for note in found.pop("notes"):
        warning(note)
    emit(list(_rows(found)), chosen, output=output)


def _rows(found: dict[str, Any]) -> Iterator[dict[str, str]]:
    """A row for each thing; the lines of an explanation and the tensors get one each."""
    counting, tensors = found.pop("counting", None), found.pop("tensors", [])
    for name, value in found.items():
        yield {"what": name, "value": _shown(value)}
    if counting is not None:
        yield {"what": "counted by", "value": f"the {counting['engine']} engine"}
        for line in counting.get("explanation") or [counting["reason"]]:
            yield {"what": "", "value": line}
    for tensor in tensors:
        shape = " x ".join(f"{size:,}" for size in tensor["shape"])
        yield {"what": "tensor", "value": f"{tensor['name']}: {tensor['role']}, {tensor['dtype']} {shape}"}


def _shown(value: Any) -> str:
    """A value for the eye: lists with commas, mappings as "name value" pairs, nothing as a dash."""
    if value is None or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    if isinstance(value, dict):
        if set(value) == {"token", "id"}:
            return f"{value['token']} ({value['id']})"
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    return str(value)

"""From whatever names a tokenizer to a TokenizerSpec: which file decides, and who reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trimbed.errors import TokenizerError, UsageError
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.side_files import SideFiles
from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["resolve"]


def resolve(source: Any, *, revision: str | None = None) -> TokenizerSpec:
    """See TokenizerSpec.load."""
    if isinstance(source, TokenizerSpec):
        return source
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return TokenizerSpec(TokenizerDocument.parse(source, origin="JSON text"), source="JSON text")
    if isinstance(source, str | os.PathLike):
        path = Path(source).expanduser()
        if path.exists():
            if revision is not None:
                raise UsageError(f"{path} is local; a revision ({revision}) is for Hub ids only")
            return _from_path(path)
        raise TokenizerError(f"{source} is neither a folder nor a file here")
    raise TokenizerError(f"a tokenizer can't be read from a {type(source).__name__}")


def _from_path(path: Path) -> TokenizerSpec:
    folder = path if path.is_dir() else path.parent
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise TokenizerError(f"{path} has no tokenizer.json")
    document = TokenizerDocument.parse(file.read_bytes(), origin=str(file))
    return TokenizerSpec(document, source=str(path), folder=folder, decided_by=file.name, side=SideFiles.read(folder))

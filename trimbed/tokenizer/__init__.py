"""The tokenizer front end: any checkpoint's files become one document, and what trimming must know of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "AddedToken": "trimbed.tokenizer.document",
    "Dependencies": "trimbed.tokenizer.dependencies",
    "TokenizerDocument": "trimbed.tokenizer.document",
    "TokenizerSpec": "trimbed.tokenizer.spec",
    "register_backend": "trimbed.tokenizer.backend",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'trimbed.tokenizer' has no attribute {name!r}")

"""trimbed: which tokens does my corpus need, and a tokenizer and model cut to them.

The names below are the public API; each is imported when first used, so that ``import trimbed`` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# A checkout keeps counting/ and storage/ beside trimbed/ (see pyproject.toml). Let it be importable from its own
# root too, where this folder shadows an installed trimbed.
_root = Path(__file__).resolve().parent.parent
if not (Path(__file__).parent / "storage").exists() and (_root / "storage" / "errors.py").is_file():
    __path__.append(str(_root))

_WHERE = {
    "CorpusCounter": "trimbed.counting.counter",
    "CorpusCounts": "trimbed.storage.counts",
    "CountsCache": "trimbed.storage.cache",
    "Selection": "trimbed.selection.selection",
    "SelectionConfig": "trimbed.selection.policy",
    "TokenizerSpec": "trimbed.tokenizer.spec",
    "TrimbedConfig": "trimbed.config",
    "TrimbedError": "trimbed.errors",
    "load_config": "trimbed.config",
    "select_tokens": "trimbed.selection.select",
    "sweep": "trimbed.selection.sweep",
    "trim": "trimbed.trimming.trim",
}

__all__ = ["__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'trimbed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)

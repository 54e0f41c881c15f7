"""What the files of a cache are called: any source or shard name becomes a safe file name. Knows no files' contents."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote_to_bytes

from trimbed.storage.errors import UsageError

__all__ = ["KINDS", "LOCKS", "MANIFEST", "PACK", "VOCABULARY", "data_name", "folder_name", "shard_file", "shard_key"]

MANIFEST = "manifest.json"
VOCABULARY = "vocabulary.parquet"
LOCKS = "locks"
KINDS = ("tokens", "pieces", "samples")
# ``~`` is escaped in names, so a pack can't be taken for a shard.
PACK = "pack~"

_UNSAFE = re.compile(rb"[^A-Za-z0-9_.\-]|\A\.")
_FILE = re.compile(r"(?:[A-Za-z0-9_\-]|%[0-9A-F]{2})(?:[A-Za-z0-9_.\-]|%[0-9A-F]{2})*")
_LONGEST = 150


def _escape(name: str) -> str:
    return _UNSAFE.sub(lambda m: b"%%%02X" % m[0][0], name.encode("utf-8", "surrogatepass")).decode("ascii")


def folder_name(source: str) -> str:
    """The folder of a source: ``source=`` and its name, percent-encoded; a long one is cut and gets a hash.

    >>> folder_name("allenai/c4:nl")
    'source=allenai%2Fc4%3Anl'
    """
    if not source:
        raise UsageError("a source needs a name")
    escaped = _escape(source)
    if len(escaped) > _LONGEST:
        digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        escaped = f"{escaped[:_LONGEST]}~{digest}"
    return f"source={escaped}"


def shard_file(key: str) -> str:
    """A shard's file name without its ending.

    Raises UsageError for an empty key or one that is too long for a file name.
    """
    escaped = _escape(key)
    if not escaped or len(escaped) > _LONGEST:
        raise UsageError(f"{key[:200]!r} can't be the key of a shard: it must have 1 to {_LONGEST} characters")
    return escaped


def shard_key(name: str) -> str | None:
    """The shard that a file name (without its ending) stands for; None if it is not one of ours."""
    if not _FILE.fullmatch(name):
        return None
    try:
        key = unquote_to_bytes(name).decode("utf-8", "surrogatepass")
        return key if shard_file(key) == name else None
    except (UnicodeDecodeError, UsageError):
        return None


def data_name(kind: str, source: str, name: str) -> str:
    """Where the Parquet file of ``kind`` for a shard (or pack) file name lies."""
    return f"{kind}/{folder_name(source)}/{name}.parquet"

"""Where a cache lies: one function turns a path or URL into a place that can list, read, write and remove.

Knows filesystems (through fsspec) and retries; knows nothing of caches. Listings are one call a folder and look at no
file on its own, so a folder of a million files costs a million names, not a million requests.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trimbed.storage.errors import CacheError, MissingExtra, UsageError

__all__ = ["Location", "resolve"]

_T = TypeVar("_T")

# Errors that another try may cure. What is missing or forbidden stays so.
_ATTEMPTS = 5
_FIRST_WAIT = 0.2
_STEP = 16 << 20
# Local error numbers that mean the same on the next try.
_FINAL = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EDQUOT}


@dataclass(frozen=True)
class Location:
    """A folder. ``url`` is what a person typed, made absolute; ``path`` is what ``filesystem`` calls it.

    Names given to the methods are relative, with ``/`` between the parts; none may be empty, ``.``, ``..`` or hold a
    backslash, so that no name can lead out of the folder (UsageError).
    """

    url: str
    path: str
    filesystem: Any
    local: bool

    def inner(self, name: str) -> str:
        """What the filesystem calls ``name``."""
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise UsageError(f"{name!r} is not a name inside {self.url}")
        return f"{self.path.rstrip('/')}/{name}"

    def describe(self, name: str) -> str:
        """``name`` for a message."""
        return f"{self.url.rstrip('/')}/{name}"

    def names(self, folder: str) -> list[str]:
        """The names of the files right in ``folder``, sorted; none if there is no such folder. One listing."""
        if self.local:
            try:
                with os.scandir(self.inner(folder)) as entries:
                    return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
            except FileNotFoundError:
                return []
        return sorted(name for name, kind in self._listing(folder) if kind == "file")

    def folders(self, folder: str) -> list[str]:
        """The names of the folders right in ``folder``, sorted."""
        if self.local:
            try:
                with os.scandir(self.inner(folder)) as entries:
                    return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            except FileNotFoundError:
                return []
        return sorted(name for name, kind in self._listing(folder) if kind == "directory")

    def _listing(self, folder: str) -> list[tuple[str, str]]:
        inner = self.inner(folder)

        def ask() -> list[tuple[str, str]]:
            # fsspec remembers listings; other writers don't tell it about theirs.
            self.filesystem.invalidate_cache()
            try:
                found = self.filesystem.ls(inner, detail=True)
            except FileNotFoundError:
                return []
            return [
                (entry["name"].rstrip("/").rsplit("/", 1)[-1], entry["type"])
                for entry in found
                if entry["name"].rstrip("/") != inner.rstrip("/").lstrip("/") and entry["name"].rstrip("/") != inner
            ]

        return self.retry(ask, folder)

    def read(self, name: str, *, limit: int) -> bytes:
        """The whole file. Raises FileNotFoundError, and CacheError if it has more than ``limit`` bytes."""
        inner = self.inner(name)

        def ask() -> bytes:
            # In steps: a limit that is much larger than the file must not cost memory.
            parts, left = [], limit + 1
            with self.filesystem.open(inner, "rb") as file:
                while left and (part := file.read(min(left, _STEP))):
                    parts.append(part)
                    left -= len(part)
            return b"".join(parts)

        data = self.retry(ask, name)
        if len(data) > limit:
            raise CacheError(f"{self.describe(name)} has more than {limit:,} bytes, which no cache of ours does")
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write the whole file or nothing; replaces what is there."""
        from trimbed.storage.atomic import write_inside

        self.retry(lambda: write_inside(self, name, data), name)

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder ``name``. One request."""
        inner = self.inner(name)
        if self.local:
            return os.path.lexists(inner)

        def ask() -> bool:
            self.filesystem.invalidate_cache()
            return bool(self.filesystem.exists(inner))

        return self.retry(ask, name)

    def remove(self, name: str) -> None:
        """Remove a file; it is no error if it is gone."""
        inner = self.inner(name)

        def ask() -> None:
            try:
                self.filesystem.rm_file(inner)
            except FileNotFoundError:
                return

        self.retry(ask, name)

    def retry(self, action: Callable[[], _T], name: str) -> _T:
        """Run ``action``; on a remote place, again after a growing pause where the error may pass."""
        if self.local:
            return action()
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return action()
            except (FileNotFoundError, PermissionError, FileExistsError):
                raise
            except (OSError, TimeoutError) as error:
                if attempt == _ATTEMPTS or error.errno in _FINAL:
                    raise CacheError(f"{self.describe(name)}: {error} (tried {attempt} times)") from error
                time.sleep(_FIRST_WAIT * 2**attempt * (0.5 + random.random()))
        raise AssertionError


def resolve(location: str | os.PathLike[str]) -> Location:
    """The folder that ``location`` names: a local path (``~`` expands) or an fsspec URL such as ``s3://bucket/counts``.

    Asks nothing of the store. Raises UsageError for an empty or unknown one, MissingExtra if the filesystem's package
    isn't installed.

    >>> resolve("~/counts").local
    True
    """
    text = os.fspath(location)
    if not text.strip() or "\0" in text:
        raise UsageError(f"{text!r} is not a place for a cache; give a folder or a URL such as s3://bucket/counts")
    import fsspec

    if "://" not in text or text.startswith(("file://", "local://")):
        plain = text.split("://", 1)[1] if "://" in text else text
        path = str(Path(plain).expanduser().absolute())
        return Location(path, path, fsspec.filesystem("file"), True)
    protocol = text.split("://", 1)[0]
    try:
        filesystem, path = fsspec.core.url_to_fs(text)
    except ImportError as error:
        extra = "pip install 'trimbed[s3]'" if protocol in ("s3", "s3a") else "its fsspec package"
        raise MissingExtra(f"{protocol}:// needs {extra}: {error}") from error
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from error
    return Location(text.rstrip("/"), str(path), filesystem, False)

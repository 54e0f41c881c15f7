"""Files that are there whole or not at all. Knows names, renames and which leftovers are stale; not what is written.

On a local filesystem the data go to a temporary name in the same folder, are flushed to the disk and renamed. An object
store puts an object whole by itself. Other remote filesystems get a temporary name and a move.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from trimbed.storage.location import Location

__all__ = ["age_of", "is_stale", "is_temporary", "replacing", "temporary_name", "write_file", "write_inside"]

_WHOLE_PUTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "ocilake", "memory", "hf"}
_TEMPORARY = re.compile(r"\.[^/]+\.(?P<host>[0-9a-f]{12})-(?P<pid>[0-9]+)-[0-9a-f]{8}\.tmp\Z")
# A temporary file of another machine is taken for abandoned after this long: no file of ours takes a day to write.
STALE_SECONDS = 24 * 3600


@functools.cache
def _host() -> str:
    """A name for this machine since it was started and this process id space: where a pid means one process."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def temporary_name(name: str) -> str:
    """A name beside ``name`` that no reader takes for data and that says who writes it."""
    return f".{name[:150]}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"


def is_temporary(name: str) -> bool:
    """Whether ``temporary_name`` made it."""
    return _TEMPORARY.match(name) is not None


def is_stale(name: str, *, age: float) -> bool:
    """Whether a temporary file's writer is gone: a process of this machine that no longer runs, or more than a day old.

    ``age``: seconds since it was last written.
    """
    match = _TEMPORARY.match(name)
    if match is None:
        return False
    if match["host"] == _host():
        try:
            os.kill(int(match["pid"]), 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass
    return age > STALE_SECONDS


def write_file(path: str, data: bytes) -> None:
    """Write ``data`` to a local path or URL, whole or not at all. Raises OSError, UsageError."""
    from trimbed.storage.location import resolve

    place = resolve(path)
    folder, _, name = place.path.rstrip("/").rpartition("/")
    write_inside(Location(place.url, folder or "/", place.filesystem, place.local), name, data)


def write_inside(location: Location, name: str, data: bytes) -> None:
    """Write ``data`` to ``name`` in ``location``, whole or not at all; missing folders are made."""
    target = location.inner(name)
    if location.local:
        _write_local(Path(target), data)
        return
    protocol = location.filesystem.protocol
    if ({protocol} if isinstance(protocol, str) else set(protocol)) & _WHOLE_PUTS:
        location.filesystem.pipe_file(target, data)
        return
    folder, _, last = target.rpartition("/")
    location.filesystem.makedirs(folder, exist_ok=True)
    temporary = f"{folder}/{temporary_name(last)}"
    location.filesystem.pipe_file(temporary, data)
    location.filesystem.mv(temporary, target)


def _write_local(target: Path, data: bytes) -> None:
    with replacing(target) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A local file to write to that takes ``path``'s place when the block ends, and leaves nothing if it fails."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / temporary_name(target.name)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut. Not every filesystem lets a folder be flushed."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def age_of(path: Path) -> float:
    """Seconds since a local file was written; 0 if it is gone or from the future."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return 0.0

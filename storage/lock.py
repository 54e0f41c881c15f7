"""One at a time, for the few things that need it: writing the manifest, and compacting or repairing. Never for
counting.

A lock can't outlive its owner. On a local filesystem it is the kernel's (``flock``), gone with the process. Elsewhere
it is a lease: an object with an owner and an end, which anybody may take once the end has passed; the owner renews it
before every step that depends on it and stops if it has been taken.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from trimbed.storage.errors import CacheError
from trimbed.storage.location import Location
from trimbed.storage.names import LOCKS

__all__ = ["Lease", "lock"]

_LEASE_SECONDS = 120.0
# Longer than it takes from finding the lock free to having written one's own claim.
_SETTLE_SECONDS = 1.0
_NO_FLOCK = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class Lease:
    """A held lock. ``renew`` raises CacheError if it was lost; call it before a step that must not run twice."""

    def __init__(self, location: Location | None = None, name: str = "") -> None:
        self._location = location
        self._name = name
        self._owner = secrets.token_hex(16)
        self._expires = float("inf") if location is None else 0.0

    def renew(self) -> None:
        """Make sure that the lock is still ours, and for a while."""
        if self._location is None or time.time() < self._expires - _LEASE_SECONDS / 2:
            return
        if _holder(self._location, self._name) != self._owner:
            raise CacheError(f"{self._location.describe(self._name)}: another process took the lock; run this again")
        self.claim()

    def claim(self) -> None:
        """Write our claim, whatever is there."""
        if self._location is not None:
            self._expires = time.time() + _LEASE_SECONDS
            self._location.write(
                self._name, json.dumps({"owner": self._owner, "expires": self._expires}).encode("ascii")
            )

    def holds(self) -> bool:
        """Whether the claim that is there is ours."""
        return self._location is None or _holder(self._location, self._name) == self._owner

    def release(self) -> None:
        """Let go, if it is still ours."""
        if self._location is not None and self.holds():
            self._location.remove(self._name)


@contextlib.contextmanager
def lock(location: Location, name: str, *, wait: float = 60.0) -> Iterator[Lease]:
    """Hold the lock ``name`` of the cache at ``location``.

    Raises CacheError if somebody else still has it after ``wait`` seconds.
    """
    if location.local:
        handle = _flock(location, name, wait)
        if handle is not None:
            try:
                yield Lease()
            finally:
                os.close(handle)
            return
    lease = Lease(location, f"{LOCKS}/{name}.json")
    deadline = time.monotonic() + wait
    while not _take(lease, location, f"{LOCKS}/{name}.json"):
        if time.monotonic() > deadline:
            raise _taken(location, name)
        time.sleep(0.5)
    try:
        yield lease
    finally:
        lease.release()


def _flock(location: Location, name: str, wait: float) -> int | None:
    """A file handle that holds the lock, or None where the filesystem knows no locks."""
    import fcntl

    path = Path(location.inner(f"{LOCKS}/{name}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except OSError as error:
            if error.errno in _NO_FLOCK:
                os.close(handle)
                return None
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR) or time.monotonic() > deadline:
                os.close(handle)
                if error.errno == errno.EWOULDBLOCK:
                    raise _taken(location, name) from error
                raise
        time.sleep(0.05)


def _taken(location: Location, name: str) -> CacheError:
    return CacheError(f"{location.url}: another process holds the lock {name!r}; wait for it to end and try again")


def _take(lease: Lease, location: Location, name: str) -> bool:
    if _holder(location, name) is not None:
        return False
    lease.claim()
    time.sleep(_SETTLE_SECONDS)
    return lease.holds()


def _holder(location: Location, name: str) -> str | None:
    """Who has the lease now; None if nobody, or if it has run out or can't be read."""
    try:
        claim = json.loads(location.read(name, limit=4096))
        return str(claim["owner"]) if float(claim["expires"]) > time.time() else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None

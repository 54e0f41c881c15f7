"""What went wrong with a shard, as a value that crosses process borders whole, and whether trying again can help."""

from __future__ import annotations

import errno
import os
import traceback
from dataclasses import dataclass
from enum import Enum

from trimbed.storage.errors import CountingError, TrimbedError

__all__ = ["Failure", "FatalFailure", "Kind", "failure_of", "kind_of"]

_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_HTTP_PERMANENT = frozenset({400, 401, 403, 404, 405, 410, 416, 451})


class Kind(Enum):
    """``DATA``: the same again. ``TRANSIENT``: may pass. ``LOST``: the worker died. ``STALLED``: it made no progress.

    ``FATAL``: no shard can be counted (the cache can't be written, the tokenizer can't be loaded).
    """

    DATA = "data"
    TRANSIENT = "transient"
    LOST = "lost"
    STALLED = "stalled"
    FATAL = "fatal"


@dataclass(frozen=True)
class Failure:
    """One failed attempt at a shard: the error's type and message, where, and the traceback as text."""

    kind: Kind
    error: str
    message: str
    where: str = ""
    trace: str = ""
    exit_code: int = 1

    @property
    def worth_retrying(self) -> bool:
        return self.kind in (Kind.TRANSIENT, Kind.LOST, Kind.STALLED)

    def __str__(self) -> str:
        return self.message if self.error in ("", "CountingError") else f"{self.error}: {self.message}"


class FatalFailure(CountingError):
    """Raised to end a run at once; ``exit_code`` is that of the error behind it."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def failure_of(error: BaseException, *, where: str = "", fatal: bool = False) -> Failure:
    """The failure that ``error`` stands for. ``fatal``: it arose where every shard would meet it."""
    kind = Kind.FATAL if fatal else kind_of(error)
    message = str(error) or repr(error)
    if not isinstance(error, TrimbedError) and where and where not in message:
        message = f"{where}: {message}"
    trace = "".join(traceback.format_exception(error))
    return Failure(kind, type(error).__name__, message, where, trace, getattr(error, "exit_code", 1))


def kind_of(error: BaseException) -> Kind:
    """``DATA`` or ``TRANSIENT``: whether the same will happen again."""
    if isinstance(error, TrimbedError):
        return Kind.DATA
    status = getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int) and status in _HTTP_PERMANENT:
        return Kind.DATA
    if isinstance(error, _PERMANENT):
        return Kind.DATA
    if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR):
        return Kind.DATA
    return Kind.TRANSIENT


def unwritable(error: Exception, cache: str) -> Exception:
    """A system error while writing to the cache, said as what it means for the run; any other as it is."""
    if isinstance(error, OSError) and error.errno is not None:
        reason = os.strerror(error.errno)
        return CountingError(
            f"the cache {cache} can't be written: {reason}. What was committed is safe; mend that and run again"
        )
    return error

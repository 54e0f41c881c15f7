"""The errors a user can meet, one small hierarchy. In the bottom layer, so that every package can raise them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "CacheError",
    "CacheMismatch",
    "CountingError",
    "MissingExtra",
    "SelectionError",
    "TokenizerError",
    "TrimError",
    "TrimbedError",
    "UsageError",
    "VerificationError",
]


class TrimbedError(Exception):
    """What was wrong, where, and what to do about it. ``exit_code`` is what the command line ends with."""

    exit_code = 1


class UsageError(TrimbedError):
    """An invocation, configuration or argument that can't be acted on; nothing was done."""

    exit_code = 2


class MissingExtra(TrimbedError):
    """A feature needs a package that isn't installed; the message names the extra that brings it."""


class CacheError(TrimbedError):
    """A counts cache that is missing, broken, locked or from a format we don't read."""


class CacheMismatch(CacheError):
    """A cache holds something else than what was asked for.

    ``differences`` has one line for each thing that differs.
    """

    def __init__(self, message: str, differences: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(differences))
        self.message = message
        self.differences = tuple(differences)

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"  - {line}" for line in self.differences)])


class CountingError(TrimbedError):
    """A source, shard or document that can't be counted; the message names file and row where they are known."""


class TokenizerError(TrimbedError):
    """A tokenizer that can't be read, or not faithfully."""


class SelectionError(TrimbedError):
    """A policy that can't be met (a cap below what must stay, a request that names nothing)."""


class TrimError(TrimbedError):
    """A checkpoint that can't be trimmed, or not safely."""


class VerificationError(TrimError):
    """A trim was made and does not do what it must; nothing was put in the target's place."""

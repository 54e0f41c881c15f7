"""The errors a user can meet, re-exported where users look for them."""

from trimbed.storage.errors import (
    CacheError,
    CacheMismatch,
    CountingError,
    MissingExtra,
    SelectionError,
    TokenizerError,
    TrimbedError,
    TrimError,
    UsageError,
    VerificationError,
)

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

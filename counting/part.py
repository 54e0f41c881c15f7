"""``--part i/n``: which shards one of n independent runs counts. Every shard falls to exactly one part."""

from __future__ import annotations

from collections.abc import Sequence

from trimbed.counting.shards import Shard
from trimbed.storage.errors import UsageError

__all__ = ["parse_part", "shards_of_part"]


def parse_part(text: str) -> tuple[int, int]:
    """``i/n`` as (i, n), with 0 <= i < n. Raises UsageError."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise UsageError(f"part {text!r}: give it as i/n with 0 <= i < n, for instance 0/16 to 15/16")
    return int(index), int(count)


def shards_of_part(shards: Sequence[Shard], part: str | None) -> list[Shard]:
    """Every n-th shard from the i-th on: neighbouring shards are alike in size, so the parts are too.

    ``shards`` are those of the whole corpus, in order; None is all of them.
    """
    if part is None:
        return list(shards)
    index, count = parse_part(part)
    return list(shards[index::count])

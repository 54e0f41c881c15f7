"""What a committed shard says about itself, and the documents sampled from it. Plain data; knows no files.

A record lies in the cache as JSON and is read from caches made by strangers, so everything in it is bounded and
checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

__all__ = ["SAMPLE_BYTES", "FileDigest", "Pack", "Sample", "ShardRecord", "bottom_samples"]

SAMPLE_BYTES = 64 * 1024
_Bytes: TypeAlias = bytes  # ``bytes`` is also what a record calls its size
Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
# A petabyte of one-byte documents fits; a crafted record can't overflow the sums.
Amount = Annotated[int, Field(ge=0, le=2**60)]


class FileDigest(BaseModel):
    """One Parquet file of a shard: SHA-256 of its bytes, its size and rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Amount
    rows: Amount


class ShardRecord(BaseModel):
    """A shard's bookkeeping. The cache fills in ``files`` and ``digest`` when it commits.

    ``input`` identifies what was read, ``engine`` what counted. ``digest`` is SHA-256 over the digests of ``files``
    (kind -> file). ``pieces_dropped`` distinct pieces with ``pieces_dropped_count`` occurrences fell out of the pieces
    that were kept. ``seconds`` and ``created`` (UTC, ISO 8601) say how the run went and take part in no comparison.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    shard: str
    documents: Amount
    empty_documents: Amount = 0
    skipped_rows: dict[str, Amount] = Field(default_factory=dict)
    replaced_rows: Amount = 0
    bytes: Amount
    tokens: Amount
    pieces_dropped: Amount = 0
    pieces_dropped_count: Amount = 0
    input: dict[str, JsonValue] = Field(default_factory=dict)
    engine: dict[str, str] = Field(default_factory=dict)
    files: dict[str, FileDigest] = Field(default_factory=dict)
    digest: Digest = ""
    seconds: float | None = None
    created: str | None = None

    def content(self) -> dict[str, Any]:
        """What makes two records of a shard the same: all but the files' encoding, the engine, and the run's times."""
        return self.model_dump(exclude={"files", "digest", "engine", "seconds", "created"})

    def to_json(self) -> _Bytes:
        """The record as the file in the cache holds it."""
        return _dump(self.model_dump(exclude_none=True))


class Pack(BaseModel):
    """Many shards of a source whose data were added up into one set of files (``trimbed cache compact``).

    ``records`` are the shards' own, in the order of their keys; their ``files`` no longer exist.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    records: list[ShardRecord] = Field(min_length=1)
    files: dict[str, FileDigest]
    digest: Digest

    def to_json(self) -> _Bytes:
        """The pack as the file in the cache holds it."""
        return _dump(self.model_dump(exclude_none=True))


def _dump(value: Any) -> _Bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode("utf-8", "surrogatepass")


@dataclass(frozen=True, order=True)
class Sample:
    """A document kept for verification. ``order``: its hash (0 <= order < 2**63); the smallest ones are the sample."""

    order: int
    source: str
    shard: str
    row: int
    text: str

    def __post_init__(self) -> None:
        if not 0 <= self.order < 2**63:
            raise ValueError(f"a sample's order must be in [0, 2**63), not {self.order}")


def bottom_samples(samples: Iterable[Sample], *, size: int) -> list[Sample]:
    """The ``size`` samples with the smallest hashes of each source, sorted by source, hash, shard and row.

    Taking the bottom of bottoms is taking the bottom of all, so the sample doesn't depend on how shards were grouped.
    """
    by_source: dict[str, list[Sample]] = {}
    for sample in samples:
        by_source.setdefault(sample.source, []).append(sample)
    return [sample for source in sorted(by_source) for sample in _bottom(by_source[source], size)]


def _bottom(samples: Sequence[Sample], size: int) -> list[Sample]:
    return sorted(set(samples))[:size]

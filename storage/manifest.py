"""What a cache holds and with what it was counted, and whether that is what somebody asks for. Knows no filesystem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from trimbed.storage.errors import CacheError, CacheMismatch, UsageError
from trimbed.storage.names import folder_name

__all__ = ["FORMAT_VERSION", "Manifest", "SourceIdentity", "TokenizerIdentity"]

FORMAT_VERSION = 1
# Counts are held as one int64 an id and source; a crafted size must not take the machine's memory.
_LARGEST_VOCABULARY = 1 << 24


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TokenizerIdentity(_Strict):
    """Which tokenizer counted. Only ``fingerprint`` and ``vocab_size`` (highest id + 1) decide; the rest says
    whence.
    """

    fingerprint: str = Field(min_length=1)
    source: str = ""
    revision: str | None = None
    vocab_size: Annotated[int, Field(ge=0, le=_LARGEST_VOCABULARY)]
    file: str = ""


class SourceIdentity(_Strict):
    """What a source is (``identity``, JSON values), how it was sliced (``plan_hash``) and into how many shards."""

    identity: dict[str, JsonValue] = Field(default_factory=dict)
    plan_hash: str
    shards: Annotated[int, Field(ge=0, le=2**40)]


class Manifest(_Strict):
    """The identity of a cache.

    ``settings`` are those that change what the cache holds; ``engine`` is for the reader, since every engine counts
    exactly. ``created``: UTC, ISO 8601.
    """

    format_version: int = FORMAT_VERSION
    created: str
    tokenizer: TokenizerIdentity
    engine: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    sources: dict[str, SourceIdentity] = Field(default_factory=dict)

    @field_validator("sources")
    @classmethod
    def _names_that_stay_apart(cls, sources: dict[str, SourceIdentity]) -> dict[str, SourceIdentity]:
        seen: dict[str, str] = {}
        for name in sources:
            try:
                folder = folder_name(name).casefold()
            except UsageError as error:
                raise ValueError(str(error)) from error
            if folder in seen:
                raise ValueError(
                    f"the names {seen[folder]!r} and {name!r} differ only in case; not every disk can tell"
                )
            seen[folder] = name
        return sources

    @classmethod
    def new(
        cls,
        *,
        tokenizer: TokenizerIdentity,
        sources: Mapping[str, SourceIdentity] | None = None,
        engine: Mapping[str, str] | None = None,
        settings: Mapping[str, JsonValue] | None = None,
    ) -> Manifest:
        """A manifest of now. Raises UsageError for source names that can't be told apart on every disk."""
        try:
            return cls(
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                tokenizer=tokenizer,
                engine=dict(engine or {}),
                settings=dict(settings or {}),
                sources=dict(sources or {}),
            )
        except ValidationError as error:
            raise UsageError(f"sources: {error.errors()[0]['msg']}") from error

    @classmethod
    def parse(cls, data: bytes, *, where: str) -> Manifest:
        """Read ``data``. Raises CacheError for anything but a manifest of a format we know."""
        try:
            raw = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CacheError(f"{where} is not a cache's manifest: {error}") from error
        version = raw.get("format_version") if isinstance(raw, dict) else None
        if version != FORMAT_VERSION:
            raise CacheError(
                f"{where} says format_version {str(version)[:40]}; this trimbed reads {FORMAT_VERSION}. "
                + ("Update trimbed" if isinstance(version, int) and version > FORMAT_VERSION else "It is not a cache")
            )
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part)[:80] for part in first["loc"])
            raise CacheError(f"{where} is not a cache's manifest: {place}: {first['msg']}") from error

    def to_json(self) -> bytes:
        """The manifest as the file in the cache holds it."""
        text = json.dumps(self.model_dump(), ensure_ascii=False, sort_keys=True, indent=2)
        return (text + "\n").encode("utf-8", "surrogatepass")

    def differences(self, other: Manifest) -> list[str]:
        """A line for each thing that keeps ``other`` from being counted into this cache; other engines don't.

        Sources that only one of the two has are no difference.
        """
        lines = []
        for name in ("fingerprint", "vocab_size"):
            mine, theirs = getattr(self.tokenizer, name), getattr(other.tokenizer, name)
            if mine != theirs:
                whence = f" ({_whence(self.tokenizer)}; asked for {_whence(other.tokenizer)})"
                lines.append(f"tokenizer {name}: cache {_show(mine)}, asked for {_show(theirs)}{whence}")
        lines += _mapping_differences("setting", self.settings, other.settings)
        for name in sorted(self.sources.keys() & other.sources.keys()):
            mine, theirs = self.sources[name], other.sources[name]
            lines += _mapping_differences(f"source {name!r}:", mine.identity, theirs.identity)
            if mine.identity == theirs.identity and (mine.plan_hash, mine.shards) != (theirs.plan_hash, theirs.shards):
                lines.append(
                    f"source {name!r}: its shards were cut otherwise: cache {mine.shards} ({mine.plan_hash[:12]}), "
                    f"asked for {theirs.shards} ({theirs.plan_hash[:12]})"
                )
        return lines

    def check(self, other: Manifest, *, where: str) -> None:
        """Raises CacheMismatch, with what differs, unless ``other`` may be counted into this cache."""
        lines = self.differences(other)
        if lines:
            raise CacheMismatch(
                f"the cache {where} holds something else than what was asked for; "
                "give another cache, or count with what this one holds:",
                lines,
            )

    def with_sources(self, sources: Mapping[str, SourceIdentity]) -> Manifest:
        """This manifest with ``sources`` added."""
        merged = {**self.sources, **sources}
        return Manifest.model_validate(self.model_dump() | {"sources": {k: v.model_dump() for k, v in merged.items()}})


def _whence(tokenizer: TokenizerIdentity) -> str:
    return (tokenizer.source or "unnamed") + (f" at {tokenizer.revision}" if tokenizer.revision else "")


def _mapping_differences(what: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    missing = object()
    return [
        f"{what} {key}: cache {_show(a, missing)}, asked for {_show(b, missing)}"
        for key in sorted(mine.keys() | theirs.keys())
        if (a := mine.get(key, missing)) != (b := theirs.get(key, missing))
    ]


def _show(value: Any, missing: object = None) -> str:
    if value is missing and missing is not None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= 200 else text[:200] + "…"

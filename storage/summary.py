"""What a cache holds at a glance: sources, sizes, when and with what it was made. Reads records, no counts."""

from __future__ import annotations

from dataclasses import dataclass

from trimbed.storage.cache import CountsCache

__all__ = ["CacheSummary", "SourceSummary", "summarize"]


@dataclass(frozen=True)
class SourceSummary:
    """A source: ``shards`` committed of ``planned``; ``stored`` bytes of Parquet in ``files`` files."""

    source: str
    shards: int
    planned: int
    documents: int
    bytes: int
    tokens: int
    skipped_rows: int
    replaced_rows: int
    files: int
    stored: int
    first_created: str | None
    last_created: str | None
    engines: str


@dataclass(frozen=True)
class CacheSummary:
    """A cache: where, since when, for which tokenizer, with which settings, and its sources."""

    location: str
    format_version: int
    created: str
    tokenizer: str
    revision: str | None
    fingerprint: str
    vocab_size: int
    settings: dict[str, object]
    sources: tuple[SourceSummary, ...]

    @property
    def complete(self) -> bool:
        """Every planned shard is committed."""
        return all(source.shards == source.planned for source in self.sources)


def summarize(cache: CountsCache) -> CacheSummary:
    """Reads one small file a shard or pack. Raises CacheError."""
    manifest = cache.manifest
    return CacheSummary(
        location=cache.location,
        format_version=manifest.format_version,
        created=manifest.created,
        tokenizer=manifest.tokenizer.source,
        revision=manifest.tokenizer.revision,
        fingerprint=manifest.tokenizer.fingerprint,
        vocab_size=manifest.tokenizer.vocab_size,
        settings=dict(manifest.settings),
        sources=tuple(_source(cache, source) for source in sorted(manifest.sources)),
    )


def _source(cache: CountsCache, source: str) -> SourceSummary:
    units = list(cache.units(source))
    records = [record for unit in units for record in unit.records]
    files = [file for unit in units for file in unit.files.values()]
    created = sorted(record.created for record in records if record.created)
    engines = {" ".join(value for _, value in sorted(record.engine.items())) for record in records}
    return SourceSummary(
        source=source,
        shards=len(records),
        planned=cache.manifest.sources[source].shards,
        documents=sum(record.documents for record in records),
        bytes=sum(record.bytes for record in records),
        tokens=sum(record.tokens for record in records),
        skipped_rows=sum(sum(record.skipped_rows.values()) for record in records),
        replaced_rows=sum(record.replaced_rows for record in records),
        files=len(files),
        stored=sum(file.bytes for file in files),
        first_created=created[0] if created else None,
        last_created=created[-1] if created else None,
        engines="; ".join(sorted(engines)),
    )

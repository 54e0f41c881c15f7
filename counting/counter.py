"""Counting a corpus into a cache: resolve the sources, check the cache, have the missing shards counted, report."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from trimbed.counting.config import CorpusConfig
from trimbed.counting.engine import EngineRecipe, prepare_recipe
from trimbed.counting.executors import make_executor
from trimbed.counting.failures import unwritable
from trimbed.counting.part import shards_of_part
from trimbed.counting.planning import Unreadable
from trimbed.counting.queue import Event, FailedShard, ShardDone, ShardQueue
from trimbed.counting.shards import Shard, Source
from trimbed.counting.sources import resolve_source
from trimbed.counting.worker import Job, Outcome
from trimbed.storage.cache import CountsCache
from trimbed.storage.counts import CorpusCounts
from trimbed.storage.errors import CountingError, TokenizerError, UsageError
from trimbed.storage.manifest import Manifest, SourceIdentity, TokenizerIdentity

__all__ = ["CorpusCounter", "RunResult", "TokenizerSource"]


@dataclass(frozen=True)
class TokenizerSource:
    """All that counting needs of a tokenizer.

    ``document`` is the tokenizer.json text; ``vocab_size`` is the largest id + 1; ``vocabulary`` has the columns
    token_id (int32), token, surface, kind and script (strings, null where unknown), one row an id.
    """

    document: str
    fingerprint: str
    source: str
    revision: str | None
    vocab_size: int
    vocabulary: pa.Table
    file: str = "tokenizer.json"

    @classmethod
    def from_document(
        cls, document: str, *, source: str = "", revision: str | None = None, fingerprint: str | None = None
    ) -> TokenizerSource:
        """From a tokenizer.json text alone. Without a ``fingerprint``, that of the text's canonical form is taken,
        truncation and padding left out. Raises TokenizerError where the text isn't a tokenizer."""
        from trimbed.counting.reference import load_tokenizer

        try:
            data = json.loads(document)
        except ValueError as error:
            raise TokenizerError(f"{source or 'the tokenizer'}: not JSON: {error}") from error
        if not isinstance(data, dict):
            raise TokenizerError(f"{source or 'the tokenizer'}: not a JSON object")
        if fingerprint is None:
            kept = {key: value for key, value in data.items() if key not in ("truncation", "padding")}
            canonical = json.dumps(kept, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
            fingerprint = hashlib.sha256(canonical.encode()).hexdigest()
        tokenizer = load_tokenizer(document)
        by_id = {index: token for token, index in tokenizer.get_vocab(with_added_tokens=True).items()}
        added = {index: token.special for index, token in tokenizer.get_added_tokens_decoder().items()}
        ids = sorted(by_id)
        kinds = ["special" if added.get(index) else "added" if index in added else "normal" for index in ids]
        vocabulary = pa.table(
            {
                "token_id": pa.array(ids, pa.int32()),
                "token": pa.array([by_id[index] for index in ids], pa.string()),
                "surface": pa.nulls(len(ids), pa.string()),
                "kind": pa.array(kinds, pa.string()),
                "script": pa.nulls(len(ids), pa.string()),
            }
        )
        return cls(document, fingerprint, source, revision, max(ids, default=-1) + 1, vocabulary)

    def identity(self) -> TokenizerIdentity:
        """What a cache's manifest says of it."""
        return TokenizerIdentity(
            fingerprint=self.fingerprint,
            source=self.source,
            revision=self.revision,
            vocab_size=self.vocab_size,
            file=self.file,
        )


@dataclass(frozen=True)
class RunResult:
    """What a run came to. ``shards`` counts those of this run's part: new ones, those present before, and all.

    ``left_out`` names files and whole datasets that couldn't be read even to be sliced, each with the reason.
    """

    cache: str
    new: int
    present: int
    shards: int
    documents: int
    bytes: int
    tokens: int
    skipped_rows: dict[str, int]
    replaced_rows: int
    failed: tuple[FailedShard, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    allow_missing: bool = False
    engines: dict[str, str] = field(default_factory=dict)
    """The engines that counted, each with the reason why it isn't the kernel, if there is one."""

    @property
    def missing(self) -> int:
        """Shards of this run's part that aren't in the cache."""
        return self.shards - self.new - self.present

    @property
    def complete(self) -> bool:
        """Whether all shards are in the cache, and nothing was left out."""
        return self.missing == 0 and not self.left_out

    @property
    def exit_code(self) -> int:
        """0 all there; 1 shards missing or files left out (unless that was allowed); 130 interrupted."""
        if self.interrupted:
            return 130
        return 0 if self.complete or self.allow_missing else 1

    def counts(self) -> CorpusCounts:
        """The counts in the cache, of all that has been counted."""
        return CountsCache.open(self.cache).read_counts()


class CorpusCounter:
    """Counts ``corpus`` with ``tokenizer`` into ``cache``; run again, it goes on where it was.

    ``tokenizer`` is a TokenizerSource, a tokenizer.json text, or a path to such a file.
    """

    def __init__(self, tokenizer: TokenizerSource | str | Path | Any, corpus: CorpusConfig, cache: str | Path) -> None:
        if hasattr(tokenizer, "for_counting"):
            tokenizer = tokenizer.for_counting()
        elif isinstance(tokenizer, Path):
            tokenizer = TokenizerSource.from_document(tokenizer.read_text(encoding="utf-8"), source=str(tokenizer))
        elif isinstance(tokenizer, str):
            tokenizer = TokenizerSource.from_document(tokenizer)
        self.tokenizer: TokenizerSource = tokenizer
        self.corpus = corpus
        self.cache = str(cache)

    def sources(self) -> tuple[list[Source], dict[str, str]]:
        """The corpus' datasets, resolved and sliced, and those that can't be read, with the reason.

        Raises UsageError, and CountingError where ``strict`` or no dataset can be read, see resolve_source. One part of
        several stops at any such dataset: without it, the shards would be dealt out otherwise than in the other parts.
        """
        corpus = self.corpus
        if not corpus.datasets:
            raise UsageError("no dataset to count; name one with --dataset, or list them under corpus.datasets")
        unreadable = Unreadable.STOP if corpus.strict else Unreadable.SET_ASIDE
        if corpus.allow_missing_shards:
            unreadable = Unreadable.LEAVE_OUT
        shard_bytes = max(1, int(corpus.shard_megabytes * (1 << 20)))
        sources: list[Source] = []
        left_out: dict[str, str] = {}
        first: CountingError | None = None
        for dataset in corpus.datasets:
            try:
                sources.append(resolve_source(dataset, shard_bytes=shard_bytes, unreadable=unreadable))
            except CountingError as error:
                if unreadable is Unreadable.STOP or corpus.part is not None:
                    raise
                first = first or error
                left_out[dataset.source_name()] = str(error)
        if first is not None and not sources:
            raise first
        left_out |= {f"{source.name}: {name}": why for source in sources for name, why in source.left_out.items()}
        return sources, left_out

    def run(
        self,
        progress: Callable[[Event], None] | None = None,
        *,
        planned: Callable[[Sequence[Source], Sequence[Shard]], None] | None = None,
    ) -> RunResult:
        """Count what isn't in the cache yet.

        ``planned`` is told the sources and the shards still to count before the first is handed out; ``progress`` every
        event after that. Raises CacheMismatch where the cache holds something else, CountingError where no shard can be
        counted or the cache can't be written; single shards that fail are in the result.
        """
        sources, left_out = self.sources()
        try:
            cache = CountsCache.create_or_open(self.cache, self._manifest(sources))
            cache.write_vocabulary(self.tokenizer.vocabulary)
        except OSError as error:
            raise unwritable(error, self.cache) from error
        mine = shards_of_part([shard for source in sources for shard in source.shards], self.corpus.part)
        committed = {source.name: cache.committed_keys(source.name) for source in sources}
        todo = [shard for shard in mine if shard.key not in committed[shard.source]]
        if planned is not None:
            planned(sources, todo)
        totals = _Totals()

        def emit(event: Event) -> None:
            if isinstance(event, ShardDone):
                totals.add(event.outcome)
            if progress is not None:
                progress(event)

        queue = ShardQueue(todo, retries=self.corpus.retries, strict=self.corpus.strict, emit=emit)
        interrupted = False
        if todo:
            try:
                make_executor(self.corpus).run(self._job(sources), queue)
            except KeyboardInterrupt:
                interrupted = True
        return RunResult(
            cache=self.cache,
            new=totals.shards,
            present=len(mine) - len(todo),
            shards=len(mine),
            documents=totals.documents,
            bytes=totals.bytes,
            tokens=totals.tokens,
            skipped_rows=dict(sorted(totals.skipped.items())),
            replaced_rows=totals.replaced,
            failed=tuple(queue.failed),
            left_out=left_out,
            interrupted=interrupted,
            allow_missing=self.corpus.allow_missing_shards,
            engines=totals.engines,
        )

    def _job(self, sources: Sequence[Source]) -> Job:
        corpus = self.corpus
        return Job(
            cache=self.cache,
            recipe=prepare_recipe(self._recipe()),
            batch_bytes=max(1, int(corpus.batch_megabytes * (1 << 20))),
            samples={source.name: _samples_per_shard(corpus.sample_size, len(source.shards)) for source in sources},
        )

    def _recipe(self) -> EngineRecipe:
        return EngineRecipe(
            name=self.corpus.engine,
            document=self.tokenizer.document,
            keep_pieces=self.corpus.keep_pieces,
            options=dict(self.corpus.engine_options),
        )

    def _manifest(self, sources: Sequence[Source]) -> Manifest:
        return Manifest.new(
            tokenizer=self.tokenizer.identity(),
            engine={"name": self.corpus.engine},
            settings={"keep_pieces": self.corpus.keep_pieces, "sample_size": self.corpus.sample_size},
            sources={
                source.name: SourceIdentity(
                    identity=source.identity, plan_hash=source.plan_hash, shards=len(source.shards)
                )
                for source in sources
            },
        )


def _samples_per_shard(size: int, shards: int) -> int:
    """How many documents a shard contributes: more than its share of ``size``, but little where there are many
    shards."""
    return min(size, 2 + 4 * size // max(1, shards))


class _Totals:
    """Sums over the shards that this run counted."""

    def __init__(self) -> None:
        self.shards = self.documents = self.bytes = self.tokens = self.replaced = 0
        self.skipped: Counter[str] = Counter()
        self.engines: dict[str, str] = {}

    def add(self, outcome: Outcome) -> None:
        self.shards += 1
        self.documents += outcome.documents
        self.bytes += outcome.bytes
        self.tokens += outcome.tokens
        self.replaced += outcome.replaced_rows
        self.skipped.update(outcome.skipped_rows)
        self.engines[outcome.engine] = outcome.reason

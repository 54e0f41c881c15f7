"""What selection reads: the tokenizer of a configuration and the counts of its cache, held against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trimbed.errors import CacheMismatch, SelectionError

if TYPE_CHECKING:
    from trimbed.config import TrimbedConfig
    from trimbed.selection.cost import PieceCosts
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.counts import CorpusCounts
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["open_inputs", "piece_costs"]


class _Load(Protocol):
    def __call__(self, source: str, /, *, revision: str | None = None) -> TokenizerSpec: ...


def open_inputs(
    config: TrimbedConfig, *, load: _Load | None = None
) -> tuple[TokenizerSpec, CorpusCounts | None, CountsCache | None]:
    """The tokenizer, and the counts and the cache if the configuration names one.

    Without a model the tokenizer is the one that the cache was counted with. The weights of ``corpus.datasets`` are
    applied; those of ``selection.source_weights`` are the policy's own. ``load``: what loads the tokenizer, where
    ``TokenizerSpec.load`` isn't enough (a trim needs the whole checkpoint).

    Raises UsageError where nothing is given, CacheMismatch where the cache was counted with another tokenizer,
    SelectionError where nothing was counted yet.
    """
    from trimbed.storage.cache import CountsCache
    from trimbed.tokenizer.spec import TokenizerSpec

    cache = CountsCache.open(config.cache) if config.cache else None
    path, revision = config.model.path, config.model.revision
    if not path and cache is not None and cache.manifest.tokenizer.source not in ("", "document"):
        path, revision = cache.manifest.tokenizer.source, revision or cache.manifest.tokenizer.revision
    spec = (load or TokenizerSpec.load)(path or config.require_model(), revision=revision)
    if cache is None:
        return spec, None, None
    counted = cache.manifest.tokenizer
    if counted.fingerprint != spec.fingerprint:
        raise CacheMismatch(
            f"the cache {config.cache} was counted with another tokenizer than {spec.source}",
            [
                f"counted with: {counted.source or 'unknown'} {counted.revision or ''}".rstrip()
                + f", {counted.vocab_size:,} ids, fingerprint {counted.fingerprint[:16]}",
                f"asked for: {spec.source} {spec.revision or ''}".rstrip()
                + f", {spec.vocab_size:,} ids, fingerprint {spec.fingerprint[:16]}",
            ],
        )
    counts = cache.read_counts()
    if not counts.total_num_tokens:
        raise SelectionError(f"the cache {config.cache} holds no counts yet; run trimbed count first")
    weights = {name: weight for name, weight in config.corpus.weights().items() if name in counts.by_source}
    return spec, counts.with_weights(weights), cache


def piece_costs(
    cache: CountsCache | None, spec: TokenizerSpec, counts: CorpusCounts | None, *, wanted: bool | None, policies: int
) -> tuple[PieceCosts | None, str]:
    """The costs to price policies with, or None and why there are none ("" where nobody asked).

    ``wanted``: True asks for them, False doesn't; None does for up to ``EXACT_BY_DEFAULT`` policies, where there are
    pieces. Raises SelectionError where they are asked for and can't be had.
    """
    from trimbed.selection.cost import PieceCosts
    from trimbed.selection.sweep import EXACT_BY_DEFAULT

    if wanted is False:
        return None, ""
    if cache is None or counts is None:
        if wanted:
            raise SelectionError("exact costs need a counts cache that was made with corpus.keep_pieces")
        return None, ""
    if wanted is None and policies > EXACT_BY_DEFAULT:
        return None, f"no exact costs for more than {EXACT_BY_DEFAULT} policies unless asked for (--exact-cost)"
    try:
        return PieceCosts.from_cache(cache, spec.document.data, counts), ""
    except SelectionError as error:
        if wanted:
            raise
        return None, str(error)

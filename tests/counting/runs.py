"""Running counts in tests, and comparing what came of them: with the library, and cache with cache."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import tokenizers

from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter, RunResult, TokenizerSource
from trimbed.storage.cache import CountsCache


def wordpiece(vocab: dict[str, int], **parts: Any) -> dict[str, Any]:
    """A tokenizer.json by hand: words by white space, ``[UNK]`` for others, and whatever ``parts`` say."""
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocab,
    }
    nothing = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    whole = {"version": "1.0", **nothing, "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    return whole | parts


def tokenizer_source(document: dict[str, Any]) -> TokenizerSource:
    return TokenizerSource.from_document(json.dumps(document), source="made")


def run(document: dict[str, Any], cache: Path, datasets: Iterable[dict[str, Any]], **settings: Any) -> RunResult:
    """Count with small shards, in this process unless told otherwise."""
    filled = {"executor": "inline", "engine": "reference", "shard_megabytes": 0.002, "sample_size": 8} | settings
    corpus = CorpusConfig.model_validate({"datasets": list(datasets), **filled})
    return CorpusCounter(tokenizer_source(document), corpus, cache).run()


def library_counts(document: dict[str, Any], texts: Iterable[str]) -> np.ndarray:
    """int64[vocab]: each document encoded alone by the library, special tokens not added, nothing cut or padded."""
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(document))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    counts = np.zeros(max(tokenizer.get_vocab().values()) + 1, dtype=np.int64)
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        counts += np.bincount(ids, minlength=len(counts)) if ids else 0
    return counts


def cached_counts(cache: Path) -> np.ndarray:
    """int64[vocab]: the sum over the cache's sources."""
    return np.sum(list(CountsCache.open(str(cache)).read_counts().by_source.values()), axis=0)


def content(cache: Path) -> dict[str, Any]:
    """All that must be the same whatever a run went through: every Parquet file's rows, every record but its times."""
    found: dict[str, Any] = {}
    for path in sorted(cache.rglob("*.parquet")):
        found[str(path.relative_to(cache))] = pq.read_table(path).to_pylist()
    for path in sorted((cache / "shards").rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        found[str(path.relative_to(cache))] = {k: v for k, v in record.items() if k not in ("seconds", "created")}
    return found

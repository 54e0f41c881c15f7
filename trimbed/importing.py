"""Brings the JSON counts file of trimbed 0.0.4 into a counts cache. Knows that format; counts nothing itself.

Such a file names neither the tokenizer nor the corpus it was counted with, and its numbers may be weighted already. So
what can be checked is checked (ids, sums), and what can't is said.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import CacheError, CacheMismatch, UsageError

if TYPE_CHECKING:
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.records import Sample
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["Imported", "import_counts"]

_SHARD = "00000000"


@dataclass(frozen=True)
class Imported:
    """What came in, and what nobody can vouch for."""

    source: str
    documents: int
    tokens: int
    distinct_tokens: int
    samples: int
    warnings: tuple[str, ...]


def import_counts(file: str | Path, spec: TokenizerSpec, cache: str | Path, *, source: str | None = None) -> Imported:
    """Put the counts of ``file`` into ``cache`` (made if it isn't there) as ``source`` (by default the file's name).

    Importing the same file again changes nothing. Raises UsageError for a file that is no such counts file or doesn't
    fit the tokenizer, CacheMismatch for a cache of another tokenizer or with other counts under the same name.
    """
    from trimbed.storage.records import ShardRecord

    path = Path(file).expanduser()
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    counts, documents, texts = _read(path, raw, spec)
    name = source or "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in path.stem).strip("._-")
    name = name or "imported"
    digest = hashlib.sha256(raw).hexdigest()
    opened = _open(str(cache), spec, name, digest)
    samples = _samples(texts, name)
    record = ShardRecord(
        source=name,
        shard=_SHARD,
        documents=documents,
        bytes=0,
        tokens=int(counts.sum()),
        input={"imported": digest},
        engine={"name": "trimbed 0.0.4"},
    )
    opened.commit(name, _SHARD, counts=counts, samples=samples, record=record)
    warnings = [
        f"{path.name} doesn't say which tokenizer counted it: that it was {spec.source} is taken on trust; its ids fit",
        "nor does it say which corpus was counted; a later trimbed count of that corpus would count it twice",
        "weights of trimbed 0.0.4 are rounded into its numbers, and its datasets are added up: they come in as they "
        "are, as one source",
        "there are no pieces, so exact costs of a policy can't be had, and the number of bytes is unknown",
    ]
    left_out = len(texts) - len(samples)
    if left_out:
        warnings.append(f"{left_out} of {len(texts)} sample texts are too long to be kept, or more than are asked for")
    found = int((counts > 0).sum())
    return Imported(name, documents, int(counts.sum()), found, len(samples), tuple(warnings))


def _read(path: Path, raw: bytes, spec: TokenizerSpec) -> tuple[np.ndarray, int, list[str]]:
    """int64[vocab_size], the number of documents, and the sample texts."""
    try:
        data: Any = json.loads(raw)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    needed = ("counts", "total_num_tokens", "num_documents")
    if not isinstance(data, dict) or any(key not in data for key in needed):
        raise UsageError(f"{path} is no counts file of trimbed 0.0.4, which has {', '.join(needed)}")
    if not isinstance(data["counts"], dict):
        raise UsageError(f"{path}: counts is no object of token ids and numbers")
    total, documents, texts = data["total_num_tokens"], data["num_documents"], data.get("samples") or []
    if not _is_amount(total) or not _is_amount(documents):
        raise UsageError(f"{path}: total_num_tokens and num_documents must be whole numbers, 0 or more")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{path}: samples is no list of texts")
    counts = np.zeros(spec.vocab_size, dtype=np.int64)
    for key, number in data["counts"].items():
        if not (key.isascii() and key.isdigit()) or not _is_amount(number):
            raise UsageError(f"{path}: counts has {key!r}: {number!r}; it must be a token id and a whole number")
        index = int(key)
        if index >= spec.vocab_size or spec.tokens[index] is None:
            raise UsageError(
                f"{path} counts token {index}, which {spec.source} doesn't have ({spec.vocab_size:,} ids); "
                "name the tokenizer it was counted with"
            )
        counts[index] = number
    if int(counts.sum()) != total:
        raise UsageError(
            f"{path}: the counts add up to {int(counts.sum()):,}, but total_num_tokens says {total:,}; it is damaged"
        )
    return counts, documents, texts


def _is_amount(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _open(cache: str, spec: TokenizerSpec, source: str, digest: str) -> CountsCache:
    """The cache with ``source`` in its manifest; an existing one keeps its settings."""
    from trimbed.counting.config import CorpusConfig
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.manifest import Manifest, SourceIdentity

    tokenizer = spec.for_counting()
    defaults = CorpusConfig()
    settings: dict[str, Any] = {"keep_pieces": defaults.keep_pieces, "sample_size": defaults.sample_size}
    engine: dict[str, str] = {"name": "import"}
    try:
        present = CountsCache.open(cache).manifest
        settings, engine = dict(present.settings), dict(present.engine)
    except CacheError as error:
        if isinstance(error, CacheMismatch):
            raise
    sources = {source: SourceIdentity(identity={"imported": digest}, plan_hash=digest, shards=1)}
    manifest = Manifest.new(tokenizer=tokenizer.identity(), engine=engine, settings=settings, sources=sources)
    opened = CountsCache.create_or_open(cache, manifest)
    opened.write_vocabulary(tokenizer.vocabulary)
    return opened


def _samples(texts: list[str], source: str) -> list[Sample]:
    from trimbed.storage.records import SAMPLE_BYTES, Sample, bottom_samples

    found = []
    for row, text in enumerate(texts):
        encoded = text.encode("utf-8", "surrogatepass")
        if len(encoded) <= SAMPLE_BYTES and len(text.encode("utf-8", "replace")) == len(encoded):
            order = int.from_bytes(hashlib.sha256(encoded).digest()[:8], "big") >> 1
            found.append(Sample(order=order, source=source, shard=_SHARD, row=row, text=text))
    return bottom_samples(found, size=len(found))

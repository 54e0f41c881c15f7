"""Small caches for the tests: a manifest, shards with known counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from trimbed.storage.cache import CountsCache
from trimbed.storage.manifest import Manifest, SourceIdentity, TokenizerIdentity
from trimbed.storage.records import Sample, ShardRecord

VOCAB = 16
TOKENIZER = TokenizerIdentity(fingerprint="f" * 64, source="made", vocab_size=VOCAB, file="tokenizer.json")


def manifest(*sources: str, shards: int = 3, vocab_size: int = VOCAB, **settings: object) -> Manifest:
    return Manifest.new(
        tokenizer=TOKENIZER.model_copy(update={"vocab_size": vocab_size}),
        engine={"name": "reference"},
        settings={"sample_size": 4, **settings},  # type: ignore[arg-type]
        sources={
            name: SourceIdentity(identity={"path": name}, plan_hash=f"plan of {name}", shards=shards)
            for name in sources
        },
    )


def dense(counts: Mapping[int, int], vocab_size: int = VOCAB) -> np.ndarray:
    array = np.zeros(vocab_size, dtype=np.int64)
    for index, count in counts.items():
        array[index] = count
    return array


def pieces(*rows: tuple[bytes, bool, int]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    types = [("piece", pa.binary()), ("initial", pa.bool_()), ("count", pa.int64())]
    return pa.table({name: pa.array(c, kind) for (name, kind), c in zip(types, columns, strict=True)})


def put(
    cache: CountsCache,
    source: str,
    shard: str,
    counts: Mapping[int, int],
    *,
    documents: int = 2,
    samples: Sequence[Sample] = (),
    pieces: pa.Table | None = None,
    **fields: object,
) -> ShardRecord:
    array = dense(counts, cache.manifest.tokenizer.vocab_size)
    record = ShardRecord(
        source=source,
        shard=shard,
        documents=documents,
        bytes=100,
        tokens=int(array.sum()),
        input={"extents": [shard]},
        engine={"name": "reference"},
        **fields,  # type: ignore[arg-type]
    )
    return cache.commit(source, shard, counts=array, pieces=pieces, samples=samples, record=record)


def vocabulary(vocab_size: int = VOCAB) -> pa.Table:
    return pa.table(
        {
            "token_id": pa.array(range(vocab_size), pa.int32()),
            "token": [f"t{i}" for i in range(vocab_size)],
            "surface": [None if i == 0 else f"s{i}" for i in range(vocab_size)],
            "kind": ["special" if i == 0 else "normal" for i in range(vocab_size)],
            "script": [None if i % 2 else "Latin" for i in range(vocab_size)],
        }
    )


def sample(source: str, shard: str, row: int, order: int) -> Sample:
    return Sample(order=order, source=source, shard=shard, row=row, text=f"{shard}, row {row}")


def full(location: str | Path) -> CountsCache:
    """Two sources, three shards each, with pieces and samples."""
    cache = CountsCache.create_or_open(location, manifest("de", "nl/dutch", keep_pieces=100))
    cache.write_vocabulary(vocabulary())
    for source, base in (("de", 1), ("nl/dutch", 10)):
        for index in range(3):
            shard = f"{index:08d}"
            put(
                cache,
                source,
                shard,
                {1: base, 2: base * index, 3 + index: 7},
                samples=[sample(source, shard, row, order=base * 100 + row * 10 + index) for row in range(3)],
                pieces=pieces((b"a", False, base), (b"b", True, index + 1), (b"\xff", False, 1)),
                skipped_rows={"null": index},
            )
    return cache


def files(root: str | Path, *, ending: str = "") -> dict[str, bytes]:
    """Every file below ``root`` with its bytes, without locks."""
    top = Path(root)
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.name.endswith(ending) and "locks" not in path.parts
    }

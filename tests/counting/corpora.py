"""Corpora for the counting tests: documents that are awkward on purpose, and files of every format that hold them."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trimbed.counting.config import DatasetConfig
from trimbed.counting.readers import read_shard
from trimbed.counting.shards import Source
from trimbed.counting.sources import resolve_source

_PARTS = ["a", "é", "\n", '"', "日本", ",", "\r\n", " the", "🙂", "{", "}", "\\", "  ", "\t", "end"]


def documents(number: int, *, seed: int = 1, longest: int = 60) -> list[str]:
    """Documents with quotes, line ends, delimiters and several scripts; some are empty."""
    chance = random.Random(seed)
    return ["".join(chance.choices(_PARTS, k=chance.randint(0, longest))) for _ in range(number)]


def one_line(texts: Sequence[str]) -> list[str]:
    """The same without line ends, none of them empty."""
    return [text.replace("\n", " ").replace("\r", " ") + "." for text in texts]


def write_jsonl(path: Path, texts: Sequence[str | None]) -> Path:
    lines = [json.dumps({"id": n, "text": text}, ensure_ascii=n % 2 == 0) for n, text in enumerate(texts)]
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


def write_csv(path: Path, texts: Sequence[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows(enumerate(texts))
    return path


def write_parquet(path: Path, texts: Sequence[str | None], *, rows: int = 37) -> Path:
    table = pa.table({"id": list(range(len(texts))), "text": pa.array(texts, pa.string())})
    pq.write_table(table, path, row_group_size=rows, compression="zstd")
    return path


def write_text(path: Path, texts: Sequence[str]) -> Path:
    path.write_bytes("\n".join(texts).encode())
    return path


def write_gzip(path: Path, source: Path) -> Path:
    """Two gzip members, as rotating writers leave them."""
    data = source.read_bytes()
    path.write_bytes(gzip.compress(data[: len(data) // 3]) + gzip.compress(data[len(data) // 3 :]))
    return path


def write_zstd(path: Path, source: Path) -> Path:
    """Two zstd frames."""
    data = source.read_bytes()
    frames = [data[: len(data) // 3], data[len(data) // 3 :]]
    path.write_bytes(b"".join(pa.compress(frame, codec="zstd", asbytes=True) for frame in frames))
    return path


@dataclass(frozen=True)
class Rows:
    """All that a source's shards give, in order."""

    texts: list[str | None]
    skipped: dict[str, int]
    replaced: int
    source: Source

    @property
    def documents(self) -> list[str]:
        return [text for text in self.texts if text is not None]


def read_all(dataset: DatasetConfig, *, shard_bytes: int = 1000, batch_bytes: int = 300) -> Rows:
    """Resolve and read a dataset, shard by shard."""
    source = resolve_source(dataset, shard_bytes=shard_bytes)
    texts: list[str | None] = []
    skipped: Counter[str] = Counter()
    replaced = 0
    for shard in source.shards:
        for batch in read_shard(shard, batch_bytes=batch_bytes):
            texts += batch.texts.to_pylist()
            skipped.update(batch.skipped)
            replaced += batch.replaced
    return Rows(texts, dict(skipped), replaced, source)

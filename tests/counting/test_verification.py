"""The self-check: an engine that differs from the library in one document fails the shard, and shows the document."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import runs

from trimbed.counting import worker
from trimbed.counting.engine import EngineRecipe, Tally, TextCounts
from trimbed.counting.reference import ReferenceEngine
from trimbed.counting.sampling import DocumentSample
from trimbed.storage.cache import CountsCache


class Careless:
    """Counts as the library does, but for documents with a certain word in them."""

    name = "careless"

    def __init__(self, recipe: EngineRecipe) -> None:
        self._engine = ReferenceEngine(recipe)
        self.vocab_size = self._engine.vocab_size

    def identity(self) -> Mapping[str, str]:
        return {"name": self.name}

    def tally(self) -> Tally:
        return CarelessTally(self._engine.tally())


class CarelessTally:
    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._wrong = 0

    def add(self, texts: pa.Array) -> None:
        self._tally.add(texts)
        self._wrong += pc.sum(pc.match_substring(texts, "trouble")).as_py() or 0

    def finish(self) -> TextCounts:
        counts = self._tally.finish()
        counts.counts[0] += self._wrong
        return counts


def test_a_difference_fails_the_shard_and_keeps_the_document_beside_the_cache(
    tiny_bpe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "load_engine", Careless)
    texts = [f"document {n}" for n in range(300)]
    texts[7] = "a document with trouble in it"
    path = corpora.write_parquet(tmp_path / "a.parquet", texts, rows=30)
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}], shard_megabytes=0.0004)
    assert result.exit_code == 1 and result.missing == 1
    (failed,) = result.failed
    assert "careless and the reference library count row 7" in str(failed.failure)
    (saved,) = (tmp_path / "counts.differences").iterdir()
    assert saved.read_text(encoding="utf-8") == texts[7]
    assert str(saved) in str(failed.failure)


def test_an_engine_without_differences_passes(
    tiny_bpe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "load_engine", Careless)
    path = corpora.write_jsonl(tmp_path / "a.jsonl", corpora.documents(100))
    assert runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}]).exit_code == 0


def test_kept_pieces_and_engine_options_are_no_matter_of_the_check(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    """The reference engine, which knows neither, must still check what the kernel counted."""
    texts = corpora.documents(200)
    path = corpora.write_parquet(tmp_path / "a.parquet", texts, rows=30)
    settings = {"engine": "kernel", "engine_options": {"table_pieces": 50}, "keep_pieces": 20}
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}], **settings)
    assert result.failed == () and result.exit_code == 0
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, texts))
    cache = CountsCache.open(str(tmp_path / "counts"))
    records = cache.committed("a").values()
    assert all(record.engine["name"] == "kernel" and record.files["pieces"].rows <= 20 for record in records)
    assert all(record.pieces_dropped > 0 and record.pieces_dropped_count >= record.pieces_dropped for record in records)
    assert all(record.seconds is not None and record.seconds >= 0 for record in records)


def test_pieces_are_kept_unless_told_otherwise_and_the_reference_engine_keeps_none(
    tiny_bpe: dict[str, Any], tmp_path: Path
) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", corpora.documents(200), rows=30)
    for engine in ("kernel", "reference"):
        result = runs.run(tiny_bpe, tmp_path / engine, [{"path": str(path)}], engine=engine)
        assert result.exit_code == 0
    kept = CountsCache.open(str(tmp_path / "kernel"))
    assert kept.pieces().num_rows > 20
    assert {record.pieces_dropped for record in kept.committed("a").values()} == {0}
    assert CountsCache.open(str(tmp_path / "reference")).pieces().num_rows == 0


def test_an_engine_that_loses_documents_fails_the_shard(
    tiny_bpe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    class Losing(CarelessTally):
        def finish(self) -> TextCounts:
            counts = super().finish()
            return replace(counts, documents=counts.documents - 1)

    monkeypatch.setattr(worker, "load_engine", Careless)
    monkeypatch.setattr(Careless, "tally", lambda self: Losing(self._engine.tally()))
    path = corpora.write_jsonl(tmp_path / "a.jsonl", ["one", "two"])
    (failed,) = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}]).failed
    assert "counted 1 documents of 2" in str(failed.failure)


def test_the_sample_is_the_same_however_rows_come_in_batches() -> None:
    texts = [*corpora.documents(500), "x" * 100_000]
    found = []
    for size in (1, 7, 1000):
        sample = DocumentSample("a", "00000000", size=9, max_bytes=1000)
        for start in range(0, len(texts), size):
            sample.add(start, pa.array(texts[start : start + size]))
        found.append(sample.documents())
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 9
    assert all(texts[row] == text and 0 < len(text.encode()) <= 1000 and order < 2**63 for order, row, text in found[0])
    other = DocumentSample("a", "00000001", size=9, max_bytes=1000)
    other.add(0, pa.array(texts))
    assert [row for _, row, _ in other.documents()] != [row for _, row, _ in found[0]]

"""Counts of real text, 30 MB of code and prose in many scripts: the library's, whatever the workers and batches."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import made
import runs

from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BYTES = int(os.environ.get("TRIMBED_CORPUS_BYTES", 30_000_000))


def real_texts() -> list[str]:
    """Sources and documents of Python and of the installed packages, with sentences of many scripts between them."""
    texts: list[str] = []
    size = 0
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix in (".py", ".md", ".rst", ".txt", ".po", ".html") and path.is_file():
                texts.append(path.read_bytes().decode("utf-8", "replace"))
                texts.append(made.SENTENCES[len(texts) % len(made.SENTENCES)])
                size += len(texts[-2].encode())
                if size >= BYTES:
                    return texts
    return texts


def test_counts_of_a_real_corpus_are_the_librarys_for_any_workers_and_batches(
    deepseek_folder: Path, tmp_path: Path
) -> None:
    """Invariants 1 and 2."""
    texts = real_texts()
    path = corpora.write_parquet(tmp_path / "a.parquet", texts, rows=200)
    tokenizer = deepseek_folder / "tokenizer.json"
    expected = runs.library_counts(made_document(tokenizer), texts)
    contents = []
    for workers, batch, engine in (
        (1, 4.0, "reference"),
        (2, 0.1, "reference"),
        (4, 16.0, "reference"),
        (2, 4.0, "auto"),
    ):
        corpus = CorpusConfig.model_validate(
            {"datasets": [{"path": str(path)}], "workers": workers, "batch_megabytes": batch, "engine": engine}
            | {"shard_megabytes": 4}
        )
        cache = tmp_path / f"{workers}-{batch}-{engine}"
        assert CorpusCounter(tokenizer, corpus, cache).run().exit_code == 0
        assert np.array_equal(runs.cached_counts(cache), expected)
        # The library cuts no pieces, so only the kernel keeps any.
        found = runs.content(cache).items()
        contents.append(
            {name: rows for name, rows in found if name.endswith(".parquet") and not name.startswith("pieces/")}
        )
    assert all(content == contents[0] for content in contents)


def made_document(tokenizer: Path) -> dict[str, object]:
    import json

    document: dict[str, object] = json.loads(tokenizer.read_text(encoding="utf-8"))
    return document

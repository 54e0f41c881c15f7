"""The exact cost of a policy on 30 MB of real text is what the really trimmed tokenizers make of that text."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from trimbed.counting.config import CorpusConfig, DatasetConfig
from trimbed.counting.counter import CorpusCounter
from trimbed.selection.cost import PieceCosts
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.select import select_tokens
from trimbed.storage.cache import CountsCache
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.surgery import trim_document

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BYTES = int(os.environ.get("TRIMBED_CORPUS_BYTES", 30_000_000))
BATCH = 200

POLICIES = [
    SelectionConfig(coverage=0.9),
    SelectionConfig(coverage=0.999, keep_texts=["Die Straße war völlig überflutet."]),
    SelectionConfig(coverage=1.0, max_vocab_size=6_000),
    SelectionConfig(coverage=1.0, max_vocab_size=9_000, cap_order="frequency"),
    SelectionConfig(min_count=20, keep_presets=["script:Greek"]),
]


def sources() -> Iterator[str]:
    """Python's own library: all sources below its folder, but not what was installed into it."""
    size = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" not in path.parts and size < BYTES:
            text = path.read_bytes().decode("utf-8", "replace")
            size += len(text.encode())
            yield text


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    return {"code": list(sources()), "prose": made.SENTENCES * 500}


def really(document: dict[str, object], texts: list[str]) -> int:
    """The number of tokens, by encoding every text whole."""
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return sum(
        len(encoding)
        for first in range(0, len(texts), BATCH)
        for encoding in tokenizer.encode_batch_fast(texts[first : first + BATCH], add_special_tokens=False)
    )


@pytest.mark.parametrize("model", ["deepseek_folder", "minilm_folder"])
def test_five_policies_cost_what_encoding_everything_again_gives(
    model: str, texts: dict[str, list[str]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spec = TokenizerSpec.load(request.getfixturevalue(model))
    for name, rows in texts.items():
        pq.write_table(pa.table({"text": rows}), tmp_path / f"{name}.parquet", row_group_size=BATCH)
    datasets = [DatasetConfig(path=str(tmp_path / f"{name}.parquet"), source=name) for name in texts]
    corpus = CorpusConfig(datasets=datasets, keep_pieces=5_000_000)
    assert CorpusCounter(spec.for_counting(), corpus, tmp_path / "counts").run().exit_code == 0
    cache = CountsCache.open(str(tmp_path / "counts"))
    counts = cache.read_counts()
    assert {name: int(numbers.sum()) for name, numbers in counts.by_source.items()} == {
        name: really(spec.document.data, rows) for name, rows in texts.items()
    }
    costs = PieceCosts.from_cache(cache, spec.document.data, counts)
    for policy in POLICIES:
        selection = select_tokens(spec, counts, policy)
        assert len(selection) < spec.vocab_size
        document, _ = trim_document(spec.document.data, selection.kept)
        row = costs.columns(selection.mask)
        encoded = {name: really(document, rows) for name, rows in texts.items()}
        assert {name: row[f"tokens:{name}"] for name in texts} == encoded, policy
        assert row["tokens"] == sum(encoded.values())

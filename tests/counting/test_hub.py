"""The Hub path, against a Hub on loopback: revisions are pinned, files read in place, errors clear."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import hub_server
import runs

PROGRAM = Path(__file__).with_name("counting_process.py")
TEXTS = corpora.documents(300)
CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
  - split: test
    path: data/test-*.parquet
---
"""


@pytest.fixture(scope="module")
def hub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    owner = folder / "datasets" / "owner"
    data = owner / "data"
    for name in ("data/data", "lines", "array"):
        (owner / name).mkdir(parents=True)
    corpora.write_parquet(data / "data" / "train-0.parquet", TEXTS[:150])
    corpora.write_parquet(data / "data" / "train-1.parquet", TEXTS[150:])
    corpora.write_parquet(data / "data" / "test-0.parquet", TEXTS[:7])
    corpora.write_jsonl(owner / "lines" / "a.jsonl", TEXTS)
    (owner / "array" / "a.json").write_text(json.dumps([{"text": text} for text in TEXTS]), encoding="utf-8")
    (data / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def count(
    hub: hub_server.Hub, folder: Path, document: dict[str, Any], **dataset: Any
) -> subprocess.CompletedProcess[str]:
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    corpus = {
        "datasets": [{"path": "owner/data"} | dataset],
        "workers": 1,
        "engine": "reference",
        "shard_megabytes": 0.01,
    }
    environment = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(folder / "home"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder / "tokenizer.json"), str(folder / "counts"), json.dumps(corpus)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dataset", "texts"),
    [
        ({}, TEXTS),
        ({"split": "test"}, TEXTS[:7]),
        ({"path": "owner/lines", "max_samples": 20}, TEXTS[:20]),
        ({"path": "owner/array"}, TEXTS),
        ({"path": "owner/lines", "streaming": False}, TEXTS),
    ],
    ids=["default", "split", "lines", "array", "prepared"],
)
def test_a_hub_dataset_is_counted_exactly_at_a_pinned_commit(
    hub_folder: Path, tmp_path: Path, tiny_bpe: dict[str, Any], dataset: dict[str, Any], texts: list[str]
) -> None:
    with hub_server.serving(hub_folder) as hub:
        done = count(hub, tmp_path, tiny_bpe, **dataset)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, texts))
    manifest = json.loads((tmp_path / "counts" / "manifest.json").read_text(encoding="utf-8"))
    (source,) = manifest["sources"].values()
    assert source["identity"]["revision"] == hub_server.COMMIT


@pytest.mark.parametrize(
    ("dataset", "message", "code"),
    [
        ({"path": "owner/none"}, "nor a dataset on the Hub", 2),
        ({"revision": "v9"}, "there is no revision 'v9'", 2),
        ({"split": "dev"}, "no split 'dev'; it has 'train', 'test'", 2),
        ({"name": "other"}, "other", 2),
        ({"text_column": "body"}, "no column 'body'", 1),
    ],
)
def test_what_the_hub_does_not_have_is_a_clear_error(
    hub_folder: Path, tmp_path: Path, tiny_bpe: dict[str, Any], dataset: dict[str, Any], message: str, code: int
) -> None:
    with hub_server.serving(hub_folder) as hub:
        done = count(hub, tmp_path, tiny_bpe, **dataset)
    assert message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code
    assert not (tmp_path / "counts").exists()

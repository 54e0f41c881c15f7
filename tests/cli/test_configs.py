"""Each example configuration does what it says, on a tokenizer of its kind and a small corpus."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
KINDS = {
    "byte_level_bpe": "bpe",
    "sentencepiece_bpe": "metaspace_bpe",
    "unigram": "unigram",
    "wordpiece": "wordpiece",
}


def trimbed(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trimbed", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", KINDS)
def test_the_example_counts_selects_sweeps_and_trims(name: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(made.tiny(KINDS[name])), encoding="utf-8")
    for source in ("one", "two", "three"):
        texts = made.SENTENCES if source != "two" else made.stdlib_texts(50_000)
        pq.write_table(pa.table({"text": texts, "body": texts}), tmp_path / f"{source}.parquet")
    config = str(CONFIGS / f"{name}.yaml")
    overrides = ["model.path=model", "cache=counts", "output=trimmed", "corpus.workers=1"]
    for index, source in enumerate(("one", "two", "three")):
        text = Path(config).read_text(encoding="utf-8")
        if text.count("path:") - 1 > index:
            overrides += [f"corpus.datasets.{index}.{key}=null" for key in ("name", "split")]
            overrides.append(f"corpus.datasets.{index}.path={source}.parquet")
    # The tiny vocabularies have fewer tokens than the caps of the real ones leave room for.
    overrides += ["selection.max_vocab_size=null", "sweep.max_vocab_size=null"] if "bpe" in name else []
    overrides = [o for o in overrides if o != "sweep.max_vocab_size=null"]

    trimbed("count", "-c", config, *overrides, folder=tmp_path)
    rows = json.loads(trimbed("sweep", "-c", config, "--json", *overrides, folder=tmp_path))
    trimbed("trim", "-c", config, *overrides, folder=tmp_path)

    assert len(rows) >= 3
    report = json.loads((tmp_path / "trimmed" / "trim_report.json").read_text(encoding="utf-8"))
    trimmed = json.loads((tmp_path / "trimmed" / "tokenizer.json").read_text(encoding="utf-8"))
    assert trimmed["model"]["vocab"]
    assert report

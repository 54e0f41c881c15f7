"""The real MiniLM checkpoint, cut to what a German and English corpus needs: the same embeddings, from counts to model.

Slow suite: it runs two sentence transformers and loads PyTorch.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trimbed.counting.config import CorpusConfig, DatasetConfig
from trimbed.counting.counter import CorpusCounter
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.select import select_tokens
from trimbed.storage.cache import CountsCache
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.trim import trim

pytestmark = pytest.mark.slow

ENGLISH = [
    "The ferry leaves the harbour at seven, so we should be at the quay by half past six.",
    "She found the old letters in a box under the stairs and read them all in one evening.",
    "Please send the signed form back before the end of the month.",
    "After the storm the road to the village was closed for three days.",
    "The committee asked for a shorter report with fewer tables and more examples.",
    "Water boils at a lower temperature in the mountains than at the sea.",
    "Our neighbours keep bees, and in summer they give us a jar of honey.",
    "The train was late again, and nobody at the station knew why.",
    "He repaired the bicycle himself, although it took him the whole weekend.",
    "A good translation keeps the tone of the original, not only its words.",
]
GERMAN = [
    "Die Fähre fährt um sieben Uhr ab, also sollten wir um halb sieben am Hafen sein.",
    "Sie fand die alten Briefe in einer Kiste unter der Treppe und las sie alle an einem Abend.",
    "Bitte schicken Sie das unterschriebene Formular bis zum Ende des Monats zurück.",
    "Nach dem Gewitter war die Straße ins Dorf drei Tage lang gesperrt.",
    "Der Ausschuss wünschte sich einen kürzeren Bericht mit weniger Tabellen und mehr Beispielen.",
    "In den Bergen kocht Wasser bei einer niedrigeren Temperatur als am Meer.",
    "Unsere Nachbarn halten Bienen und schenken uns im Sommer ein Glas Honig.",
    "Der Zug hatte wieder Verspätung, und niemand am Bahnhof wusste warum.",
    "Er hat das Fahrrad selbst repariert, obwohl es das ganze Wochenende gedauert hat.",
    "Eine gute Übersetzung bewahrt den Ton des Originals und nicht nur seine Wörter.",
]
RARE = ["Quizzical axolotls juxtapose zeppelins.", "Der Zwerg zeichnet Xylophone."]


@pytest.fixture(scope="module")
def trimmed(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM, counted on the corpus, selected by coverage, trimmed with its weights and proved."""
    folder = tmp_path_factory.mktemp("minilm")
    # What is frequent is said often, so that a coverage below 1 drops the rare sentences alone.
    for name, rows in (("english", ENGLISH * 50), ("german", GERMAN * 50 + RARE)):
        pq.write_table(pa.table({"text": rows}), folder / f"{name}.parquet")
    spec = TokenizerSpec.load(minilm_folder)
    datasets = [DatasetConfig(path=str(folder / f"{name}.parquet"), source=name) for name in ("english", "german")]
    run = CorpusCounter(spec.for_counting(), CorpusConfig(datasets=datasets, workers=1), folder / "counts").run()
    assert run.exit_code == 0
    counts = CountsCache.open(str(folder / "counts")).read_counts()
    selection = select_tokens(spec, counts, SelectionConfig(coverage=0.999))
    report = trim(spec, selection, folder / "small", counts=counts)
    assert report.verification is not None and report.verification.passed
    assert report.verification.model is not None
    assert report.tokens.after < report.tokens.before / 10
    return folder / "small"


def test_sentence_embeddings_of_kept_texts_are_the_originals(minilm_folder: Path, trimmed: Path) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ENGLISH + GERMAN
    spec, small = TokenizerSpec.load(minilm_folder), TokenizerSpec.load(trimmed)
    for text in texts:
        assert [small.tokens[index] for index in small.encode(text)] == [spec.tokens[i] for i in spec.encode(text)]
    assert all(len(small.encode(text)) > len(spec.encode(text)) or small.unk_id in small.encode(text) for text in RARE)
    old = SentenceTransformer(str(minilm_folder), device="cpu").encode(texts)
    new = SentenceTransformer(str(trimmed), device="cpu").encode(texts)
    assert old.shape == new.shape == (len(texts), 384)
    assert np.abs(old - new).max() <= 1e-5
    assert np.abs(np.linalg.norm(new, axis=1) - 1).max() <= 1e-5  # the normalising module came along


def test_transformers_loads_model_and_tokenizer_and_gives_the_same_states(minilm_folder: Path, trimmed: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    states = []
    for folder in (minilm_folder, trimmed):
        tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
        assert len(tokenizer) == model.get_input_embeddings().num_embeddings
        with torch.no_grad():
            states.append(model(**tokenizer(ENGLISH + GERMAN, padding=True, return_tensors="pt")).last_hidden_state)
    assert states[0].shape == states[1].shape
    assert (states[0] - states[1]).abs().max() <= 1e-5


def test_the_side_files_agree_with_the_tokenizer_and_the_weights(minilm_folder: Path, trimmed: Path) -> None:
    from transformers import BertTokenizer

    small = TokenizerSpec.load(trimmed)
    assert (trimmed / "vocab.txt").read_text(encoding="utf-8").splitlines() == small.tokens
    assert json.loads((trimmed / "config.json").read_text())["vocab_size"] == small.vocab_size
    by_file = BertTokenizer(str(trimmed / "vocab.txt"), do_lower_case=True)
    for text in ENGLISH + GERMAN:
        assert by_file(text, add_special_tokens=False)["input_ids"] == small.encode(text)
    assert sorted(p.name for p in trimmed.iterdir() if "token" in p.name or "vocab" in p.name) == sorted(
        p.name for p in minilm_folder.iterdir() if "token" in p.name or "vocab" in p.name
    )

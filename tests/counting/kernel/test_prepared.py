"""What loading the kernel takes is made once and sent: workers count the same with it and make nothing themselves."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import made
import numpy as np
import pyarrow as pa
import pytest

from trimbed.counting.engine import EngineRecipe, load_engine, prepare_recipe
from trimbed.counting.kernel import prepared
from trimbed.storage.errors import TokenizerError, UsageError

TEXTS = [*made.SENTENCES, "", "a <|im_start|> b"]
WORKER = """
import pickle, sys
import pyarrow as pa
from trimbed.counting.engine import load_engine
recipe, texts = pickle.load(open(sys.argv[1], "rb"))
tally = load_engine(recipe).tally()
tally.add(pa.array(texts, pa.string()))
counts = tally.finish().counts.tolist()
makers = [name for name in ("trimbed.counting.plan.derive", "trimbed.counting.encoders") if name in sys.modules]
pickle.dump((counts, makers), open(sys.argv[1], "wb"))
"""


def counted(recipe: EngineRecipe) -> np.ndarray:
    tally = load_engine(recipe).tally()
    tally.add(pa.array(TEXTS, pa.string()))
    counts: np.ndarray = tally.finish().counts
    return counts


def refuse(*_: Any) -> Any:
    raise AssertionError("made again")


@pytest.mark.parametrize("name", made.TINY)
def test_a_recipe_prepared_and_pickled_counts_as_one_that_is_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = EngineRecipe("auto", json.dumps(made.tiny(name)))
    expected = counted(replace(recipe, name="reference"))
    sent = pickle.loads(pickle.dumps(prepare_recipe(recipe)))
    monkeypatch.setattr("trimbed.counting.kernel.engine.prepare", refuse)
    assert np.array_equal(counted(sent), expected)
    assert sent == recipe


def test_a_process_that_is_sent_a_prepared_recipe_loads_nothing_that_makes_one(tmp_path: Path) -> None:
    recipe = prepare_recipe(EngineRecipe("kernel", json.dumps(made.tiny("bpe"))))
    expected = counted(replace(recipe, name="reference"))
    path = tmp_path / "sent"
    path.write_bytes(pickle.dumps((recipe, TEXTS)))
    subprocess.run([sys.executable, "-c", WORKER, str(path)], check=True, timeout=120, cwd=tmp_path)
    counts, makers = pickle.loads(path.read_bytes())
    assert counts == expected.tolist()
    assert makers == []


def test_arrays_that_cannot_be_written_to_are_as_good() -> None:
    """Ray gives its workers views of shared memory."""
    recipe = prepare_recipe(EngineRecipe("kernel", json.dumps(made.tiny("metaspace_bpe"))))
    buffers: list[Any] = []
    data = pickle.dumps(recipe, protocol=5, buffer_callback=buffers.append)
    sent = pickle.loads(data, buffers=[memoryview(buffer.raw().tobytes()) for buffer in buffers])
    assert not sent.prepared.plan.classes.flags.writeable
    assert np.array_equal(counted(sent), counted(replace(recipe, name="reference")))


def test_what_another_version_of_the_library_was_asked_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = prepare_recipe(EngineRecipe("kernel", json.dumps(made.tiny("bpe"))))
    foreign = replace(recipe, prepared=replace(recipe.prepared, library="0.0.0", vocab_size=1))
    asked: list[str] = []

    def again(text: str) -> prepared.PreparedKernel:
        asked.append(text)
        return prepared.prepare(text)

    monkeypatch.setattr("trimbed.counting.kernel.engine.prepare", again)
    assert np.array_equal(counted(foreign), counted(replace(recipe, name="reference")))
    assert asked == [recipe.document]


def test_without_a_plan_the_reason_is_sent() -> None:
    document = made.tiny("bpe")
    document["model"]["dropout"] = 0.5
    recipe = prepare_recipe(EngineRecipe("auto", json.dumps(document)))
    assert "dropout" in recipe.prepared.plan.reason
    assert load_engine(recipe).name == "reference"
    with pytest.raises(UsageError, match="dropout"):
        load_engine(replace(recipe, name="kernel"))


def test_the_reference_engine_needs_no_preparation() -> None:
    recipe = EngineRecipe("reference", json.dumps(made.tiny("bpe")))
    assert prepare_recipe(recipe) is recipe


@pytest.mark.parametrize("document", ["", "{}", "[]", "not json"])
def test_a_broken_document_is_an_error_where_it_is_loaded(document: str) -> None:
    recipe = prepare_recipe(EngineRecipe("auto", document))
    assert recipe.prepared is None
    with pytest.raises(TokenizerError):
        load_engine(recipe)

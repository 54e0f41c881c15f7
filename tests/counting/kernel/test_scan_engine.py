"""The kernel as an engine: real tokenizers, fallbacks, options, identity."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import made
import numpy as np
import pyarrow as pa
import pytest
import scan_checks as checks
from tokenizers import AddedToken, Tokenizer

from trimbed.counting.engine import EngineRecipe, load_engine
from trimbed.counting.kernel import load_kernel_engine
from trimbed.storage.errors import TokenizerError, UsageError


def counted(engine: Any, texts: list[str]) -> np.ndarray:
    tally = engine.tally()
    tally.add(pa.array(texts, pa.string()))
    counts: np.ndarray = tally.finish().counts
    return counts


def same_as_the_library(document: str, texts: list[str]) -> Any:
    engine = load_engine(EngineRecipe("kernel", document))
    reference = load_engine(EngineRecipe("reference", document))
    assert engine.vocab_size == reference.vocab_size
    assert np.array_equal(counted(engine, texts), counted(reference, texts))
    return engine


@pytest.mark.parametrize("name", made.TINY)
def test_small_tokenizers_of_every_kind_count_as_the_library_does(name: str) -> None:
    """Invariant 1."""
    texts = [*made.SENTENCES, "", " ", "\n\n", *made.stdlib_texts(60_000)]
    engine = load_engine(EngineRecipe("auto", json.dumps(made.tiny(name))))
    reference = load_engine(EngineRecipe("reference", json.dumps(made.tiny(name))))
    assert engine.vocab_size == reference.vocab_size
    assert np.array_equal(counted(engine, texts), counted(reference, texts))


def test_a_real_byte_level_tokenizer_counts_as_the_library_does(deepseek_folder: Path) -> None:
    """Invariant 1."""
    same_as_the_library(
        (deepseek_folder / "tokenizer.json").read_text("utf-8"), made.SENTENCES + made.stdlib_texts(150_000)
    )


def test_a_real_wordpiece_tokenizer_counts_as_the_library_does(minilm_folder: Path) -> None:
    """Invariant 1, with truncation and padding in the file."""
    texts = made.SENTENCES + made.stdlib_texts(150_000)
    engine = same_as_the_library((minilm_folder / "tokenizer.json").read_text("utf-8"), texts)
    assert engine.identity() == {**engine.identity(), "name": "kernel"}


def without_a_plan() -> str:
    document = made.tiny("bpe")
    document["model"]["dropout"] = 0.5
    return json.dumps(document)


def test_a_tokenizer_without_a_plan_falls_back_and_says_why() -> None:
    engine = load_kernel_engine(EngineRecipe("auto", without_a_plan(), keep_pieces=10), required=False)
    assert engine.name == "reference"
    assert "dropout" in engine.reason  # type: ignore[attr-defined]


def test_a_required_kernel_without_a_plan_is_an_error() -> None:
    with pytest.raises(UsageError, match="dropout"):
        load_kernel_engine(EngineRecipe("kernel", without_a_plan()), required=True)


@pytest.mark.parametrize("document", ["", "{}", "[]", '{"model": {}}', "not json"])
def test_a_broken_document_is_an_error(document: str) -> None:
    with pytest.raises(TokenizerError):
        load_kernel_engine(EngineRecipe("kernel", document), required=True)


@pytest.mark.parametrize(
    "options", [{"table_size": 1}, {"table_bytes": -1}, {"table_bytes": 1.5}, {"table_pieces": True}]
)
def test_options_that_there_are_not_are_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="option"):
        load_kernel_engine(EngineRecipe("kernel", json.dumps(made.tiny("bpe")), options=options), required=True)


def test_pieces_the_native_encoder_refuses_go_to_the_library_and_are_reported() -> None:
    from trimbed.counting.encoders import make_encoder_recipe
    from trimbed.counting.kernel import _kernel

    # The document has an added token that the plan doesn't cut out: the encoder leaves pieces with it to the library.
    tokenizer = Tokenizer.from_str(checks.documents()[0])
    tokenizer.add_tokens([AddedToken("bad", normalized=False)])
    plan = replace(checks.make_plan(initial=False, added=()), inner_document=tokenizer.to_str())
    recipe = make_encoder_recipe(plan.inner_document)
    encoder = _kernel.PieceEncoder.make(recipe.pack())  # type: ignore[union-attr]
    texts = ["a b c", "a bad abad bad", "c"]
    engine = checks.kernel(plan, encoder=encoder)
    tally = engine.tally()
    tally.add(checks.text_array(texts))
    expected = np.zeros(checks.VOCABULARY_SIZE, dtype=np.int64)
    for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
        np.add.at(expected, encoding.ids, 1)
    assert np.array_equal(tally.finish().counts, expected)
    assert tally.stats()["encoded_library"] == 2
    assert tally.stats()["encoded_library_occurrences"] == 3
    assert tally.stats()["encoded_native"] > 2


def test_an_encoder_with_ids_outside_the_vocabulary_is_an_error_and_not_a_crash() -> None:
    plan = checks.make_plan(added=())
    engine = checks.kernel(plan)
    engine.vocab_size = 3
    tally = engine.tally()
    tally.add(checks.text_array(["a b c d e"]))
    with pytest.raises(ValueError, match="outside the vocabulary"):
        tally.finish()

"""The native encoders on real tokenizers that come in packages, over real text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import made
import pytest
from encode_checks import Pair, random_texts
from tokenizers import Tokenizer

_pairs: dict[str, Pair] = {}


def real(folder: Path) -> Pair:
    if folder.name not in _pairs:
        source = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        _pairs[folder.name] = Pair(source | {"truncation": None, "padding": None})
    return _pairs[folder.name]


def words(texts: list[str], limit: int) -> list[str]:
    found = dict.fromkeys(w for text in texts for w in re.findall(r"\s*\S+", text))
    return list(found)[:limit]


@pytest.mark.parametrize("name", ["deepseek_folder", "minilm_folder"])
def test_real_words_and_lines_are_encoded_natively_and_rightly(
    name: str, request: pytest.FixtureRequest, stdlib_texts: list[str]
) -> None:
    pair = real(request.getfixturevalue(name))
    pair.check_all(words(stdlib_texts[:40], 6000), at_least=0.999)
    pair.check_all([line for text in stdlib_texts[:10] for line in text.splitlines()[:150]], at_least=0.99)
    pair.check_all(made.SENTENCES)


@pytest.mark.parametrize("name", ["deepseek_folder", "minilm_folder"])
def test_provoking_texts_are_encoded_rightly(name: str, request: pytest.FixtureRequest) -> None:
    real(request.getfixturevalue(name)).check_all(random_texts(6000, seed=8), at_least=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deepseek_folder", "minilm_folder"])
def test_two_hundred_thousand_provoking_texts(name: str, request: pytest.FixtureRequest) -> None:
    pair = real(request.getfixturevalue(name))
    for seed in range(100, 120):
        many = random_texts(10_000, seed=seed)
        for text, library in zip(many, encode_batch(pair.libraries[0], many), strict=True):
            native = pair.native.encode(text.encode())
            assert native is None or native == library, repr(text)


def encode_batch(library: Tokenizer, many: list[str]) -> list[list[int]]:
    return [e.ids for e in library.encode_batch_fast(many, add_special_tokens=False)]

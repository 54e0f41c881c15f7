"""Counts by plan equal the reference's (invariant 1), for every kind of model and for real tokenizers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_texts import counts, document, planned, texts

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None)
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}


def words_of(of: Any) -> list[str]:
    vocabulary = of["model"]["vocab"]
    names = list(vocabulary) if isinstance(vocabulary, dict) else [name for name, _ in vocabulary]
    return [name.replace("▁", " ").replace("Ġ", " ").removeprefix("##") for name in names[:: max(1, len(names) // 400)]]


@pytest.fixture(scope="module")
def deepseek(deepseek_folder: Path) -> tuple[Any, Any]:
    """The document, and what ``planned`` makes of it."""
    of = json.loads((deepseek_folder / "tokenizer.json").read_text(encoding="utf-8"))
    return of, planned(of)


def counts_are_exact_for(of: Any, *, examples: int = 60, made_before: Any = None) -> None:
    plan, executor, tokenizer = made_before or planned(of)

    @settings(SETTINGS, max_examples=examples)
    @given(st.lists(texts(plan, words=words_of(of)), min_size=4, max_size=12))
    def check(documents: list[str]) -> None:
        assert executor.count(documents) == counts(tokenizer, documents)

    check()


def metaspace_bpe(**changes: Any) -> Any:
    of = made.tiny("metaspace_bpe")
    of["model"].update(changes)
    return of


def single_precision(of: Any) -> Any:
    """Scores as SentencePiece stores them: their sums are exact in double precision."""
    of["model"]["vocab"] = [[name, float(np.float32(score))] for name, score in of["model"]["vocab"]]
    return of


def without_some_bytes(of: Any) -> Any:
    names = [name for name in of["model"]["vocab"] if not (name.startswith("<0x") and name[3] in "8B")]
    of["model"]["vocab"] = {name: number for number, name in enumerate(names)}
    return of


def unigram(*, fallback: bool = False, surface: str = "<unk>", **changes: Any) -> Any:
    of = single_precision(made.tiny("unigram"))
    of["pre_tokenizer"] = METASPACE
    of["model"]["vocab"][of["model"]["unk_id"]][0] = surface
    if fallback:
        of["model"]["vocab"] += [[f"<0x{byte:02X}>", -5.0] for byte in range(256)]
        of["model"]["byte_fallback"] = True
    of.update(changes)
    return of


MODELS: dict[str, Any] = {
    "byte-level BPE": lambda: made.tiny("bpe"),
    "BPE with byte fallback": lambda: metaspace_bpe(),
    "BPE that ignores merges": lambda: {
        **metaspace_bpe(ignore_merges=True),
        "pre_tokenizer": {**METASPACE, "split": True},
    },
    "BPE that fuses unknowns": lambda: metaspace_bpe(byte_fallback=False),
    "BPE that doesn't fuse unknowns": lambda: metaspace_bpe(byte_fallback=False, fuse_unk=False),
    "BPE that drops unknowns": lambda: metaspace_bpe(byte_fallback=False, unk_token=None),
    "BPE that lacks some bytes": lambda: without_some_bytes(metaspace_bpe()),
    "BPE behind NFKC": lambda: {
        **metaspace_bpe(),
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, SPACES]},
    },
    "Unigram by words": lambda: made.tiny("unigram"),
    "Unigram": lambda: unigram(),
    "Unigram with byte fallback": lambda: unigram(fallback=True),
    "Unigram whose unknown token is a word": lambda: unigram(surface="ab", fallback=True, normalizer=None),
    "WordPiece": lambda: made.tiny("wordpiece"),
    "WordLevel": lambda: made.tiny("wordlevel"),
}


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_exact_for_every_kind_of_model(name: str) -> None:
    counts_are_exact_for(MODELS[name](), examples=30)


def test_counts_are_exact_for_deepseek(deepseek: Any) -> None:
    of, planned_once = deepseek
    counts_are_exact_for(of, made_before=planned_once, examples=40)


def test_counts_are_exact_for_minilm(minilm_folder: Path) -> None:
    of = json.loads((minilm_folder / "tokenizer.json").read_text(encoding="utf-8"))
    counts_are_exact_for(of, examples=40)


def test_counts_of_real_code_are_exact_and_few_bytes_remain(deepseek: Any, stdlib_texts: list[str]) -> None:
    _, (_, executor, tokenizer) = deepseek
    documents = stdlib_texts[:12]
    assert executor.count(documents) == counts(tokenizer, documents)
    distinct = {piece for text in documents for piece, _, _ in executor.pieces(text)}
    assert sum(map(len, distinct)) < sum(map(len, documents)) / 4


def test_a_part_of_a_word_is_not_looked_up_as_a_whole_one() -> None:
    vocabulary = {letter: number for number, letter in enumerate("helo x")} | {"he": 6, "ll": 7, "hello": 8}
    merges = [["h", "e"], ["l", "l"]]
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "ignore_merges": True}
    spaced = {"type": "WhitespaceSplit"}
    _, executor, tokenizer = planned(document(model=model, pre_tokenizer=spaced))
    for text in ["hello", "hellox", "xhello", "hellohello", "hello xhello"]:
        assert executor.count([text]) == counts(tokenizer, [text])


def test_scores_whose_sums_are_rounded_are_never_cut_inside_words() -> None:
    of = made.tiny("unigram")
    of["model"]["vocab"][10][1] = -1 / 3
    plan, _, _ = planned(of)
    assert any("rounded" in line for line in plan.explanation)
    letters = [plan.classes[ord(letter)] for letter in "qzxjQ"]
    assert not plan.cut[np.ix_(letters, letters)].any()


@pytest.mark.slow
def test_counts_are_exact_for_many_more_texts(deepseek_folder: Path, minilm_folder: Path) -> None:
    """Set TRIMBED_TOKENIZERS to a folder of folders with a tokenizer.json each to have those tried instead."""
    chosen = os.environ.get("TRIMBED_TOKENIZERS")
    packaged = [folder / "tokenizer.json" for folder in (deepseek_folder, minilm_folder)]
    found = sorted(Path(chosen).glob("*/tokenizer.json")) if chosen else packaged
    assert found, f"TRIMBED_TOKENIZERS is {chosen!r}, where there is no */tokenizer.json to check"
    for path in found:
        counts_are_exact_for(json.loads(path.read_text(encoding="utf-8")), examples=400)

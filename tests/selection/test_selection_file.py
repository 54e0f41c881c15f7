"""A selection's file holds it whole, is the same each time, and isn't taken for one when it isn't; tokens explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import numpy as np
import pytest
from graphs import bpe, count

from trimbed.errors import SelectionError
from trimbed.selection.explain import token_states, unreachable_tokens
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.report import explanations, selection_rows
from trimbed.selection.select import select_tokens
from trimbed.selection.selection import Selection
from trimbed.tokenizer.spec import TokenizerSpec


def example(document: dict[str, Any]) -> Selection:
    spec = TokenizerSpec.from_document(document)
    config = SelectionConfig(
        coverage=0.9, keep_tokens=["nothing-like-it"], keep_texts=[made.SENTENCES[2]], max_vocab_size=420
    )
    return select_tokens(spec, count(spec, made.SENTENCES[:2] * 9), config)


def test_a_selection_survives_its_file(tmp_path: Path, any_tiny: dict[str, Any]) -> None:
    selection = example(any_tiny)
    selection.save(tmp_path / "selection.json")
    loaded = Selection.load(tmp_path / "selection.json")
    assert loaded.kept.tolist() == selection.kept.tolist()
    assert loaded.provenance == selection.provenance
    assert loaded.dropped_requested_tokens == selection.dropped_requested_tokens
    assert loaded.missing == selection.missing and loaded.sizes == selection.sizes
    assert loaded.fingerprint == TokenizerSpec.from_document(any_tiny).fingerprint
    assert loaded.to_json() == selection.to_json() == example(any_tiny).to_json()


def test_the_file_holds_every_inputs_hash_and_each_cuts_size(tmp_path: Path, tiny_bpe: dict[str, Any]) -> None:
    file = tmp_path / "keep.txt"
    file.write_text("Ġthe\n")
    spec = TokenizerSpec.from_document(tiny_bpe)
    counts = count(spec, [], one=made.SENTENCES[:4], two=made.SENTENCES[4:])
    config = SelectionConfig(coverage=0.9, top_k=20, keep_token_files=[str(file)])
    document = json.loads(select_tokens(spec, counts, config).to_json())
    assert len(document["inputs"]["counts"]["weighted"]) == 64
    assert set(document["inputs"]["counts"]["sources"]) == {"one", "two"}
    assert len(document["inputs"]["files"][str(file)]) == 64
    assert document["sizes"]["top_k"] == document["sizes"]["corpus"] == 20 < document["sizes"]["coverage"]
    changed = count(spec, [], one=made.SENTENCES[:3], two=made.SENTENCES[4:])
    assert json.loads(select_tokens(spec, changed, config).to_json())["inputs"] != document["inputs"]


def test_other_files_are_not_taken_for_selections(tmp_path: Path, tiny_bpe: dict[str, Any]) -> None:
    good = json.loads(example(tiny_bpe).to_json())
    broken = {
        "empty": "",
        "other": json.dumps({"kept": [1]}),
        "newer": json.dumps({**good, "version": 99}),
        "inconsistent": json.dumps({**good, "kept": good["kept"][1:]}),
        "outside": json.dumps({**good, "reasons": {"corpus": [10**6]}}),
    }
    for name, text in broken.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(SelectionError, match="is no selection file"):
            Selection.load(tmp_path / name)
    with pytest.raises(SelectionError, match="there is no selection file"):
        Selection.load(tmp_path / "nowhere")


def test_a_token_says_why_it_is_kept_or_dropped() -> None:
    letters = ["a", "b", "c", "d", "e"]
    spec = bpe([*letters, "ab", "abc", "de", "<s>"], [("a", "b"), ("ab", "c"), ("d", "e")], added=["<s>"])
    counts = count(spec, ["abc"] * 5 + ["de"] * 3 + ["e"] * 2 + ["d"])
    config = SelectionConfig(top_k=2, keep_tokens=["e"], max_vocab_size=7, pad_vocab_to_multiple_of=7)
    selection = select_tokens(spec, counts, config)
    why = {token: selection.explain(token).why for token in [*letters, "ab", "abc", "de", "<s>"]}
    assert why == {
        "a": "'abc' is built from it",
        "b": "'abc' is built from it",
        "c": "'abc' is built from it",
        "d": "'de' is built from it" if "de" in selection.names.values() else why["d"],
        "e": "requested by keep_tokens",
        "ab": "'abc' is built from it",
        "abc": "rank 1 in the corpus, within the corpus cut",
        "de": "rank 2 in the corpus; max_vocab_size took it",
        "<s>": "structural (special token): no policy may drop it",
    }
    explained = selection.explain("ab")
    assert explained.dependents == ("abc",) and explained.parts == ("a", "b") and explained.count == 0
    assert selection.explain("d").why.endswith(("max_vocab_size took it", "is built from it"))
    with pytest.raises(SelectionError, match="has no token 'AB'; did you mean 'ab'"):
        selection.explain("AB")
    with pytest.raises(SelectionError, match="doesn't carry its counts"):
        Selection.from_json(selection.to_json()).explain("ab")


def test_explanations_take_names_and_ids(tiny_wordpiece: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_wordpiece)
    selection = select_tokens(spec, count(spec, made.SENTENCES), SelectionConfig(coverage=0.9))
    rows = explanations(selection, ["[UNK]", "#3", "##e"])
    assert [row["token"] for row in rows] == ["[UNK]", spec.tokens[3], "##e"]


def test_unseen_ancestor_only_and_unreachable_tokens_are_told_apart() -> None:
    tokens = ["a", "b", "c", "ab", "abc", "cb", "xyz"]
    spec = bpe(tokens, [("a", "b"), ("ab", "c"), ("c", "b")])
    selection = select_tokens(spec, count(spec, ["abc"]), SelectionConfig(coverage=1.0))
    assert [tokens[index] for index in np.flatnonzero(unreachable_tokens(spec))] == ["xyz"]
    assert selection.evidence is not None
    states = token_states(selection.evidence.frame, selection.reasons, unreachable_tokens(spec))
    assert states == {
        "unseen": 6,
        "unseen_dropped": 2,  # cb, which text could become, and xyz, which none can
        "unseen_kept": 0,
        "ancestor_only": 4,
        "unreachable": 1,
        "unreachable_kept": 0,
    }
    row = selection_rows(selection, unreachable=True)[0]
    assert row["ancestor_only"] == 4 and row["unreachable"] == 1 and row["coverage"] == 1.0


def test_a_never_seen_token_is_not_unreachable_for_that(any_tiny: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(any_tiny)
    unreachable = unreachable_tokens(spec)
    seen = count(spec, made.training_texts()).counts > 0
    assert not (unreachable & seen).any()
    assert unreachable.sum() < 0.02 * spec.vocab_size


def test_whole_word_tokens_are_reachable_where_merges_are_ignored() -> None:
    tokens, merges = [*"helo", "he", "ll", "hello"], [("h", "e"), ("l", "l")]
    assert [tokens[i] for i in np.flatnonzero(unreachable_tokens(bpe(tokens, merges)))] == ["hello"]
    assert not unreachable_tokens(bpe(tokens, merges, ignore_merges=True)).any()

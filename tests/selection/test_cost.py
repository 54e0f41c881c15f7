"""Costs from pieces are those of the really trimmed tokenizer on the real text, or are said to be unknown."""

from __future__ import annotations

import made
import numpy as np
import pytest
from graphs import bpe, count, counted

from trimbed.errors import SelectionError
from trimbed.selection.cost import PieceCosts
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.select import select_tokens
from trimbed.selection.sweep import Sweep
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.surgery import trim_document

POLICIES = [
    SelectionConfig(coverage=0.7),
    SelectionConfig(top_k=30, keep_texts=["Die Straße war"]),
    SelectionConfig(coverage=0.95, max_vocab_size=420),
    SelectionConfig(coverage=1.0, max_vocab_size=380, cap_order="flow"),
    SelectionConfig(coverage=1.0),
]


@pytest.mark.parametrize("name", made.TINY)
def test_the_exact_cost_is_that_of_encoding_the_corpus_with_the_trimmed_tokenizer(name: str) -> None:
    document = made.tiny(name)
    spec = TokenizerSpec.from_document(document)
    sources = {"prose": made.SENTENCES * 2, "code": made.stdlib_texts(60_000)}
    if name == "metaspace_bpe":
        sources["prose"] = [*made.SENTENCES, " two  spaces   here ", "", "<s>marked</s> up"]
    counts, pieces = counted(document, sources)
    costs = PieceCosts(document, pieces, counts.by_source)
    known = 0
    for policy in POLICIES:
        selection = select_tokens(spec, counts, policy)
        trimmed = TokenizerSpec.from_document(trim_document(document, selection.kept)[0])
        really = {source: sum(len(trimmed.encode(text)) for text in texts) for source, texts in sources.items()}
        row = costs.columns(selection.mask)
        if row["tokens"] is None:
            continue
        known += 1
        assert {source: row[f"tokens:{source}"] for source in sources} == really
        assert row["tokens"] == sum(really.values()) == costs.tokens(selection.mask)
        assert row["length_ratio"] == pytest.approx(sum(really.values()) / counts.total_num_tokens)
    assert known == len(POLICIES) or name == "unigram"  # which fuses unknown characters
    assert known >= 1


def test_with_everything_kept_nothing_changes() -> None:
    document = made.tiny("bpe")
    texts = made.SENTENCES
    counts, pieces = counted(document, {"only": texts})
    row = PieceCosts(document, pieces, counts.by_source).columns(np.ones(counts.vocab_size, dtype=bool))
    assert row == {
        "tokens": counts.total_num_tokens,
        "length_ratio": 1.0,
        "tokens_per_character": pytest.approx(counts.total_num_tokens / sum(map(len, texts))),
        "untouched": 1.0,
    }


def test_added_tokens_are_part_of_the_cost_and_of_the_untouched_text() -> None:
    document = made.tiny("bpe")
    counts, pieces = counted(document, {"only": ["<|im_start|>kitchen<|im_end|>"] * 3})
    spec = TokenizerSpec.from_document(document)
    selection = select_tokens(spec, counts, SelectionConfig(top_k=1))
    row = PieceCosts(document, pieces, counts.by_source).columns(selection.mask)
    trimmed = TokenizerSpec.from_document(trim_document(document, selection.kept)[0])
    assert row["tokens"] == 3 * len(trimmed.encode("<|im_start|>kitchen<|im_end|>"))
    assert row["untouched"] == pytest.approx(len("<|im_start|><|im_end|>") / len("<|im_start|>kitchen<|im_end|>"))


def test_pieces_that_are_not_the_whole_corpus_are_refused() -> None:
    document = made.tiny("wordpiece")
    counts, pieces = counted(document, {"only": made.SENTENCES})
    fewer = {"only": pieces["only"].slice(0, pieces["only"].num_rows - 1)}
    with pytest.raises(SelectionError, match=r"count with corpus\.keep_pieces, and large enough"):
        PieceCosts(document, fewer, counts.by_source)
    with pytest.raises(SelectionError, match="holds those of 0 of"):
        PieceCosts(document, {"only": pieces["only"].slice(0, 0)}, counts.by_source)


def test_unknown_characters_that_could_fuse_over_a_cut_leave_the_cost_open() -> None:
    document = made.tiny("unigram")
    counts, pieces = counted(document, {"only": ["昨日は友達と一緒に山へ行きました。" * 2] * 3})
    spec = TokenizerSpec.from_document(document)
    smallest = np.zeros(spec.vocab_size, dtype=bool)
    smallest[list(spec.structural_ids())] = True
    costs = PieceCosts(document, pieces, counts.by_source)
    assert set(costs.columns(smallest).values()) == {None} and costs.tokens(smallest) is None


def test_a_sweep_shows_costs_beside_what_a_policy_keeps() -> None:
    document = made.tiny("bpe")
    counts, pieces = counted(document, {"only": made.SENTENCES})
    costs = PieceCosts(document, pieces, counts.by_source)
    rows = Sweep(TokenizerSpec.from_document(document), counts).table(POLICIES, costs=costs).to_pylist()
    ratios = {row["kept"]: row["length_ratio"] for row in rows}
    assert [ratios[size] for size in sorted(ratios)] == sorted(ratios.values(), reverse=True)
    assert rows[-1]["length_ratio"] == 1.0


def test_a_piece_tokenizer_that_cannot_be_cut_says_so() -> None:
    spec = bpe(["a", "b", "ab"], [("a", "b")], dropout=0.1)
    with pytest.raises(SelectionError, match="can't be cut"):
        PieceCosts(spec.document.data, {}, count(spec, ["ab"]).by_source)

"""An audit finds each way in which a tokenizer isn't a faithful trim of its base."""

from __future__ import annotations

import copy
from collections import Counter
from types import SimpleNamespace
from typing import Any

import made
import numpy as np
import pyarrow as pa
import pytest
from trimming_cases import added, bpe, document, special, wordlevel

from trimbed.counting.plan import KernelPlan, make_plan
from trimbed.counting.plan.reference import PlanExecutor
from trimbed.storage.counts import CorpusCounts
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.compare import compare
from trimbed.trimming.compare_page import compare_page, compare_rows
from trimbed.trimming.surgery import trim_document


def spec(content: dict[str, Any]) -> TokenizerSpec:
    return TokenizerSpec.from_document(content)


def base() -> dict[str, Any]:
    merges = [["b", "c"], ["a", "b"], ["a", "bc"], ["abc", "d"]]
    return document(
        bpe(["a", "b", "c", "d", "bc", "ab", "abc", "abcd"], merges), [special(8, "<end>"), added(9, "<x>")]
    )


def closed(tokenizer: TokenizerSpec, wanted: list[int]) -> np.ndarray:
    mask = np.zeros(tokenizer.vocab_size, dtype=bool)
    mask[[*tokenizer.structural_ids(), *wanted]] = True
    return np.flatnonzero(tokenizer.dependencies().closure(mask))


@pytest.mark.parametrize("name", made.TINY)
def test_our_own_trims_are_faithful(name: str) -> None:
    one = spec(made.tiny(name))
    kept = closed(one, one.encode(made.SENTENCES[0]))
    two = spec(trim_document(one.document.data, kept)[0])
    report = compare(one, two, texts=made.SENTENCES)
    assert report.problems == []
    assert report.texts is not None
    assert report.texts.kept >= 1
    assert report.tokens.after == len(kept)
    assert sum(group.after for group in report.scripts) == len(kept)
    assert any(group.name == "structural" and group.before == group.after for group in report.presets)


def test_a_missing_ancestor_is_found_by_its_token_and_by_the_texts_it_breaks() -> None:
    other = trim_document(base(), [0, 1, 2, 3, 6, 7, 8, 9])[0]
    report = compare(spec(base()), spec(other), texts=["abcd", "<end>d"], presets=[])
    assert report.unreachable_count == 1
    assert (report.unreachable[0].token, report.unreachable[0].reason) == ("abc", "built from 'bc', which is gone")
    assert report.texts is not None
    assert [(v.kind, v.expected) for v in report.texts.violations] == [("ids", "abcd")]
    assert len(report.problems) == 2


def test_dropped_structural_tokens_are_named() -> None:
    other = trim_document(base(), [0, 1, 2, 3, 4, 6, 9])[0]
    report = compare(spec(base()), spec(other), presets=[])
    assert [(loss.token, loss.reason) for loss in report.structural_losses] == [("<end>", "special token")]


def test_tokens_of_another_vocabulary_are_named() -> None:
    other = document(wordlevel(["<unk>", "a", "zebra"]))
    report = compare(spec(document(wordlevel(["<unk>", "a", "b"]))), spec(other), presets=[])
    assert report.foreign == ["zebra"]
    assert not report.subset


def test_another_order_and_holes_are_found() -> None:
    one = document(wordlevel(["<unk>", "a", "b"]))
    shuffled = compare(spec(one), spec(document(wordlevel(["b", "<unk>", "a"]))), presets=[])
    assert not shuffled.order_kept
    holes = compare(spec(one), spec(document(wordlevel({"<unk>": 0, "a": 1, "b": 5}))), presets=[])
    assert not holes.contiguous
    assert holes.order_kept


def test_reordered_merges_and_changed_settings_and_flags_are_found() -> None:
    other = copy.deepcopy(base())
    other["model"]["merges"] = [*other["model"]["merges"][1:], other["model"]["merges"][0]]
    other["model"]["ignore_merges"] = True
    other["added_tokens"][1]["lstrip"] = True
    other["normalizer"] = {"type": "NFC"}
    report = compare(spec(base()), spec(other), presets=[])
    assert report.merges_in_order is False
    assert [line.split(":")[0] for line in report.settings] == [
        "normalizer differs",
        "model.ignore_merges",
        "the flags of '<x>' differ",
    ]


def test_the_page_and_the_rows_show_what_was_found() -> None:
    other = trim_document(base(), [0, 1, 2, 3, 6, 7, 8, 9])[0]
    report = compare(spec(base()), spec(other), texts=["abcd <script>"], presets=["structural"])
    html = compare_page(report)
    assert "2 problems" in html or "1 problems" in html
    assert "<script>" not in html
    assert {"check": "tokens that can't be built", "result": "1"} in compare_rows(report)


class Cache:
    """What an audit asks of a counts cache, in memory."""

    def __init__(self, tokenizer: TokenizerSpec, texts: list[str], *, pieces: bool) -> None:
        plan = make_plan(tokenizer.document.data)
        assert isinstance(plan, KernelPlan)
        found = Counter(part for text in texts for part in PlanExecutor(plan).pieces(text) if part[2] is None)
        self.manifest = SimpleNamespace(tokenizer=SimpleNamespace(fingerprint=tokenizer.fingerprint))
        rows = [{"piece": p.encode(), "initial": i, "count": n} for (p, i, _), n in found.items()] if pieces else []
        schema = pa.schema([("piece", pa.binary()), ("initial", pa.bool_()), ("count", pa.int64())])
        self.table = pa.Table.from_pylist(rows, schema=schema)
        numbers = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        for text in texts:
            np.add.at(numbers, tokenizer.encode(text), 1)
        self.counts = CorpusCounts.from_counts(numbers, samples=texts)

    def read_counts(self) -> CorpusCounts:
        return self.counts

    def pieces(self, source: str | None = None) -> pa.Table:
        return self.table


@pytest.mark.parametrize("pieces", [True, False])
def test_a_cache_gives_coverage_samples_and_exact_cost(pieces: bool) -> None:
    one = spec(made.tiny("bpe"))
    texts = made.SENTENCES[:4] * 3
    cache: Any = Cache(one, texts, pieces=pieces)
    two = spec(trim_document(one.document.data, closed(one, one.encode(made.SENTENCES[0])))[0])
    report = compare(one, two, cache=cache)
    assert report.problems == []
    assert report.texts is not None
    assert report.texts.texts == 4
    assert report.coverage is not None
    assert 0 < report.coverage < 1
    if pieces:
        assert report.piece_tokens is not None
        assert report.piece_tokens.before == sum(len(one.encode(text)) for text in texts)
        assert report.piece_tokens.after == sum(len(two.encode(text)) for text in texts)
    else:
        assert report.piece_tokens is None
        assert any("no exact cost" in note for note in report.notes)


def test_a_cache_of_another_tokenizer_is_not_used() -> None:
    one, two = spec(made.tiny("bpe")), spec(made.tiny("wordlevel"))
    cache: Any = Cache(one, made.SENTENCES[:1], pieces=False)
    cache.manifest.tokenizer.fingerprint = "another"
    report = compare(one, two, cache=cache, presets=[])
    assert report.coverage is None
    assert any("another tokenizer" in note for note in report.notes)

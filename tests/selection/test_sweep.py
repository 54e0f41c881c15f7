"""Sweeps: what is listed is tried once each, a row says what a selection would, and a bound finds its smallest set."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import made
import pyarrow as pa
import pytest
from graphs import count

from trimbed.errors import MissingExtra, SelectionError, UsageError
from trimbed.selection.best import find_best, parse_bound
from trimbed.selection.plot import plot_sweep
from trimbed.selection.policy import SelectionConfig, SweepConfig, describe_policy, expand
from trimbed.selection.rows import token_rows
from trimbed.selection.select import select_tokens
from trimbed.selection.sweep import Sweep, sweep
from trimbed.tokenizer.spec import TokenizerSpec


def test_a_grid_is_every_combination_and_listed_policies_follow_each_once() -> None:
    config = SweepConfig(
        coverage=[0.9, 0.99], max_vocab_size=[None, 500], policies=[{"min_count": 3}, {"coverage": 0.9}]
    )
    base = SelectionConfig(keep_presets=["digits"])
    described = [describe_policy(policy) for policy in expand(base, config)]
    assert described == [
        "coverage=0.9 keep_presets=digits",
        "coverage=0.9 keep_presets=digits max_vocab_size=500",
        "coverage=0.99 keep_presets=digits",
        "coverage=0.99 keep_presets=digits max_vocab_size=500",
        "min_count=3 keep_presets=digits",
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (SweepConfig(), "lists no policy"),
        (SweepConfig(policies=[{"top_k": -1}]), "top_k: Input should be greater than or equal to 1"),
        (SweepConfig(policies=[{"topk": 5}]), "topk: Extra inputs"),
        (SweepConfig(max_vocab_size=[10], policies=[{"max_vocab_size": 5, "pad_vocab_to_multiple_of": 8}]), "no size"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(config: SweepConfig, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        expand(SelectionConfig(), config)


def test_a_row_says_what_the_selection_would(any_tiny: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(any_tiny)
    counts = count(spec, [], prose=made.SENTENCES, code=made.stdlib_texts(50_000))
    config = SweepConfig(coverage=[0.8, 0.99], max_vocab_size=[None, 450], cap_order=["frequency", "flow"])
    base = SelectionConfig(keep_texts=["Die Straße"], source_weights={"prose": 5}, pad_vocab_to_multiple_of=2)
    table = sweep(spec, counts, config, base=base)
    policies = expand(base, config)
    assert table.num_rows == len(policies) == 8
    for row, policy in zip(table.to_pylist(), policies, strict=True):
        selection = select_tokens(spec, counts, policy)
        assert row["policy"] == describe_policy(policy)
        assert row["kept"] == len(selection)
        assert {name: row[name] for name in selection.counts_by_reason()} == selection.counts_by_reason()
        weighted = counts.with_weights({"prose": 5})
        assert row["coverage"] == pytest.approx(weighted.coverage_of(selection.kept))
        for name, number in counts.by_source.items():
            assert row[f"coverage:{name}"] == pytest.approx(number[selection.kept].sum() / number.sum())
        assert row["vocabulary_reduction"] == pytest.approx(1 - len(selection) / spec.vocab_size)


def test_a_policy_that_cannot_be_met_is_a_row_that_says_so(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    rows = sweep(spec, count(spec, made.SENTENCES), SweepConfig(max_vocab_size=[10, 400])).to_pylist()
    assert rows[0]["kept"] is None and "can't be met" in rows[0]["problem"]
    assert rows[1]["kept"] == 400 and rows[1]["problem"] is None


def test_what_a_checkpoint_saves_is_read_from_its_tensors_or_its_config(tmp_path: Path) -> None:
    config = {"vocab_size": 10, "hidden_size": 4, "torch_dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]}
    tied, untied = config, {**config, "tie_word_embeddings": False}
    assert (token_rows(None, tied).parameters, token_rows(None, tied).bytes) == (4, 8)  # type: ignore[union-attr]
    assert (token_rows(None, untied).parameters, token_rows(None, untied).bytes) == (8, 16)  # type: ignore[union-attr]
    nested = {"text_config": {"vocab_size": 10, "hidden_size": 6}}
    assert token_rows(None, nested).bytes == 24  # type: ignore[union-attr]
    assert token_rows(None, {}) is None
    header = {
        "embed": {"dtype": "F32", "shape": [10, 4], "data_offsets": [0, 160]},
        "bias": {"dtype": "F32", "shape": [10], "data_offsets": [160, 200]},
        "other": {"dtype": "F32", "shape": [4, 4], "data_offsets": [200, 264]},
    }
    data = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(data)) + data + bytes(264))
    found = token_rows(tmp_path, config)
    assert found is not None and (found.parameters, found.bytes, found.source) == (5, 20, "safetensors")


def test_a_real_checkpoints_rows_are_in_the_table(minilm_folder: Path) -> None:
    spec = TokenizerSpec.load(minilm_folder)
    row = sweep(spec, count(spec, made.SENTENCES), SweepConfig(max_vocab_size=[3000])).to_pylist()[0]
    assert row["embedding_parameters"] == row["kept"] * 384
    assert row["bytes_saved"] == (30522 - row["kept"]) * 384 * 4


@pytest.mark.parametrize("multiple", [None, 16])
def test_the_best_is_the_smallest_that_meets_the_bound(tiny_bpe: dict[str, Any], multiple: int | None) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    made_sweep = Sweep(spec, count(spec, made.training_texts()[:300]))
    base = SelectionConfig(pad_vocab_to_multiple_of=multiple)
    best = find_best(made_sweep, base, parse_bound("coverage>=0.95"))
    assert best["coverage"] >= 0.95
    if multiple is None:
        below = made_sweep.record(SelectionConfig(coverage=1.0, max_vocab_size=best["kept"] - 1))
        assert below["coverage"] < 0.95
    else:
        assert best["kept"] % multiple == 0


def test_a_bound_that_cannot_be_met_or_means_nothing_is_refused(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    made_sweep = Sweep(spec, count(spec, made.SENTENCES))
    with pytest.raises(SelectionError, match="can't be met"):
        find_best(made_sweep, SelectionConfig(coverage=0.5), parse_bound("coverage>=0.999"))
    with pytest.raises(SelectionError, match="needs the corpus's pieces"):
        find_best(made_sweep, SelectionConfig(), parse_bound("length_ratio<=1.01"))
    for text in ("length_ratio", "size<=3", "coverage<=0.9", "length_ratio>=1", "coverage>=1.2.3"):
        with pytest.raises(UsageError):
            parse_bound(text)


def test_a_sweep_is_drawn_as_a_page_of_its_own_or_a_picture(tmp_path: Path, tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    table = sweep(
        spec, count(spec, made.SENTENCES), SweepConfig(coverage=[0.5, 0.9, 1.0]),
        base=SelectionConfig(keep_patterns=["^</script>$"]),
    )  # fmt: skip
    plot_sweep(table, tmp_path / "sweep.html")
    page = (tmp_path / "sweep.html").read_text("utf-8")
    assert page.count("<circle") == 3 and "coverage=0.9" in page and "http" not in page
    assert "<circle" in page and page.count("</script>") == 1  # a policy's text is text, not markup
    for name, start in (("sweep.png", b"\x89PNG"), ("sweep.svg", b"<?xml")):
        try:
            plot_sweep(table, tmp_path / name)
        except MissingExtra as error:
            assert "trimbed[plot]" in str(error)
        else:
            assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(UsageError, match=r"\.png, \.svg or \.html"):
        plot_sweep(table, tmp_path / "sweep.gif")
    with pytest.raises(UsageError, match="nothing to draw"):
        plot_sweep(pa.table({"policy": ["x"], "kept": [1]}), tmp_path / "sweep.html")

"""The whole trim on real tokenizers and a real model, by function and from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from trimming_cases import numbered, read_tensors, save_model, words

from trimbed.errors import TrimError
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.select import select_tokens
from trimbed.storage.counts import CorpusCounts
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.report import TrimReport
from trimbed.trimming.trim import template_texts, trim

GERMAN = ["Die Straße war nach dem Gewitter überflutet.", "A cat sat on the mat, and the dog barked."]
NEVER = TrimConfig(verify_model="never")


def kept_for(spec: TokenizerSpec, texts: list[str]) -> np.ndarray:
    mask = np.zeros(spec.vocab_size, dtype=bool)
    mask[list(spec.structural_ids())] = True
    for text in texts:
        mask[spec.encode(text)] = True
    return np.flatnonzero(spec.dependencies().closure(mask))


def test_minilm_trims_with_its_weights_and_its_side_files_agree(minilm_folder: Path, tmp_path: Path) -> None:
    spec = TokenizerSpec.load(minilm_folder)
    kept = kept_for(spec, GERMAN)
    report = trim(spec, kept, tmp_path / "small", texts=GERMAN, config=NEVER)
    small = tmp_path / "small"
    result = TokenizerSpec.load(small)
    assert result.vocab_size == len(kept) == report.tokens.after
    assert (small / "vocab.txt").read_text(encoding="utf-8").splitlines() == result.tokens
    assert json.loads((small / "config.json").read_text())["vocab_size"] == len(kept)
    old = read_tensors(minilm_folder / "model.safetensors")
    new = read_tensors(small / "model.safetensors")
    assert new.keys() == old.keys()
    name = "embeddings.word_embeddings.weight"
    assert np.array_equal(new[name], old[name][kept])
    assert all(np.array_equal(new[key], old[key]) for key in old if key != name)
    for file in (
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
    ):
        assert (small / file).read_bytes() == (minilm_folder / file).read_bytes()
    text = result.document.data
    assert text["truncation"] == spec.document.data["truncation"]
    assert text["padding"] == spec.document.data["padding"]
    assert report.verification.passed
    assert report.verification.texts.kept == len(GERMAN)


def test_the_report_holds_what_a_reader_asks_for(minilm_folder: Path, tmp_path: Path) -> None:
    spec = TokenizerSpec.load(minilm_folder)
    numbers = np.zeros(spec.vocab_size, dtype=np.int64)
    for text in GERMAN * 3:
        np.add.at(numbers, spec.encode(text), 1)
    counts = CorpusCounts.from_counts(numbers, source="de", samples=GERMAN)
    selection = select_tokens(spec, counts, SelectionConfig(top_k=8, keep_texts=["Die"]))
    trim(spec, selection, tmp_path / "small", counts=counts, config=NEVER, reproduce="trimbed trim x")
    report = TrimReport.model_validate_json((tmp_path / "small" / "trim_report.json").read_text())
    assert report.kept_by_reason == selection.counts_by_reason()
    assert report.coverage is not None
    assert report.coverage_by_source == {"de": pytest.approx(report.coverage)}
    assert report.dropped_tokens[0].count == 3
    assert report.verification.texts.unknown.before == 0
    assert report.verification.texts.unknown.after > 0
    assert not any("type_vocab_size" in line for line in report.warnings)
    assert report.selection["policy"]["top_k"] == 8
    assert report.reproduce == "trimbed trim x"
    table = pq.read_table(tmp_path / "small" / "id_map.parquet").to_pydict()
    assert [
        old for old, new in zip(table["old_id"], table["new_id"], strict=True) if new is not None
    ] == selection.kept.tolist()
    page = (tmp_path / "small" / "trim_report.html").read_text(encoding="utf-8")
    assert re.search(r"(src|href)=|https?://", page) is None
    assert "Most frequent dropped tokens" in page


@pytest.fixture(scope="module")
def deepseek(deepseek_folder: Path) -> TokenizerSpec:
    return TokenizerSpec.load(deepseek_folder)


def test_a_real_byte_level_tokenizer_trims_alone(
    deepseek: TokenizerSpec, stdlib_texts: list[str], tmp_path: Path
) -> None:
    spec = deepseek
    texts = [line for text in stdlib_texts[:4] for line in text.splitlines()[:200]]
    kept = kept_for(spec, texts)
    report = trim(spec, kept, tmp_path / "small", texts=texts, config=NEVER)
    assert report.verification.texts.kept == len(set(texts))
    assert report.verification.texts.violation_count == 0
    assert sorted(p.name for p in (tmp_path / "small").iterdir()) == [
        "id_map.parquet",
        "tokenizer.json",
        "tokenizer_config.json",
        "trim_config.yaml",
        "trim_report.html",
        "trim_report.json",
    ]


def test_trimming_a_checkpoint_twice_equals_trimming_it_once(tmp_path: Path) -> None:
    source = save_model(
        tmp_path / "source", words(8), {"wte.weight": numbered(8)}, {"vocab_size": 8, "eos_token_id": 7}
    )
    trim(TokenizerSpec.load(source), [0, 2, 4, 6, 7], tmp_path / "once")
    trim(TokenizerSpec.load(source), [0, 1, 2, 4, 5, 6, 7], tmp_path / "first")
    trim(TokenizerSpec.load(tmp_path / "first"), [0, 2, 3, 5, 6], tmp_path / "second")
    for name in ("tokenizer.json", "config.json", "model.safetensors"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "once" / name).read_bytes()


def test_a_kept_set_that_cannot_be_built_is_refused(deepseek: TokenizerSpec, tmp_path: Path) -> None:
    spec = deepseek
    number = spec.token_to_id("Ġinternational")
    assert number is not None
    with pytest.raises(TrimError, match="can't all be built"):
        trim(spec, [*spec.structural_ids(), number], tmp_path / "small")
    with pytest.raises(TrimError, match="can't do without"):
        trim(spec, [number], tmp_path / "small")
    assert list(tmp_path.iterdir()) == []


def test_a_selection_of_another_tokenizer_is_refused(
    minilm_folder: Path, deepseek: TokenizerSpec, tmp_path: Path
) -> None:
    selection = select_tokens(TokenizerSpec.load(minilm_folder), None, SelectionConfig(keep_tokens=["the"]))
    with pytest.raises(TrimError, match="made for another tokenizer"):
        trim(deepseek, selection, tmp_path / "small")


def test_sentence_transformers_folders_with_the_model_in_a_subfolder(tmp_path: Path) -> None:
    root = tmp_path / "source"
    save_model(root / "0_Transformer", words(8), {"wte.weight": numbered(8)}, {"vocab_size": 8})
    (root / "1_Pooling").mkdir()
    (root / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 4}')
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (root / "modules.json").write_text(json.dumps(modules))
    trim(TokenizerSpec.load(root / "0_Transformer"), [0, 2], tmp_path / "small")
    assert read_tensors(tmp_path / "small" / "0_Transformer" / "model.safetensors")["wte.weight"][:, 0].tolist() == [
        0,
        2,
    ]
    assert TokenizerSpec.load(tmp_path / "small" / "0_Transformer").vocab_size == 2
    assert (tmp_path / "small" / "1_Pooling" / "config.json").is_file()


def test_the_chat_templates_words_are_among_the_proof(tmp_path: Path) -> None:
    source = save_model(
        tmp_path / "source",
        words(8),
        {"wte.weight": numbered(8)},
        {"vocab_size": 8},
        tokenizer_config={"chat_template": "{% for m in messages %}w2 {{ m['content'] }} w3{% endfor %}"},
    )
    found = template_texts(TokenizerSpec.load(source))
    assert any(text.strip() == "w2" for text in found)


def test_texts_that_fragment_most_are_listed_first(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    texts = ["the lamp", "the lamp in the kitchen", "kitchen morning kitchen"]
    report = trim(spec, kept_for(spec, texts[:1]), tmp_path / "small", texts=texts, config=NEVER)
    shown = [(entry.text, entry.after / entry.before) for entry in report.verification.texts.fragmented]
    assert [text for text, _ in shown] == [texts[2], texts[1]]
    assert shown[0][1] > shown[1][1] > 1
    assert report.verification.texts.length_ratio > 1


# -- the command line -----------------------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "NO_COLOR": "1"}
    code = (
        "import sys, typer; from trimbed.cli import compare, trim; from trimbed.cli import output\n"
        "from trimbed.errors import TrimbedError\n"
        "app = typer.Typer(pretty_exceptions_enable=False); trim.register(app); compare.register(app)\n"
        "try:\n    app(args=sys.argv[1:])\n"
        "except TrimbedError as error:\n    output.error(str(error)); sys.exit(error.exit_code)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_model(tmp_path / "source", words(8), {"wte.weight": numbered(8)}, {"vocab_size": 8})


def test_trim_takes_a_selection_file_and_compare_finds_it_faithful(model: Path, tmp_path: Path) -> None:
    selection = select_tokens(TokenizerSpec.load(model), None, SelectionConfig(keep_tokens=["w2", "w5"]))
    selection.save(tmp_path / "selection.json")
    done = command(
        "trim", str(model), "--selection", str(tmp_path / "selection.json"), "-o", str(tmp_path / "out"),
        "--pad-to-multiple-of", "4", "trim.html=false",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "tokens" in done.stdout
    assert "wrote" in done.stderr
    assert read_tensors(tmp_path / "out" / "model.safetensors")["wte.weight"][:, 0].tolist() == [0, 2, 5, 0]
    assert not (tmp_path / "out" / "trim_report.html").exists()
    report = json.loads((tmp_path / "out" / "trim_report.json").read_text())
    assert "trim.pad_to_multiple_of=4" in report["reproduce"]
    audit = command("compare", str(model), str(tmp_path / "out"), "--json")
    assert audit.returncode == 0, audit.stderr
    assert json.loads(audit.stdout)["problems"] == []


def test_trim_makes_the_selection_from_rules_and_a_dry_run_writes_nothing(model: Path, tmp_path: Path) -> None:
    done = command("trim", str(model), "--dry-run", "--json", "selection.keep_tokens=[w3]")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["tokens"] == {"before": 8, "after": 2}
    assert "nothing was written" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["source"]


def test_compare_ends_with_1_where_there_is_a_problem(model: Path, tmp_path: Path) -> None:
    other = save_model(tmp_path / "other", words(6, start=1), {"wte.weight": numbered(6)}, {"vocab_size": 6})
    (tmp_path / "other" / "tokenizer.json").write_text((other / "tokenizer.json").read_text().replace('"w3"', '"zz"'))
    done = command("compare", str(model), str(other), "--html", str(tmp_path / "audit.html"))
    assert done.returncode == 1
    assert "aren't the base's, such as 'zz'" in done.stdout
    assert (tmp_path / "audit.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["trim", "MODEL", "selection.keep_tokens=[w3]"], "no output folder given"),
        (["trim", "-o", "x", "selection.keep_tokens=[w3]"], "no tokenizer given"),
        (["trim", "nowhere/at/all", "-o", "x"], "no folder or file"),
        (["trim", "MODEL", "-o", "x"], "nothing to select by"),
        (["trim", "MODEL", "-o", "x", "--coverage", "0.9"], "needs counts"),
        (["trim", "MODEL", "MODEL/", "-o", "x"], "more than one model"),
        (["trim", "MODEL", "-o", "x", "trim.pad_fil=mean"], "did you mean pad_fill"),
    ],
)
def test_bad_invocations_end_with_2_and_one_clear_message(model: Path, arguments: list[str], reason: str) -> None:
    done = command(*(argument.replace("MODEL", str(model)) for argument in arguments))
    assert done.returncode == 2, done.stderr
    assert reason in done.stderr
    assert "Traceback" not in done.stderr

"""``trimbed inspect``: a thin skin over ``describe``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import pytest
import typer
from typer.testing import CliRunner

from trimbed.cli import inspect
from trimbed.errors import TokenizerError, UsageError
from trimbed.tokenizer.description import describe, describe_tensors
from trimbed.tokenizer.spec import TokenizerSpec


def run(*arguments: str) -> str:
    app = typer.Typer()
    inspect.register(app)
    app.command("other")(lambda: None)
    result = CliRunner().invoke(app, ["inspect", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text(json.dumps(made.tiny("bpe")), "utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "qwen2", "vocab_size": 3}', "utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>", "chat_template": "x"}', "utf-8")
    return tmp_path


def test_the_table_names_the_deciding_file_and_the_main_facts(folder: Path) -> None:
    shown = run(str(folder))
    for part in ("decided by", "tokenizer.json", "bpe", "name qwen", "default", "eos <|im_end|>"):
        assert part in shown


def test_json_holds_all_of_it_notes_included(folder: Path) -> None:
    found: dict[str, Any] = json.loads(run(str(folder), "--json"))
    assert found == json.loads(json.dumps(describe(TokenizerSpec.load(folder))))
    assert found["merges"] and found["built by merges"] == found["merges"]
    assert "vocab_size 3" in found["notes"][0]


def test_a_plan_explains_how_text_is_counted(folder: Path) -> None:
    counting = json.loads(run(str(folder), "--json", "--plan"))["counting"]
    assert counting["engine"] in ("kernel", "reference")
    assert counting.get("explanation") or counting.get("reason")
    assert "counted by" in run(str(folder), "--plan")


def test_tokens_are_listed_one_a_row(folder: Path) -> None:
    rows = json.loads(run(str(folder), "--tokens", "--json"))
    spec = TokenizerSpec.load(folder)
    assert len(rows) == spec.vocab_size
    assert rows[5] == {
        "id": 5,
        "token": spec.tokens[5],
        "surface": spec.surfaces()[5],
        "kind": spec.kinds()[5],
        "script": spec.scripts()[5],
    }


def test_tensors_of_the_model_are_listed(minilm_folder: Path) -> None:
    tensors = json.loads(run(str(minilm_folder), "--json", "--model"))["tensors"]
    assert [(t["name"], t["role"], t["shape"]) for t in tensors] == [
        ("embeddings.word_embeddings.weight", "input", [30522, 384])
    ]
    with pytest.raises(UsageError, match="not a checkpoint"):
        describe_tensors(TokenizerSpec.from_document(made.tiny("bpe")))


def test_what_is_no_tokenizer_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="no tokenizer we can read"):
        run(str(tmp_path))


def test_for_counting_gives_a_row_for_every_id(minilm_folder: Path) -> None:
    spec = TokenizerSpec.load(minilm_folder)
    source = spec.for_counting()
    assert source.vocab_size == source.vocabulary.num_rows == 30522
    assert source.fingerprint == spec.fingerprint
    assert source.vocabulary.column_names == ["token_id", "token", "surface", "kind", "script"]

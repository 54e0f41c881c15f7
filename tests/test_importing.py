"""Counts saved by trimbed 0.0.4 come into a cache as they are, with warnings; what can't be right is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import made
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from trimbed.cli import import_
from trimbed.errors import CacheMismatch, UsageError
from trimbed.importing import import_counts
from trimbed.storage.cache import CountsCache
from trimbed.tokenizer.spec import TokenizerSpec


@pytest.fixture(scope="module")
def spec() -> TokenizerSpec:
    return TokenizerSpec.from_document(made.tiny("bpe"))


def saved(spec: TokenizerSpec, **changes: Any) -> dict[str, Any]:
    counts = Counter(index for text in made.SENTENCES for index in spec.encode(text))
    data = {
        "counts": {str(index): number for index, number in sorted(counts.items())},
        "total_num_tokens": sum(counts.values()),
        "num_documents": len(made.SENTENCES),
        "samples": made.SENTENCES[:3],
    }
    return {**data, **changes}


def write(folder: Path, data: Any, name: str = "old counts.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=4), encoding="utf-8")
    return path


def test_the_numbers_documents_and_samples_come_in_as_they_are(spec: TokenizerSpec, tmp_path: Path) -> None:
    done = import_counts(write(tmp_path, saved(spec)), spec, tmp_path / "counts")
    counts = CountsCache.open(str(tmp_path / "counts")).read_counts()
    expected = np.bincount([i for text in made.SENTENCES for i in spec.encode(text)], minlength=spec.vocab_size)
    assert counts.by_source.keys() == {"old_counts"} == {done.source}
    assert counts.counts.tolist() == expected.tolist()
    assert counts.num_documents == done.documents == len(made.SENTENCES)
    assert sorted(counts.samples) == sorted(made.SENTENCES[:3])
    assert any("taken on trust" in line for line in done.warnings)
    assert any("weights" in line for line in done.warnings)


def test_importing_again_changes_nothing_and_others_need_another_name(spec: TokenizerSpec, tmp_path: Path) -> None:
    path, cache = write(tmp_path, saved(spec)), tmp_path / "counts"
    first = import_counts(path, spec, cache)
    assert import_counts(path, spec, cache) == first
    other = write(tmp_path, saved(spec, num_documents=99))
    with pytest.raises(CacheMismatch):
        import_counts(other, spec, cache)
    import_counts(other, spec, cache, source="second")
    assert CountsCache.open(str(cache)).read_counts().total_num_tokens == 2 * first.tokens
    with pytest.raises(CacheMismatch):
        import_counts(write(tmp_path, saved(spec, counts={}, total_num_tokens=0)), unigram(), cache, source="third")


def unigram() -> TokenizerSpec:
    return TokenizerSpec.from_document(made.tiny("unigram"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"counts": {"999999": 1}, "total_num_tokens": 1}, "counts token 999999, which"),
        ({"total_num_tokens": 5}, "add up to"),
        ({"counts": {"3": 1.5}}, "token id and a whole number"),
        ({"counts": {"x": 1}}, "token id and a whole number"),
        ({"counts": {"3": -1}}, "token id and a whole number"),
        ({"counts": []}, "no object"),
        ({"num_documents": None}, "whole numbers"),
        ({"samples": [1]}, "no list of texts"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused_before_anything_is_written(
    spec: TokenizerSpec, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        import_counts(write(tmp_path, saved(spec, **changes)), spec, tmp_path / "counts")
    assert not (tmp_path / "counts").exists()


@pytest.mark.parametrize(("text", "reason"), [("{", "not JSON"), ("[1]", "no counts file"), ("{}", "no counts file")])
def test_other_files_are_refused(spec: TokenizerSpec, tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        import_counts(write(tmp_path, text), spec, tmp_path / "counts")


def test_the_command_shows_a_row_and_warns(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(made.tiny("bpe")), encoding="utf-8")
    path = write(tmp_path, saved(TokenizerSpec.load(tmp_path)))
    app = typer.Typer()
    app.callback()(lambda: None)
    import_.register(app)
    arguments = ["import", str(path), "-m", str(tmp_path), "--cache", str(tmp_path / "counts"), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--source", "old"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[0]["source"] == "old"
    assert "taken on trust" in " ".join(result.stderr.split())

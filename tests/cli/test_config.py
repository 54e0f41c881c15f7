"""How a configuration is put together, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimbed.config import load_config, parse_override, read_yaml
from trimbed.errors import UsageError


def write(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_flags_win_over_the_file_and_overrides_win_over_flags(tmp_path: Path) -> None:
    file = write(tmp_path, "selection: {coverage: 0.9, top_k: 5, min_count: 2}\n")
    config = load_config(
        file, flags={"selection.coverage": 0.95, "selection.top_k": 6, "cache": None}, overrides=["selection.top_k=7"]
    )
    assert (config.selection.coverage, config.selection.top_k, config.selection.min_count) == (0.95, 7, 2)
    assert config.cache is None


def test_overrides_enter_lists_by_index_and_append_one_past_the_end(tmp_path: Path) -> None:
    file = write(tmp_path, "corpus: {datasets: [{path: a.parquet}]}\n")
    config = load_config(file, overrides=["corpus.datasets[0].weight=2", "corpus.datasets.1.path=b.jsonl"])
    assert [(d.path, d.weight) for d in config.corpus.datasets] == [("a.parquet", 2.0), ("b.jsonl", 1.0)]


def test_an_override_can_start_from_nothing_and_carry_a_whole_value() -> None:
    config = load_config(overrides=["corpus.datasets=[{path: x.csv, text_column: body}]", "selection.keep_tokens=[a]"])
    assert config.corpus.datasets[0].text_column == "body"
    assert config.selection.keep_tokens == ["a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selection: {coverag: 0.9}", "unknown key selection.coverag; did you mean coverage?"),
        ("corpus: {datasets: [{path: a, text_colum: t}]}", "corpus.datasets[0].text_colum; did you mean text_column?"),
        ("zzz: 1", "unknown key zzz; known here: cache, corpus"),
        ("selection: {top_k: -3}", "selection.top_k: input should be greater than or equal to 1 (got -3)"),
        ("selection: {coverage: 1.5}", "selection.coverage"),
        ("- a\n- b\n", "expected keys and values at the top, found list"),
        ("cache: a\ncache: b\n", "line 2: the key 'cache' stands twice"),
        ("a: [1, 2\n", "line 2"),
    ],
)
def test_a_wrong_file_is_named_with_the_key_and_what_was_meant(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(UsageError) as error:
        load_config(file)
    assert said in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("override", ["selection.coverage", "=1", "corpus.datasets.x.path=a", "cache.deep=1"])
def test_an_override_that_cant_be_applied_is_refused_by_its_text(tmp_path: Path, override: str) -> None:
    file = write(tmp_path, "cache: here\ncorpus: {datasets: [{path: a}]}\n")
    with pytest.raises(UsageError, match=r"override|is a list|plain value"):
        load_config(file, overrides=[override])


def test_values_of_overrides_are_yaml() -> None:
    assert parse_override("a.b=0.5") == (["a", "b"], 0.5)
    assert parse_override("a[2].b=null") == (["a", "2", "b"], None)
    assert parse_override("a=b=c") == (["a"], "b=c")


def test_a_revision_beside_a_local_path_is_a_contradiction(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no revisions"):
        load_config(flags={"model.path": str(tmp_path), "model.revision": "main"})


def test_yaml_cannot_make_objects(tmp_path: Path) -> None:
    file = write(tmp_path, "cache: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(UsageError, match=r"line 1"):
        read_yaml(file)


def test_a_missing_file_and_a_directory_are_said_to_be_that(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="is a directory"):
        load_config(tmp_path)

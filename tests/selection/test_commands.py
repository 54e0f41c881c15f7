"""The commands that select, end to end on a small cache: select and trim decide alike, sweeps and presets list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import pyarrow as pa
import pytest
import typer
from graphs import counted
from typer.testing import CliRunner

from trimbed.cli import presets, select, sweep, trim
from trimbed.errors import CacheMismatch, SelectionError, UsageError
from trimbed.selection.selection import Selection
from trimbed.storage.cache import CountsCache
from trimbed.storage.manifest import Manifest, SourceIdentity, TokenizerIdentity
from trimbed.storage.records import ShardRecord
from trimbed.tokenizer.spec import TokenizerSpec


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tokenizer.json, and counts of it with all pieces in ``counts``."""
    folder = tmp_path_factory.mktemp("commands")
    document = made.tiny("bpe")
    (folder / "tokenizer.json").write_text(json.dumps(document), "utf-8")
    spec = TokenizerSpec.load(folder)
    identity = TokenizerIdentity(fingerprint=spec.fingerprint, source=str(folder), vocab_size=spec.vocab_size)
    sources = {name: SourceIdentity(identity={}, plan_hash="x", shards=1) for name in ("prose", "code")}
    cache = CountsCache.create_or_open(
        str(folder / "counts"), Manifest.new(tokenizer=identity, sources=sources, engine={}, settings={})
    )
    texts = {"prose": made.SENTENCES, "code": made.stdlib_texts(40_000)}
    counts, pieces = counted(document, texts)
    cache.write_vocabulary(spec.for_counting().vocabulary)
    for name, number in counts.by_source.items():
        record = ShardRecord(
            source=name, shard="00000000", documents=len(texts[name]), empty_documents=0, skipped_rows={},
            replaced_rows=0, bytes=1, tokens=int(number.sum()), input={}, engine={},
        )  # fmt: skip
        cache.commit(name, "00000000", counts=number, pieces=pieces[name], samples=[], record=record)
    return folder


def run(*arguments: object) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    for command in (select, sweep, presets, trim):
        command.register(app)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_select_writes_a_file_and_says_how_many_for_which_reason(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "selection.json"
    row = json.loads(run("select", "--cache", place / "counts", "--coverage", "0.9", "--json", "-o", file))[0]
    selection = Selection.load(file)
    assert row["kept"] == len(selection) and row["corpus"] == selection.counts_by_reason()["corpus"]
    again = tmp_path / "again.json"
    run("select", "-m", place, "--cache", place / "counts", "selection.coverage=0.9", "-o", again)
    assert again.read_bytes() == file.read_bytes()


def test_select_explains_tokens(place: Path) -> None:
    rows = json.loads(
        run("select", "--cache", place / "counts", "--top-k", "5", "--explain", "Ġthe", "--explain", "#0", "--json")
    )
    assert [row["id"] for row in rows] == [TokenizerSpec.load(place).token_to_id("Ġthe"), 0]
    assert all(row["why"] for row in rows) and "count:prose" in rows[0]


def test_sweep_prints_a_row_for_each_combination_with_exact_costs(place: Path, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    rows = json.loads(
        run(
            "sweep",
            "--cache",
            place / "counts",
            "--coverage",
            "0.8,1.0",
            "--max-vocab-size",
            "null,400",
            "--json",
            "--plot",
            page,
        )
    )
    assert len(rows) == 4 and rows[2]["length_ratio"] == 1.0 < rows[3]["length_ratio"]
    assert page.read_text("utf-8").count("<circle") == 4


def test_sweep_finds_the_smallest_vocabulary_under_a_bound_on_the_exact_cost(place: Path) -> None:
    best = json.loads(run("sweep", "--cache", place / "counts", "--best", "length_ratio<=1.1", "--json"))[0]
    below = json.loads(
        run("sweep", "--cache", place / "counts", "--coverage", "1.0", "--max-vocab-size", best["kept"] - 1, "--json")
    )[0]
    assert best["length_ratio"] <= 1.1 < below["length_ratio"]


def test_trim_decides_as_select_does_with_the_datasets_weights_and_the_caches_tokenizer(place: Path) -> None:
    weighted = ["corpus.datasets=[{path: prose, weight: 5}, {path: code, weight: 0.001}]"]
    policy = ["--cache", place / "counts", "--coverage", "0.9", "--json"]
    plain, heavy = (json.loads(run("select", *policy, *extra))[0] for extra in ([], weighted))
    report = json.loads(run("trim", *policy, "--dry-run", *weighted))
    assert heavy["coverage"] != pytest.approx(plain["coverage"])
    assert report["coverage"] == pytest.approx(heavy["coverage"])
    assert report["tokens"]["after"] == heavy["kept"]
    assert report["source"] == str(place)


def test_presets_are_listed_with_and_without_a_model(place: Path) -> None:
    listed = json.loads(run("presets", "--json"))
    assert {row["kept"] for row in listed} == {"always", "on request"} and "tokens" not in listed[0]
    assert json.loads(run("presets", "digits", "-m", place, "--json"))[0]["tokens"] >= 10


def test_bad_invocations_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the counts have no cut"):
        run("select", "--cache", place / "counts")
    with pytest.raises(UsageError, match="lists no policy"):
        run("sweep", "--cache", place / "counts")
    with pytest.raises(SelectionError, match="can't be met"):
        run("select", "--cache", place / "counts", "--max-vocab-size", "100")
    with pytest.raises(UsageError, match="top_k"):
        run("select", "--cache", place / "counts", "--top-k", "-1")
    other = tmp_path / "tokenizer.json"
    other.write_text(json.dumps(made.tiny("unigram")), "utf-8")
    with pytest.raises(CacheMismatch, match="counted with another tokenizer"):
        run("select", "-m", tmp_path, "--cache", place / "counts", "--coverage", "0.9")


def test_a_table_goes_to_parquet_whole(place: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    file = tmp_path / "rows.parquet"
    run("sweep", "--cache", place / "counts", "--coverage", "0.8,0.9", "-f", "parquet", "-o", file)
    table = pq.read_table(file)
    assert isinstance(table, pa.Table) and table.num_rows == 2 and "coverage:code" in table.column_names

"""``trimbed sql`` as a user meets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.cli import sql
from trimbed.errors import TrimbedError


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return filled.full(tmp_path_factory.mktemp("cli") / "counts").location


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    sql.register(app)
    return CliRunner().invoke(app, ["sql", *arguments])


def test_rows_are_printed_as_a_table(counts: str) -> None:
    done = run(counts, "select token_id, count from tokens limit 2")
    assert done.exit_code == 0, done.output
    assert "token_id" in done.stdout and "33" in done.stdout


def test_json_holds_the_values_and_maps_become_objects(counts: str) -> None:
    done = run(counts, "select token_id, by_source from tokens limit 1", "--json")
    assert json.loads(done.stdout) == [{"token_id": 1, "by_source": {"de": 3, "nl/dutch": 30}}]
    done = run(counts, "select piece from pieces where source = 'de' order by piece desc limit 1", "--json")
    assert json.loads(done.stdout) == [{"piece": "\\xff"}]


def test_weights_are_options(counts: str) -> None:
    done = run(
        counts, "select token_id from tokens limit 1", "--json", "--weight", "de=100", "--weight", "nl/dutch=0.5"
    )
    assert json.loads(done.stdout) == [{"token_id": 3}]
    assert isinstance(run(counts, "select 1", "--weight", "de").exception, TrimbedError)


def test_a_cut_is_said_on_stderr(counts: str) -> None:
    done = run(counts, "select * from range(50)", "--max-rows", "3", "--format", "csv")
    assert done.stdout == "range\n0\n1\n2\n"
    assert "cut after 3 rows" in done.stderr
    done = run(counts, "select * from range(2000)", "--max-rows", "0", "--format", "csv")
    assert len(done.stdout.splitlines()) == 2001
    assert "cut" not in done.stderr


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_file_gets_every_row(counts: str, tmp_path: Path, format: str) -> None:
    out = tmp_path / f"rows.{format}"
    query = "select range as n, map(['a'], [range]) as m from range(20000)"
    done = run(counts, query, "--format", format, "--output", str(out))
    assert done.exit_code == 0, done.exception
    assert done.stdout == ""
    assert "20,000 rows" in done.stderr
    if format == "parquet":
        assert pq.read_table(out)["n"].to_pylist() == list(range(20000))
    elif format == "json":
        assert json.loads(out.read_text())[-1] == {"n": 19999, "m": {"a": 19999}}
    else:
        assert out.read_text().splitlines()[-1] == '19999,"{""a"": 19999}"'
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_query_that_fails_leaves_no_file(counts: str, tmp_path: Path) -> None:
    query = "select error('broken') from range(10) where range = 9"
    done = run(counts, query, "--format", "csv", "--output", str(tmp_path / "rows.csv"))
    assert isinstance(done.exception, TrimbedError)
    assert "broken" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_without_a_query_views_columns_and_examples_are_listed(counts: str) -> None:
    done = run(counts)
    assert "tokens_by_source" in done.stdout
    assert "cumulative_share" in done.stdout
    assert "select" in done.stderr
    listed = json.loads(run(counts, "--json").stdout)
    assert {"view": "samples", "column": "text", "type": "VARCHAR"} in listed

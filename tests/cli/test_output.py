"""Rows come out as table, CSV, JSON and Parquet, with the same values; nothing a token holds can break a table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trimbed.cli import output
from trimbed.cli.output import Format, emit, pick_format, share, size
from trimbed.errors import UsageError

ROWS = [{"token": "a,\"b'\n", "count": 1234567, "share": 0.25}, {"token": None, "count": 0, "share": None}]


@pytest.mark.parametrize("rows", [ROWS, pa.Table.from_pylist(ROWS)], ids=["records", "arrow"])
def test_csv_and_json_carry_the_values_unchanged(rows: object, capsys: pytest.CaptureFixture[str]) -> None:
    emit(rows, Format.json)  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out) == ROWS
    emit(rows, Format.csv)  # type: ignore[arg-type]
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert read[0] == {"token": ROWS[0]["token"], "count": "1234567", "share": "0.25"}


def test_json_has_no_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"nan": float("nan"), "inf": float("inf"), "list": [1.5, float("-inf")]}], Format.json)
    out = capsys.readouterr().out
    assert json.loads(out, parse_constant=lambda name: pytest.fail(name)) == [
        {"nan": None, "inf": None, "list": [1.5, None]}
    ]


def test_a_folder_is_no_output_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        emit(ROWS, Format.csv, output=tmp_path)


def test_parquet_goes_to_a_file(tmp_path: Path) -> None:
    emit(ROWS, Format.parquet, output=tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == ROWS


def test_a_table_separates_thousands_and_writes_control_characters_out(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"token": "\x1b[31m[bold]x\n", "count": 1234567}], Format.table)
    shown = capsys.readouterr().out
    assert "1,234,567" in shown
    assert "\\x1b[31m[bold]x\\n" in shown


def test_a_row_too_wide_for_the_terminal_stands_upright(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    emit([{f"a_long_column_name_{index}": index * 1000 for index in range(16)}], Format.table)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["a_long_column_name_15", "15,000"] for line in lines)
    assert max(map(len, lines)) <= 80


def test_json_and_another_format_contradict_each_other() -> None:
    assert pick_format(None, True) is Format.json
    assert pick_format(None, False) is Format.table
    with pytest.raises(UsageError, match="contradict"):
        pick_format(Format.csv, True)


def test_a_share_is_never_rounded_up_to_all() -> None:
    assert share(0.9999999) == ">99.99%"
    assert share(1.0) == "100.00%"
    assert size(1_234_567) == "1.2 MB"


def test_messages_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.note("[red]for the reader[/red]")
    output.error("wrong")
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "[red]for the reader[/red]" in streams.err
    assert "error: wrong" in streams.err

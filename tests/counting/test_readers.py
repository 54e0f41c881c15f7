"""What the readers give for every format: each row once, in order, however files are sliced; bad rows by the rules."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

import corpora

from trimbed.counting.config import DatasetConfig
from trimbed.counting.readers.csvs import record_starts
from trimbed.counting.readers.lines import line_blocks, split_lines
from trimbed.counting.shards import Extent
from trimbed.errors import CountingError

TEXTS = corpora.documents(300)


def written(folder: Path, kind: str) -> tuple[Path, list[str]]:
    lines = corpora.one_line(TEXTS)
    if kind == "text":
        return corpora.write_text(folder / "a.txt", lines), lines
    if kind == "parquet":
        return corpora.write_parquet(folder / "a.parquet", TEXTS), TEXTS
    if kind == "one row group":
        return corpora.write_parquet(folder / "a.parquet", TEXTS, rows=10_000), TEXTS
    if kind == "csv":
        return corpora.write_csv(folder / "a.csv", TEXTS), TEXTS
    plain = corpora.write_jsonl(folder / "a.jsonl", TEXTS)
    if kind == "jsonl.gz":
        return corpora.write_gzip(folder / "b.jsonl.gz", plain), TEXTS
    if kind == "jsonl.zst":
        return corpora.write_zstd(folder / "b.jsonl.zst", plain), TEXTS
    return plain, TEXTS


KINDS = ["parquet", "one row group", "jsonl", "jsonl.gz", "jsonl.zst", "csv", "text"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shard_bytes", [50, 1000, 10**9])
def test_every_row_is_read_once_and_in_order_however_the_file_is_sliced(
    tmp_path: Path, kind: str, shard_bytes: int
) -> None:
    path, expected = written(tmp_path, kind)
    for batch_bytes in (100, 10**6):
        rows = corpora.read_all(DatasetConfig(path=str(path)), shard_bytes=shard_bytes, batch_bytes=batch_bytes)
        assert rows.texts == expected
        assert not rows.skipped and not rows.replaced


@pytest.mark.parametrize("kind", ["parquet", "one row group", "jsonl", "csv", "text"])
def test_one_big_file_becomes_several_shards(tmp_path: Path, kind: str) -> None:
    path, _ = written(tmp_path, kind)
    rows = corpora.read_all(DatasetConfig(path=str(path)), shard_bytes=2000)
    assert len(rows.source.shards) >= 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 37, 38, 150, 299, 300, 1000])
def test_max_samples_takes_the_first_rows(tmp_path: Path, kind: str, number: int) -> None:
    path, expected = written(tmp_path, kind)
    rows = corpora.read_all(DatasetConfig(path=str(path), max_samples=number))
    assert rows.texts == expected[:number]


def test_many_small_files_share_shards(tmp_path: Path) -> None:
    for number in range(50):
        corpora.write_jsonl(tmp_path / f"{number:02}.jsonl", TEXTS[number * 6 : number * 6 + 6])
    rows = corpora.read_all(DatasetConfig(path=str(tmp_path)), shard_bytes=20_000)
    assert rows.texts == TEXTS
    assert len(rows.source.shards) < 10


def test_a_text_file_can_be_one_document(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\n")
    (tmp_path / "a.txt").write_bytes(b"")
    rows = corpora.read_all(DatasetConfig(path=str(tmp_path), sample_by="document"))
    assert rows.texts == ["", "one\r\ntwo\n\n"]


def test_files_of_any_name_are_read_with_a_loader_name(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("print()\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "y.py").write_text("pass\n", encoding="utf-8")
    dataset = DatasetConfig(path="text", data_files=f"{tmp_path}/**/*.py", sample_by="document")
    rows = corpora.read_all(dataset)
    assert rows.texts == ["pass\n", "print()\n"]


def test_line_ends_of_both_kinds_are_no_text_and_lone_carriage_returns_are(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo\rthree\n\nfour")
    for shard_bytes in (1, 3, 1000):
        rows = corpora.read_all(DatasetConfig(path=str(tmp_path / "a.txt")), shard_bytes=shard_bytes, batch_bytes=2)
        assert rows.texts == ["one", "", "two\rthree", "", "four"]


@given(
    data=st.binary(max_size=60).map(lambda raw: raw.replace(b"\0", b"\n").replace(b"\1", b"\r\n")),
    cuts=st.sets(st.integers(1, 59)),
    batch=st.integers(1, 20),
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_ranges_that_touch_give_each_line_exactly_once(tmp_path: Path, data: bytes, cuts: set[int], batch: int) -> None:
    data = data.removeprefix(b"\xef\xbb\xbf")
    path = tmp_path / "any.txt"
    path.write_bytes(data)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    lines: list[bytes] = []
    for start, stop in pairwise(bounds):
        for block in line_blocks(Extent("any.txt", str(path), start, stop), batch):
            lines += split_lines(block).to_pylist()
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert lines == [line.removesuffix(b"\r") for line in expected]


def test_bad_json_rows_are_skipped_by_reason_and_the_rest_of_the_batch_is_kept(tmp_path: Path) -> None:
    lines = [
        b'{"text": "ok"}',
        b'{"text": null}',
        b'{"text": "ok\\ud800bad"}',
        b'{"text": ""}',
        b'{"other": 1}',
        b'{"text": 3}',
        b"",
        b"null",
        b'{"text": "a\xff"}',
        b'{"text": "q"}{"text": "r"}',
        b'{"text": "no end',
        b'{"text": "end"}',
    ]
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\n".join(lines))
    for shard_bytes, batch_bytes in ((10**6, 10**6), (20, 10), (60, 1000)):
        rows = corpora.read_all(DatasetConfig(path=str(path)), shard_bytes=shard_bytes, batch_bytes=batch_bytes)
        assert rows.documents == ["ok", "ok�bad", "", "a�", "end"]
        assert rows.skipped == {"null": 1, "missing": 1, "not_text": 1, "blank": 1, "malformed": 3}
        assert rows.replaced == 2
        assert len(rows.texts) == len(lines)


@given(
    lines=st.lists(
        st.one_of(
            st.text(max_size=8).map(lambda text: json.dumps({"text": text})),
            st.sampled_from(
                ['{"text": 1}', "{}", "", "[]", '{"text": "a"', '{"x": {"text": "b"}}', "  ", '{"text":"\\ud83d"}']
            ),
            st.dictionaries(st.sampled_from(["text", "b"]), st.integers() | st.text(max_size=3), max_size=2).map(
                json.dumps
            ),
        ),
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_the_verdict_on_a_json_line_does_not_depend_on_its_neighbours(lines: list[str]) -> None:
    from trimbed.counting.readers.jsonl import parse_lines

    raw = [line.encode("utf-8", "surrogatepass") for line in lines]
    together = parse_lines(raw, "text")
    apart = [parse_lines([line], "text") for line in raw]
    assert together.texts.to_pylist() == [text for batch in apart for text in batch.texts.to_pylist()]
    assert together.replaced == sum(batch.replaced for batch in apart)
    assert sum(together.skipped.values()) == sum(sum(batch.skipped.values()) for batch in apart)


def test_invalid_utf8_becomes_replacement_characters_as_python_does_it(tmp_path: Path) -> None:
    raw = [b"good", b"\xff\xfe", b"caf\xc3", b"\xed\xa0\x80", b"\xc3\xa9"]
    expected = [value.decode(errors="replace") for value in raw]
    (tmp_path / "a.txt").write_bytes(b"\n".join(raw))
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), 5, pa.array(raw, pa.binary()).buffers())})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": pa.array(raw, pa.binary())}), tmp_path / "bytes.parquet")
    (tmp_path / "a.csv").write_bytes(b"text\n" + b"\n".join(raw))
    for name in ("a.txt", "a.parquet", "bytes.parquet", "a.csv"):
        rows = corpora.read_all(DatasetConfig(path=str(tmp_path / name)), batch_bytes=10**6)
        assert rows.texts == expected, name
        assert rows.replaced == 3, name


def test_null_rows_are_skipped_and_empty_ones_are_documents(tmp_path: Path) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", ["a", None, "", None, "b"], rows=2)
    rows = corpora.read_all(DatasetConfig(path=str(path)))
    assert rows.documents == ["a", "", "b"]
    assert rows.skipped == {"null": 2}


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", None], pa.large_string()),
        pa.array(["a", "b", None], pa.string_view()),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array([b"a", b"b", None], pa.binary()),
    ],
    ids=["large_string", "string_view", "dictionary", "binary"],
)
def test_every_kind_of_text_column_is_text(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, pa.schema([("text", column.type)])) as out,
    ):
        out.write_table(pa.table({"text": column}))
    for name in ("a.parquet", "a.arrow"):
        assert corpora.read_all(DatasetConfig(path=str(tmp_path / name))).texts == ["a", "b", None]


def test_a_column_of_nulls_alone_is_read_as_skipped_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.nulls(3)}), tmp_path / "a.parquet")
    assert corpora.read_all(DatasetConfig(path=str(tmp_path / "a.parquet"))).skipped == {"null": 3}


def test_csv_rows_of_the_wrong_length_are_skipped_as_malformed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,one\n2\n3,"th\nree"\n4,a,b\n5,five\n', encoding="utf-8")
    rows = corpora.read_all(DatasetConfig(path=str(path)))
    assert rows.documents == ["one", "th\nree", "five"]
    assert rows.skipped == {"malformed": 2}


def test_a_csv_record_longer_than_a_block_is_read_whole_and_nothing_twice(tmp_path: Path) -> None:
    texts = ["first", "x" * (6 << 20), "between", "y\n" * (3 << 20), "last"]
    path = corpora.write_csv(tmp_path / "a.csv", texts)
    rows = corpora.read_all(DatasetConfig(path=str(path)), shard_bytes=10**9)
    assert rows.texts == texts


def test_a_csv_whose_quotes_are_ambiguous_is_not_sliced(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text\n" + 'five 5" nails\n' * 100, encoding="utf-8")
    assert record_starts(str(path), ",", 100) == []
    assert corpora.read_all(DatasetConfig(path=str(path)), shard_bytes=100).texts == ['five 5" nails'] * 100


def test_tab_separated_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\ttext\n1\ta, b\n", encoding="utf-8")
    assert corpora.read_all(DatasetConfig(path=str(tmp_path / "a.tsv"))).texts == ["a, b"]


def test_save_to_disk_folders_are_read_by_record_batch(tmp_path: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"text": TEXTS}).save_to_disk(str(tmp_path / "one"), max_shard_size="3KB")
    both = datasets.DatasetDict(
        {"train": datasets.Dataset.from_dict({"text": TEXTS}), "test": datasets.Dataset.from_dict({"text": TEXTS[:3]})}
    )
    both.save_to_disk(str(tmp_path / "both"))
    assert corpora.read_all(DatasetConfig(path=str(tmp_path / "one"))).texts == TEXTS
    assert corpora.read_all(DatasetConfig(path=str(tmp_path / "both"), load_from_disk=True)).texts == TEXTS
    assert corpora.read_all(DatasetConfig(path=str(tmp_path / "both"), split="test")).texts == TEXTS[:3]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_truncated_compressed_file_is_an_error_that_names_it(tmp_path: Path, suffix: str) -> None:
    plain = corpora.write_jsonl(tmp_path / "a.jsonl", corpora.documents(20_000))
    write = corpora.write_gzip if suffix == ".gz" else corpora.write_zstd
    path = write(tmp_path / f"b.jsonl{suffix}", plain)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CountingError, match=f"b.jsonl{suffix}.*damaged after row"):
        corpora.read_all(DatasetConfig(path=str(path)), batch_bytes=1 << 16)


def test_a_damaged_parquet_page_is_an_error_that_names_file_and_row(tmp_path: Path) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", TEXTS)
    data = bytearray(path.read_bytes())
    group = pq.read_metadata(path).row_group(4).column(1)
    start = group.dictionary_page_offset or group.data_page_offset
    data[start : start + 60] = b"\xff" * 60
    path.write_bytes(bytes(data))
    with pytest.raises(CountingError, match=r"a\.parquet: damaged after row"):
        corpora.read_all(DatasetConfig(path=str(path)))

"""What a dataset entry resolves to, what identifies it, and how it is refused."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

sys.path.insert(0, str(Path(__file__).parent))

import corpora

from trimbed.counting.config import CorpusConfig, DatasetConfig
from trimbed.counting.planning import Unreadable
from trimbed.counting.sources import resolve_source
from trimbed.errors import CountingError, TrimbedError, UsageError

TEXTS = corpora.documents(100)


def test_identity_and_plan_are_the_same_wherever_the_files_lie_and_whenever_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("1.parquet", "2.parquet"):
        corpora.write_parquet(tmp_path / "a" / name, TEXTS)
    shutil.copytree(tmp_path / "a", tmp_path / "b" / "c", copy_function=shutil.copyfile)
    first = resolve_source(DatasetConfig(path=str(tmp_path / "a")), shard_bytes=500)
    second = resolve_source(DatasetConfig(path=str(tmp_path / "b" / "c")), shard_bytes=500)
    assert first.identity == second.identity
    assert first.plan_hash == second.plan_hash


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.csv", "a.txt"])
def test_a_changed_file_changes_the_identity_even_at_the_same_size(tmp_path: Path, name: str) -> None:
    write = {
        ".parquet": corpora.write_parquet,
        ".jsonl": corpora.write_jsonl,
        ".csv": corpora.write_csv,
        ".txt": corpora.write_text,
    }
    path = tmp_path / name
    write[path.suffix](path, ["one", "two", "three"])
    before = resolve_source(DatasetConfig(path=str(path))).identity
    write[path.suffix](path, ["one", "owt", "three"])
    after = resolve_source(DatasetConfig(path=str(path))).identity
    assert before != after
    assert before.keys() == after.keys()


def test_the_plan_does_not_know_the_number_of_workers(tmp_path: Path) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", TEXTS)
    plans = {
        resolve_source(CorpusConfig(datasets=(DatasetConfig(path=str(path)),), workers=n).datasets[0]).plan_hash
        for n in (1, 2, 8)
    }
    assert len(plans) == 1


def test_another_shard_size_is_another_plan(tmp_path: Path) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", TEXTS)
    dataset = DatasetConfig(path=str(path))
    assert resolve_source(dataset, shard_bytes=100).plan_hash != resolve_source(dataset, shard_bytes=10**6).plan_hash


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda folder: corpora.write_parquet(folder / "a.parquet", TEXTS),
            r"a\.parquet: no column 'body'; it has 'id', 'text'",
        ),
        (
            lambda folder: corpora.write_jsonl(folder / "a.jsonl", TEXTS),
            r"a\.jsonl: no column 'body'; line 1 has 'id', 'text'",
        ),
        (lambda folder: corpora.write_csv(folder / "a.csv", TEXTS), r"a\.csv: no column 'body'; it has 'id', 'text'"),
    ],
    ids=["parquet", "jsonl", "csv"],
)
def test_a_missing_text_column_is_named_with_those_there_are(tmp_path: Path, write: object, message: str) -> None:
    path = write(tmp_path)  # type: ignore[operator]
    with pytest.raises(CountingError, match=message):
        resolve_source(DatasetConfig(path=str(path), text_column="body"))


@pytest.mark.parametrize("write", [corpora.write_parquet, corpora.write_jsonl], ids=["a.parquet", "a.jsonl"])
def test_a_column_that_is_not_text_is_refused(tmp_path: Path, write: object, request: pytest.FixtureRequest) -> None:
    path = write(tmp_path / request.node.callspec.id, TEXTS)  # type: ignore[operator]
    with pytest.raises(CountingError, match=r"'id'.*isn't text"):
        resolve_source(DatasetConfig(path=str(path), text_column="id"))


@pytest.mark.parametrize("keep", [0, 3, 100, -9])
def test_a_truncated_parquet_file_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    path = corpora.write_parquet(tmp_path / "cut.parquet", TEXTS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CountingError, match=r"cut\.parquet: not a whole Parquet file"):
        resolve_source(DatasetConfig(path=str(path)))


def test_an_unreadable_file_can_be_left_out_on_request_and_is_said_to_be(tmp_path: Path) -> None:
    corpora.write_parquet(tmp_path / "a.parquet", TEXTS)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(CountingError, match=r"b\.parquet"):
        resolve_source(DatasetConfig(path=str(tmp_path)))
    source = resolve_source(DatasetConfig(path=str(tmp_path)), unreadable=Unreadable.LEAVE_OUT)
    assert list(source.left_out) == ["b.parquet"]
    assert source.identity["left_out"] == ["b.parquet"]
    assert source.shards


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "/no/such/file.parquet"}, "no such file or folder"),
        ({"path": "./nothing"}, "no such file or folder"),
        ({"path": "parquet"}, "needs `data_files`"),
        ({"path": "parquet", "data_files": "/no/such/*.parquet"}, "no file matches"),
        ({"path": "{folder}", "split": "train[:10%]"}, "slices aren't supported"),
        ({"path": "{folder}", "split": "dev"}, "no data file"),
        ({"path": "{folder}", "revision": "main"}, "a revision belongs to a Hub dataset"),
        ({"path": "{folder}", "data_files": {"a": "x", "b": "y"}}, "choose one with `split`"),
        ({"path": "{folder}", "load_from_disk": True}, "not a folder that save_to_disk wrote"),
        ({"path": "{folder}/mixed"}, "files of several formats"),
        ({"path": "{folder}/odd.xyz"}, "the name doesn't tell the format"),
        ({"path": "s4://bucket/x.parquet"}, "s4"),
    ],
)
def test_entries_that_name_nothing_are_refused_with_what_to_do(
    tmp_path: Path, entry: dict[str, object], message: str
) -> None:
    corpora.write_parquet(tmp_path / "a.parquet", TEXTS)
    (tmp_path / "mixed").mkdir()
    corpora.write_parquet(tmp_path / "mixed" / "a.parquet", TEXTS)
    corpora.write_text(tmp_path / "mixed" / "a.txt", ["x"])
    (tmp_path / "odd.xyz").write_bytes(b"x")
    filled = {k: v.replace("{folder}", str(tmp_path)) if isinstance(v, str) else v for k, v in entry.items()}
    if entry["path"] == "{folder}" and "split" in entry:
        shutil.rmtree(tmp_path / "mixed")
    with pytest.raises(UsageError, match=message):
        resolve_source(DatasetConfig.model_validate(filled))


def test_splits_are_told_by_file_names(tmp_path: Path) -> None:
    corpora.write_parquet(tmp_path / "train-0.parquet", TEXTS[:10])
    corpora.write_parquet(tmp_path / "test-0.parquet", TEXTS[10:15])
    assert corpora.read_all(DatasetConfig(path=str(tmp_path), split="test")).texts == TEXTS[10:15]
    assert corpora.read_all(DatasetConfig(path=str(tmp_path), split="train")).texts == TEXTS[:10]
    assert len(corpora.read_all(DatasetConfig(path=str(tmp_path))).texts) == 15


def test_a_saved_dataset_cannot_name_files_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../secret.arrow"}]}', encoding="utf-8")
    with pytest.raises(CountingError, match="outside the folder"):
        resolve_source(DatasetConfig(path=str(tmp_path)))


@pytest.mark.parametrize("name", ["run[1].parquet", "päth 文.parquet", "a b.parquet"])
def test_odd_file_names_are_taken_literally(tmp_path: Path, name: str) -> None:
    path = corpora.write_parquet(tmp_path / name, TEXTS)
    assert corpora.read_all(DatasetConfig(path=str(path))).texts == TEXTS
    assert corpora.read_all(DatasetConfig(path="parquet", data_files=str(path))).texts == TEXTS


def test_source_names_are_safe_and_follow_from_the_entry_alone() -> None:
    def named(**entry: object) -> str:
        return DatasetConfig.model_validate(entry).source_name()

    assert named(path="owner/data", name="de", split="train") == "owner--data-de-train"
    assert named(path="/data/../web crawl/x.parquet") == "x"
    assert named(path="https://host/a/b.jsonl.gz?token=1") == "b"
    assert named(path="good.parquet") == named(path="./good.parquet") == "good"
    assert named(path="sub/good.jsonl") == named(path="./sub/good.jsonl") == "sub--good.jsonl"
    assert named(path="..") == "data"
    assert named(path="json", data_files="dir/x.jsonl") == "json-x"
    assert named(path="a", source="mine") == "mine"


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "a\x00"])
def test_source_names_that_could_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        DatasetConfig(path="x", source=name)


def test_two_datasets_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="name one of them with `source`"):
        CorpusConfig.model_validate(
            {"datasets": [{"path": "a/x.parquet"}, {"path": "/b/x.parquet", "source": "a--x.parquet"}]}
        )


def test_code_of_datasets_is_never_run() -> None:
    with pytest.raises(ValidationError, match="code of their own"):
        DatasetConfig(path="owner/data", trust_remote_code=True)


def test_a_hub_dataset_that_cannot_be_reached_is_a_clear_error() -> None:
    with pytest.raises(TrimbedError, match="'nobody/nothing'"):
        resolve_source(DatasetConfig(path="nobody/nothing"))


def test_a_file_that_is_named_twice_in_whatever_spelling_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    corpora.write_parquet(tmp_path / "in" / "plain.parquet", TEXTS)
    monkeypatch.chdir(tmp_path)
    spellings = ("in/plain.parquet", "./in/plain.parquet", "in/../in/plain.parquet", "in/pl*.parquet")
    once = resolve_source(DatasetConfig(path="parquet", data_files=(str(tmp_path / "in" / "plain.parquet"),)))
    many = resolve_source(DatasetConfig(path="parquet", data_files=spellings))
    assert len(many.shards) == len(once.shards) == 1
    assert [extent.path for extent in many.shards[0].extents] == [extent.path for extent in once.shards[0].extents]


def test_linked_folders_are_read_and_a_link_to_nothing_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    corpora.write_parquet(tmp_path / "elsewhere" / "far.parquet", TEXTS)
    corpora.write_parquet(tmp_path / "data" / "near.parquet", TEXTS)
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data")
    source = resolve_source(DatasetConfig(path=str(tmp_path / "data")))
    assert sorted({Path(e.path).name for shard in source.shards for e in shard.extents}) == [
        "far.parquet",
        "near.parquet",
    ]
    (tmp_path / "data" / "gone.parquet").symlink_to(tmp_path / "nowhere.parquet")
    with pytest.raises(TrimbedError, match=r"gone\.parquet"):
        resolve_source(DatasetConfig(path=str(tmp_path / "data")))

"""Counting into a cache: exact, the same however it is run, resumable, and clear about what it can't count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import made
import runs

from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter, TokenizerSource
from trimbed.counting.queue import ShardDone, Workers
from trimbed.errors import CacheMismatch, CountingError, TokenizerError, UsageError
from trimbed.storage.cache import CountsCache

TEXTS = corpora.documents(200) + made.SENTENCES
EXECUTORS = ["inline", "multiprocess"]


@pytest.fixture
def parquet(tmp_path: Path) -> dict[str, Any]:
    return {"path": str(corpora.write_parquet(tmp_path / "a.parquet", TEXTS)), "source": "a"}


def test_counts_equal_the_librarys_for_every_algorithm(
    any_tiny: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    """Invariant 1."""
    result = runs.run(any_tiny, tmp_path / "counts", [parquet])
    assert result.exit_code == 0
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(any_tiny, TEXTS))
    counts = result.counts()
    assert counts.num_documents == result.documents == len(TEXTS)
    assert result.bytes == sum(len(text.encode()) for text in TEXTS)


@pytest.mark.parametrize(
    "write", [corpora.write_jsonl, corpora.write_csv, corpora.write_parquet], ids=["jsonl", "csv", "parquet"]
)
def test_counts_do_not_depend_on_the_format(
    tiny_bpe: dict[str, Any], tmp_path: Path, write: Any, request: pytest.FixtureRequest
) -> None:
    path = write(tmp_path / f"a.{request.node.callspec.id}", TEXTS)
    runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}])
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))


def test_truncation_and_padding_in_the_tokenizer_file_are_off_while_counting(tmp_path: Path) -> None:
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    document = runs.wordpiece(
        {"[PAD]": 0, "[UNK]": 1, "hello": 2, "world": 3, "a": 4},
        truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        padding=padding | {"pad_type_id": 0, "pad_token": "[PAD]"},
    )
    path = corpora.write_jsonl(tmp_path / "a.jsonl", ["hello world hello world hello", "a"])
    runs.run(document, tmp_path / "counts", [{"path": str(path)}])
    assert runs.cached_counts(tmp_path / "counts").tolist() == [0, 0, 3, 2, 1]


def test_control_token_strings_in_text_are_counted_as_the_library_reads_them(tmp_path: Path) -> None:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": 0, "content": "[SEP]"} | flags, {"id": 1, "content": "[UNK]"} | flags]
    document = runs.wordpiece({"[SEP]": 0, "[UNK]": 1, "hello": 2, "world": 3}, added_tokens=added)
    path = corpora.write_jsonl(tmp_path / "a.jsonl", ["hello [SEP] world [MASK]"])
    runs.run(document, tmp_path / "counts", [{"path": str(path)}])
    assert runs.cached_counts(tmp_path / "counts").tolist() == [1, 3, 1, 1]


def test_speed_and_memory_settings_never_change_the_cache(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    """Invariant 2: workers 1, 2 and 4, batch sizes, executors."""
    runs.run(tiny_bpe, tmp_path / "plain", [parquet])
    expected = runs.content(tmp_path / "plain")
    assert len([name for name in expected if name.startswith("shards/")]) > 4
    for number, settings in enumerate(
        [
            {"batch_megabytes": 0.0001},
            {"executor": "multiprocess", "workers": 1, "batch_megabytes": 1},
            {"executor": "multiprocess", "workers": 2, "batch_megabytes": 0.001},
            {"executor": "multiprocess", "workers": 4},
        ]
    ):
        runs.run(tiny_bpe, tmp_path / str(number), [parquet], **settings)
        assert runs.content(tmp_path / str(number)) == expected, settings


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_every_document_is_counted_once_whatever_the_numbers_of_workers_and_shards(
    tmp_path: Path, workers: int
) -> None:
    vocab = {f"w{n}": n for n in range(600)} | {"<unk>": 600}
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
    }  # fmt: skip
    (tmp_path / "files").mkdir()
    for file in range(6):
        numbers = range(file * 100, file * 100 + 100)
        corpora.write_parquet(tmp_path / "files" / f"{file}.parquet", [f"w{n}" for n in numbers], rows=100)
    settings = {"executor": "multiprocess", "shard_megabytes": 0.001, "workers": workers}
    result = runs.run(document, tmp_path / "counts", [{"path": str(tmp_path / "files")}], **settings)
    assert result.shards == 6
    assert runs.cached_counts(tmp_path / "counts").tolist() == [1] * 600 + [0]


def test_more_workers_than_shards_are_not_started(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    path = corpora.write_jsonl(tmp_path / "a.jsonl", ["one", "two"])
    corpus = CorpusConfig.model_validate({"datasets": [{"path": str(path)}], "workers": 5, "engine": "reference"})
    seen: list[int] = []
    CorpusCounter(runs.tokenizer_source(tiny_bpe), corpus, tmp_path / "counts").run(
        lambda event: seen.append(event.number) if isinstance(event, Workers) else None
    )
    assert seen == [1]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_second_run_finds_everything_done(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any], executor: str
) -> None:
    first = runs.run(tiny_bpe, tmp_path / "counts", [parquet], executor=executor)
    before = runs.content(tmp_path / "counts")
    second = runs.run(tiny_bpe, tmp_path / "counts", [parquet], executor=executor)
    assert (second.new, second.present, second.exit_code) == (0, first.new, 0)
    assert runs.content(tmp_path / "counts") == before


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_run_goes_on_where_another_stopped(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any], executor: str
) -> None:
    """Invariant 4: stopped after three shards, in the middle of others."""
    runs.run(tiny_bpe, tmp_path / "plain", [parquet])

    class Stop(Exception):
        pass

    done = 0

    def stop(event: object) -> None:
        nonlocal done
        done += isinstance(event, ShardDone)
        if done == 3:
            raise Stop

    corpus = CorpusConfig.model_validate(
        {
            "datasets": [parquet],
            "executor": executor,
            "engine": "reference",
            "shard_megabytes": 0.002,
            "sample_size": 8,
            "workers": 2,
        }
    )
    with pytest.raises(Stop):
        CorpusCounter(runs.tokenizer_source(tiny_bpe), corpus, tmp_path / "counts").run(stop)
    result = runs.run(tiny_bpe, tmp_path / "counts", [parquet], executor=executor)
    assert result.present >= 3 and result.new > 0
    assert runs.content(tmp_path / "counts") == runs.content(tmp_path / "plain")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_shard_that_cannot_be_read_is_set_aside_and_the_rest_is_counted(
    tiny_bpe: dict[str, Any], tmp_path: Path, executor: str
) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", TEXTS, rows=10)
    damage(path)
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}], executor=executor)
    assert result.exit_code == 1
    assert result.missing == 1 and result.new == result.shards - 1
    (failed,) = result.failed
    assert failed.attempts == 1
    assert f"{path}: damaged after row" in str(failed.failure)
    assert "Traceback" in failed.failure.trace


def test_missing_shards_can_be_allowed(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", TEXTS, rows=10)
    damage(path)
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}], allow_missing_shards=True)
    assert result.exit_code == 0 and len(result.failed) == 1


@pytest.mark.parametrize("executor", EXECUTORS)
def test_strict_stops_at_the_first_shard_that_fails(tiny_bpe: dict[str, Any], tmp_path: Path, executor: str) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", TEXTS, rows=10)
    damage(path)
    with pytest.raises(CountingError, match=r"a\.parquet: damaged after row"):
        runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}], executor=executor, strict=True)


def damage(path: Path, group: int = 3) -> None:
    """Overwrite the beginning of one page."""
    chunk = pq.read_metadata(path).row_group(group).column(1)
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + 60] = b"\xff" * 60
    path.write_bytes(bytes(data))


def test_adding_a_dataset_counts_only_what_is_new(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    first = runs.run(tiny_bpe, tmp_path / "counts", [parquet])
    more = {"path": str(corpora.write_jsonl(tmp_path / "b.jsonl", ["more", "text"])), "source": "b"}
    second = runs.run(tiny_bpe, tmp_path / "counts", [more, parquet])
    assert second.present == first.new and second.new == 1
    by_source = CountsCache.open(str(tmp_path / "counts")).read_counts().by_source
    assert np.array_equal(by_source["b"], runs.library_counts(tiny_bpe, ["more", "text"]))


def test_weights_change_nothing_in_the_cache(tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]) -> None:
    """Invariant 6."""
    runs.run(tiny_bpe, tmp_path / "one", [parquet])
    runs.run(tiny_bpe, tmp_path / "two", [parquet | {"weight": 7.5}])
    assert runs.content(tmp_path / "one") == runs.content(tmp_path / "two")


def test_something_else_is_refused_with_its_differences(
    tiny_bpe: dict[str, Any], tiny_wordlevel: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    """Invariant 5."""
    cache = tmp_path / "counts"
    runs.run(tiny_bpe, cache, [parquet])
    before = runs.content(cache)
    with pytest.raises(CacheMismatch, match="fingerprint"):
        runs.run(tiny_wordlevel, cache, [parquet])
    with pytest.raises(CacheMismatch, match="max_samples"):
        runs.run(tiny_bpe, cache, [parquet | {"max_samples": 5}])
    with pytest.raises(CacheMismatch, match="shards were cut otherwise"):
        runs.run(tiny_bpe, cache, [parquet], shard_megabytes=1)
    with pytest.raises(CacheMismatch, match="sample_size"):
        runs.run(tiny_bpe, cache, [parquet], sample_size=9)
    corpora.write_parquet(Path(parquet["path"]), [*TEXTS, "one more"])
    with pytest.raises(CacheMismatch, match=r"file a\.parquet"):
        runs.run(tiny_bpe, cache, [parquet])
    assert runs.content(cache) == before


def test_bad_rows_are_counted_in_the_report_and_nothing_else_is_lost(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    lines = [
        '{"text": "ok"}',
        '{"text": null}',
        '{"text": "ok\\ud800bad"}',
        '{"text": ""}',
        '{"x": 1}',
        '{"text": 5}',
        "",
    ]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"text": "end"}']), encoding="utf-8")
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(tmp_path / "a.jsonl")}])
    assert result.exit_code == 0
    assert result.skipped_rows == {"blank": 1, "missing": 1, "not_text": 1, "null": 1}
    assert (result.documents, result.replaced_rows) == (4, 1)
    expected = runs.library_counts(tiny_bpe, ["ok", "ok�bad", "", "end"])
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), expected)
    (record,) = CountsCache.open(str(tmp_path / "counts")).committed("a").values()
    assert (record.empty_documents, record.skipped_rows) == (1, result.skipped_rows)


def test_a_document_the_tokenizer_cannot_encode_is_an_error_that_shows_it(tmp_path: Path) -> None:
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0], ["b", -2.0]], "byte_fallback": False},
    }  # fmt: skip
    path = corpora.write_jsonl(tmp_path / "a.jsonl", ["ab", "az", "b"])
    result = runs.run(document, tmp_path / "counts", [{"path": str(path)}])
    assert result.exit_code == 1
    assert "'az'" in str(result.failed[0].failure)


def test_a_document_of_50_mb_is_one_document(tmp_path: Path, tiny_wordlevel: dict[str, Any]) -> None:
    """Without a pre-tokenizer it is one unknown word, so that the library is quick."""
    big = "long words " * 5_000_000
    document = tiny_wordlevel | {"pre_tokenizer": None}
    path = corpora.write_jsonl(tmp_path / "a.jsonl", ["before", big, "", "after"])
    result = runs.run(document, tmp_path / "counts", [{"path": str(path)}], shard_megabytes=64)
    assert (result.documents, result.tokens, result.exit_code) == (4, 3, 0)
    assert result.bytes > 50_000_000


@pytest.mark.slow
def test_a_document_of_50_mb_is_counted_exactly(tmp_path: Path, tiny_bpe: dict[str, Any]) -> None:
    big = "The quick brown fox, 1234 times.\n" * 1_600_000
    path = corpora.write_jsonl(tmp_path / "a.jsonl", ["before", big, "", "after"])
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}], shard_megabytes=64)
    assert (result.documents, result.exit_code) == (4, 0)
    expected = runs.library_counts(tiny_bpe, ["before", big, "after"])
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), expected)


def test_without_datasets_there_is_nothing_to_count(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no dataset to count"):
        runs.run(tiny_bpe, tmp_path / "counts", [])


def test_a_cache_path_that_is_a_file_is_refused(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    (tmp_path / "counts").write_text("mine", encoding="utf-8")
    with pytest.raises(Exception, match="counts") as caught:
        runs.run(tiny_bpe, tmp_path / "counts", [parquet])
    assert getattr(caught.value, "exit_code", None) in (1, 2)
    assert (tmp_path / "counts").read_text(encoding="utf-8") == "mine"


def test_cache_paths_with_any_characters_work(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    cache = tmp_path / "zählung 数 [1] %20"
    runs.run(tiny_bpe, cache, [parquet], executor="multiprocess", workers=1)
    assert np.array_equal(runs.cached_counts(cache), runs.library_counts(tiny_bpe, TEXTS))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}']
)
def test_a_tokenizer_that_the_library_refuses_is_a_clear_error(text: str) -> None:
    with pytest.raises(TokenizerError):
        TokenizerSource.from_document(text)


def test_parts_are_disjoint_and_together_complete(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    """Each part knows nothing of the others but the cache; afterwards the whole run finds nothing to do."""
    runs.run(tiny_bpe, tmp_path / "plain", [parquet])
    sizes = [runs.run(tiny_bpe, tmp_path / "parts", [parquet], part=f"{n}/3").new for n in (2, 0, 1)]
    whole = runs.run(tiny_bpe, tmp_path / "parts", [parquet])
    assert sum(sizes) == whole.present and whole.new == 0 and min(sizes) >= 2
    assert runs.content(tmp_path / "parts") == runs.content(tmp_path / "plain")


def test_the_sample_does_not_depend_on_workers_and_has_no_empty_documents(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any]
) -> None:
    runs.run(tiny_bpe, tmp_path / "one", [parquet])
    runs.run(tiny_bpe, tmp_path / "two", [parquet], executor="multiprocess", workers=2)
    first, second = (CountsCache.open(str(tmp_path / name)).samples() for name in ("one", "two"))
    assert first == second and len(first) == 8
    assert all(sample.text and sample.text in TEXTS for sample in first)


SCRIPT = """
import sys, tokenizers
from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter
document = open(sys.argv[1], encoding="utf-8").read()
tokenizers.Tokenizer.from_str(document).encode_batch(["some text"] * 100)  # threads exist now
corpus = CorpusConfig.model_validate({"datasets": [{"path": sys.argv[2]}], "workers": 2, "engine": "reference",
                                      "shard_megabytes": 0.002})
print(CorpusCounter(document, corpus, sys.argv[3]).run().exit_code)
"""


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_workers_start_after_the_parent_has_encoded_and_without_a_main_guard(
    tiny_bpe: dict[str, Any], tmp_path: Path, parquet: dict[str, Any], how: str
) -> None:
    """Also with TOKENIZERS_PARALLELISM=true, which makes a forked child hang."""
    import json

    (tmp_path / "tokenizer.json").write_text(json.dumps(tiny_bpe), encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    arguments = [str(tmp_path / "tokenizer.json"), parquet["path"], str(tmp_path / "counts")]
    program = str(tmp_path / "script.py") if how == "file" else "-"
    done = subprocess.run(
        [sys.executable, program, *arguments],
        input=SCRIPT if how == "stdin" else None,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "true"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))

"""Small inputs on which other tools went wrong, with the right numbers, counted by the library and by the kernel."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import made
import runs

from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter
from trimbed.storage.cache import CountsCache
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.tokenizer.surface import BYTE_CHARACTERS

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.fixture(params=["reference", "kernel"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def bpe(vocab: Sequence[str], merges: Sequence[tuple[str, str]], **parts: Any) -> dict[str, Any]:
    return made.bare_document(made.bare_bpe(vocab, merges), **({"pre_tokenizer": BYTE_LEVEL} | parts))


def added(index: int, content: str, **flags: bool) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": index, "content": content} | plain | flags


def counted(document: dict[str, Any], texts: Sequence[str], engine: str, folder: Path) -> list[int]:
    """The counts by id; also held against the library."""
    folder.mkdir(exist_ok=True)
    path = corpora.write_parquet(folder / "texts.parquet", texts)
    result = runs.run(document, folder / "counts", [{"path": str(path)}], engine=engine)
    assert result.exit_code == 0 and list(result.engines) == [engine]
    found = runs.cached_counts(folder / "counts")
    assert np.array_equal(found, runs.library_counts(document, texts))
    return [int(number) for number in found]


def test_truncation_and_padding_are_off_while_counting(tmp_path: Path, engine: str) -> None:
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    document = runs.wordpiece(
        {"[PAD]": 0, "[UNK]": 1, "hello": 2, "world": 3, "a": 4},
        truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        padding=padding | {"pad_type_id": 0, "pad_token": "[PAD]"},
        added_tokens=[added(0, "[PAD]", special=True), added(1, "[UNK]", special=True)],
    )
    assert counted(document, ["hello world hello world hello", "a"], engine, tmp_path) == [0, 0, 3, 2, 1]


def test_control_tokens_in_text_are_counted_and_take_no_place_of_ordinary_ones(tmp_path: Path, engine: str) -> None:
    from trimbed.selection.policy import SelectionConfig
    from trimbed.selection.select import select_tokens

    special = [added(0, "[SEP]", special=True), added(1, "[UNK]", special=True)]
    document = runs.wordpiece({"[SEP]": 0, "[UNK]": 1, "hello": 2, "world": 3}, added_tokens=special)
    assert counted(document, ["hello [SEP] world [MASK]"], engine, tmp_path / "a") == [1, 3, 1, 1]
    texts = ["hello [SEP] [SEP] [SEP] world world"]
    assert counted(document, texts, engine, tmp_path / "b") == [3, 0, 1, 2]
    counts = CountsCache.open(str(tmp_path / "b" / "counts")).read_counts()
    selection = select_tokens(TokenizerSpec.from_document(document), counts, SelectionConfig(top_k=1))
    assert selection.kept.tolist() == [0, 1, 3]


def test_runs_of_spaces_that_are_added_tokens_are_counted_as_such(tmp_path: Path, engine: str) -> None:
    four, two = added(4, "    "), added(5, "  ")
    document = bpe(["a", "b", "Ġ", "ĠĠ"], [("Ġ", "Ġ")], added_tokens=[four, two])
    assert counted(document, ["a    b"], engine, tmp_path / "a") == [1, 1, 0, 0, 1, 0]
    assert counted(document, ["a   b"], engine, tmp_path / "b") == [1, 1, 1, 0, 0, 1]
    without = bpe(["a", "b", "Ġ", "ĠĠ"], [("Ġ", "Ġ")], added_tokens=[two | {"id": 4}])
    assert counted(without, ["a    b"], engine, tmp_path / "c") == [1, 1, 0, 0, 2]
    code = ["    a", "        b", "    b        a"]
    numbers = counted(document, code, engine, tmp_path / "d")
    assert numbers[4] == 6 == max(numbers)


@pytest.mark.parametrize("normalized", [True, False])
def test_added_tokens_match_before_or_behind_the_normalizer_as_their_flag_says(
    tmp_path: Path, engine: str, normalized: bool
) -> None:
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    document = made.bare_document(
        model,
        normalizer={"type": "NFC"},
        pre_tokenizer={"type": "Whitespace"},
        added_tokens=[added(2, "cafe\u0301", normalized=normalized)],
    )
    numbers = counted(document, ["a cafe\u0301 a caf\u00e9"], engine, tmp_path)
    assert numbers == ([0, 2, 2] if normalized else [1, 2, 1])


def test_lower_casing_finds_normalized_added_tokens_in_any_case(tmp_path: Path, engine: str) -> None:
    lower = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    document = runs.wordpiece(
        {"[UNK]": 0, "a": 1},
        normalizer=lower | {"lowercase": True},
        pre_tokenizer={"type": "BertPreTokenizer"},
        added_tokens=[added(2, "Yesterday", normalized=True), added(3, "Tomorrow")],
    )
    assert counted(document, ["A YESTERDAY a Yesterday", "Tomorrow a TOMORROW"], engine, tmp_path) == [1, 3, 2, 1]


def test_flags_of_added_tokens_decide_what_they_match_and_eat(tmp_path: Path, engine: str) -> None:
    flagged = [added(4, "ab", single_word=True), added(5, "<m>", lstrip=True, rstrip=True)]
    document = bpe(["a", "b", "x", "Ġ"], [], added_tokens=flagged)
    assert counted(document, ["abx ab"], engine, tmp_path / "a") == [1, 1, 1, 1, 1, 0]
    assert counted(document, ["x <m> x"], engine, tmp_path / "b") == [0, 0, 2, 0, 0, 1]


def test_a_byte_that_is_missing_without_an_unknown_vanishes_as_in_the_library(tmp_path: Path, engine: str) -> None:
    line_end, carriage_return = BYTE_CHARACTERS[0x0A], BYTE_CHARACTERS[0x0D]
    vocab = [character for character in BYTE_CHARACTERS if character != carriage_return]
    vocab.append(line_end * 2)
    document = bpe(vocab, [(line_end, line_end)])
    double = len(vocab) - 1
    for number, text in enumerate(("\r\n\r\n", "\n\n")):
        found = counted(document, [text], engine, tmp_path / str(number))
        assert found[double] == 1 and sum(found) == 1
    found = counted(document, ["a\rb"], engine, tmp_path / "c")
    assert sum(found) == 2 and found[vocab.index("a")] == found[vocab.index("b")] == 1


def test_bad_rows_are_counted_in_the_report_whatever_counts(
    tiny_bpe: dict[str, Any], tmp_path: Path, engine: str
) -> None:
    good = ['{"text": "ok"}', '{"text": "ok\\ud800bad"}', '{"text": ""}', '{"text": "end"}']
    bad = ['{"text": null}', '{"x": 1}', '{"text": 5}', ""]
    lines = [line for pair in zip(good, bad, strict=True) for line in pair] + ['{"text": "end"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(tmp_path / "a.jsonl")}], engine=engine)
    assert (result.exit_code, result.documents, result.replaced_rows) == (0, 5, 1)
    assert result.skipped_rows == {"blank": 1, "missing": 1, "not_text": 1, "null": 1}
    expected = runs.library_counts(tiny_bpe, ["ok", "ok\ufffdbad", "", "end", "end"])
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), expected)


def test_every_document_is_counted_once_where_workers_and_files_do_not_divide(tmp_path: Path, engine: str) -> None:
    words = {f"w{n}": n for n in range(600)} | {"<unk>": 600}
    document = made.bare_document(
        {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}, pre_tokenizer={"type": "WhitespaceSplit"}
    )
    (tmp_path / "files").mkdir()
    for file in range(6):
        corpora.write_parquet(tmp_path / "files" / f"{file}.parquet", [f"w{file * 100 + n}" for n in range(100)])
    settings = {"executor": "multiprocess", "shard_megabytes": 0.001, "workers": 4, "engine": engine}
    result = runs.run(document, tmp_path / "counts", [{"path": str(tmp_path / "files")}], **settings)
    assert result.shards >= 6 and list(result.engines) == [engine]
    assert runs.cached_counts(tmp_path / "counts").tolist() == [1] * 600 + [0]


def test_ten_equally_frequent_tokens_are_cut_to_the_same_five_in_any_order_of_files(
    tmp_path: Path, engine: str
) -> None:
    from trimbed.selection.policy import SelectionConfig
    from trimbed.selection.select import select_tokens

    words = [f"w{n}" for n in range(10)]
    vocab = {"[UNK]": 0} | {word: index for index, word in enumerate(words, 1)}
    document = runs.wordpiece(vocab, added_tokens=[added(0, "[UNK]", special=True)])
    paths = [
        corpora.write_parquet(tmp_path / f"{name}.parquet", [" ".join(words[at:] + words[:at])])
        for at, name in ((0, "a"), (4, "b"), (7, "c"))
    ]
    saved = set()
    for number, order in enumerate(list(itertools.permutations(paths))[::2]):
        settings = {"executor": "multiprocess", "workers": 4} if number == 1 else {}
        cache = tmp_path / f"counts{number}"
        datasets = [{"path": str(path)} for path in order]
        assert runs.run(document, cache, datasets, engine=engine, **settings).exit_code == 0
        counts = CountsCache.open(str(cache)).read_counts()
        assert counts.ranked_ids().tolist() == list(range(1, 11))
        selection = select_tokens(TokenizerSpec.from_document(document), counts, SelectionConfig(top_k=5))
        assert selection.kept.tolist() == [0, 1, 2, 3, 4, 5]
        selection.save(tmp_path / f"selection{number}.json")
        saved.add((tmp_path / f"selection{number}.json").read_bytes())
    assert len(saved) == 1


PROCESS = """
import sys, json, tokenizers
from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter
document = open(sys.argv[1], encoding="utf-8").read()
tokenizers.Tokenizer.from_str(document).encode_batch(["some text"] * 100)  # threads exist now
print(CorpusCounter(document, CorpusConfig.model_validate(json.loads(sys.argv[3])), sys.argv[2]).run().exit_code)
"""


def test_ten_of_many_rows_are_counted_and_the_process_ends_well_after_it_used_threads(
    tiny_bpe: dict[str, Any], tmp_path: Path, engine: str
) -> None:
    """Stopping early in a Parquet stream, and workers started after the parent's library has threads."""
    path = corpora.write_parquet(tmp_path / "a.parquet", ["some text"] * 50_000, rows=1000)
    (tmp_path / "tokenizer.json").write_text(json.dumps(tiny_bpe), encoding="utf-8")
    corpus = {"datasets": [{"path": str(path), "max_samples": 10}], "workers": 2, "engine": engine}
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, str(tmp_path / "tokenizer.json"), str(tmp_path / "counts"), json.dumps(corpus)],
        env={**os.environ, "TOKENIZERS_PARALLELISM": "true"},
        cwd=tmp_path,  # not the checkout, which would hide an installed trimbed
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, ["some text"]) * 10)


def test_a_large_document_is_counted_exactly_between_others(
    tiny_bpe: dict[str, Any], tmp_path: Path, engine: str
) -> None:
    """Larger than a shard and a batch; the slow suite has one of 50 MB."""
    big = "The quick brown fox, 1234 times.\n" * 30_000
    texts = ["before", big, "", "after"]
    path = corpora.write_jsonl(tmp_path / "a.jsonl", texts)
    corpus = CorpusConfig.model_validate(
        {
            "datasets": [{"path": str(path)}],
            "executor": "inline",
            "engine": engine,
            "shard_megabytes": 0.1,
            "batch_megabytes": 0.01,
        }
    )
    result = CorpusCounter(runs.tokenizer_source(tiny_bpe), corpus, tmp_path / "counts").run()
    assert (result.documents, result.exit_code) == (4, 0)
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, texts))

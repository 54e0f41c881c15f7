"""Joining caches, and the ``trimbed cache`` commands."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.cli import cache as cli
from trimbed.storage.cache import CountsCache
from trimbed.storage.compaction import compact
from trimbed.storage.errors import CacheError, CacheMismatch, UsageError
from trimbed.storage.merging import merge
from trimbed.storage.verification import verify


def part(place: Path, keys: list[int], source: str = "de", *, more: int = 0) -> str:
    cache = CountsCache.create_or_open(place, filled.manifest(source, shards=6))
    cache.write_vocabulary(filled.vocabulary())
    for key in keys:
        filled.put(cache, source, f"{key:08d}", {1: 1 + more, 2 + key: 5}, created=f"2026-01-0{key + 1}T00:00:00+00:00")
    return str(place)


def test_merging_in_any_order_gives_the_same_bytes(tmp_path: Path) -> None:
    parts = [
        part(tmp_path / "a", [0, 1]),
        part(tmp_path / "b", [1, 2, 3]),
        part(tmp_path / "c", [4], source="fr"),
    ]
    results = []
    for index, order in enumerate(itertools.permutations(parts)):
        merge(list(order), str(tmp_path / f"out{index}"))
        results.append(filled.files(tmp_path / f"out{index}"))
    assert all(result == results[0] for result in results)
    counts = CountsCache.open(tmp_path / "out0").read_counts()
    assert counts.by_source["de"].tolist() == filled.dense({1: 4, 2: 5, 3: 5, 4: 5, 5: 5}).tolist()
    assert counts.by_source["fr"].tolist() == filled.dense({1: 1, 6: 5}).tolist()


def test_merging_is_associative(tmp_path: Path) -> None:
    a, b, c = part(tmp_path / "a", [0]), part(tmp_path / "b", [1]), part(tmp_path / "c", [1, 2])
    merge([a, b], str(tmp_path / "ab"))
    merge([str(tmp_path / "ab"), c], str(tmp_path / "left"))
    merge([b, c], str(tmp_path / "bc"))
    merge([a, str(tmp_path / "bc")], str(tmp_path / "right"))
    assert filled.files(tmp_path / "left") == filled.files(tmp_path / "right")


def test_merging_one_cache_copies_it_and_says_what_it_holds(tmp_path: Path) -> None:
    a = part(tmp_path / "a", [0, 1])
    said = merge([a], str(tmp_path / "out"))
    assert filled.files(tmp_path / "out") == filled.files(a)
    assert [(p.shards, p.shared, p.documents, p.tokens) for p in said] == [(2, 0, 4, 12)]


def test_a_shard_that_two_caches_have_counts_once_and_it_is_said(tmp_path: Path) -> None:
    said = merge([part(tmp_path / "a", [0, 1]), part(tmp_path / "b", [1, 2])], str(tmp_path / "out"))
    assert [p.shared for p in said] == [1, 1]
    assert CountsCache.open(tmp_path / "out").read_counts().total_num_tokens == 18


def test_a_cache_given_twice_is_refused(tmp_path: Path) -> None:
    a = part(tmp_path / "a", [0])
    for inputs, output in (([a, a], "out"), ([a, a + "/"], "out"), ([a], "a")):
        with pytest.raises(UsageError, match="given twice"):
            merge(inputs, str(tmp_path / output))
    assert not (tmp_path / "out").exists()


def test_another_tokenizer_another_source_and_other_counts_are_refused(tmp_path: Path) -> None:
    a = part(tmp_path / "a", [0])
    other = filled.manifest("de", shards=6, vocab_size=20)
    CountsCache.create_or_open(tmp_path / "tokenizer", other)
    with pytest.raises(CacheMismatch, match="vocab_size"):
        merge([a, str(tmp_path / "tokenizer")], str(tmp_path / "out"))
    CountsCache.create_or_open(tmp_path / "plan", filled.manifest("de", shards=7))
    with pytest.raises(CacheMismatch, match="cut otherwise"):
        merge([a, str(tmp_path / "plan")], str(tmp_path / "out"))
    with pytest.raises(CacheMismatch, match=r"tokens: (6 and 7|7 and 6)"):
        merge([a, part(tmp_path / "counts", [0], more=1)], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_same_sum_of_other_counts_is_refused(tmp_path: Path) -> None:
    a = part(tmp_path / "a", [0])
    cache = CountsCache.create_or_open(tmp_path / "b", filled.manifest("de", shards=6))
    filled.put(cache, "de", "00000000", {1: 2, 2: 4})
    with pytest.raises(CacheMismatch, match="the counts of 2 token ids"):
        merge([a, cache.location], str(tmp_path / "out"))


def test_packs_are_merged_whole_or_refused(tmp_path: Path) -> None:
    a, b, c = part(tmp_path / "a", [0, 1, 2]), part(tmp_path / "b", [1, 2]), part(tmp_path / "c", [2, 3])
    for place in (a, b, c):
        compact(CountsCache.open(place))
    merge([a, b], str(tmp_path / "ab"))
    assert CountsCache.open(tmp_path / "ab").read_counts().total_num_tokens == 18
    assert verify(CountsCache.open(tmp_path / "ab")).sound
    with pytest.raises(CacheError, match="can't be taken apart"):
        merge([a, c], str(tmp_path / "ac"))


def test_a_merge_that_was_killed_goes_on(tmp_path: Path) -> None:
    inputs = [part(tmp_path / "a", [0, 1]), part(tmp_path / "b", [2])]
    merge(inputs, str(tmp_path / "out"))
    whole = filled.files(tmp_path / "out")
    (tmp_path / "out/shards/source=de/00000001.json").unlink()
    merge(inputs, str(tmp_path / "out"))
    assert filled.files(tmp_path / "out") == whole


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    cli.register(app)
    return CliRunner().invoke(app, ["cache", *arguments])


def test_the_commands_do_what_they_say(tmp_path: Path) -> None:
    counts = filled.full(tmp_path / "counts").location
    shown = json.loads(run("info", counts, "--json").stdout)
    assert [(s["source"], s["shards"], s["tokens"], s["files"]) for s in shown["sources"]] == [
        ("de", 3, 27, 9),
        ("nl/dutch", 3, 81, 9),
    ]
    assert "de" in run("info", counts).stdout
    assert run("verify", counts).exit_code == 0
    shutil.copytree(counts, tmp_path / "copy")
    merged = run("merge", counts, str(tmp_path / "copy"), "-o", str(tmp_path / "out"), "--json")
    assert [p["shared"] for p in json.loads(merged.stdout)] == [6, 6]
    assert json.loads(run("compact", counts, "--json").stdout)[0]["packs"] == 1
    (tmp_path / "copy/tokens/source=de/00000001.parquet").write_bytes(b"no")
    broken = run("verify", str(tmp_path / "copy"), "--json")
    assert broken.exit_code == 1
    assert [row["file"] for row in json.loads(broken.stdout)] == ["shards/source=de/00000001.json"]
    assert "1 problems" in run("repair", str(tmp_path / "copy")).stderr
    assert run("verify", str(tmp_path / "copy")).exit_code == 0

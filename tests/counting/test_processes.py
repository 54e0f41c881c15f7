"""Worker processes: a run whose workers die, hang or are told to stop, and shards that fail and recover."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import runs

from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter
from trimbed.counting.queue import Event, ShardFailed, ShardStarted

PROGRAM = Path(__file__).with_name("counting_process.py")
TEXTS = corpora.documents(200)


def start(folder: Path, document: dict[str, Any], **settings: Any) -> subprocess.Popen[str]:
    """A count of ``folder``'s a.jsonl in a process group of its own, as a terminal would start it."""
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    corpus = {"datasets": [{"path": str(folder / "a.jsonl")}], "engine": "reference", "workers": 2, "sample_size": 8}
    arguments = [str(PROGRAM), str(folder / "tokenizer.json"), str(folder / "counts"), json.dumps(corpus | settings)]
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def eventually(condition: Callable[[], object], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def committed(folder: Path) -> int:
    return sum(1 for _ in (folder / "counts").glob("shards/*/*.json"))


@pytest.mark.parametrize(("number", "whom"), [(signal.SIGINT, "all"), (signal.SIGTERM, "parent")])
def test_a_stopped_run_keeps_what_is_finished_and_goes_on_when_started_again(
    tiny_bpe: dict[str, Any], tmp_path: Path, number: signal.Signals, whom: str
) -> None:
    """Ctrl-C goes to the whole process group, a scheduler's SIGTERM to the parent."""
    texts = TEXTS * 25
    corpora.write_jsonl(tmp_path / "a.jsonl", texts)
    process = start(tmp_path, tiny_bpe, shard_megabytes=0.05)
    eventually(lambda: committed(tmp_path) >= 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number) if whom == "all" else os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not psutil.wait_procs(workers, timeout=10)[1]
    done = committed(tmp_path)
    assert json.loads(out)["new"] == done
    assert json.loads(out)["missing"] > 0
    out, err = start(tmp_path, tiny_bpe, shard_megabytes=0.05).communicate(timeout=120)
    assert json.loads(out)["present"] == done and json.loads(out)["missing"] == 0
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, texts))


def test_workers_end_when_their_parent_is_killed(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    corpora.write_jsonl(tmp_path / "a.jsonl", TEXTS * 25)
    process = start(tmp_path, tiny_bpe, shard_megabytes=0.05)
    eventually(lambda: committed(tmp_path) >= 1)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate(timeout=30)
    assert workers and not psutil.wait_procs(workers, timeout=20)[1]


class Disturbed:
    """Counts while a hook does things to the workers; remembers the events."""

    def __init__(self, document: dict[str, Any], folder: Path, hook: Callable[[Event], None], **settings: Any) -> None:
        corpora.write_jsonl(folder / "a.jsonl", TEXTS)
        corpus = {
            "datasets": [{"path": str(folder / "a.jsonl")}],
            "engine": "reference",
            "workers": 1,
            "sample_size": 8,
        }
        self.events: list[Event] = []
        self.hook = hook
        config = CorpusConfig.model_validate(corpus | {"shard_megabytes": 0.005} | settings)
        self.result = CorpusCounter(runs.tokenizer_source(document), config, folder / "counts").run(self.take)

    def take(self, event: Event) -> None:
        self.events.append(event)
        self.hook(event)

    @property
    def failures(self) -> list[ShardFailed]:
        return [event for event in self.events if isinstance(event, ShardFailed)]


def worker_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if any("spawn_main" in part for part in child.cmdline())]


def on_start(shard: str, action: Callable[[psutil.Process], None], *, attempts: int) -> Callable[[Event], None]:
    """Do ``action`` to the one worker when it is given ``shard`` for the first ``attempts`` times."""

    def hook(event: Event) -> None:
        if isinstance(event, ShardStarted) and event.shard.key == shard and event.attempt <= attempts:
            for process in worker_processes():
                action(process)

    return hook


def test_a_killed_workers_shard_is_tried_again_and_the_counts_are_right(
    tiny_bpe: dict[str, Any], tmp_path: Path
) -> None:
    run = Disturbed(tiny_bpe, tmp_path, on_start("00000001", psutil.Process.kill, attempts=2))
    assert run.result.exit_code == 0
    assert [failure.retried for failure in run.failures] == [True, True]
    assert "want of memory" in str(run.failures[0].failure)
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))


def test_a_shard_that_kills_its_worker_three_times_is_set_aside_and_the_rest_is_counted(
    tiny_bpe: dict[str, Any], tmp_path: Path
) -> None:
    run = Disturbed(tiny_bpe, tmp_path, on_start("00000001", psutil.Process.kill, attempts=99))
    assert run.result.exit_code == 1
    assert run.result.missing == 1
    (failed,) = run.result.failed
    assert failed.shard.key == "00000001" and failed.attempts == 3
    assert "tried 3 times" in str(failed.failure)


def test_a_worker_that_hangs_is_killed_and_its_shard_tried_again(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    run = Disturbed(tiny_bpe, tmp_path, on_start("00000001", psutil.Process.suspend, attempts=1), stall_seconds=3)
    assert run.result.exit_code == 0
    assert "no progress in 3 s" in str(run.failures[0].failure)
    assert np.array_equal(runs.cached_counts(tmp_path / "counts"), runs.library_counts(tiny_bpe, TEXTS))


def test_workers_that_cannot_start_end_the_run_with_one_error(
    tiny_bpe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trimbed.counting.executors import multiprocess
    from trimbed.errors import CountingError

    monkeypatch.setattr(multiprocess, "_work", os._exit)
    with pytest.raises(CountingError, match="worker processes don't start"):
        Disturbed(tiny_bpe, tmp_path, lambda event: None)


def test_a_tokenizer_that_workers_cannot_load_ends_the_run_with_one_error(
    tiny_bpe: dict[str, Any], tmp_path: Path
) -> None:
    from dataclasses import replace

    from trimbed.errors import CountingError

    corpora.write_jsonl(tmp_path / "a.jsonl", TEXTS)
    source = replace(runs.tokenizer_source(tiny_bpe), document="{}")
    corpus = CorpusConfig.model_validate(
        {"datasets": [{"path": str(tmp_path / "a.jsonl")}], "engine": "reference", "workers": 2}
    )
    with pytest.raises(CountingError, match="TokenizerError"):
        CorpusCounter(source, corpus, tmp_path / "counts").run()


def test_a_cache_that_cannot_be_written_is_one_clear_error(
    tiny_bpe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from trimbed.errors import CountingError
    from trimbed.storage.cache import CountsCache

    def full(*arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CountsCache, "commit", full)
    with pytest.raises(CountingError, match="can't be written: No space left on device"):
        Disturbed(tiny_bpe, tmp_path, lambda event: None, executor="inline")


def test_stopping_a_parquet_stream_early_ends_well(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    """200,000 rows in groups of 1,000, of which ten are wanted: the process ends by itself, with 0."""
    corpora.write_parquet(tmp_path / "a.parquet", ["some text"] * 200_000, rows=1000)
    settings = {"datasets": [{"path": str(tmp_path / "a.parquet"), "max_samples": 10}]}
    process = start(tmp_path, tiny_bpe, **settings)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert runs.cached_counts(tmp_path / "counts").sum() == runs.library_counts(tiny_bpe, ["some text"]).sum() * 10

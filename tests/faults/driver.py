"""The fault driver: runs a count while killing, interrupting, starving and corrupting it, from a seed.

``python driver.py FOLDER SEED`` replays one round and prints what it did.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "counting"), str(HERE.parent)]

import corpora  # noqa: E402
import made  # noqa: E402
import runs  # noqa: E402
from counting_process import BEGAN, ENDED  # noqa: E402

PROGRAM = HERE.parent / "counting" / "counting_process.py"
SHARDS = 24
_PATIENCE = 300


@dataclass
class Scene:
    """What all rounds share: a tokenizer, a corpus, and what an undisturbed run makes of it in how long."""

    folder: Path
    tokenizer: Path
    corpus: dict[str, Any]
    expected: dict[str, Any]
    seconds: float

    @property
    def shards(self) -> list[str]:
        return [name for name in self.expected if name.startswith("shards/")]

    @classmethod
    def make(cls, folder: Path) -> Scene:
        """Write the corpus and count it undisturbed, in this process."""
        document = made.tiny("bpe")
        tokenizer = folder / "tokenizer.json"
        tokenizer.write_text(json.dumps(document), encoding="utf-8")
        texts = made.stdlib_texts(300_000) + corpora.documents(1000)
        half = len(texts) // 2
        corpora.write_jsonl(folder / "a.jsonl", texts[:half])
        corpora.write_parquet(folder / "b.parquet", texts[half:], rows=100)
        size = (folder / "a.jsonl").stat().st_size
        datasets = [{"path": str(folder / name)} for name in ("a.jsonl", "b.parquet")]
        corpus = {"datasets": datasets, "shard_megabytes": size / SHARDS * 1.4 / (1 << 20), "sample_size": 8}
        corpus |= {"engine": "reference", "workers": 2, "stall_seconds": 60}
        runs.run(document, folder / "undisturbed", datasets, **{k: v for k, v in corpus.items() if k != "datasets"})
        scene = cls(folder, tokenizer, corpus, runs.content(folder / "undisturbed"), 0.0)
        started = time.monotonic()
        process = start(scene, folder / "timed")
        process.communicate(timeout=_PATIENCE)
        scene.seconds = time.monotonic() - started
        return scene


def start(scene: Scene, cache: Path, *, largest_file: int | None = None) -> subprocess.Popen[str]:
    """Start a count. ``largest_file`` is a full disk: no file may grow beyond so many bytes."""

    def limit() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(scene.tokenizer), str(cache), json.dumps(scene.corpus)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@dataclass
class Round:
    """One round: faults from ``seed``, then runs until all is counted, then the comparison."""

    scene: Scene
    seed: int
    cache: Path
    log: list[str] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)
    kills: int = 0

    def play(self) -> None:
        """Raises AssertionError, with the seed and what was done, at a wrong count or a lost shard."""
        chance = random.Random(self.seed)
        faults = [self.kill_workers, self.kill_workers, self.kill_parent, self.signal, self.full, self.corrupt]
        for fault in (chance.choice(faults[:3]), *chance.choices(faults, k=chance.randint(0, 1))):
            fault(chance)
        self.finish()

    def finish(self) -> None:
        """Run without faults until all is there, and compare. Raises AssertionError."""
        code, said = 1, ""
        for _ in range(4):
            code, said = self._finish(start(self.scene, self.cache))
            self.log.append(f"final run: {code}")
            if code == 0:
                break
        assert code == 0, self._story(said)
        self._check_kept()
        found = runs.content(self.cache)
        assert found.keys() == self.scene.expected.keys(), self._story(str(found.keys() ^ self.scene.expected.keys()))
        wrong = [name for name in found if found[name] != self.scene.expected[name]]
        assert not wrong, self._story(f"content differs: {wrong}")

    def kill_workers(self, chance: random.Random) -> None:
        """kill -9 of workers while the run goes on."""
        process = start(self.scene, self.cache)
        for _ in range(chance.randint(2, 4)):
            self._wait(process, chance)
            workers = _workers(process)
            if workers:
                chance.choice(workers).kill()
                self.kills += 1
                self.log.append("killed a worker")
        code, said = self._finish(process)
        self.log.append(f"the run ended with {code}")
        assert code in (0, 1), self._story(said)
        self._check_kept()

    def kill_parent(self, chance: random.Random) -> None:
        """kill -9 of the parent; its workers must end by themselves."""
        process = start(self.scene, self.cache)
        self._wait(process, chance)
        workers = _workers(process)
        self.kills += process.poll() is None
        process.kill()
        self._finish(process)
        self.log.append(f"killed the parent of {len(workers)} workers")
        _, alive = psutil.wait_procs(workers, timeout=20)
        assert not alive, self._story("workers outlived their parent")
        self._check_kept()

    def signal(self, chance: random.Random) -> None:
        """Ctrl-C, or a scheduler's SIGTERM, to the parent alone or to all."""
        process = start(self.scene, self.cache)
        self._wait(process, chance)
        number = chance.choice([signal.SIGINT, signal.SIGTERM])
        targets = [psutil.Process(process.pid)] if process.poll() is None else []
        if number == signal.SIGINT and chance.random() < 0.5:
            targets += _workers(process)
        for target in targets:
            try:
                target.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        code, said = self._finish(process)
        self.log.append(f"{number.name} to {len(targets)} processes: {code}")
        if BEGAN in said and ENDED not in said:
            assert code in (1, 130) and "Traceback" not in said, self._story(said)
        else:  # before and after that, Python itself may end on a signal, as it likes
            assert code in (0, 1, 130, -number), self._story(said)
        self._check_kept()

    def full(self, chance: random.Random) -> None:
        """A disk without room: one clear error, what was there stays."""
        process = start(self.scene, self.cache, largest_file=chance.choice([300, 2000, 6000]))
        code, said = self._finish(process)
        self.log.append(f"full disk: {code}")
        assert code in (0, 1) and "Traceback" not in said, self._story(said)
        assert code == 0 or "error: " in said, self._story(said)
        self._check_kept()

    def corrupt(self, chance: random.Random) -> None:
        """A file of the cache is damaged behind our back; ``repair`` drops what it belongs to."""
        from trimbed.storage.cache import CountsCache
        from trimbed.storage.verification import repair

        files = sorted(path for kind in ("tokens", "shards", "samples") for path in self.cache.glob(f"{kind}/**/*.*"))
        if not files:
            return
        path = chance.choice(files)
        data = bytearray(path.read_bytes())
        if chance.random() < 0.5:
            path.write_bytes(bytes(data[: chance.randrange(len(data))]))
        else:
            at = chance.randrange(len(data))
            data[at] ^= 1 << chance.randrange(8)
            path.write_bytes(bytes(data))
        repair(CountsCache.open(self.cache))
        self.log.append(f"damaged {path.relative_to(self.cache)} and repaired")
        self.kept = {name: raw for name, raw in self.kept.items() if Path(name).stem != path.stem}
        self._check_kept()

    def _wait(self, process: subprocess.Popen[str], chance: random.Random) -> None:
        """Until some moment: at any time of the run, or just when some more shards have been committed."""
        if chance.random() < 0.3:
            try:
                process.wait(self.scene.seconds * chance.random())
            except subprocess.TimeoutExpired:
                pass
            return
        wanted = min(self._committed() + chance.randint(1, 6), len(self.scene.shards))
        deadline = time.monotonic() + _PATIENCE
        while self._committed() < wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.1))

    def _committed(self) -> int:
        return sum(1 for _ in self.cache.glob("shards/*/*.json"))

    def _finish(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        try:
            _, said = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(self._story("the run hangs")) from None
        return process.returncode, said

    def _check_kept(self) -> None:
        """What was committed stays, byte for byte."""
        now = {str(path.relative_to(self.cache)): path.read_bytes() for path in self.cache.glob("shards/*/*.json")}
        lost = [name for name, raw in self.kept.items() if now.get(name) != raw]
        assert not lost, self._story(f"committed shards were lost or changed: {lost}")
        self.kept = now
        self.log.append(f"{len(now)} shards committed")

    def _story(self, what: str) -> str:
        return f"seed {self.seed}: {what}\n" + "\n".join(self.log)


def _workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The worker processes (not the helper that multiprocessing starts)."""
    try:
        children = psutil.Process(process.pid).children()
        return [child for child in children if any("spawn_main" in part for part in child.cmdline())]
    except psutil.Error:
        return []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as made_folder:
        played = Round(Scene.make(Path(made_folder)), int(sys.argv[2]), Path(made_folder) / "counts")
        played.play()
        print("\n".join(played.log))

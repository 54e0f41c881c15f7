"""Random faults: killed processes, signals, full disks, damaged files. Never a wrong count, never a lost shard."""

from __future__ import annotations

import os
import random
import secrets
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import driver


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> driver.Scene:
    return driver.Scene.make(tmp_path_factory.mktemp("faults"))


def seeds(number: int) -> list[int]:
    """Fresh ones each time, printed with every failure; TRIMBED_FAULT_SEED replays a run."""
    first = int(os.environ.get("TRIMBED_FAULT_SEED") or secrets.randbelow(10**9))
    return [first + n for n in range(number)]


@pytest.mark.timeout(1800)
def test_ten_rounds_of_random_faults_and_at_least_twenty_kills_lose_nothing(
    scene: driver.Scene, tmp_path: Path
) -> None:
    """Invariant 4."""
    rounds = [driver.Round(scene, seed, tmp_path / str(seed)) for seed in seeds(10)]
    for played in rounds:
        played.play()
    chance = random.Random(rounds[0].seed)
    while (kills := sum(played.kills for played in rounds)) < 20:
        rounds.append(driver.Round(scene, rounds[0].seed, tmp_path / f"more{len(rounds)}"))
        rounds[-1].kill_workers(chance)
        rounds[-1].finish()
    assert kills >= 20


@pytest.mark.parametrize("largest", [10, 2000])
def test_a_disk_that_is_full_from_the_start_is_one_clear_error(
    scene: driver.Scene, tmp_path: Path, largest: int
) -> None:
    process = driver.start(scene, tmp_path / "counts", largest_file=largest)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in said
    assert f"the cache {tmp_path / 'counts'} can't be written: File too large" in said
    driver.Round(scene, 0, tmp_path / "counts").finish()


@pytest.mark.slow
@pytest.mark.timeout(36_000)
def test_two_hundred_rounds_of_random_faults_lose_nothing(scene: driver.Scene, tmp_path: Path) -> None:
    """Invariant 4, the nightly mode."""
    for seed in seeds(200):
        driver.Round(scene, seed, tmp_path / str(seed)).play()

"""The Ray executor, by the same contract as the others, on three nodes of one machine, one of which is killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="the ray extra isn't installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

sys.path.insert(0, str(Path(__file__).parent))

import corpora  # noqa: E402
import runs  # noqa: E402
from test_counter import damage  # noqa: E402

from trimbed.counting.config import CorpusConfig  # noqa: E402
from trimbed.counting.counter import CorpusCounter  # noqa: E402
from trimbed.counting.queue import Event, ShardDone, ShardFailed  # noqa: E402
from trimbed.errors import CountingError  # noqa: E402

TEXTS = corpora.documents(300)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def settings(cluster: Any) -> dict[str, Any]:
    return {"executor": "ray", "address": cluster.address, "shard_megabytes": 0.002}


def test_the_cache_is_the_same_as_that_of_one_process_and_a_second_run_has_nothing_to_do(
    tiny_bpe: dict[str, Any], tmp_path: Path, settings: dict[str, Any]
) -> None:
    dataset = {"path": str(corpora.write_parquet(tmp_path / "a.parquet", TEXTS, rows=10))}
    runs.run(tiny_bpe, tmp_path / "plain", [dataset])
    result = runs.run(tiny_bpe, tmp_path / "counts", [dataset], **settings)
    assert (result.exit_code, result.new) == (0, result.shards)
    assert runs.content(tmp_path / "counts") == runs.content(tmp_path / "plain")
    assert runs.run(tiny_bpe, tmp_path / "counts", [dataset], **settings).new == 0


def test_a_bad_shard_is_set_aside_and_strict_stops(
    tiny_bpe: dict[str, Any], tmp_path: Path, settings: dict[str, Any]
) -> None:
    path = corpora.write_parquet(tmp_path / "a.parquet", TEXTS, rows=10)
    damage(path)
    result = runs.run(tiny_bpe, tmp_path / "counts", [{"path": str(path)}], **settings)
    assert (result.exit_code, result.missing) == (1, 1)
    assert "damaged after row" in str(result.failed[0].failure)
    with pytest.raises(CountingError, match="damaged after row"):
        runs.run(tiny_bpe, tmp_path / "strict", [{"path": str(path)}], **settings, strict=True)


def test_a_node_that_is_killed_in_mid_run_costs_no_count(
    tiny_bpe: dict[str, Any], tmp_path: Path, cluster: Any, settings: dict[str, Any]
) -> None:
    dataset = {"path": str(corpora.write_jsonl(tmp_path / "a.jsonl", TEXTS * 20))}
    runs.run(tiny_bpe, tmp_path / "plain", [dataset], shard_megabytes=0.02)
    victim = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    done: list[Event] = []

    def kill(event: Event) -> None:
        if isinstance(event, (ShardDone, ShardFailed)):
            done.append(event)
            if len(done) == 4:
                cluster.remove_node(victim, allow_graceful=False)

    corpus = CorpusConfig.model_validate(
        {"datasets": [dataset], "engine": "reference", "sample_size": 8, **settings, "shard_megabytes": 0.02}
    )
    result = CorpusCounter(runs.tokenizer_source(tiny_bpe), corpus, tmp_path / "counts").run(kill)
    assert result.exit_code == 0, [str(failed.failure) for failed in result.failed]
    assert runs.content(tmp_path / "counts") == runs.content(tmp_path / "plain")
    lost = [event for event in done if isinstance(event, ShardFailed)]
    assert all(event.retried for event in lost)


def test_a_cluster_that_is_not_there_is_a_clear_error(tiny_bpe: dict[str, Any], tmp_path: Path) -> None:
    dataset = {"path": str(corpora.write_jsonl(tmp_path / "a.jsonl", TEXTS))}
    ray.shutdown()
    with pytest.raises(CountingError, match="can't be reached"):
        runs.run(tiny_bpe, tmp_path / "counts", [dataset], executor="ray", address="127.0.0.1:1")

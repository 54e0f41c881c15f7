"""Ray tasks, one for each shard, on a cluster or a local one. Places shards; results go through the cache.

All nodes must reach the cache and the inputs by the same paths or URLs, and have trimbed installed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trimbed.counting.failures import Failure, Kind, failure_of
from trimbed.counting.queue import ShardQueue
from trimbed.counting.shards import Shard
from trimbed.counting.worker import Job, Outcome, Progress, ShardRunner
from trimbed.storage.errors import CountingError, MissingExtra

__all__ = ["RayExecutor"]

_TICK = 1.0
_CONNECT_SECONDS = 10.0


@dataclass
class _Flight:
    shard: Shard
    seen: float
    progress: Progress | None = None


class RayExecutor:
    """``workers`` tasks at once, as many as the cluster has processors if None.

    ``address`` is that of a running cluster; without one, a cluster that is connected to already is used, else one is
    started on this machine and ended afterwards.
    """

    def __init__(self, workers: int | None, *, address: str | None = None, stall_seconds: float = 900.0) -> None:
        self._number = workers
        self._address = address
        self._stall = stall_seconds
        self._ray = _import_ray()

    def run(self, job: Job, queue: ShardQueue) -> None:
        """See Executor."""
        ray = self._ray
        ours = not ray.is_initialized()
        if ours:
            self._connect()
        flights: dict[Any, _Flight] = {}
        try:
            board = ray.remote(num_cpus=0, max_restarts=0)(_Board).options(**self._here()).remote()
            task = ray.remote(num_cpus=1, max_retries=0)(_count)
            shared = ray.put(job)
            heard = time.monotonic()
            while not queue.finished:
                self._place(queue, flights, lambda shard: task.remote(shared, shard, board))
                wait = min([_TICK, *filter(None, [queue.wait_seconds()])])
                if flights:
                    ready, _ = ray.wait(list(flights), timeout=wait)
                    for reference in ready:
                        queue.result(flights[reference].shard, self._result(reference, flights.pop(reference)))
                else:
                    time.sleep(wait)
                if time.monotonic() - heard >= _TICK:
                    heard = time.monotonic()
                    self._hear(board, queue, flights)
        finally:
            for reference in flights:
                ray.cancel(reference, force=True)
            if ours:
                ray.shutdown()

    def _connect(self) -> None:
        options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self._address is None:
            options |= {"include_dashboard": False, "num_cpus": self._number}
        else:
            _check_reachable(self._address)
        try:
            self._ray.init(address=self._address, **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise CountingError(
                f"the Ray cluster {self._address or 'on this machine'} can't be reached: {error}"
            ) from error

    def _here(self) -> dict[str, Any]:
        """The board stays with the run: a lost node doesn't take it along."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = self._ray.get_runtime_context().get_node_id()
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}

    def _place(self, queue: ShardQueue, flights: dict[Any, _Flight], submit: Callable[[Shard], Any]) -> None:
        limit = self._number or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        while len(flights) < limit:
            shard = queue.take()
            if shard is None:
                break
            flights[submit(shard)] = _Flight(shard, time.monotonic())
        queue.workers(limit)

    def _result(self, reference: Any, flight: _Flight) -> Outcome | Failure:
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError, TaskCancelledError

        where = flight.shard.where()
        try:
            result: Outcome | Failure = self._ray.get(reference)
            return result
        except OutOfMemoryError:
            return Failure(Kind.LOST, "", f"{where}: Ray ended its worker for want of memory; give tasks more room")
        except TaskCancelledError:
            return Failure(Kind.STALLED, "", f"{where}: no progress in {self._stall:g} s, so its task was cancelled")
        except RayTaskError as error:
            return failure_of(error, where=where)
        except RayError as error:
            return Failure(Kind.LOST, "", f"{where}: its worker or node was lost: {type(error).__name__}")

    def _hear(self, board: Any, queue: ShardQueue, flights: dict[Any, _Flight]) -> None:
        """Take in how far the tasks are, and end those that stand still."""
        known: dict[tuple[str, str], Progress] = self._ray.get(board.take.remote())
        now = time.monotonic()
        for reference, flight in flights.items():
            progress = known.get((flight.shard.source, flight.shard.key))
            if progress is not None and progress != flight.progress:
                flight.progress, flight.seen = progress, now
                queue.progress(flight.shard, progress)
            elif flight.progress is not None and now - flight.seen > self._stall:
                # A task that hasn't begun only waits for a processor.
                self._ray.cancel(reference, force=True)


class _Board:
    """Where tasks leave how far they are."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Progress] = {}

    def put(self, source: str, key: str, progress: Progress) -> None:
        self._known[source, key] = progress

    def take(self) -> dict[tuple[str, str], Progress]:
        known, self._known = self._known, {}
        return known


_HELD: list[tuple[Job, ShardRunner]] = []
"""The runner of the run this process last worked for."""


def _count(job: Job, shard: Shard, board: Any) -> Outcome | Failure:
    """One task. A worker process that gets several of one run loads the tokenizer once."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    board.put.remote(shard.source, shard.key, Progress(0, 0))
    return _runner(job).run(shard, lambda progress: board.put.remote(shard.source, shard.key, progress))


def _runner(job: Job) -> ShardRunner:
    if not _HELD or _HELD[0][0] != job:
        _HELD[:] = [(job, ShardRunner(job))]
    return _HELD[0][1]


def _check_reachable(address: str) -> None:
    """Ray itself tries for minutes to reach an address where there is nothing. Raises CountingError."""
    import socket

    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return  # "auto", for instance: Ray knows where to look
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise CountingError(f"the Ray cluster {address} can't be reached: {error}") from error


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("the ray executor needs the ray package: pip install 'trimbed[ray]'") from error
    return ray

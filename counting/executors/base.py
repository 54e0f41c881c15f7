"""What an executor is, and which ones there are."""

from __future__ import annotations

import os
from typing import Protocol

from trimbed.counting.config import CorpusConfig
from trimbed.counting.queue import ShardQueue
from trimbed.counting.worker import Job
from trimbed.storage.errors import UsageError

__all__ = ["Executor", "available_processors", "make_executor"]


class Executor(Protocol):
    """Places shards; nothing else."""

    def run(self, job: Job, queue: ShardQueue) -> None:
        """Take shards from ``queue`` until it is finished, have each run by a ShardRunner, hand in the results.

        Errors of the queue (a run that must end) and KeyboardInterrupt pass through, after all workers have ended.
        """


def available_processors() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def make_executor(config: CorpusConfig) -> Executor:
    """The executor that ``config`` names. Raises UsageError, or MissingExtra where its package isn't installed."""
    if config.address is not None and config.executor != "ray":
        raise UsageError(f"an address is for the ray executor, and this is {config.executor}")
    if config.executor == "inline":
        from trimbed.counting.executors.inline import InlineExecutor

        return InlineExecutor()
    if config.executor == "multiprocess":
        from trimbed.counting.executors.multiprocess import MultiprocessExecutor

        return MultiprocessExecutor(config.workers or available_processors(), stall_seconds=config.stall_seconds)
    from trimbed.counting.executors.ray import RayExecutor

    return RayExecutor(config.workers, address=config.address, stall_seconds=config.stall_seconds)

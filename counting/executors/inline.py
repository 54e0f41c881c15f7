"""The executor that counts in this process, one shard after the other: for tests, notebooks and debuggers."""

from __future__ import annotations

import time
from functools import partial

from trimbed.counting.queue import ShardQueue
from trimbed.counting.worker import Job, ShardRunner

__all__ = ["InlineExecutor"]


class InlineExecutor:
    def run(self, job: Job, queue: ShardQueue) -> None:
        """See Executor."""
        runner = ShardRunner(job)
        queue.workers(1)
        while not queue.finished:
            shard = queue.take()
            if shard is None:
                time.sleep(queue.wait_seconds() or 0)
                continue
            queue.result(shard, runner.run(shard, partial(queue.progress, shard)))

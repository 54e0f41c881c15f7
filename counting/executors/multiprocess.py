"""Worker processes on this machine, started fresh (spawn), never forked. Places shards; results go through the cache.

A worker ends when its parent does, however that dies; it leaves Ctrl-C to the parent; and it may be killed at any
moment, since a shard is committed as a whole or not at all.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from trimbed.counting.failures import Failure, FatalFailure, Kind
from trimbed.counting.queue import ShardQueue
from trimbed.counting.shards import Shard
from trimbed.counting.worker import Job, Outcome, Progress, ShardRunner

__all__ = ["MultiprocessExecutor"]

_READY = "ready"
_TICK = 1.0
_MOST_FAILED_STARTS = 3
_PR_SET_PDEATHSIG = 1


@dataclass
class _Worker:
    process: Any
    connection: Any
    seen: float
    shard: Shard | None = None
    ready: bool = False


class MultiprocessExecutor:
    """``workers`` processes, fewer where there are fewer shards."""

    def __init__(self, workers: int, *, stall_seconds: float = 900.0) -> None:
        self._number = workers
        self._stall = stall_seconds
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def run(self, job: Job, queue: ShardQueue) -> None:
        """See Executor."""
        from multiprocess.connection import wait

        try:
            while not queue.finished:
                self._fill(job, queue)
                self._place(queue)
                by_handle: dict[Any, _Worker] = {}
                for worker in self._workers:
                    by_handle[worker.connection] = by_handle[worker.process.sentinel] = worker
                timeout = min(_TICK, self._stall / 4, *filter(None, [queue.wait_seconds()]))
                ready = {id(by_handle[handle]): by_handle[handle] for handle in wait(list(by_handle), timeout)}
                for worker in ready.values():
                    self._hear(worker, queue)
                self._check_stalled(queue)
        finally:
            self._end()

    def _fill(self, job: Job, queue: ShardQueue) -> None:
        """Have as many workers as are wanted and useful."""
        before = len(self._workers)
        while len(self._workers) < min(self._number, queue.outstanding):
            self._workers.append(_start(job))
        if len(self._workers) != before:
            queue.workers(len(self._workers))

    def _place(self, queue: ShardQueue) -> None:
        for worker in self._workers:
            if not worker.ready or worker.shard is not None:
                continue
            shard = queue.take()
            if shard is None:
                return
            worker.shard, worker.seen = shard, time.monotonic()
            try:
                worker.connection.send(shard)
            except OSError:
                pass  # it died; its end of the pipe tells so in the next round

    def _hear(self, worker: _Worker, queue: ShardQueue) -> None:
        """Take all that a worker has said, and its end if it has ended."""
        try:
            while worker.connection.poll():
                message = worker.connection.recv()
                worker.seen = time.monotonic()
                if isinstance(message, Progress):
                    if worker.shard is not None:
                        queue.progress(worker.shard, message)
                elif isinstance(message, (Outcome, Failure)):
                    shard, worker.shard = worker.shard, None
                    if shard is not None:
                        queue.result(shard, message)
                elif message == _READY:
                    worker.ready = True
                    self._failed_starts = 0
        except (EOFError, OSError):
            worker.process.join(5)
            self._lost(worker, queue)
            return
        if not worker.process.is_alive():
            self._lost(worker, queue)

    def _lost(self, worker: _Worker, queue: ShardQueue) -> None:
        self._workers.remove(worker)
        _close(worker)
        shard, worker.shard = worker.shard, None
        if shard is not None:
            queue.result(shard, Failure(Kind.LOST, "", f"{shard.where()}: {_how_it_ended(worker.process.exitcode)}"))
        elif not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _MOST_FAILED_STARTS:
                how = _how_it_ended(worker.process.exitcode)
                raise FatalFailure(f"worker processes don't start: {how}; what they said is above")

    def _check_stalled(self, queue: ShardQueue) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.shard is None or now - worker.seen < self._stall:
                continue
            shard, worker.shard = worker.shard, None
            self._workers.remove(worker)
            _close(worker)
            message = f"{shard.where()}: no progress in {self._stall:g} s, so its worker was killed"
            queue.result(shard, Failure(Kind.STALLED, "", message))

    def _end(self) -> None:
        """End all workers: the idle ones by asking, the busy ones by force (their shards aren't committed)."""
        workers, self._workers = self._workers, []
        for worker in workers:
            if worker.ready and worker.shard is None:
                try:
                    worker.connection.send(None)
                    continue
                except OSError:
                    pass
            worker.process.kill()
        deadline = time.monotonic() + 5
        for worker in workers:
            worker.process.join(max(0.1, deadline - time.monotonic()))
            _close(worker)


def _close(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join(10)
    worker.connection.close()


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "its worker closed its pipe"
    if code >= 0:
        return f"its worker ended with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.Signals.__members__.values() else f"signal {-code}"
    if -code == signal.SIGKILL:
        return (
            f"its worker was killed ({name}), often by the system for want of memory; "
            "use fewer workers or a smaller batch_megabytes if it happens again"
        )
    return f"its worker was ended by {name}"


def _start(job: Job) -> _Worker:
    import multiprocess

    context = multiprocess.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, job, os.getpid()), daemon=True, name="trimbed-worker")
    with _without_interrupts(), _without_main():
        process.start()
    theirs.close()
    return _Worker(process, ours, time.monotonic())


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A child inherits what is blocked, so Ctrl-C can't hit it before it says that it ignores it."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


@contextmanager
def _without_main() -> Iterator[None]:
    """Workers need nothing of the user's script, so they don't run it: it may lack the ``__main__`` guard, or a
    file."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(connection: Any, job: Job, parent: int) -> None:
    """A worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent(parent)
    # One thread for each worker: the processes are the parallelism.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)
    runner = ShardRunner(job)
    connection.send(_READY)
    while True:
        try:
            shard = connection.recv()
        except (EOFError, OSError):
            break
        if shard is None:
            break
        try:
            connection.send(runner.run(shard, connection.send))
        except (BrokenPipeError, ConnectionResetError):
            break
    # All results are committed. Libraries' threads have nothing left to do, and some abort when taken down.
    sys.stderr.flush()
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    import multiprocess
    from multiprocess.connection import wait

    process = multiprocess.parent_process()
    if process is not None:
        wait([process.sentinel])
        os._exit(1)

"""The shards still to be counted, and what becomes of those that fail. Every executor takes from it; knows none."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from trimbed.counting.failures import Failure, FatalFailure, Kind
from trimbed.counting.shards import Shard
from trimbed.counting.worker import Outcome, Progress

__all__ = ["Event", "FailedShard", "ShardDone", "ShardFailed", "ShardProgress", "ShardQueue", "ShardStarted", "Workers"]

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0


@dataclass(frozen=True, slots=True)
class ShardStarted:
    shard: Shard
    attempt: int


@dataclass(frozen=True, slots=True)
class ShardProgress:
    shard: Shard
    progress: Progress


@dataclass(frozen=True, slots=True)
class ShardDone:
    shard: Shard
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ShardFailed:
    """One attempt failed; ``retried`` says whether there will be another."""

    shard: Shard
    failure: Failure
    attempt: int
    retried: bool


@dataclass(frozen=True, slots=True)
class Workers:
    """How many workers there are."""

    number: int


Event = ShardStarted | ShardProgress | ShardDone | ShardFailed | Workers


@dataclass(frozen=True)
class FailedShard:
    """A shard set aside: it won't be counted in this run."""

    shard: Shard
    failure: Failure
    attempts: int


class ShardQueue:
    """Hands out shards, takes results, tries again what may pass, sets aside what won't.

    ``take`` gives None both when all is handed out and while a retry is waiting for its time; ``finished`` tells which.
    """

    def __init__(
        self,
        shards: Iterable[Shard],
        *,
        retries: int = 3,
        strict: bool = False,
        emit: Callable[[Event], None] | None = None,
        first_wait: float = _FIRST_WAIT,
    ) -> None:
        self._fresh = deque(shards)
        self._waiting: list[tuple[float, int, Shard]] = []
        self._attempts: dict[tuple[str, str], int] = {}
        self._in_flight: dict[tuple[str, str], Shard] = {}
        self._order = 0
        self._retries = retries
        self._strict = strict
        self._emit = emit or (lambda event: None)
        self._first_wait = first_wait
        self.failed: list[FailedShard] = []

    @property
    def finished(self) -> bool:
        return not (self._fresh or self._waiting or self._in_flight)

    @property
    def outstanding(self) -> int:
        """Shards neither counted nor set aside."""
        return len(self._fresh) + len(self._waiting) + len(self._in_flight)

    def take(self) -> Shard | None:
        """The next shard to count, or None if there is none right now."""
        if self._waiting and self._waiting[0][0] <= time.monotonic():
            shard = heapq.heappop(self._waiting)[2]
        elif self._fresh:
            shard = self._fresh.popleft()
        else:
            return None
        key = (shard.source, shard.key)
        attempt = self._attempts.get(key, 0) + 1
        self._attempts[key] = attempt
        self._in_flight[key] = shard
        self._emit(ShardStarted(shard, attempt))
        return shard

    def wait_seconds(self) -> float | None:
        """How long until a waiting retry is due; None if none waits."""
        return max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None

    def progress(self, shard: Shard, progress: Progress) -> None:
        self._emit(ShardProgress(shard, progress))

    def workers(self, number: int) -> None:
        self._emit(Workers(number))

    def result(self, shard: Shard, result: Outcome | Failure) -> None:
        """Take what became of a shard that was handed out. Raises FatalFailure where the run must end."""
        key = (shard.source, shard.key)
        self._in_flight.pop(key, None)
        attempt = self._attempts.pop(key, 1)
        if isinstance(result, Outcome):
            self._emit(ShardDone(shard, result))
            return
        if result.kind is Kind.FATAL:
            raise FatalFailure(str(result), result.exit_code)
        retried = result.worth_retrying and attempt < self._retries
        self._emit(ShardFailed(shard, result, attempt, retried))
        if retried:
            self._attempts[key] = attempt
            self._order += 1
            wait = min(_LONGEST_WAIT, self._first_wait * 2 ** (attempt - 1))
            heapq.heappush(self._waiting, (time.monotonic() + wait, self._order, shard))
            return
        if attempt > 1:
            result = replace(result, message=f"{result.message} (tried {attempt} times)")
        self.failed.append(FailedShard(shard, result, attempt))
        if self._strict:
            raise FatalFailure(f"shard {shard.key} of {shard.source}: {result}")

    def give_back(self, shard: Shard) -> None:
        """A shard that was handed out and not counted, through no fault of its own (the run was interrupted)."""
        key = (shard.source, shard.key)
        self._in_flight.pop(key, None)
        self._attempts[key] = max(0, self._attempts.get(key, 1) - 1)
        self._fresh.appendleft(shard)

"""Events of a run, shown: a live display on a terminal, log lines elsewhere. Computes no counts and decides nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from trimbed.counting.queue import Event, ShardDone, ShardFailed, ShardProgress, ShardStarted, Workers
from trimbed.counting.shards import Shard, Source

__all__ = ["ProgressDisplay"]

_LOG_SECONDS = 10.0
_DRAW_SECONDS = 0.2


class ProgressDisplay:
    """Give ``planned`` and ``event`` to a counter; use as a context manager so that the display is taken down.

    Everything goes to ``stream`` (stderr if None): a table with a row a source where that is a terminal, else a line
    every ten seconds.
    """

    def __init__(self, stream: TextIO | None = None, *, live: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live_wanted = self._stream.isatty() if live is None else live
        self._live: Any = None
        self._rows: dict[str, _Row] = {}
        self._flight: dict[tuple[str, str], tuple[int, int]] = {}
        self._workers = 0
        self._started = time.monotonic()
        self._shown = 0.0

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()
            self._live = None

    def planned(self, sources: Sequence[Source], todo: Sequence[Shard]) -> None:
        """What there is, and what of it is still to count."""
        for source in sources:
            self._rows[source.name] = _Row()
        for shard in todo:
            row = self._rows[shard.source]
            row.todo += 1
            row.expected += shard.size
            row.sized = row.sized and shard.size > 0
        shards = sum(len(source.shards) for source in sources)
        self._say(f"{shards:,} shards in {len(sources)} sources, {len(todo):,} to count")
        self._started = self._shown = time.monotonic()
        if self._live_wanted and todo:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                self._table(), console=Console(file=self._stream), auto_refresh=False, redirect_stdout=False
            )
            self._live.start()

    def event(self, event: Event) -> None:
        """Take one event in, and draw or log if it is time."""
        if isinstance(event, Workers):
            self._workers = event.number
        elif isinstance(event, ShardStarted):
            self._flight[event.shard.source, event.shard.key] = (0, 0)
        elif isinstance(event, ShardProgress):
            self._flight[event.shard.source, event.shard.key] = (event.progress.documents, event.progress.bytes)
        elif isinstance(event, ShardDone):
            self._flight.pop((event.shard.source, event.shard.key), None)
            self._rows[event.shard.source].add(event, event.shard.size)
        else:
            self._flight.pop((event.shard.source, event.shard.key), None)
            self._failed(event)
        now = time.monotonic()
        if now - self._shown >= (_DRAW_SECONDS if self._live is not None else _LOG_SECONDS):
            self._shown = now
            if self._live is not None:
                self._live.update(self._table(), refresh=True)
            else:
                self._say(self._line())

    def _failed(self, event: ShardFailed) -> None:
        if not event.retried:
            self._rows[event.shard.source].failed += 1
        what = "will be tried again" if event.retried else "set aside"
        self._say(f"shard {event.shard.key} of {event.shard.source} failed, {what}: {event.failure}")

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._stream, flush=True)

    def _rate(self) -> float:
        elapsed = max(1e-9, time.monotonic() - self._started)
        return (
            sum(row.bytes for row in self._rows.values()) + sum(size for _, size in self._flight.values())
        ) / elapsed

    def _eta(self) -> str:
        if not all(row.sized for row in self._rows.values()):
            return "?"
        flying = sum(size for _, size in self._flight.values())
        left = sum(row.expected - row.expected_done for row in self._rows.values()) - flying
        rate = self._rate()
        return _duration(max(0.0, left) / rate) if rate > 0 else "?"

    def _line(self) -> str:
        done = sum(row.done for row in self._rows.values())
        todo = sum(row.todo for row in self._rows.values())
        documents = sum(row.documents for row in self._rows.values()) + sum(n for n, _ in self._flight.values())
        size = sum(row.bytes for row in self._rows.values()) + sum(n for _, n in self._flight.values())
        tokens = sum(row.tokens for row in self._rows.values())
        failed = sum(row.failed for row in self._rows.values())
        return (
            f"{done:,}/{todo:,} shards, {documents:,} documents, {size / 1e6:,.1f} MB, {tokens:,} tokens, "
            f"{self._rate() / 1e6:,.1f} MB/s, {len(self._flight)}/{self._workers} workers busy, ETA {self._eta()}"
            + (f", {failed} failed" if failed else "")
        )

    def _table(self) -> Any:
        from rich.table import Table

        table = Table(header_style="bold", caption=self._line(), caption_justify="left")
        for title in ("source", "shards", "documents", "MB", "tokens", "failed"):
            table.add_column(title, justify="left" if title == "source" else "right")
        for name, row in self._rows.items():
            flying = [numbers for (source, _), numbers in self._flight.items() if source == name]
            documents = row.documents + sum(number for number, _ in flying)
            size = row.bytes + sum(number for _, number in flying)
            table.add_row(
                name,
                f"{row.done:,}/{row.todo:,}",
                f"{documents:,}",
                f"{size / 1e6:,.1f}",
                f"{row.tokens:,}",
                f"{row.failed:,}" if row.failed else "",
            )
        return table


class _Row:
    """One source's sums."""

    def __init__(self) -> None:
        self.todo = self.done = self.failed = self.documents = self.bytes = self.tokens = 0
        self.expected = self.expected_done = 0
        self.sized = True

    def add(self, event: ShardDone, expected: int) -> None:
        self.done += 1
        self.expected_done += expected
        self.documents += event.outcome.documents
        self.bytes += event.outcome.bytes
        self.tokens += event.outcome.tokens


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

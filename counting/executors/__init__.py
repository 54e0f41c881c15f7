"""Executors: each only places shards on workers; what a shard goes through is the same in all of them."""

from __future__ import annotations

from trimbed.counting.executors.base import Executor, make_executor

__all__ = ["Executor", "make_executor"]

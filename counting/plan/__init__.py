"""The kernel plan: from a tokenizer document alone, where text may be cut without changing any count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimbed.counting.plan.derive import make_plan
    from trimbed.counting.plan.kernel_plan import AddedMatch, KernelPlan, NoPlan
    from trimbed.counting.plan.reference import PlanExecutor

__all__ = ["AddedMatch", "KernelPlan", "NoPlan", "PlanExecutor", "make_plan"]

HOMES = {"make_plan": "derive", "PlanExecutor": "reference"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{HOMES.get(name, 'kernel_plan')}"), name)

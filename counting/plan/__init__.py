"""The kernel plan: from a tokenizer document alone, where text may be cut without changing any count."""

from trimbed.counting.plan.kernel_plan import AddedMatch, KernelPlan, NoPlan

__all__ = ["AddedMatch", "KernelPlan", "NoPlan"]

"""Selections as rows to show: what was kept for which reason, and the explanations of single tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimbed.errors import UsageError
from trimbed.selection.explain import token_states
from trimbed.selection.selection import Selection

__all__ = ["explanations", "selection_rows"]


def selection_rows(selection: Selection, *, unreachable: bool = False) -> list[dict[str, Any]]:
    """One row: kept, by reason, coverage, and unseen, ancestor-only and (if asked) unreachable tokens apart."""
    row: dict[str, Any] = {"kept": len(selection), "of": selection.vocab_size, **selection.counts_by_reason()}
    row["dropped_requested"] = len(selection.dropped_requested)
    row["missing"] = len(selection.missing)
    evidence = selection.evidence
    if evidence is not None:
        frame = evidence.frame
        if frame.has_counts:
            total, by_source = frame.totals
            row["coverage"] = float(frame.counts[selection.mask].sum()) / total if total else 1.0
            if len(by_source) > 1:
                for name in sorted(by_source):
                    kept = int(frame.by_source[name][selection.mask].sum())
                    row[f"coverage:{name}"] = kept / by_source[name] if by_source[name] else 1.0
        from trimbed.selection.explain import unreachable_tokens

        states = token_states(frame, selection.reasons, unreachable_tokens(evidence.spec) if unreachable else None)
        row.update(states)
    return [row]


def explanations(selection: Selection, tokens: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each token, named as the vocabulary writes it, or by its id as ``#42``."""
    rows = []
    for token in tokens:
        asked: str | int = token
        if token.startswith("#") and token[1:].isdigit() and selection.evidence is not None:
            asked = token if selection.evidence.spec.token_to_id(token) is not None else int(token[1:])
        found = selection.explain(asked).as_dict()
        by_source = found.pop("counts_by_source")
        for name in ("parts", "dependents", "requested_by"):
            values = found[name]
            found[name] = " ".join(values[:12]) + (f" … {len(values) - 12} more" if len(values) > 12 else "")
        found.update({f"count:{name}": count for name, count in by_source.items()} if len(by_source) > 1 else {})
        rows.append(found)
    if not rows:
        raise UsageError("no token was named")
    return rows

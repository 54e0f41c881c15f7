"""Whether input embeddings and head are one matrix: what the config says against what the files hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimbed.trimming.tensors import VocabularyTensor

__all__ = ["TieDecision", "decide_ties", "set_everywhere", "tie_flags"]

_FLAG = "tie_word_embeddings"


@dataclass(frozen=True)
class TieDecision:
    """``drop``: stored twins that aren't written. ``untie``: set the flag to false. ``notes``: why."""

    drop: frozenset[str] = frozenset()
    untie: bool = False
    notes: tuple[str, ...] = field(default=())


def tie_flags(config: Mapping[str, Any]) -> list[bool]:
    """Every ``tie_word_embeddings`` that a configuration states, nested ones included."""
    found = []
    for key, value in config.items():
        if key == _FLAG and isinstance(value, bool):
            found.append(value)
        elif isinstance(value, Mapping):
            found += tie_flags(value)
    return found


def decide_ties(
    tensors: Sequence[VocabularyTensor], config: Mapping[str, Any], equal: Callable[[str, str], bool]
) -> TieDecision:
    """What to do with a head that is stored beside the embeddings it may be tied to.

    ``equal(a, b)`` compares two stored tensors. Equal and tied: one is written. Different and tied: a loader would
    overwrite one with the other, so both stay and the flag becomes false. A flag that isn't stated changes nothing.
    """
    inputs = [t.name for t in tensors if t.role == "input"]
    heads = [t.name for t in tensors if t.role == "output"]
    flags = tie_flags(config)
    if not heads or not inputs or not any(flags):
        return TieDecision()
    shared = [name for name in inputs if name.endswith("shared.weight")]
    decoder = [name for name in inputs if "decoder" in name]
    twin = (shared or decoder or inputs)[0]
    drop, notes, untie = set(), [], False
    for head in heads:
        if equal(head, twin):
            drop.add(head)
            notes.append(f"{head} and {twin} are equal and tied; {twin} is written once")
        else:
            untie = True
            notes.append(
                f"{head} and {twin} differ although the config ties them; both are kept and {_FLAG} is set to false, "
                "so that a loader uses the stored head. A loader that obeyed the old flag used the embeddings instead"
            )
    return TieDecision(frozenset() if untie else frozenset(drop), untie, tuple(notes))


def set_everywhere(config: Mapping[str, Any], value: bool) -> dict[str, Any]:
    """The configuration with every stated ``tie_word_embeddings`` set to ``value``."""
    return {
        key: value
        if key == _FLAG and isinstance(inner, bool)
        else set_everywhere(inner, value)
        if isinstance(inner, Mapping)
        else inner
        for key, inner in config.items()
    }

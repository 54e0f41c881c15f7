"""The result of a policy: which ids stay and why. Saves to one JSON file, the same bytes each time, and loads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import SelectionError
from trimbed.selection.decide import Reason
from trimbed.selection.requests import MissingRequest

if TYPE_CHECKING:
    from trimbed.selection.explain import Evidence, Explanation

__all__ = ["Selection"]

FORMAT = "trimbed selection"
VERSION = 1


@dataclass(frozen=True)
class Selection:
    """Kept ids and their reasons.

    ``reasons``: uint8[vocab_size] of ``Reason``; ``needed_by``: int64[vocab_size], for a token kept as a dependency
    the kept token that first needed it, else -1. ``requested_by`` and ``dropped_requested``: id -> who asked for it
    (kept ones, and those that the cap took). ``missing``: requests that the vocabulary lacks. ``names``: id -> token,
    for the kept and dropped-requested ones. ``policy``: the settings. ``sizes``: how many tokens each rule and step
    came to. ``inputs``: hashes of all that the selection was made from. ``notes``: what a person should know.
    """

    reasons: np.ndarray
    needed_by: np.ndarray
    requested_by: Mapping[int, tuple[str, ...]]
    dropped_requested: Mapping[int, tuple[str, ...]]
    missing: tuple[MissingRequest, ...]
    tokenizer: Mapping[str, Any]
    policy: Mapping[str, Any]
    sizes: Mapping[str, int]
    inputs: Mapping[str, Any]
    names: Mapping[int, str]
    notes: tuple[str, ...] = ()
    evidence: Evidence | None = field(default=None, compare=False, repr=False)

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary that was chosen from (highest id + 1)."""
        return len(self.reasons)

    @property
    def kept(self) -> np.ndarray:
        """int64[n], ascending."""
        return np.flatnonzero(self.reasons)

    @property
    def mask(self) -> np.ndarray:
        """bool[vocab_size]"""
        found: np.ndarray = np.not_equal(self.reasons, Reason.dropped)
        return found

    @property
    def fingerprint(self) -> str:
        """Of the tokenizer that the ids belong to."""
        return str(self.tokenizer["fingerprint"])

    @property
    def provenance(self) -> dict[int, str]:
        """Kept id -> structural, requested, corpus, dependency or rounding: the first of these that holds."""
        return {int(index): Reason(self.reasons[index]).name for index in self.kept}

    @property
    def dropped_requested_tokens(self) -> dict[str, tuple[str, ...]]:
        """Token -> who asked for it, for the requested tokens that the cap took."""
        return {self.names[index]: reasons for index, reasons in self.dropped_requested.items()}

    def __len__(self) -> int:
        return int(np.count_nonzero(self.reasons))

    def __contains__(self, index: int) -> bool:
        return 0 <= index < len(self.reasons) and bool(self.reasons[index])

    def counts_by_reason(self) -> dict[str, int]:
        """Reason -> number of kept ids; every kept id counts once, so the values add up to ``len(self)``."""
        numbers = np.bincount(self.reasons, minlength=len(Reason))
        return {reason.name: int(numbers[reason]) for reason in Reason if reason is not Reason.dropped}

    def explain(self, token: str | int) -> Explanation:
        """Why a token is kept or dropped, its rank and count, and what is built from it.

        Only for a selection that was just made: a loaded one doesn't carry the counts. Raises SelectionError then, and
        for a token that isn't there.
        """
        if self.evidence is None:
            raise SelectionError("this selection was loaded from a file and doesn't carry its counts; make it again")
        from trimbed.selection.explain import explain

        return explain(self, token)

    # -- the file -----------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The file's text: the same for the same inputs, whatever the machine, the workers or the time."""
        kept = self.kept
        needed = {int(i): int(self.needed_by[i]) for i in kept if self.needed_by[i] >= 0}
        document = {
            "format": FORMAT,
            "version": VERSION,
            "tokenizer": dict(self.tokenizer),
            "policy": dict(self.policy),
            "inputs": dict(self.inputs),
            "sizes": dict(self.sizes),
            "counts_by_reason": self.counts_by_reason(),
            "kept": kept.tolist(),
            "reasons": {
                reason.name: np.flatnonzero(self.reasons == reason).tolist()
                for reason in Reason
                if reason is not Reason.dropped
            },
            "needed_by": {str(index): needed[index] for index in sorted(needed)},
            "requested_by": {str(i): list(self.requested_by[i]) for i in sorted(self.requested_by)},
            "dropped_requested": {str(i): list(self.dropped_requested[i]) for i in sorted(self.dropped_requested)},
            "names": {str(i): self.names[i] for i in sorted(self.names) if i in self.dropped_requested},
            "missing": [
                {"token": miss.token, "asked_by": miss.asked_by, "near": list(miss.near)} for miss in self.missing
            ],
            "notes": list(self.notes),
        }
        lines = (
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=True, separators=(', ', ': '))}"
            for key, value in document.items()
        )
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        from trimbed.storage.atomic import write_file

        write_file(os.fspath(path), self.to_json().encode("ascii"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selection:
        """Read a file that ``save`` wrote. Raises SelectionError where it isn't one."""
        from pathlib import Path

        try:
            return cls.from_json(Path(path).expanduser().read_text("utf-8"))
        except FileNotFoundError:
            raise SelectionError(f"there is no selection file {path}; make one with trimbed select") from None
        except (IsADirectoryError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise SelectionError(f"{path} is no selection file of trimbed: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Selection:
        """The inverse of ``to_json``. Raises ValueError or KeyError for other text."""
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError("it doesn't begin as one")
        if document["version"] != VERSION:
            raise ValueError(f"its version is {document['version']}, this trimbed reads {VERSION}")
        size = int(document["tokenizer"]["vocab_size"])
        reasons = np.zeros(size, dtype=np.uint8)
        for name, ids in document["reasons"].items():
            reasons[_ids(ids, size)] = Reason[name]
        if np.flatnonzero(reasons).tolist() != document["kept"]:
            raise ValueError("its kept ids are not those that it gives reasons for")
        needed_by = np.full(size, -1, dtype=np.int64)
        for index, needer in document["needed_by"].items():
            needed_by[int(index)] = needer
        return cls(
            reasons=reasons,
            needed_by=needed_by,
            requested_by={int(i): tuple(r) for i, r in document["requested_by"].items()},
            dropped_requested={int(i): tuple(r) for i, r in document["dropped_requested"].items()},
            missing=tuple(MissingRequest(m["token"], m["asked_by"], tuple(m["near"])) for m in document["missing"]),
            tokenizer=document["tokenizer"],
            policy=document["policy"],
            sizes=document["sizes"],
            inputs=document["inputs"],
            names={int(i): name for i, name in document["names"].items()},
            notes=tuple(document["notes"]),
        )


def _ids(ids: Sequence[int], size: int) -> np.ndarray:
    found = np.array(ids, dtype=np.int64)
    if len(found) and (found.min() < 0 or found.max() >= size):
        raise ValueError(f"it keeps ids outside of 0 to {size - 1}")
    return found

"""Runs two tokenizers on the same texts and finds where a kept text came out differently. Knows no files."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.report import Change, Fragmented, TextCheck, Violation

__all__ = ["check_texts", "load_quiet"]

_BATCH = 64
_SHOWN = 20
_BATCH_CHARACTERS = 1_000_000


def load_quiet(document_text: str) -> Any:
    """A ``tokenizers.Tokenizer`` with truncation and padding off."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_str(document_text)
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


def check_texts(
    old: Any,
    new: Any,
    ids: Renumbering,
    texts: Iterable[str],
    *,
    unknown: int | None = None,
    show: int = 10,
) -> TextCheck:
    """The preservation invariant: a text whose ids are all kept encodes to the same tokens, renumbered.

    ``old`` and ``new`` are ``tokenizers.Tokenizer`` without truncation and padding. Each text is encoded without and
    with special tokens, and kept ones are decoded by both. ``unknown`` is the old id of the unknown token.
    A text that uses dropped ids counts in the length ratio only.
    """
    check = TextCheck()
    worst: list[tuple[float, int, Fragmented]] = []
    before = after = unknown_before = unknown_after = 0
    new_unknown = ids.new(unknown) if unknown is not None else None
    for batch in _batches(texts):
        plain = _encode(old, batch, False), _encode(new, batch, False)
        special = _encode(old, batch, True), _encode(new, batch, True)
        for text, one, two, one_special, two_special in zip(batch, *plain, *special, strict=True):
            check.texts += 1
            before += len(one)
            after += len(two)
            if unknown is not None:
                unknown_before += int((one == unknown).sum())
                unknown_after += int((two == new_unknown).sum())
            if len(two) > len(one):
                entry = Fragmented(text=text[:200], before=len(one), after=len(two))
                heapq.heappush(worst, (len(two) / max(1, len(one)), -check.texts, entry))
                if len(worst) > show:
                    heapq.heappop(worst)
            expected = ids.many(one)
            if (expected < 0).any():
                continue
            check.kept += 1
            found = _compare(old, new, ids, text, (one, two), (one_special, two_special))
            if found is not None:
                check.violation_count += 1
                if len(check.violations) < show:
                    check.violations.append(found)
    check.tokens = Change(before=before, after=after)
    check.unknown = Change(before=unknown_before, after=unknown_after)
    check.fragmented = [entry for _, _, entry in sorted(worst, key=lambda item: (-item[0], -item[1]))]
    return check


def _compare(
    old: Any,
    new: Any,
    ids: Renumbering,
    text: str,
    plain: tuple[np.ndarray, np.ndarray],
    special: tuple[np.ndarray, np.ndarray],
) -> Violation | None:
    for kind, (one, two) in (("ids", plain), ("ids with special tokens", special)):
        expected = ids.many(one)
        if not np.array_equal(expected, two):
            at = _first_difference(expected, two)
            return Violation(
                text=text[:200],
                kind=kind,
                expected=_names(new, expected[at : at + _SHOWN]),
                found=_names(new, two[at : at + _SHOWN]),
            )
    for skip in (False, True):
        expected_text = old.decode(plain[0].tolist(), skip_special_tokens=skip)
        found_text = new.decode(plain[1].tolist(), skip_special_tokens=skip)
        if expected_text != found_text:
            return Violation(text=text[:200], kind="decoding", expected=expected_text[:200], found=found_text[:200])
    return None


def _encode(tokenizer: Any, texts: Sequence[str], special: bool) -> list[np.ndarray]:
    encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
    return [np.asarray(entry.ids, dtype=np.int64) for entry in encoded]


def _first_difference(one: np.ndarray, two: np.ndarray) -> int:
    shared = min(len(one), len(two))
    different = np.flatnonzero(one[:shared] != two[:shared])
    return int(different[0]) if different.size else shared


def _names(tokenizer: Any, ids: np.ndarray) -> str:
    return " ".join(str(tokenizer.id_to_token(int(number))) if number >= 0 else "(dropped)" for number in ids)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts, bounded in number and in characters."""
    iterator = iter(texts)
    batch: list[str] = []
    size = 0
    for text in islice(iterator, None):
        batch.append(text)
        size += len(text)
        if len(batch) >= _BATCH or size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch

"""Merges from ranked vocabularies: tiktoken and Tekken rank bytes, SentencePiece scores pieces; none lists merges.

There, any two neighbours may merge whose joined text is in the vocabulary, the best-ranked text first, the leftmost of
equals. Knows only that rule.

Why one merge a token is enough: when two neighbours that join into T stand side by side in a text, all that happened
before between T's ends is what happens to T's string alone, in the same order. So they are the two parts that T's
string alone comes to last: every other way to split T never comes up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from trimbed.tokenizer.derivation import MergeTable, derive, derive_one

__all__ = ["ranked_merges", "untranslatable_ties"]

Text = TypeVar("Text", str, bytes)


def ranked_merges(tokens: Sequence[Text], ranks: Sequence[int]) -> list[tuple[int, int, int]]:
    """The merges that give the same encodings as the ranks.

    ``tokens``: distinct texts, those of one character (or byte) included; ``ranks``: a rank each, lower is better.
    Tokens that no merges lead to have none in the result.

    Returns (left, right, product) as positions in ``tokens``, best rank first.
    """
    at = {token: index for index, token in enumerate(tokens)}
    left: list[int] = []
    right: list[int] = []
    product: list[int] = []
    targets: list[int] = []
    symbols: list[int] = []
    lengths: list[int] = []
    find = at.get
    for index, token in enumerate(tokens):
        if len(token) < 2:
            continue
        initial = [find(token[n : n + 1], -1) for n in range(len(token))]
        if -1 not in initial:
            targets.append(index)
            symbols += initial
            lengths.append(len(initial))
        for cut in range(1, len(token)):
            first = find(token[:cut])
            if first is not None:
                second = find(token[cut:])
                if second is not None:
                    left.append(first)
                    right.append(second)
                    product.append(index)
    if not targets or not left:
        return []
    size, rank = len(tokens), np.asarray(ranks, dtype=np.int64)
    keys = np.array(left, dtype=np.int64) * size + np.array(right, dtype=np.int64)
    order = np.argsort(keys)
    products = np.array(product, dtype=np.int64)[order]
    table = MergeTable(size, keys[order], rank[products], products)
    target = np.array(targets, dtype=np.int64)
    first_part, second_part = derive(
        table, target, np.array(symbols, dtype=np.int64), np.array(lengths, dtype=np.int64)
    )
    built = np.flatnonzero(first_part >= 0)
    built = built[np.argsort(rank[target[built]], kind="stable")]
    return list(zip(first_part[built].tolist(), second_part[built].tolist(), target[built].tolist(), strict=True))


def untranslatable_ties(
    tokens: Sequence[Text], ranks: Sequence[int], merges: Sequence[tuple[int, int, int]]
) -> tuple[Text, Text] | None:
    """Two tokens of one rank whose order a list of merges can't give; None where ``merges``, in order, do it.

    Of equal ranks the leftmost goes first; in a list one of them always goes first. The two agree for runs of one
    character (of spaces, in real models) if those merge among themselves only: then all a run does is its own affair,
    and the list is tried on runs of every length up to four times the longest token.
    """
    groups: dict[int, list[tuple[int, int, int]]] = {}
    for merge in merges:
        groups.setdefault(ranks[merge[2]], []).append(merge)
    for rank, group in groups.items():
        if len(group) == 1:
            continue
        products = {product for _, _, product in group}
        first, second = (tokens[product] for _, _, product in group[:2])
        character = first[:1]
        if any(tokens[product].strip(character) for product in products):
            return first, second
        for left, right, product in merges:
            if ranks[product] != rank and (
                left in products or right in products or not tokens[product].strip(character)
            ):
                return first, second
        tied = {(left, right): (0, product) for left, right, product in group}
        listed = {(left, right): (at, product) for at, (left, right, product) in enumerate(group)}
        single = next(left for left, _, _ in group if len(tokens[left]) == 1)
        longest = max(len(tokens[product]) for product in products)
        for length in range(2, 4 * longest + 2):
            run = [single] * length
            if derive_one(run, tied)[0] != derive_one(run, listed)[0]:
                return first, second
    return None

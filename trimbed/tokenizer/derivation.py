"""Canonical derivations of BPE tokens: which merge really builds each token, found by running BPE on its own string.

Knows ranks and symbols; knows no files. Two implementations: one token at a time, for readers, tests and very long
tokens, and one that runs BPE on all tokens of a length at once. The model level is meant: no normalizer, no
pre-tokenizer.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["MergeTable", "derive", "derive_one"]

_LONG = 48  # tokens of more symbols go one at a time: there are few, and the batch would be quadratic in their length


@dataclass(frozen=True)
class MergeTable:
    """The merges of a BPE model by id, sorted by pair.

    ``keys``: int64[m] sorted, left * size + right; ``ranks``: int64[m], the pair's last position in the merges;
    ``products``: int64[m].
    """

    size: int
    keys: np.ndarray
    ranks: np.ndarray
    products: np.ndarray

    @classmethod
    def build(cls, size: int, left: np.ndarray, right: np.ndarray, product: np.ndarray) -> MergeTable:
        """From merges in order, int64[n] each. A repeated pair has its last position as rank."""
        keys = left * size + right
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        last = np.ones(len(keys), dtype=bool)
        last[:-1] = keys[1:] != keys[:-1]
        order = order[last]
        return cls(size, keys[last], order.astype(np.int64), product[order].astype(np.int64))

    @property
    def lefts(self) -> np.ndarray:
        """int64[m]: the left part of each pair."""
        return self.keys // self.size

    @property
    def rights(self) -> np.ndarray:
        """int64[m]: the right part of each pair."""
        return self.keys % self.size

    def find(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """int64, the position in ``keys`` of each pair, or m where there is no such merge."""
        if not len(self.keys):
            return np.zeros(len(left), dtype=np.int64)
        wanted = left * self.size + right
        at = np.searchsorted(self.keys, wanted)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == wanted, at, len(self.keys))

    def as_mapping(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(left, right) -> (rank, product), for one token at a time."""
        return dict(
            zip(
                zip(self.lefts.tolist(), self.rights.tolist(), strict=True),
                zip(self.ranks.tolist(), self.products.tolist(), strict=True),
                strict=True,
            )
        )


def derive_one(
    symbols: Sequence[int], merges: Mapping[tuple[int, int], tuple[int, int]]
) -> tuple[list[int], tuple[int, int] | None]:
    """Run BPE on ``symbols``: the symbols left at the end, and the last pair merged (None if none was).

    The best rank goes first, the leftmost of equals; each merge may open better ones.
    """
    ids = list(symbols)
    following = [*range(1, len(ids)), -1]
    previous = [-1, *range(len(ids) - 1)]
    queue = []
    for at in range(len(ids) - 1):
        found = merges.get((ids[at], ids[at + 1]))
        if found:
            queue.append((found[0], at, ids[at], ids[at + 1]))
    heapq.heapify(queue)
    alive = [True] * len(ids)
    last = None
    while queue:
        _, at, left, right = heapq.heappop(queue)
        after = following[at]
        if not alive[at] or after < 0 or ids[at] != left or ids[after] != right:
            continue  # one of the two has been merged since
        last = (left, right)
        ids[at] = merges[last][1]
        alive[after] = False
        following[at] = following[after]
        if following[at] >= 0:
            previous[following[at]] = at
            found = merges.get((ids[at], ids[following[at]]))
            if found:
                heapq.heappush(queue, (found[0], at, ids[at], ids[following[at]]))
        if previous[at] >= 0:
            found = merges.get((ids[previous[at]], ids[at]))
            if found:
                heapq.heappush(queue, (found[0], previous[at], ids[previous[at]], ids[at]))
    return [symbol for symbol, here in zip(ids, alive, strict=True) if here], last


def derive(
    table: MergeTable, targets: np.ndarray, symbols: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The last merge of each target's own derivation.

    ``targets``: int64[n], token ids. ``symbols``: int64[sum(lengths)], the initial symbols of each target's string,
    one target after the other. ``lengths``: int64[n].

    Returns ``left, right``: int64[n], -1 where merges don't end in the target alone.
    """
    left = np.full(len(targets), -1, dtype=np.int64)
    right = np.full(len(targets), -1, dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    for length in np.unique(lengths).tolist():
        if length < 2 or length > _LONG:
            continue
        rows = np.flatnonzero(lengths == length)
        block = symbols[starts[rows][:, None] + np.arange(length)]
        left[rows], right[rows] = _derive_block(table, targets[rows], block)
    long = np.flatnonzero(lengths > _LONG)
    if len(long):
        merges = table.as_mapping()
        for row in long.tolist():
            start = int(starts[row])
            end, last = derive_one(symbols[start : start + int(lengths[row])].tolist(), merges)
            if last is not None and end == [int(targets[row])]:
                left[row], right[row] = last
    return left, right


def _derive_block(table: MergeTable, targets: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """BPE on many tokens of one length at once. ``block``: int64[n, length], the symbols; a merge a row a round."""
    none = len(table.keys)
    ranks = np.append(table.ranks, np.iinfo(np.int64).max)
    products = np.append(table.products, -1)
    out_left = np.full(len(targets), -1, dtype=np.int64)
    out_right = np.full(len(targets), -1, dtype=np.int64)
    rows = np.arange(len(targets))
    found = table.find(block[:, :-1].ravel(), block[:, 1:].ravel()).reshape(len(rows), -1)
    while len(rows):
        here = np.arange(len(rows))
        at = np.argmin(ranks[found], axis=1)  # the first of equals is the leftmost
        entry = found[here, at]
        stuck = entry == none
        if stuck.any():
            going = ~stuck
            rows, block, found, at, entry = rows[going], block[going], found[going], at[going], entry[going]
            if not len(rows):
                break
            here = np.arange(len(rows))
        if block.shape[1] == 2:
            done = products[entry] == targets[rows]
            out_left[rows[done]], out_right[rows[done]] = block[done, 0], block[done, 1]
            break
        width = block.shape[1] - 1
        keep = np.arange(width) + (np.arange(width) > at[:, None])  # column at + 1 goes
        block = np.take_along_axis(block, keep, axis=1)
        block[here, at] = products[entry]
        pairs = width - 1
        keep = np.arange(pairs) + (np.arange(pairs) >= at[:, None])
        found = np.take_along_axis(found, keep, axis=1)
        before = np.flatnonzero(at > 0)
        found[before, at[before] - 1] = table.find(block[before, at[before] - 1], block[before, at[before]])
        after = np.flatnonzero(at < pairs)
        found[after, at[after]] = table.find(block[after, at[after]], block[after, at[after] + 1])
    return out_left, out_right

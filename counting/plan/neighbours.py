"""What stands on either side of a cut after normalizing: for each raw code point the characters it may end or begin
with.

Knows sets of characters for each raw code point and how maps change them. Knows no particular normalizer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimbed.counting.plan.kernel_plan import CODE_POINTS

__all__ = ["ANY", "Side", "expand"]

ANY = -1


def expand(keys: np.ndarray, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join ``keys`` with the relation ``source`` -> ``target``: for each match the key's position and the target."""
    order = np.argsort(source, kind="stable")
    source, target = source[order], target[order]
    low = np.searchsorted(source, keys, "left")
    counts = np.searchsorted(source, keys, "right") - low
    position = np.repeat(np.arange(len(keys)), counts)
    offset = np.arange(len(position)) - np.repeat(np.cumsum(counts) - counts, counts)
    return position, target[low[position] + offset]


@dataclass(eq=False)
class Side:
    """For each raw code point, the characters that may stand next to a cut beside it.

    ``single``: int32[0x110000], one of them, or a negative number -k: those of ``masks[k - 1]`` (bool[0x110000]).
    ``raw``, ``extra``: int64[n], further pairs of a raw code point and a character. ``masks[0]`` has all characters.
    """

    single: np.ndarray
    raw: np.ndarray
    extra: np.ndarray
    masks: list[np.ndarray]

    @classmethod
    def identity(cls) -> Side:
        nothing = np.zeros(0, dtype=np.int64)
        return cls(np.arange(CODE_POINTS, dtype=np.int32), nothing, nothing, [np.ones(CODE_POINTS, dtype=bool)])

    def touching(self, members: np.ndarray) -> np.ndarray:
        """bool[0x110000]: the raw code points beside which a character of ``members`` may stand."""
        result: np.ndarray = members[np.maximum(self.single, 0)] & (self.single >= 0)
        for number, mask in enumerate(self.masks):
            if (mask & members).any():
                result |= self.single == -1 - number
        result[self.raw[members[self.extra]]] = True
        return result

    def add(self, raw: np.ndarray, extra: np.ndarray) -> None:
        """Further characters; -1 among ``extra`` makes the raw code point's set all characters."""
        self.single[raw[extra < 0]] = ANY
        pairs = np.concatenate([self.raw * CODE_POINTS + self.extra, (raw * CODE_POINTS + extra)[extra >= 0]])
        pairs = np.unique(pairs.astype(np.int64))
        pairs = pairs[self.single[pairs // CODE_POINTS] != ANY]
        self.raw, self.extra = pairs // CODE_POINTS, pairs % CODE_POINTS

    def map(self, image: np.ndarray) -> None:
        """Replace each character by its ``image`` (int32[0x110000]; -1: taken out, so anything may stand there)."""
        image = image.astype(np.int32)
        for number in range(1, len(self.masks)):
            values = image[self.masks[number]]
            changed = np.zeros(CODE_POINTS, dtype=bool)
            changed[values[values >= 0]] = True
            self.masks[number] = np.ones(CODE_POINTS, dtype=bool) if (values < 0).any() else changed
        self.single = np.where(self.single >= 0, image[np.maximum(self.single, 0)], self.single).astype(np.int32)
        raw, extra = self.raw, image[self.extra].astype(np.int64)
        self.raw = self.extra = np.zeros(0, dtype=np.int64)
        self.add(raw, extra)

    def spread(self, raw: np.ndarray, to: np.ndarray) -> None:
        """Any character of ``to`` may stand beside the raw code points ``raw``, too (both bool[0x110000])."""
        chosen = raw & (self.single != ANY)
        if not chosen.any():
            return
        mask = to.copy()
        held = self.single[chosen]
        mask[held[held >= 0]] = True
        for number in set((-1 - held[held < 0]).tolist()):
            mask |= self.masks[number]
        mask[self.extra[chosen[self.raw]]] = True
        self.masks.append(mask)
        self.single[chosen] = -len(self.masks)
        kept = ~chosen[self.raw]
        self.raw, self.extra = self.raw[kept], self.extra[kept]

    def relate(self, source: np.ndarray, target: np.ndarray) -> None:
        """Where a character of ``source`` may stand, the one beside it in ``target`` may, too (int64[n] each)."""
        position, found = expand(self.single.astype(np.int64), source, target)
        again, more = expand(self.extra, source, target)
        for number in range(1, len(self.masks)):
            held = self.masks[number]
            held[target[held[source]]] = True
        self.add(np.concatenate([position, self.raw[again]]), np.concatenate([found, more]))

    def labels(self, classes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The sets as sets of classes: int64[0x110000] set numbers, and bool[sets, count] their members."""
        rows: dict[bytes, int] = {}
        table: list[np.ndarray] = []

        def number_of(row: np.ndarray) -> int:
            key = row.tobytes()
            if key not in rows:
                rows[key] = len(table)
                table.append(row)
            return rows[key]

        for one in range(count):
            number_of(np.arange(count) == one)
        labels = classes[np.maximum(self.single, 0)].astype(np.int64)
        rows_of_masks = []
        for number, mask in enumerate(self.masks):
            row = np.zeros(count, dtype=bool)
            row[:] = np.bincount(classes[mask], minlength=count) > 0
            rows_of_masks.append(row)
            labels[self.single == -1 - number] = number_of(row)
        pairs = np.unique(self.raw * 256 + classes[self.extra])
        extra_raw, extra_class = pairs // 256, pairs % 256
        starts = np.flatnonzero(np.diff(extra_raw, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(pairs)], strict=False):
            raw = int(extra_raw[start])
            row = table[labels[raw]].copy()
            row[extra_class[start:stop]] = True
            labels[raw] = number_of(row)
        return labels, np.array(table)

"""Executes a kernel plan in plain Python: the readable counterpart of the C++ kernel, which tests hold to it.

Knows added-token matching, cutting, and encoding each distinct piece once with the library. Not made for speed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer

from trimbed.counting.plan.kernel_plan import NEVER, UNLESS_JOINED, AddedMatch, KernelPlan
from trimbed.counting.plan.probes import predicate_members, word_members

__all__ = ["PlanExecutor"]

Part = tuple[str, int | None]


class PlanExecutor:
    """Counts by a plan.

    >>> PlanExecutor(plan).count(["a b", "a c"])  # doctest: +SKIP
    Counter({5: 2, 6: 1, 7: 1})
    """

    def __init__(self, plan: KernelPlan) -> None:
        self.plan = plan
        self.joined = set(plan.joined.tolist())
        self.inner = Tokenizer.from_str(plan.inner_document)
        self.first = Tokenizer.from_str(plan.initial_document) if plan.initial else self.inner
        self.stages = [_Trie([match for match in plan.added if match.stage == stage]) for stage in (0, 1)]

    def pieces(self, text: str) -> Iterator[tuple[str, bool, int | None]]:
        """The pieces of a document in order: (text, is it an initial one, the id of an added token or None)."""
        at = 0
        for stretch, number in self.stages[0].parts(text):
            behind_stage_1 = False
            for segment, inner_number in self.stages[1].parts(stretch) if number is None else [(stretch, number)]:
                if inner_number is not None:
                    yield segment, False, inner_number
                    behind_stage_1 = number is None
                else:
                    first = self.plan.initial and (at == 0 or not self.plan.initial_once)
                    first = first and (self.plan.initial_after_stage_1 or not behind_stage_1)
                    for piece in self.cut(segment):
                        yield piece, first, None
                        first = False
                at += len(segment)

    def cut(self, segment: str) -> list[str]:
        """A segment's pieces."""
        classes, table = self.plan.classes, self.plan.cut
        pieces, start = [], 0
        for place in range(1, len(segment)):
            left, right = ord(segment[place - 1]), ord(segment[place])
            decision = table[classes[left], classes[right]]
            if decision == NEVER or (decision == UNLESS_JOINED and (left << 32 | right) in self.joined):
                continue
            pieces.append(segment[start:place])
            start = place
        return [*pieces, segment[start:]] if segment else []

    def count(self, texts: Iterable[str]) -> Counter[int]:
        """How often each id occurs in the encodings of ``texts``, special tokens not added."""
        ids: Counter[int] = Counter()
        pieces: Counter[tuple[str, bool]] = Counter()
        for text in texts:
            for piece, first, number in self.pieces(text):
                if number is None:
                    pieces[piece, first] += 1
                else:
                    ids[number] += 1
        for kind, tokenizer in ((True, self.first), (False, self.inner)):
            distinct = [piece for piece, first in pieces if first is kind]
            encoded = tokenizer.encode_batch_fast(distinct, add_special_tokens=False)
            for piece, encoding in zip(distinct, encoded, strict=True):
                for number in encoding.ids:
                    ids[number] += pieces[piece, kind]
        return ids


class _Trie:
    """Leftmost-longest search for added tokens, with the library's flags."""

    def __init__(self, matches: list[AddedMatch]) -> None:
        self.by_start: dict[str, list[AddedMatch]] = {}
        for match in sorted(matches, key=lambda match: -len(match.content)):
            self.by_start.setdefault(match.content[0], []).append(match)
        single = any(match.single_word for match in matches)
        strips = any(match.lstrip or match.rstrip for match in matches)
        self.word = word_members() if single else None
        self.space = predicate_members("whitespace") if strips else None

    def found(self, text: str) -> Iterator[tuple[int, AddedMatch]]:
        place = 0
        while place < len(text):
            for match in self.by_start.get(text[place], ()):
                if text.startswith(match.content, place):
                    yield place, match
                    place += len(match.content)
                    break
            else:
                place += 1

    def parts(self, text: str) -> Iterator[Part]:
        """The text's stretches in order, with an id where a stretch is an added token (with the space that it eats)."""
        done = 0
        for start, match in self.found(text):
            stop = start + len(match.content)
            if match.single_word and (self.is_word(text[start - 1 : start]) or self.is_word(text[stop : stop + 1])):
                continue
            while match.lstrip and start > done and self.is_space(text[start - 1]):
                start -= 1
            while match.rstrip and stop < len(text) and self.is_space(text[stop]):
                stop += 1
            start = max(start, done)
            if done < start:
                yield text[done:start], None
            yield text[start:stop], match.id
            done = stop
        if done < len(text):
            yield text[done:], None

    def is_word(self, char: str) -> bool:
        return bool(char) and self.word is not None and bool(self.word[ord(char)])

    def is_space(self, char: str) -> bool:
        return self.space is not None and bool(self.space[ord(char)])

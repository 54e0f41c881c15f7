"""Added tokens and their flags: which are found in raw text, and how those found in normalized text keep cuts away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from trimbed.counting.plan.automaton import partition
from trimbed.counting.plan.kernel_plan import CODE_POINTS, AddedMatch
from trimbed.counting.plan.pipeline import Pipeline
from trimbed.counting.plan.probes import predicate_members, word_members
from trimbed.counting.plan.regex import NotUnderstood

__all__ = ["guard", "raw_matches"]


def raw_matches(tokenizer: Tokenizer, *, normalizes: bool) -> tuple[tuple[AddedMatch, ...], list[Any]]:
    """The added tokens that are matched in raw text, and those that only the normalized text shows.

    ``normalizes``: whether the tokenizer has a normalizer that does anything. Raises NotUnderstood where tokens may
    overlap, for the library then counts a stretch twice or panics.
    """
    raw, hidden = [], []
    for number, token in sorted(tokenizer.get_added_tokens_decoder().items()):
        if token.normalized and normalizes:
            hidden.append(token)
            continue
        stage = 1 if token.normalized else 0
        raw.append(AddedMatch(token.content, number, token.single_word, token.lstrip, token.rstrip, stage))
    for stage in {match.stage for match in raw if match.rstrip}:
        if any(match.stage == stage and predicate_members("whitespace")[ord(match.content[0])] for match in raw):
            raise NotUnderstood("an added token that eats white space, beside one that begins with it")
    return tuple(raw), hidden


def guard(pipeline: Pipeline, tokenizer: Tokenizer, hidden: Sequence[Any]) -> tuple[str, ...]:
    """Keep cuts out of where an added token may lie in normalized text. ``pipeline`` is past the normalizers.

    Returns the normalized contents. Raises NotUnderstood where one comes to nothing.
    """
    normalizer: Any = tokenizer.normalizer
    contents = [normalizer.normalize_str(token.content) for token in hidden]
    if not all(contents):
        raise NotUnderstood("an added token that the normalizer takes out")
    word, space = word_members(), predicate_members("whitespace")
    letters = sorted({ord(char) for content in contents for char in content})
    singles = []
    for letter in letters:
        members = np.zeros(CODE_POINTS, dtype=bool)
        members[letter] = True
        singles.append(members)
    if len(letters) > 200:
        raise NotUnderstood("added tokens of too many different characters in normalized text")
    classes, samples = partition([word, space, *singles])
    words, spaces = word[samples], space[samples]
    clear = np.ones((len(samples), len(samples)), dtype=bool)
    for token, content in zip(hidden, contents, strict=True):
        numbers = classes[[ord(char) for char in content]]
        clear[numbers[:-1], numbers[1:]] = False
        for flag, inside, outside in ((token.lstrip, numbers[0], 0), (token.rstrip, numbers[-1], 1)):
            if flag:
                clear[np.ix_(spaces, spaces)] = False
                if outside:
                    clear[inside, spaces] = False
                else:
                    clear[spaces, inside] = False
        if token.single_word:
            clear[words, numbers[0]] = False
            clear[numbers[-1], words] = False
    pipeline.judge(classes.astype(np.uint8), clear, np.zeros_like(clear), "added tokens in normalized text")
    return tuple(contents)

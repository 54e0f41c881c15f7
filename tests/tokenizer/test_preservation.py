"""Invariant 3: a text whose ids are all kept is encoded by the trimmed tokenizer to the same tokens, renumbered."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import made
import numpy as np
import pytest
from tokenizers import Tokenizer
from variants import VARIANTS, many_rules, without_characters

from trimbed.tokenizer.dependencies import Dependencies
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.tokenizer.wordpiece import WordPieceBackend
from trimbed.trimming.surgery import trim_document

WORDS = [word for text in made.training_texts()[-60:] + made.SENTENCES for word in text.split()]


def random_texts(spec: TokenizerSpec, rng: random.Random, count: int) -> list[str]:
    """Words of real text in new orders, cut and glued, and surfaces of tokens one after the other."""
    surfaces = [s for s in spec.surfaces() if s]
    texts = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.4:
            texts.append(" ".join(rng.choices(WORDS, k=rng.randint(1, 5))))
        elif kind < 0.7:
            texts.append("".join(rng.choices(surfaces, k=rng.randint(1, 4))))
        else:
            word = rng.choice(WORDS)
            start = rng.randrange(len(word))
            texts.append(word[start:] + rng.choice(["", " ", "\n"]) + rng.choice(WORDS)[: rng.randint(1, 8)])
    return texts


def checks(
    spec: TokenizerSpec,
    *,
    rounds: int,
    texts: int,
    seed: int,
    dependencies: Dependencies | None = None,
    share: tuple[float, float] = (0.3, 0.9),
) -> Iterator[tuple[str, list[str], list[str]]]:
    """(text, tokens before, tokens after) for texts whose ids are all in a random kept set that is closed."""
    rng = random.Random(seed)
    dependencies = spec.dependencies() if dependencies is None else dependencies
    for _ in range(rounds):
        some = random_texts(spec, rng, texts)
        encoded = [e.ids for e in spec.tokenizer.encode_batch(some, add_special_tokens=False)]
        kept = np.zeros(spec.vocab_size, dtype=bool)
        kept[list(spec.structural_ids())] = True
        for ids in rng.sample(encoded, k=int(texts * rng.uniform(*share))):
            kept[ids] = True
        kept = dependencies.closure(kept)
        small, old_to_new = trim_document(spec.document.data, np.flatnonzero(kept), check=False)
        trimmed = Tokenizer.from_str(TokenizerDocument(small).text())
        trimmed.no_truncation()
        trimmed.no_padding()
        whole = [(text, ids) for text, ids in zip(some, encoded, strict=True) if kept[ids].all()]
        after = trimmed.encode_batch([text for text, _ in whole], add_special_tokens=False)
        for (text, ids), encoding in zip(whole, after, strict=True):
            names = {int(old_to_new[i]): spec.tokens[i] for i in ids}
            yield (
                text,
                [str(spec.tokens[i]) for i in ids],
                [str(names.get(i, f"another token {i}")) for i in encoding.ids],
            )


def violations(found: Iterator[tuple[str, list[str], list[str]]]) -> tuple[int, list[tuple[str, list[str], list[str]]]]:
    total, wrong = 0, []
    for text, before, after in found:
        total += 1
        if before != after:
            wrong.append((text, before, after))
    return total, wrong


@pytest.mark.parametrize("name", VARIANTS)
def test_kept_text_is_encoded_as_before(name: str) -> None:
    spec = TokenizerSpec.from_document(VARIANTS[name]())
    total, wrong = violations(checks(spec, rounds=4, texts=150, seed=3))
    assert not wrong[:3]
    assert total > 150


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", VARIANTS)
def test_kept_text_is_encoded_as_before_in_a_hundred_thousand_checks(name: str) -> None:
    spec = TokenizerSpec.from_document(VARIANTS[name]())
    total, seed = 0, 100
    while total * len(VARIANTS) < 100_000:
        more, wrong = violations(checks(spec, rounds=10, texts=500, seed=seed))
        assert not wrong[:3]
        total, seed = total + more, seed + 1


def first_rules(spec: TokenizerSpec) -> Dependencies:
    """The closure that isn't enough: each token needs the parts of the rule listed first."""
    vocab = spec.document.vocab
    first: dict[int, tuple[int, int]] = {}
    for left, right in spec.document.merges:
        first.setdefault(vocab[left + right], (vocab[left], vocab[right]))
    tokens = np.array([token for token in first for _ in range(2)])
    return Dependencies.from_pairs(
        spec.vocab_size, tokens, np.array([part for pair in first.values() for part in pair])
    )


def test_closing_over_the_first_listed_rules_would_break_kept_text() -> None:
    spec = TokenizerSpec.from_document(many_rules())
    few = (0.02, 0.1)
    total, wrong = violations(checks(spec, rounds=60, texts=200, seed=5, dependencies=first_rules(spec), share=few))
    assert total > 300 and len(wrong) >= 3
    total, wrong = violations(checks(spec, rounds=20, texts=200, seed=5, share=few))
    assert total > 300 and not wrong


def test_without_any_closure_bpe_would_break_kept_text() -> None:
    spec = TokenizerSpec.from_document(made.tiny("bpe"))
    _, wrong = violations(checks(spec, rounds=4, texts=200, seed=5, dependencies=Dependencies.none(spec.vocab_size)))
    assert wrong


def wordpiece(vocab: list[str]) -> TokenizerSpec:
    tokens = ["[UNK]", *vocab]
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {token: index for index, token in enumerate(tokens)},
    }
    return TokenizerSpec.from_document(
        {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
    )


def test_an_unknown_word_stays_unknown_where_the_alphabet_is_incomplete() -> None:
    # ab is matched, then nothing begins with x. Without ab, a and ##bx would do.
    spec = wordpiece(["a", "b", "##b", "ab", "##bx"])
    assert spec.encode("abx") == [0]
    assert spec.structural_ids() == {0: "unk", 4: "alphabet"}
    dropped, _ = trim_document(spec.document.data, [0, 1, 2, 3, 5])
    assert TokenizerSpec.from_document(dropped).encode("abx") != [0]  # what keeping ab prevents


def test_a_complete_alphabet_needs_no_guards(minilm_folder: Any) -> None:
    spec = TokenizerSpec.load(minilm_folder)
    backend = spec.backend
    assert isinstance(backend, WordPieceBackend)
    assert set(spec.structural_ids().values()) <= {"unk", "special token"}
    assert not backend.guards()


def test_every_word_over_a_small_alphabet_keeps_its_encoding_or_its_unk() -> None:
    from itertools import product

    rng = random.Random(11)
    words = ["".join(letters) for n in range(1, 6) for letters in product("abc", repeat=n)]
    broken_without_guards = 0
    for _ in range(60):
        pieces = {rng.choice(["", "##"]) + "".join(rng.choices("abc", k=rng.randint(1, 3))) for _ in range(9)}
        spec = wordpiece(sorted(pieces))
        before = {word: spec.encode(word) for word in words}
        for guarded in (True, False):
            always = set(spec.structural_ids()) if guarded else {0}
            kept = sorted(always | {i for i in range(spec.vocab_size) if rng.random() < 0.6})
            small, old_to_new = trim_document(spec.document.data, kept)
            trimmed = TokenizerSpec.from_document(small)
            for word, ids in before.items():
                if set(ids) <= set(kept):
                    same = trimmed.encode(word) == [int(old_to_new[i]) for i in ids]
                    assert same or not guarded, (sorted(pieces), kept, word)
                    broken_without_guards += not same
    assert broken_without_guards > 10


def test_guards_matter_on_a_trained_vocabulary_too() -> None:
    spec = TokenizerSpec.from_document(without_characters("aeioun"))
    assert "alphabet" in spec.structural_ids().values()


def unigram(pieces: list[tuple[str, float]], unk_id: int | None) -> TokenizerSpec:
    vocab = [list(piece) for piece in pieces]
    return TokenizerSpec.from_document(
        {"version": "1.0", "added_tokens": [], "model": {"type": "Unigram", "unk_id": unk_id, "vocab": vocab}}
    )


def test_the_lowest_scoring_piece_of_a_unigram_model_stays() -> None:
    # Unknown costs (lowest) - 10. With zz, "xab" is the unknown x and ab; without it the unknown would swallow more.
    spec = unigram([("<unk>", 0.0), ("ab", -12.0), ("zz", -40.0), ("a", -3.0)], 0)
    assert spec.structural_ids() == {0: "unk", 2: "lowest score"}
    ties = unigram([("<unk>", 0.0), ("a", -5.0), ("b", -5.0)], 0)
    assert ties.structural_ids() == {0: "unk", 1: "lowest score"}


def test_unk_of_a_unigram_model_is_an_index_that_may_be_null() -> None:
    spec = unigram([("a", -1.0), ("b", -2.0), ("<unk>", -3.0), ("c", -4.0), ("d", -5.0)], 2)
    assert spec.encode("czd") == [3, 2, 4] and spec.unk_id == 2
    small, _ = trim_document(spec.document.data, [1, 2, 3, 4])
    assert small["model"]["unk_id"] == 1
    assert TokenizerSpec.from_document(small).encode("czd") == [2, 1, 3]
    none = unigram([("a", -1.0), ("b", -2.0)], None)
    assert none.unk_id is None and none.structural_ids() == {1: "lowest score"}
    with pytest.raises(Exception, match="unk"):
        none.encode("az")


@pytest.mark.parametrize("registered", [False, True])
def test_users_can_register_a_backend_of_their_own(registered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimbed.tokenizer import backend
    from trimbed.tokenizer.backend import WordLevelBackend, register_backend

    class Strict(WordLevelBackend):
        def structural_ids(self) -> dict[int, str]:
            return {**super().structural_ids(), 5: "mine"}

    monkeypatch.setattr(backend, "_REGISTRY", dict(backend._REGISTRY))
    if registered:
        make: Callable[..., Any] = Strict
        register_backend("wordlevel", make)
    reasons = TokenizerSpec.from_document(made.tiny("wordlevel")).structural_ids()
    assert (reasons.get(5) == "mine") is registered

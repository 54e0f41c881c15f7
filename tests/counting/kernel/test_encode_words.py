"""The native Unigram, WordPiece and WordLevel give the library's ids, ties and unknown characters included."""

from __future__ import annotations

import itertools

import made
import pytest
from encode_checks import Document, Pair, document, random_texts, reason
from hypothesis import given, settings
from hypothesis import strategies as st

LETTERS = "abcé"
SCORES = st.sampled_from([0.0, -1.0, -2.0, -2.5, -0.1, 3.0, -10.7])


def all_words(longest: int) -> list[str]:
    return ["".join(w) for n in range(1, longest + 1) for w in itertools.product(LETTERS, repeat=n)]


def unigram(vocab: list[tuple[str, float]], unk_id: int | None = 0, **options: object) -> Document:
    model = {"type": "Unigram", "unk_id": unk_id, "vocab": [list(v) for v in vocab], "byte_fallback": False}
    return document(model | options)


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.text("abcé", min_size=1, max_size=4), SCORES, min_size=1, max_size=14),
    st.booleans(),
    st.sampled_from([0, None]),
    st.booleans(),
)
def test_any_unigram_vocabulary_gives_the_library_s_ids(
    scores: dict[str, float], fallback: bool, unk_id: int | None, all_bytes: bool
) -> None:
    vocab = [("<unk>", 0.0), *scores.items()]
    vocab += [(f"<0x{b:02X}>", -5.0) for b in ("zé" if all_bytes else "z").encode()] if fallback else []
    pair = Pair(unigram(vocab, unk_id, byte_fallback=fallback))
    for word in [*all_words(3), "abcabcabc", "zz", "azzb", "éz", "<unk>a<unk>", "a<unk>z", "<0x7A>"]:
        if not pair.check(word):
            assert pair.library_ids(word) is None, word


def test_equal_scores_keep_the_path_that_was_found_first() -> None:
    pair = Pair(unigram([("<unk>", 0.0), ("a", -1.0), ("aa", -2.0), ("aaa", -3.0), ("b", -1.0), ("ab", -2.0)]))
    pair.check_all([*(("a" * n) for n in range(1, 40)), *all_words(6)])


def test_scores_are_read_as_the_library_reads_them() -> None:
    # Sums that tie but for the last bit of one score.
    scores = [("<unk>", 0.0), ("a", -8.130000114440918), ("b", -7.1234567890123456), ("ab", -15.253456903453264)]
    Pair(unigram([*scores, ("ba", -15.253456903453262), ("c", -1e-310)])).check_all(all_words(6))


def test_a_run_of_unknown_characters_may_be_a_token_after_all() -> None:
    pair = Pair(unigram([("<unk>", 0.0), ("x", 1.0), ("éé", 20.0), ("y", 30.0)]))
    pair.check_all(["éé", "xéé", "éééé", "zéé", "yéézy"])


def test_an_unknown_character_without_an_unknown_token_is_the_library_s_error() -> None:
    pair = Pair(unigram([("a", 0.0), ("b", 0.0)], None))
    assert pair.check("ab")
    assert pair.native.encode(b"az") is None
    assert pair.library_ids("az") is None


def word_piece(vocab: list[str], **options: object) -> Document:
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 6,
    }
    return document(model | options | {"vocab": {t: i for i, t in enumerate(vocab)}})


@settings(max_examples=60, deadline=None)
@given(st.sets(st.text("ab#é", min_size=1, max_size=4), max_size=12), st.sampled_from(["##", "", "a"]), st.booleans())
def test_any_word_piece_vocabulary_gives_the_library_s_ids(tokens: set[str], prefix: str, known: bool) -> None:
    vocab = [*(["[UNK]"] if known else []), *sorted(tokens - {"[UNK]"})]
    pair = Pair(word_piece(vocab, continuing_subword_prefix=prefix))
    for word in [*("".join(w) for n in range(1, 6) for w in itertools.product("ab#é", repeat=n)), "ab" * 4, "é" * 7]:
        if not pair.check(word):
            assert pair.library_ids(word) is None, word


def test_the_longest_word_counts_characters_not_bytes() -> None:
    pair = Pair(word_piece(["[UNK]", "é", "##é"]))
    assert pair.native.encode(("é" * 6).encode()) == [1, 2, 2, 2, 2, 2]
    assert pair.native.encode(("é" * 7).encode()) == [0]
    pair.check_all(["é" * n for n in range(1, 12)])


def test_a_word_level_model_knows_whole_words_only() -> None:
    model: Document = {"type": "WordLevel", "vocab": {"ab": 1, "<unk>": 0, "é": 2}, "unk_token": "<unk>"}
    pair = Pair(document(model, pre_tokenizer={"type": "WhitespaceSplit"}))
    pair.check_all(["ab", "é", "ab é", "abc", " ab  zz ", "é\u3000ab"])
    without = Pair(document(model | {"unk_token": "?"}))
    assert without.native.encode(b"zz") is None
    assert without.library_ids("zz") is None


@pytest.mark.parametrize("name", ["unigram", "wordpiece", "wordlevel"])
def test_trained_tokenizers_give_the_library_s_ids(name: str) -> None:
    pair = Pair(made.tiny(name))
    pair.check_all(random_texts(5000, seed=2), at_least=0.8)
    pair.check_all([s for s in made.SENTENCES[:-1] for s in (s, s[:20], s[5:30])], at_least=1.0)


def test_a_model_of_another_kind_says_so() -> None:
    assert "the model Mystery" in reason(document({"type": "Mystery"}))

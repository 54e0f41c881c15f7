"""The native BPE gives the library's ids, whatever the options."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from encode_checks import Document, Pair, bpe, document, random_texts, reason, texts
from hypothesis import given, settings
from hypothesis import strategies as st

BYTE_LEVEL: Document = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def all_words(letters: str, longest: int) -> list[str]:
    return ["".join(w) for n in range(1, longest + 1) for w in itertools.product(letters, repeat=n)]


@st.composite
def random_bpe(draw: st.DrawFn) -> Document:
    """A model over a, b, c with merges at random: repeated pairs, several rules for one token, tokens that no rule
    builds, and characters without a token."""
    prefix, suffix = draw(st.sampled_from([("", ""), ("##", ""), ("", "</w>"), ("##", "</w>")]))
    letters = draw(st.sampled_from(["abc", "ab"]))
    vocab = ["<unk>", *(p + c + s for c in letters for p in {"", prefix} for s in {"", suffix})]
    merges = []
    for _ in range(draw(st.integers(0, 12))):
        left, right = draw(st.sampled_from(vocab[1:])), draw(st.sampled_from(vocab[1:]))
        if not right.startswith(prefix) or left.endswith("</w>"):
            continue
        merges.append((left, right))
        if (product := left + right[len(prefix) :]) not in vocab:
            vocab.append(product)
    merges += draw(st.lists(st.sampled_from(merges), max_size=3)) if merges else []
    options: dict[str, Any] = {
        "unk_token": draw(st.sampled_from([None, "<unk>", "<missing>"])),
        "fuse_unk": draw(st.booleans()),
        "ignore_merges": draw(st.booleans()),
        "byte_fallback": draw(st.booleans()),
        "continuing_subword_prefix": prefix or draw(st.sampled_from([None, ""])),
        "end_of_word_suffix": suffix or draw(st.sampled_from([None, ""])),
    }
    if draw(st.booleans()):
        vocab += [f"<0x{b:02X}>" for b in "cdé#</w>".encode()]
    return document(bpe(list(dict.fromkeys(vocab)), merges, **options))


@settings(max_examples=60, deadline=None)
@given(random_bpe(), st.lists(st.text("abcdé", min_size=1, max_size=9), min_size=5, max_size=20))
def test_any_merges_and_options_give_the_library_s_ids(source: Document, words: list[str]) -> None:
    pair = Pair(source)
    for word in words:
        if not pair.check(word):
            assert pair.library_ids(word) is None, f"{word!r} need not have been left to the library"


def test_of_a_repeated_pair_the_last_rank_counts() -> None:
    repeated = [("b", "c"), ("a", "b"), ("b", "c"), ("a", "bc")]
    pair = Pair(document(bpe(["a", "b", "c", "ab", "bc", "abc"], repeated)))
    assert pair.native.encode(b"abc") == [3, 2]
    pair.check_all(all_words("abc", 5))


def test_equal_ranks_merge_from_the_left() -> None:
    pair = Pair(document(bpe(["a", "aa", "aaa"], [("a", "a"), ("aa", "a")])))
    assert pair.native.encode(b"aaaaa") == [1, 2]
    pair.check_all(all_words("a", 60))


def test_long_words_take_the_heap_and_agree_with_short_ones() -> None:
    rng = random.Random(3)
    vocab = ["a", "b", "c", "ab", "ba", "abc", "ca", "cab", "abab", "aba", "bab", "ababc", "cc"]
    spelled = "a+b b+a ab+c c+a ca+b ab+ab ab+a b+ab ab+abc c+c"
    merges = [(left, right) for left, _, right in (m.partition("+") for m in spelled.split())]
    pair = Pair(document(bpe(vocab, merges)))
    pair.check_all(["".join(rng.choices("abc", k=rng.randint(40, 200))) for _ in range(300)])
    pair.check_all(["ab" * 50_000, "abc" * 30_000])


def test_missing_bytes_vanish_and_their_neighbours_merge() -> None:
    from trimbed.counting.encoders.pretokenizers import BYTES

    vocab = [*(c for c in BYTES if c != BYTES[0x0D]), "ĊĊ"]
    pair = Pair(document(bpe(vocab, [("Ċ", "Ċ")]), pre_tokenizer=BYTE_LEVEL))
    assert pair.native.encode(b"\r\n\r\n") == [len(vocab) - 1]
    pair.check_all(["\n\n", "a\rb", "\r", "\r\n", "é\r\n\n"])


def test_whole_words_come_first_where_merges_are_ignored() -> None:
    vocab = ["h", "e", "l", "o", "Ġ", "he", "ll", "hello", "not bytes", "\x80"]
    for ignored in (False, True):
        model = bpe(vocab, [("h", "e"), ("l", "l")], ignore_merges=ignored)
        pair = Pair(document(model, pre_tokenizer=BYTE_LEVEL))
        assert pair.native.encode(b"hello") == ([7] if ignored else [5, 6, 3])
        pair.check_all(["hello", "hellohello", " hello", "h", "not bytes", "\x80"])


def test_bytes_do_not_put_out_an_unknown_character_that_waits() -> None:
    vocab = ["a", "<unk>", "<0xC3>", "<0xA9>"]
    for fuse in (False, True):
        pair = Pair(document(bpe(vocab, unk_token="<unk>", fuse_unk=fuse, byte_fallback=True)))
        pair.check_all(all_words("aéz", 6))


def test_an_unknown_token_without_an_entry_is_the_library_s_error() -> None:
    pair = Pair(document(bpe(["a"], unk_token="<unk>")))
    assert pair.check("aaa")
    assert pair.native.encode(b"ab") is None
    assert pair.library_ids("ab") is None


def test_both_spellings_of_merges_mean_the_same() -> None:
    model = bpe(["a", "b", "ab", "abb"], [("a", "b"), ("ab", "b")])
    old = model | {"merges": ["#version: 0.2", "a b", "ab b"]}
    for pair in (Pair(document(model)), Pair(document(old))):
        pair.check_all(all_words("ab", 7))


def test_what_has_no_native_counterpart_says_why() -> None:
    assert "dropout" in reason(document(bpe(["a"], dropout=0.1)))
    assert "one id" in reason(document(bpe(["a"]) | {"vocab": {"a": 0, "b": 0}}))
    assert "not in the vocabulary" in reason(document(bpe(["a"], [("a", "b")])))


@settings(max_examples=40, deadline=None)
@given(st.lists(texts, min_size=4, max_size=8))
@pytest.mark.parametrize("name", ["bpe", "metaspace_bpe"])
def test_trained_tokenizers_give_the_library_s_ids(name: str, many: list[str]) -> None:
    pair = trained(name)
    for text in many:
        pair.check(text)


@pytest.mark.parametrize("name", ["bpe", "metaspace_bpe"])
def test_trained_tokenizers_rarely_need_the_library(name: str) -> None:
    trained(name).check_all(random_texts(4000, seed=1), at_least=0.9)


_trained: dict[str, Pair] = {}


def trained(name: str) -> Pair:
    import made

    if name not in _trained:
        _trained[name] = Pair(made.tiny(name))
    return _trained[name]

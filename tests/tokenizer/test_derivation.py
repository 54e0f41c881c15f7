"""Which merge builds a token: the batch agrees with one at a time, and one at a time with the reference library."""

from __future__ import annotations

import random
from typing import Any

import made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from variants import VARIANTS, many_rules, shuffled_rules

from trimbed.tokenizer.bpe import BpeBackend
from trimbed.tokenizer.derivation import MergeTable, derive, derive_one
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.spec import TokenizerSpec

BPE = ("many rules", "many byte-level rules", "shuffled rules", "suffixed", "prefixed", "bpe", "metaspace_bpe")


def backend_of(document: dict[str, Any]) -> BpeBackend:
    spec = TokenizerSpec.from_document(document)
    backend = spec.backend
    assert isinstance(backend, BpeBackend)
    return backend


def bpe(vocab: list[str], merges: list[Any], **fields: Any) -> dict[str, Any]:
    model = {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocab)}, "merges": merges, **fields}
    return {"version": "1.0", "added_tokens": [], "model": model}


@pytest.mark.parametrize("name", ["many rules", "many byte-level rules", "shuffled rules", "bpe", "metaspace_bpe"])
def test_running_bpe_on_a_string_gives_the_reference_librarys_tokens(name: str) -> None:
    document = VARIANTS[name]()
    merges = backend_of(document).table.as_mapping()
    vocab = document["model"]["vocab"]
    model = Tokenizer.from_str(TokenizerDocument(document).text()).model
    rng = random.Random(1)
    characters = [token for token in vocab if len(token) == 1]
    texts = ["".join(rng.choices(characters, k=rng.randint(1, 30))) for _ in range(300)]
    texts += ["".join(rng.choices([t for t in vocab if not t.startswith("<")], k=6)) for _ in range(1200)]
    checked = 0
    for text in texts:
        ids = [vocab.get(character, -1) for character in text]
        if -1 in ids:
            continue
        checked += 1
        assert derive_one(ids, merges)[0] == [token.id for token in model.tokenize(text)], text
    assert checked > 1000


@pytest.mark.parametrize("name", BPE)
def test_the_batch_finds_the_derivations_that_one_at_a_time_finds(name: str) -> None:
    backend = backend_of(VARIANTS[name]())
    assert_batch_is_plain(backend, minimum=100)


def test_every_token_of_a_real_vocabulary_is_derived_as_one_at_a_time(deepseek_folder: Any) -> None:
    backend = TokenizerSpec.load(deepseek_folder).backend
    assert isinstance(backend, BpeBackend)
    assert_batch_is_plain(backend, minimum=127_000)


def assert_batch_is_plain(backend: BpeBackend, *, minimum: int) -> None:
    from trimbed.tokenizer.bpe import _readings

    document, vocab = backend.document, backend.document.vocab
    merges = backend.table.as_mapping()
    prefix, suffix = document.affix("continuing_subword_prefix"), document.affix("end_of_word_suffix")
    plain = set()
    for token, index in vocab.items():
        for reading in _readings(token, prefix, suffix):
            ids = [vocab.get(symbol, -1) for symbol in reading]
            if -1 not in ids:
                end, last = derive_one(ids, merges)
                if last is not None and end == [index]:
                    plain.add((index, *last))
    token, left, right = backend.derivations
    assert set(zip(token.tolist(), left.tolist(), right.tolist(), strict=True)) == plain
    assert len(plain) >= minimum


@pytest.mark.parametrize("make", [many_rules, shuffled_rules])
def test_without_the_rules_of_a_token_bpe_stops_at_the_parts_of_its_derivation(make: Any) -> None:
    document = make()
    spec = TokenizerSpec.from_document(document)
    token, left, right = backend_of(document).derivations
    rng = random.Random(2)
    for at in rng.sample(range(len(token)), 60):
        name = spec.tokens[token[at]]
        less = make()
        less["model"]["merges"] = [pair for pair in less["model"]["merges"] if "".join(pair) != name]
        model = Tokenizer.from_str(TokenizerDocument(less).text()).model
        assert [part.id for part in model.tokenize(name)] == [left[at], right[at]]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("ab", min_size=2, max_size=6), min_size=1, max_size=12, unique=True),
    st.randoms(use_true_random=False),
)
def test_batch_and_one_at_a_time_agree_on_any_merges(names: list[str], rng: random.Random) -> None:
    tokens = ["a", "b", *names]
    rules = [(t[:c], t[c:]) for t in names for c in range(1, len(t)) if t[:c] in tokens and t[c:] in tokens]
    rng.shuffle(rules)
    backend = backend_of(bpe(tokens, [list(rule) for rule in rules]))
    assert_batch_is_plain(backend, minimum=0)


def test_tokens_longer_than_a_block_are_derived_too() -> None:
    lengths = [1 << n for n in range(8)]  # a, aa, … up to 128 characters
    document = bpe(["a" * n for n in lengths], [["a" * n, "a" * n] for n in lengths[:-1]])
    dependencies = TokenizerSpec.from_document(document).dependencies()
    assert [dependencies.parents(n).tolist() for n in range(8)] == [[], *([n] for n in range(7))]


def test_the_last_position_of_a_repeated_merge_is_its_rank() -> None:
    document = bpe(["a", "b", "c", "ab", "bc", "abc"], [["b", "c"], ["a", "b"], ["b", "c"], ["a", "bc"]])
    spec = TokenizerSpec.from_document(document)
    assert spec.encode("abc") == [3, 2]
    assert spec.dependencies().parents(5).tolist() == []  # BPE on "abc" never comes to abc
    once = TokenizerSpec.from_document(bpe(["a", "b", "c", "ab", "bc", "abc"], [["b", "c"], ["a", "b"], ["a", "bc"]]))
    assert once.encode("abc") == [5]
    assert once.dependencies().parents(5).tolist() == [0, 4]


def test_of_several_rules_the_one_that_bpe_takes_counts_not_the_first() -> None:
    document = bpe(["a", "b", "c", "ab", "bc", "abc"], [["a", "bc"], ["a", "b"], ["b", "c"], ["ab", "c"]])
    spec = TokenizerSpec.from_document(document)
    assert spec.encode("abc") == [5]
    assert spec.dependencies().parents(5).tolist() == [2, 3]


def test_ancestors_that_no_corpus_shows_are_in_the_closure() -> None:
    parts = ["hi", "pp", "hipp", "op", "hippop", "ot", "am", "otam", "us", "otamus", "hippopotamus"]
    merges = [["h", "i"], ["p", "p"], ["hi", "pp"], ["o", "p"], ["hipp", "op"], ["o", "t"], ["a", "m"], ["ot", "am"]]
    merges += [["u", "s"], ["otam", "us"], ["hippop", "otamus"]]
    tokens = [*"potamushi", *parts]
    spec = TokenizerSpec.from_document(bpe(tokens, merges))
    kept = np.zeros(spec.vocab_size, dtype=bool)
    kept[spec.encode("hippopotamus")] = True
    assert kept.sum() == 1
    assert {spec.tokens[i] for i in np.flatnonzero(spec.dependencies().closure(kept))} == {*"potamushi", *parts}


def test_an_orphan_needs_nothing_and_is_reached_only_as_a_whole_piece() -> None:
    tokens, merges = ["h", "e", "l", "o", " ", "he", "ll", "hello"], [["h", "e"], ["l", "l"]]
    split = TokenizerSpec.from_document(bpe(tokens, merges, ignore_merges=False))
    whole = TokenizerSpec.from_document(bpe(tokens, merges, ignore_merges=True))
    assert [split.tokens[i] for i in split.encode("hello")] == ["he", "ll", "o"]
    assert [whole.tokens[i] for i in whole.encode("hello")] == ["hello"]
    assert [whole.tokens[i] for i in whole.encode("hellohello")] == ["he", "ll", "o", "he", "ll", "o"]
    assert whole.dependencies().parents(7).tolist() == []


def test_affixes_take_part_in_derivations() -> None:
    vocab = ["a", "b", "a</w>", "b</w>", "ab</w>", "ab", "<|startoftext|>", "<|endoftext|>"]
    document = bpe(vocab, [["a", "b</w>"], ["a", "b"]], end_of_word_suffix="</w>", unk_token="<|endoftext|>")
    dependencies = TokenizerSpec.from_document(document).dependencies()
    assert dependencies.parents(4).tolist() == [0, 3]
    assert dependencies.parents(5).tolist() == [0, 1]
    prefixed = bpe(["a", "##b", "##c", "##bc", "abc"], [["##b", "##c"], ["a", "##bc"]], continuing_subword_prefix="##")
    spec = TokenizerSpec.from_document(prefixed)
    assert spec.encode("abc") == [4]
    assert spec.dependencies().parents(4).tolist() == [0, 3]
    assert spec.dependencies().parents(3).tolist() == [1, 2]


def test_rules_with_byte_or_unknown_symbols_keep_all_that_leads_to_their_product() -> None:
    vocab = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "b", "<0x41>b"]
    document = bpe(vocab, [["<0x41>", "b"]], unk_token="<unk>", byte_fallback=True)
    spec = TokenizerSpec.from_document(document)
    assert spec.encode("Ab") == [258]
    assert spec.dependencies().parents(258).tolist() == [0x42, 257]


def test_closure_leaves_its_argument_alone_and_is_idempotent() -> None:
    spec = TokenizerSpec.from_document(made.tiny("bpe"))
    dependencies = spec.dependencies()
    mask = np.zeros(spec.vocab_size, dtype=bool)
    mask[-50:] = True
    before = mask.copy()
    closed = dependencies.closure(mask)
    assert (mask == before).all() and closed[mask].all()
    assert (dependencies.closure(closed) == closed).all()
    for token in np.flatnonzero(closed):
        assert closed[dependencies.parents(token)].all()


def test_dependents_are_the_relation_turned_round() -> None:
    dependencies = TokenizerSpec.from_document(made.tiny("bpe")).dependencies()
    pairs = {(t, p) for t in range(dependencies.vocab_size) for p in dependencies.parents(t).tolist()}
    turned = {(t, p) for p in range(dependencies.vocab_size) for t in dependencies.dependents.parents(p).tolist()}
    assert pairs == turned and pairs


def test_no_symbols_and_no_merges_are_fine() -> None:
    empty = np.empty(0, dtype=np.int64)
    table = MergeTable.build(3, empty, empty, empty)
    left, right = derive(table, np.array([2]), np.array([0, 1]), np.array([2]))
    assert left.tolist() == [-1] and right.tolist() == [-1]

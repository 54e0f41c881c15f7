"""Cutting a tokenizer.json: what is renumbered, what stays, what is refused."""

from __future__ import annotations

import json
from typing import Any

import made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trimming_cases import (
    added,
    bpe,
    document,
    ids,
    load,
    special,
    tokens,
    unigram,
    wordlevel,
    wordpiece,
)

from trimbed.errors import TrimError
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.layout import read_layout
from trimbed.trimming.surgery import trim_document

WHITESPACE = {"type": "Whitespace"}


def template(single: list[tuple[str, int] | None]) -> dict[str, Any]:
    """None stands for the text."""
    return {
        "type": "TemplateProcessing",
        "single": [
            {"Sequence": {"id": "A", "type_id": 0}} if step is None else {"SpecialToken": {"id": step[0], "type_id": 0}}
            for step in single
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            step[0]: {"id": step[0], "ids": [step[1]], "tokens": [step[0]]} for step in single if step is not None
        },
    }


def twice() -> dict[str, Any]:
    vocab = ["w0", "w1", "w2", "w3", "w4", "w5", "<pad>", "<eos>"]
    padding = {
        "strategy": "BatchLongest",
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 6,
        "pad_type_id": 0,
        "pad_token": "<pad>",
    }
    return document(
        wordlevel(vocab, unk="w5"),
        [special(6, "<pad>"), special(7, "<eos>")],
        pre_tokenizer=WHITESPACE,
        post_processor=template([None, ("<eos>", 7)]),
        padding=padding,
    )


# -- every algorithm ------------------------------------------------------------------------------------------------


def test_keeping_everything_changes_nothing(any_tiny: dict[str, Any]) -> None:
    size = read_layout(any_tiny).size
    result, old_to_new = trim_document(any_tiny, np.arange(size))
    assert json.dumps(result) == json.dumps(any_tiny)
    assert old_to_new.tolist() == list(range(size))


def test_the_source_document_is_left_alone(any_tiny: dict[str, Any]) -> None:
    before = json.dumps(any_tiny)
    spec = TokenizerSpec.from_document(any_tiny)
    trim_document(any_tiny, _closed(spec, spec.encode("The lamp in the kitchen")))
    assert json.dumps(any_tiny) == before


def _closed(spec: TokenizerSpec, wanted: list[int]) -> np.ndarray:
    mask = np.zeros(spec.vocab_size, dtype=bool)
    mask[list(spec.structural_ids())] = True
    mask[wanted] = True
    return np.flatnonzero(spec.dependencies().closure(mask))


SPECS = {name: TokenizerSpec.from_document(made.tiny(name)) for name in made.TINY}


@pytest.mark.parametrize("name", made.TINY)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_invariant_3_text_whose_ids_are_all_kept_encodes_as_before(name: str, data: st.DataObject) -> None:
    spec = SPECS[name]
    alphabet = "abcehlnorstuw ABT,.'\n0123é\u0301ßжд山🙂\u00a0"
    text = data.draw(st.one_of(st.text(alphabet, max_size=40), st.sampled_from(made.SENTENCES)))
    other = data.draw(st.lists(st.integers(0, spec.vocab_size - 1), max_size=30))
    wanted = spec.encode(text)
    result, old_to_new = trim_document(spec.document.data, _closed(spec, [*wanted, *other]), check=False)
    trimmed = load(result)
    trimmed.no_truncation()
    trimmed.no_padding()
    assert trimmed.encode(text, add_special_tokens=False).ids == old_to_new[np.array(wanted, dtype=int)].tolist()


@pytest.mark.parametrize("name", made.TINY)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_kept_ids_keep_their_order_and_leave_no_holes(name: str, data: st.DataObject) -> None:
    spec = SPECS[name]
    wanted = data.draw(st.lists(st.integers(0, spec.vocab_size - 1), max_size=60))
    kept = _closed(spec, wanted)
    result, old_to_new = trim_document(spec.document.data, kept)
    assert old_to_new[kept].tolist() == list(range(len(kept)))
    assert (np.delete(old_to_new, kept) == -1).all()
    assert read_layout(result).size == len(kept)


def test_truncation_and_padding_stay_with_a_renumbered_pad_id(tiny_wordpiece: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_wordpiece)
    result, _ = trim_document(tiny_wordpiece, _closed(spec, []))
    assert result["truncation"] == tiny_wordpiece["truncation"]
    assert {**result["padding"], "pad_id": 0} == tiny_wordpiece["padding"]


# -- renumbering hazards --------------------------------------------------------------------------------------------


def test_trimming_twice_equals_trimming_once() -> None:
    once, _ = trim_document(twice(), [2, 3, 4, 5, 6, 7])
    first, _ = trim_document(twice(), [1, 2, 3, 4, 5, 6, 7])
    second, _ = trim_document(first, [1, 2, 3, 4, 5, 6])
    assert json.dumps(second) == json.dumps(once)
    assert once["post_processor"]["special_tokens"]["<eos>"]["ids"] == [5]
    assert once["padding"]["pad_id"] == 4
    assert ids(once, "w2 w3", specials=True) == [0, 1, 5]


def test_added_tokens_are_numbered_by_position_behind_the_vocabulary() -> None:
    source = document(wordlevel(["<unk>", "a", "b", "c"]), [special(4, "<x>"), added(5, "<y>"), special(6, "<z>")])
    result, old_to_new = trim_document(source, [0, 3, 4, 5, 6])
    assert old_to_new.tolist() == [0, -1, -1, 1, 2, 3, 4]
    assert [entry["id"] for entry in result["added_tokens"]] == [2, 3, 4]
    assert load(result).get_vocab() == {"<unk>": 0, "c": 1, "<x>": 2, "<y>": 3, "<z>": 4}


def test_a_source_whose_added_ids_load_otherwise_is_refused_with_the_ids() -> None:
    source = document(wordlevel({"<unk>": 0, "a": 1, "b": 3}), [special(5, "[X]")])
    with pytest.raises(TrimError, match=r"'\[X\]' is written as 5 and loads as 3"):
        trim_document(source, [0, 1, 3])


def test_an_added_token_that_loads_onto_another_tokens_id_is_refused() -> None:
    source = document(wordlevel({"<unk>": 0, "a": 1, "b": 3}), [special(3, "[X]")])
    with pytest.raises(TrimError, match="onto ids of other tokens"):
        trim_document(source, [0, 1, 3])


def test_holes_close_and_each_token_keeps_its_own_row() -> None:
    source = document(wordlevel({"[UNK]": 0, "a": 1, "b": 3}, unk="[UNK]"), pre_tokenizer=WHITESPACE)
    assert ids(source, "a b") == [1, 3]
    result, old_to_new = trim_document(source, [0, 1, 3])
    assert old_to_new.tolist() == [0, 1, -1, 2]
    assert ids(result, "a b") == [1, 2]


def test_a_hole_cannot_be_kept() -> None:
    source = document(wordlevel({"[UNK]": 0, "a": 1, "b": 3}, unk="[UNK]"))
    with pytest.raises(TrimError, match=r"without a token in this tokenizer \(ids 0 to 3\): 2"):
        trim_document(source, [0, 2])


def test_two_names_of_one_id_both_stay() -> None:
    source = document(wordlevel({"<unk>": 0, "a": 1, "colour": 2, "color": 2}), pre_tokenizer=WHITESPACE)
    result, _ = trim_document(source, [0, 2])
    assert ids(result, "colour color") == [1, 1]


def test_a_template_may_name_a_token_that_is_not_in_the_vocabulary() -> None:
    processor = template([("<eos>", 2), None])
    processor["special_tokens"]["<eos>"] = {"id": "<eos>", "ids": [2], "tokens": ["<nowhere>"]}
    source = document(wordlevel(["<unk>", "a", "b", "c"]), post_processor=processor, pre_tokenizer=WHITESPACE)
    result, _ = trim_document(source, [0, 2, 3])
    assert ids(result, "c", specials=True) == [1, 2]


def test_a_template_entry_that_is_never_used_goes_with_its_token() -> None:
    processor = template([None])
    processor["special_tokens"]["b"] = {"id": "b", "ids": [2], "tokens": ["b"]}
    source = document(wordlevel(["<unk>", "a", "b"]), post_processor=processor)
    result, _ = trim_document(source, [0, 1])
    assert result["post_processor"]["special_tokens"] == {}


@pytest.mark.parametrize("kind", ["BertProcessing", "RobertaProcessing"])
def test_pair_processors_are_renumbered(kind: str) -> None:
    extra = {"trim_offsets": True, "add_prefix_space": False} if kind == "RobertaProcessing" else {}
    processor = {"type": kind, "sep": ["</s>", 3], "cls": ["<s>", 2], **extra}
    source = document(wordlevel(["a", "<unk>", "<s>", "</s>", "b"]), post_processor=processor, pre_tokenizer=WHITESPACE)
    result, _ = trim_document(source, [1, 2, 3, 4])
    assert tokens(result, "b", specials=True) == ["<s>", "b", "</s>"]
    assert ids(result, "b", specials=True) == [1, 3, 2]


def test_a_sequence_of_processors_is_walked() -> None:
    processor = {"type": "Sequence", "processors": [template([("<s>", 2), None])]}
    source = document(wordlevel(["a", "<unk>", "<s>"]), post_processor=processor, pre_tokenizer=WHITESPACE)
    result, _ = trim_document(source, [1, 2])
    assert ids(result, "zz", specials=True) == [1, 0]


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        ([0, 1, 2, 3, 4, 5, 6], "post-processor"),
        ([0, 1, 2, 3, 4, 5, 7], "padding.pad_id is id 6"),
        ([0, 1, 2, 3, 4, 6, 7], "unknown token 'w5'"),
        ([], "nothing is kept"),
        ([8], "without a token"),
        ([-1], "without a token"),
    ],
)
def test_dropping_what_the_document_uses_is_refused_with_the_reason(kept: list[int], reason: str) -> None:
    with pytest.raises(TrimError, match=reason):
        trim_document(twice(), kept)


def test_a_mask_or_floats_are_not_taken_for_ids() -> None:
    with pytest.raises(TrimError, match="not a mask"):
        trim_document(twice(), np.ones(8, dtype=bool))
    with pytest.raises(TrimError, match="integers"):
        trim_document(twice(), np.arange(8, dtype=float))


def test_all_flags_of_added_tokens_stay() -> None:
    entries = [
        added(3, "cafe\u0301", normalized=True),
        added(4, "<m>", lstrip=True, rstrip=True),
        added(5, "ab", single_word=True),
    ]
    source = document(
        wordlevel(["<unk>", "abx", "drop"]), entries, normalizer={"type": "NFC"}, pre_tokenizer=WHITESPACE
    )
    result, _ = trim_document(source, [0, 1, 3, 4, 5])
    assert [{**entry, "id": 0} for entry in result["added_tokens"]] == [{**entry, "id": 0} for entry in entries]
    for text in ("caf\u00e9", "cafe\u0301"):
        assert tokens(result, text) == tokens(source, text)
        assert len(tokens(result, text)) == 1
    assert tokens(result, "abx <m> ab") == tokens(source, "abx <m> ab")


def test_runs_of_spaces_as_added_tokens_still_win_over_shorter_ones() -> None:
    entries = [added(5, "    "), added(6, "  ")]
    model = bpe(["a", "b", "Ġ", "ĠĠ", "x"], [["Ġ", "Ġ"]])
    source = document(
        model, entries, pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    )
    assert tokens(source, "a    b") == ["a", "    ", "b"]
    assert tokens(source, "a   b") == ["a", "  ", "Ġ", "b"]
    result, _ = trim_document(source, [0, 1, 2, 3, 5, 6])
    for text in ("a    b", "a   b", "    a"):
        assert tokens(result, text) == tokens(source, text)
    shorter, _ = trim_document(source, [0, 1, 2, 3, 6])
    assert tokens(shorter, "a    b") == ["a", "  ", "  ", "b"]


def test_one_token_may_be_unknown_padding_and_end_at_once() -> None:
    vocab = ["a", "b", "a</w>", "b</w>", "ab</w>", "ab", "<|startoftext|>", "<|endoftext|>"]
    end = "<|endoftext|>"
    source = document(
        bpe(vocab, [["a", "b</w>"], ["a", "b"]], unk_token=end, end_of_word_suffix="</w>"),
        [special(6, "<|startoftext|>"), special(7, end)],
        pre_tokenizer=WHITESPACE,
        post_processor=template([("<|startoftext|>", 6), None, (end, 7)]),
        padding={
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 7,
            "pad_type_id": 0,
            "pad_token": end,
        },
    )
    expected = ["<|startoftext|>", "ab</w>", "ab", "a</w>", end, end, end, end]
    assert tokens(source, "ab aba z", specials=True) == expected
    result, old_to_new = trim_document(source, [0, 2, 3, 4, 6, 7])
    end_id = int(old_to_new[7])
    assert tokens(result, "ab", specials=True) == ["<|startoftext|>", "ab</w>", end, end, end, end, end, end]
    assert result["padding"]["pad_id"] == result["post_processor"]["special_tokens"][end]["ids"][0] == end_id


# -- merges ---------------------------------------------------------------------------------------------------------


def test_merges_survive_with_their_three_tokens_and_in_order() -> None:
    source = document(bpe(["a", "b", "c", "ab", "bc", "abc"], [["b", "c"], ["a", "b"], ["ab", "c"], ["a", "bc"]]))
    result, _ = trim_document(source, [0, 1, 2, 4, 5])
    assert result["model"]["merges"] == [["b", "c"], ["a", "bc"]]


def test_both_forms_of_merges_give_the_same_trim_in_their_own_form() -> None:
    vocab = ["a", "b", "c", "ab", "bc", "abc"]
    pairs = [["b", "c"], ["a", "b"], ["a", "bc"]]
    lists, strings = document(bpe(vocab, pairs)), document(bpe(vocab, [" ".join(pair) for pair in pairs]))
    one, first = trim_document(lists, [0, 1, 2, 4, 5])
    two, second = trim_document(strings, [0, 1, 2, 4, 5])
    assert two["model"]["merges"] == ["b c", "a bc"]
    assert [merge.split(" ") for merge in two["model"]["merges"]] == one["model"]["merges"]
    assert first.tolist() == second.tolist()


def test_tokens_with_spaces_need_the_list_form() -> None:
    vocab = ["a", " ", "b", " b", "a b", "x"]
    source = document(bpe(vocab, [[" ", "b"], ["a", " b"]]))
    result, _ = trim_document(source, [0, 1, 2, 3, 4])
    assert tokens(result, "a b") == ["a b"]
    with pytest.raises(TrimError, match="merge 0 is '  b'; expected two parts"):
        trim_document(document(bpe(vocab, ["  b", "a  b"])), [0, 1, 2, 3, 4])


def test_of_a_pair_listed_twice_the_last_position_counts_and_is_the_one_written() -> None:
    vocab = ["a", "b", "c", "ab", "bc", "abc", "x"]
    source = document(bpe(vocab, [["b", "c"], ["a", "b"], ["b", "c"], ["a", "bc"]]))
    assert tokens(source, "abc") == ["ab", "c"]
    result, _ = trim_document(source, [0, 1, 2, 3, 4, 5])
    assert result["model"]["merges"] == [["a", "b"], ["b", "c"], ["a", "bc"]]
    assert tokens(result, "abc") == ["ab", "c"]


@pytest.mark.parametrize("vocab", [["a", "b"], ["a", "b", "longer"]])
def test_a_merge_whose_product_is_missing_is_named_before_the_library_sees_it(vocab: list[str]) -> None:
    with pytest.raises(TrimError, match=r"merge 0 \('a' \+ 'b'\): its product 'ab' is not in the vocabulary"):
        trim_document(document(bpe(vocab, [["a", "b"]])), [0, 1])


def test_a_continuing_prefix_is_cut_from_the_merged_name() -> None:
    vocab = ["a", "##b", "ab", "x"]
    source = document(bpe(vocab, [["a", "##b"]], continuing_subword_prefix="##"))
    assert tokens(source, "ab") == ["ab"]
    result, _ = trim_document(source, [0, 1, 2])
    assert result["model"]["merges"] == [["a", "##b"]]
    assert tokens(result, "ab") == ["ab"]


def test_the_intermediates_of_a_long_token_keep_it_reachable() -> None:
    word = "hippopotamus"
    letters = sorted(set(word))
    chain = [word[: length + 1] for length in range(1, len(word))]
    merges = [[word[:length], word[length]] for length in range(1, len(word))]
    source = document(bpe([*letters, *chain, "unused"], merges))
    spec = TokenizerSpec.from_document(source)
    number = spec.token_to_id(word)
    assert number is not None
    result, _ = trim_document(source, _closed(spec, [number]))
    assert tokens(result, word) == [word]


def test_ignore_merges_stays_and_orphans_are_reached_through_it() -> None:
    vocab = ["h", "e", "l", "o", " ", "he", "ll", "hello", "x"]
    source = document(bpe(vocab, [["h", "e"], ["l", "l"]], ignore_merges=True))
    result, _ = trim_document(source, range(8))
    assert tokens(result, "hello") == ["hello"]
    assert tokens(result, "hellohello") == tokens(source, "hellohello") == ["he", "ll", "o", "he", "ll", "o"]


# -- Unigram and WordPiece ------------------------------------------------------------------------------------------


def test_unigram_unk_id_is_renumbered() -> None:
    pieces = [("a", -1.0), ("b", -1.0), ("<unk>", 0.0), ("c", -2.0), ("d", -2.0)]
    source = document(unigram(pieces, 2))
    assert ids(source, "czd") == [3, 2, 4]
    result, _ = trim_document(source, [1, 2, 3, 4])
    assert result["model"]["unk_id"] == 1
    assert ids(result, "czd") == [2, 1, 3]


def test_unigram_without_unk_stays_without() -> None:
    result, _ = trim_document(document(unigram([("a", -1.0), ("b", -2.0), ("c", -3.0)], None)), [0, 1])
    assert result["model"]["unk_id"] is None
    with pytest.raises(Exception, match="unk"):
        ids(result, "az")


def test_unigram_refuses_to_lose_the_lowest_score_that_prices_unknown_characters() -> None:
    pieces = [("<unk>", 0.0), ("a", -1.0), ("b", -9.0), ("c", -9.0)]
    with pytest.raises(TrimError, match=r"lowest score \('b', id 2, score -9.0\) must be kept"):
        trim_document(document(unigram(pieces, 0)), [0, 1])
    result, _ = trim_document(document(unigram(pieces, 0)), [0, 1, 3])
    assert len(result["model"]["vocab"]) == 3


def test_wordpiece_keeps_its_prefix_and_unknown_token() -> None:
    source = document(wordpiece(["[UNK]", "hello", "##o", "hell", "x"]), pre_tokenizer={"type": "BertPreTokenizer"})
    result, _ = trim_document(source, [0, 2, 3])
    assert tokens(result, "hello x") == ["hell", "##o", "[UNK]"]


def test_old_files_without_a_model_type_are_understood() -> None:
    source = document(wordpiece(["[UNK]", "a", "##b"]), pre_tokenizer={"type": "BertPreTokenizer"})
    del source["model"]["type"]
    result, _ = trim_document(source, [0, 1])
    assert tokens(result, "a ab") == ["a", "[UNK]"]

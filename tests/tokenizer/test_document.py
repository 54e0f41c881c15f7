"""The document: what is read leniently, what is refused, which ids the loader gives."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import made
import pytest
from tokenizers import Tokenizer

from trimbed.errors import TokenizerError
from trimbed.tokenizer.document import TokenizerDocument
from trimbed.tokenizer.spec import TokenizerSpec

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def bpe(vocab: dict[str, int], merges: list[Any], **rest: Any) -> dict[str, Any]:
    return {"version": "1.0", "added_tokens": [], **rest, "model": {"type": "BPE", "vocab": vocab, "merges": merges}}


def token(index: int, content: str, **flags: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"id": index, "content": content, **plain, **flags}


def wordlevel(vocab: dict[str, int], added: list[dict[str, Any]], **rest: Any) -> TokenizerSpec:
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}
    return TokenizerSpec.from_document(
        {"version": "1.0", "added_tokens": added, "pre_tokenizer": {"type": "WhitespaceSplit"}, **rest, "model": model}
    )


def test_ids_of_added_tokens_are_those_of_the_loader(tiny_documents: dict[str, dict[str, Any]]) -> None:
    for document in tiny_documents.values():
        spec = TokenizerSpec.from_document(document)
        loaded = Tokenizer.from_str(json.dumps(document))
        assert spec.added_tokens
        for added in spec.added_tokens:
            assert loaded.token_to_id(added.content) == added.id
        assert {name: spec.token_to_id(name) for name in loaded.get_vocab()} == loaded.get_vocab()


def test_an_id_in_the_file_that_the_loader_would_not_give_is_refused() -> None:
    vocab = {"[UNK]": 0, "a": 1, "b": 3}
    with pytest.raises(TokenizerError, match=r"'\[X\]': 5 in the file, 3 when loaded"):
        wordlevel(vocab, [token(5, "[X]")])


def test_holes_count_as_rows_and_have_no_token() -> None:
    spec = wordlevel({"[UNK]": 0, "a": 1, "b": 3}, [])
    assert spec.vocab_size == 4
    assert spec.tokens == ["[UNK]", "a", None, "b"]
    assert spec.kinds() == ["unk", "normal", "hole", "normal"]
    assert spec.encode("a b") == [1, 3]


def test_two_names_of_one_id_are_both_found() -> None:
    spec = wordlevel({"[UNK]": 0, "a": 1, "A": 1}, [])
    assert spec.token_to_id("A") == spec.token_to_id("a") == 1
    assert spec.tokens == ["[UNK]", "a"]


def test_both_forms_of_merges_are_read_and_mean_the_same() -> None:
    vocab = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}
    pairs = TokenizerDocument.parse(bpe(vocab, [["a", "b"], ["ab", "c"]]))
    strings = TokenizerDocument.parse(bpe(vocab, ["a b", "ab c"]))
    assert pairs.merges == strings.merges == [("a", "b"), ("ab", "c")]
    assert pairs.fingerprint == strings.fingerprint
    assert strings.merges_are_strings and not pairs.merges_are_strings


def test_tokens_with_spaces_need_the_pair_form() -> None:
    vocab = {"a": 0, " ": 1, "b": 2, " b": 3, "a b": 4}
    spec = TokenizerSpec.from_document(bpe(vocab, [[" ", "b"], ["a", " b"]]))
    assert spec.encode("a b") == [4]
    with pytest.raises(TokenizerError, match=r"merge 0 .* not two tokens .*pair form"):
        TokenizerSpec.from_document(bpe(vocab, ["  b", "a  b"]))


@pytest.mark.parametrize("extra", [{}, {"longer": 2}])
def test_a_merge_whose_product_is_missing_is_named_before_the_loader_panics(extra: dict[str, int]) -> None:
    with pytest.raises(TokenizerError, match=r"merge 0 \('a', 'b'\) needs the token 'ab'"):
        TokenizerSpec.from_document(bpe({"a": 0, "b": 1, **extra}, [["a", "b"]]))


def test_a_merge_whose_part_is_missing_is_named() -> None:
    with pytest.raises(TokenizerError, match=r"merge 1 \('ab', 'x'\) needs the token 'x'"):
        TokenizerSpec.from_document(bpe({"a": 0, "b": 1, "ab": 2}, [["a", "b"], ["ab", "x"]]))


def test_a_panic_of_the_native_loader_is_an_ordinary_error() -> None:
    document = bpe({"a": 0, "b": 1}, [])
    document["normalizer"] = {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}
    with pytest.raises(TokenizerError, match="can't be loaded"):
        TokenizerSpec.from_document(document).encode("a")


def test_the_fingerprint_is_about_what_the_tokenizer_does(tiny_wordpiece: dict[str, Any]) -> None:
    base = TokenizerDocument.parse(tiny_wordpiece).fingerprint
    off = {**tiny_wordpiece, "truncation": None, "padding": None}
    assert TokenizerDocument.parse(off).fingerprint == base
    turned = dict(reversed(tiny_wordpiece.items()))
    assert TokenizerDocument.parse(json.dumps(turned, indent=3)).fingerprint == base
    other = copy.deepcopy(tiny_wordpiece)
    other["normalizer"]["lowercase"] = False
    assert TokenizerDocument.parse(other).fingerprint != base


def test_unknown_fields_survive_and_a_copy_is_apart(tiny_bpe: dict[str, Any]) -> None:
    tiny_bpe["x_future"] = {"kept": [1, None]}
    tiny_bpe["model"]["x_too"] = "yes"
    document = TokenizerDocument.parse(json.dumps(tiny_bpe))
    other = document.copy()
    other.data["model"]["vocab"]["new"] = 99_999
    again = json.loads(document.text())
    assert again == tiny_bpe and again["x_future"]["kept"] == [1, None]
    assert "new" not in document.vocab


def test_truncation_and_padding_are_off_while_encoding_and_stay_in_the_document() -> None:
    spec = wordlevel(
        {"[UNK]": 0, "hello": 1, "world": 2, "a": 3, "[PAD]": 4},
        [token(4, "[PAD]", special=True)],
        truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        padding={
            "strategy": "BatchLongest",
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 4,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
    )
    both = spec.tokenizer.encode_batch(["hello world hello world hello", "a"])
    assert [e.ids for e in both] == [[1, 2, 1, 2, 1], [3]]
    assert json.loads(spec.document.text())["truncation"]["max_length"] == 4


def test_control_tokens_in_text_are_matched_whole() -> None:
    spec = wordlevel({"[UNK]": 0, "hello": 1, "world": 2}, [token(3, "[SEP]", special=True), token(4, "<tool>")])
    assert spec.encode("hello [SEP] world[SEP]x") == [1, 3, 2, 3, 0]
    assert spec.encode("hello<tool>world") == [1, 4, 2]
    assert spec.decode([1, 3, 4], skip_special_tokens=True).split() == ["hello", "<tool>"]


def test_flags_of_added_tokens_decide_what_matches() -> None:
    decomposed = "cafe\u0301"
    for normalized in (True, False):
        spec = wordlevel(
            {"[UNK]": 0, "a": 1}, [token(2, decomposed, normalized=normalized)], normalizer={"type": "NFC"}
        )
        assert spec.added_tokens[0].normalized is normalized
        assert spec.encode(decomposed) == [2]
        assert spec.encode("caf\u00e9") == ([2] if normalized else [0])
    spec = wordlevel(
        {"[UNK]": 0, "abx": 1}, [token(2, "ab", single_word=True), token(3, "<m>", lstrip=True, rstrip=True)]
    )
    assert spec.encode("abx ab") == [1, 2]
    assert spec.encode("abx <m> abx") == [1, 3, 1]
    assert spec.added_tokens[1].lstrip and spec.added_tokens[1].rstrip


def test_runs_of_spaces_as_added_tokens_are_ordinary_text() -> None:
    vocab = {"a": 0, "b": 1, "Ġ": 2, "ĠĠ": 3}
    document = bpe(vocab, [["Ġ", "Ġ"]])
    document["pre_tokenizer"] = dict(BYTE_LEVEL)
    document["added_tokens"] = [token(4, "    "), token(5, "  ")]
    spec = TokenizerSpec.from_document(document)
    assert spec.encode("a    b") == [0, 4, 1]
    assert spec.encode("a   b") == [0, 5, 2, 1]
    assert spec.kinds()[4:] == ["added", "added"] and spec.surfaces()[4] == "    "


def test_a_missing_byte_without_unk_vanishes_and_the_bytes_there_are_stay_structural() -> None:
    from trimbed.tokenizer.surface import BYTE_CHARACTERS

    characters = [c for byte, c in enumerate(BYTE_CHARACTERS) if byte != 13]
    vocab = {c: index for index, c in enumerate([*characters, "ĊĊ"])}
    document = bpe(vocab, [["Ċ", "Ċ"]])
    document["model"]["unk_token"] = None
    document["pre_tokenizer"] = dict(BYTE_LEVEL)
    document["decoder"] = dict(BYTE_LEVEL)
    spec = TokenizerSpec.from_document(document)
    assert spec.encode("\r\n\r\n") == spec.encode("\n\n") == [255]
    assert spec.decode(spec.encode("a\rb")) == "ab"
    assert len([r for r in spec.structural_ids().values() if r == "byte"]) == 255


def test_clips_one_token_plays_three_roles() -> None:
    vocab = ["a", "b", "a</w>", "b</w>", "ab</w>", "ab", "<|startoftext|>", "<|endoftext|>"]
    document = bpe({name: index for index, name in enumerate(vocab)}, [["a", "b</w>"], ["a", "b"]])
    document["model"].update(end_of_word_suffix="</w>", unk_token="<|endoftext|>")
    document["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    document["added_tokens"] = [token(6, "<|startoftext|>", special=True), token(7, "<|endoftext|>", special=True)]
    document["padding"] = {
        "strategy": {"Fixed": 8},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 7,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    document["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": ["<|endoftext|>", 7],
        "cls": ["<|startoftext|>", 6],
        "trim_offsets": False,
        "add_prefix_space": False,
    }
    spec = TokenizerSpec.from_document(document)
    assert spec.encode("ab aba z", add_special_tokens=True) == [6, 4, 5, 2, 7, 7]
    assert spec.unk_id == 7
    assert set(spec.structural_ids()) == {6, 7}
    assert spec.surfaces()[:6] == ["a", "b", "a", "b", "ab", "ab"]


def test_a_template_may_name_a_token_that_is_not_there(tiny_wordlevel: dict[str, Any]) -> None:
    tiny_wordlevel["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "shown", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"shown": {"id": "shown", "ids": [7], "tokens": ["not a token"]}},
    }
    spec = TokenizerSpec.from_document(tiny_wordlevel)
    assert spec.structural_ids()[7] == "post-processor"
    assert spec.encode("x", add_special_tokens=True)[-1] == 7


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "holds a list"),
        ("{}", "no model with a vocabulary"),
        ('{"model": {"type": "Odd", "vocab": {}}}', "'Odd' is not one we can read"),
        ('{"model": {"type": "BPE", "vocab": [], "merges": []}}', "must map tokens to ids"),
        ('{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}', "has the id -1"),
        ('{"model": {"type": "BPE", "vocab": {"a": "0"}, "merges": []}}', "has the id '0'"),
        ('{"model": {"type": "Unigram", "vocab": {"a": 1}}}', "must be a list"),
        ('{"model": {"type": "Unigram", "vocab": [["a"]]}}', "entry 0"),
        ('{"model": {"type": "Unigram", "unk_id": 4, "vocab": [["a", 0.0]]}}', "unk_id 4"),
        ('{"added_tokens": [{"id": 1}], "model": {"type": "WordLevel", "vocab": {"a": 0}}}', "has no content"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}', "merge 0"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [7]}}', "merge 0"),
    ],
)
def test_broken_documents_end_in_one_clear_error(data: str, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        TokenizerSpec.from_document(data)


def test_truncated_json_is_one_clear_error_at_every_length(tmp_path: Path, tiny_wordlevel: dict[str, Any]) -> None:
    whole = json.dumps(tiny_wordlevel).encode()
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        (tmp_path / "tokenizer.json").write_bytes(whole[:length])
        with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
            TokenizerSpec.load(tmp_path)


def test_old_files_without_a_type_are_told_by_their_fields() -> None:
    for name, kind in (("bpe", "bpe"), ("unigram", "unigram"), ("wordpiece", "wordpiece"), ("wordlevel", "wordlevel")):
        document = made.tiny(name)
        del document["model"]["type"]
        assert TokenizerDocument.parse(document).algorithm == kind

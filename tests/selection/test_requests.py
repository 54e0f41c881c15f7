"""Every way to ask for a token, on tokenizers of each kind; what the vocabulary lacks is listed with near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import made
import pytest
from graphs import added_entry, bpe

from trimbed.errors import UsageError
from trimbed.selection.chat import template_literals
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.requests import read_token_file, resolve_requests
from trimbed.tokenizer.spec import TokenizerSpec


def asked(spec: TokenizerSpec, **settings: Any) -> dict[str, list[str]]:
    """Token -> who asked for it."""
    reasons = resolve_requests(spec, SelectionConfig(**settings)).reasons
    return {str(spec.tokens[index]): by for index, by in reasons.items()}


def test_tokens_are_asked_for_by_name_by_id_and_by_what_they_look_like(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    index = spec.token_to_id("Ġthe")
    assert asked(spec, keep_tokens=["Ġthe"]) == {"Ġthe": ["keep_tokens"]}
    assert asked(spec, keep_token_ids=[index]) == {"Ġthe": ["keep_token_ids"]}
    assert asked(spec, keep_patterns=["^ the$"]) == {"Ġthe": ["pattern:^ the$"]}
    both = asked(spec, keep_tokens=["Ġthe", "Ġthe"], keep_token_ids=[index])
    assert both == {"Ġthe": ["keep_tokens", "keep_token_ids"]}


def test_a_text_asks_for_the_ids_it_encodes_to_without_special_tokens(any_tiny: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(any_tiny)
    text = "The lamp was left on"
    assert set(resolve_requests(spec, SelectionConfig(keep_texts=[text])).reasons) == set(spec.encode(text))


def test_a_text_is_taken_in_the_normalizers_form() -> None:
    document = bpe(["f", "i", "1", "ﬁ", "①"], []).document.data
    document["normalizer"] = {"type": "NFKC"}
    assert asked(TokenizerSpec.from_document(document), keep_texts=["ﬁ①"]).keys() == {"f", "i", "1"}


def test_a_token_in_another_unicode_form_is_found_by_the_tokenizers_own_normalizer() -> None:
    decomposed, composed = "cafe\u0301", "café"
    document = bpe(["c", "a", "f", "é"], []).document.data
    document["normalizer"] = {"type": "NFC"}
    document["added_tokens"] = [added_entry(4, decomposed, normalized=True)]
    spec = TokenizerSpec.from_document(document)
    assert spec.encode(composed) == spec.encode(decomposed) == [4]
    for name in (composed, decomposed):
        assert asked(spec, keep_tokens=[name]) == {decomposed: ["keep_tokens"]}
    assert asked(spec, keep_tokens=["e\u0301"]) == {"é": ["keep_tokens"]}
    document["added_tokens"] = [added_entry(4, decomposed, normalized=False)]
    exact = TokenizerSpec.from_document(document)
    assert resolve_requests(exact, SelectionConfig(keep_tokens=[composed])).missing[0].token == composed


def test_a_missing_token_is_listed_with_the_forms_that_the_vocabulary_has() -> None:
    expected = {"bpe": "Ġthe", "metaspace_bpe": "▁the", "unigram": "▁the", "wordpiece": "##ing"}
    for name, token in expected.items():
        spec = TokenizerSpec.from_document(made.tiny(name))
        bare = token.lstrip("Ġ▁#")
        wrong = bare if spec.token_to_id(bare) is None else bare.upper()
        found = resolve_requests(spec, SelectionConfig(keep_tokens=[wrong]))
        assert not found.reasons
        assert token in found.missing[0].near, name
        assert f"{token!r}" in str(found.missing[0])


def test_a_token_file_has_a_token_a_line_comments_and_a_way_to_write_a_hash(tmp_path: Path) -> None:
    text = "# languages\nĠthe\r\n\n\\##ing\n\\\\n\n  two spaces\n\\#\n"
    assert list(read_token_file(text)) == ["Ġthe", "##ing", "\\n", "  two spaces", "#"]
    file = tmp_path / "keep.txt"
    file.write_text("# words\n##ing\n\\##ed\nzebra-crossing\n", "utf-8")
    spec = TokenizerSpec.from_document(made.tiny("wordpiece"))
    found = resolve_requests(spec, SelectionConfig(keep_token_files=[str(file)]))
    assert [spec.tokens[index] for index in found.reasons] == ["##ed"]
    assert [miss.token for miss in found.missing] == ["zebra-crossing"]
    assert found.notes == [f"{file}: the line '##ing' is a comment, but also a token; to keep it, write \\##ing"]
    assert list(found.files) == [str(file)]


def test_a_text_file_is_one_text(tmp_path: Path, tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    file = tmp_path / "prompt.txt"
    file.write_text("the lamp\n    in the kitchen\n", "utf-8")
    found = resolve_requests(spec, SelectionConfig(keep_text_files=[str(file)]))
    assert set(found.reasons) == set(spec.encode("the lamp\n    in the kitchen\n"))
    for setting in ("keep_text_files", "keep_token_files"):
        with pytest.raises(UsageError, match="is a directory; give a file"):
            resolve_requests(spec, SelectionConfig(**{setting: [str(tmp_path)]}))
        (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
        with pytest.raises(UsageError, match="isn't UTF-8"):
            resolve_requests(spec, SelectionConfig(**{setting: [str(tmp_path / "latin1.txt")]}))


def test_a_chat_templates_words_are_kept_unless_that_is_turned_off(tmp_path: Path, tiny_bpe: dict[str, Any]) -> None:
    import json

    (tmp_path / "tokenizer.json").write_text(json.dumps(tiny_bpe), "utf-8")
    template = "{# nobody #}{% if m.role == 'system' %}{{ '<|im_start|>the kitchen' + m.content }}{% endif %}morning"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}), "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    found = resolve_requests(spec, SelectionConfig())
    wanted = {index for text in ("<|im_start|>the kitchen", "system", "morning") for index in spec.encode(text)}
    assert set(found.reasons) == wanted
    assert {by for reasons in found.reasons.values() for by in reasons} == {"chat_template:default"}
    assert not resolve_requests(spec, SelectionConfig(keep_chat_template=False)).reasons


def test_template_literals_are_the_text_outside_of_tags_and_the_strings_inside() -> None:
    assert template_literals('a{%- set x = "b\\n" -%}{#- "no" -#}{{ \'c\' ~ "it\'s" }}d') == [
        "a",
        "b\n",
        "c",
        "it's",
        "d",
    ]
    assert template_literals("") == []

"""What tokens look like in text, their kinds and their scripts."""

from __future__ import annotations

from pathlib import Path

import made
import pytest

from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.tokenizer.surface import BYTE_CHARACTERS, byte_level_surface, script_of


def test_the_byte_alphabet_is_the_librarys() -> None:
    from tokenizers import pre_tokenizers

    assert sorted(BYTE_CHARACTERS) == sorted(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "".join(map(chr, range(0x80))) + "é世🙂"
    assert split.pre_tokenize_str(text)[0][0] == "".join(BYTE_CHARACTERS[byte] for byte in text.encode())


def test_byte_level_tokens_are_decoded_and_partial_ones_are_none() -> None:
    assert byte_level_surface("Ġhello") == " hello"
    assert byte_level_surface("ä¸ĸ") == "世"
    assert byte_level_surface("ä¸") is None
    assert byte_level_surface("世") is None


def test_surfaces_undo_each_algorithms_marks() -> None:
    bpe = TokenizerSpec.from_document(made.tiny("bpe"))
    assert bpe.surfaces()[bpe.token_to_id("Ġthe") or 0] == " the"
    assert bpe.surfaces()[bpe.token_to_id("<|endoftext|>") or 0] == "<|endoftext|>"
    metaspace = TokenizerSpec.from_document(made.tiny("metaspace_bpe"))
    assert metaspace.surfaces()[metaspace.token_to_id("▁the") or 0] == " the"
    assert metaspace.surfaces()[metaspace.token_to_id("<0x41>") or 0] == "A"
    assert metaspace.surfaces()[metaspace.token_to_id("<0xE4>") or 0] is None
    wordpiece = TokenizerSpec.from_document(made.tiny("wordpiece"))
    assert wordpiece.surfaces()[wordpiece.token_to_id("##e") or 0] == "e"
    unigram = TokenizerSpec.from_document(made.tiny("unigram"))
    assert unigram.surfaces()[unigram.token_to_id("▁") or 0] == " "


@pytest.mark.parametrize("name", made.TINY)
def test_each_id_has_a_kind_a_surface_and_a_script(name: str) -> None:
    spec = TokenizerSpec.from_document(made.tiny(name))
    assert len(spec.kinds()) == len(spec.surfaces()) == len(spec.scripts()) == len(spec.tokens) == spec.vocab_size
    assert set(spec.kinds()) <= {"normal", "byte", "unk", "special", "added", "hole"}


def test_all_surfaces_of_a_real_vocabulary_are_what_decoding_gives(deepseek_folder: Path) -> None:
    spec = TokenizerSpec.load(deepseek_folder)
    whole = [(i, s) for i, s in enumerate(spec.surfaces()) if s is not None]
    decoded = spec.tokenizer.decode_batch([[i] for i, _ in whole], skip_special_tokens=False)
    assert [s for _, s in whole] == decoded
    parts = [i for i, s in enumerate(spec.surfaces()) if s is None]
    assert parts and all("\ufffd" in text for text in spec.tokenizer.decode_batch([[i] for i in parts]))


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("hello", "Latn"),
        (" Straße", "Latn"),
        ("Привет", "Cyrl"),
        ("θάλασσα", "Grek"),
        ("猫", "Hani"),
        ("ひらがな", "Hira"),
        ("नमस्ते", "Deva"),
        ("안녕", "Hang"),
        ("１２", "Zyyy"),
        ("é1!", "Latn"),
        (" ", "Zyyy"),
        ("aж", "mixed"),
        ("", None),
        (None, None),
    ],
)
def test_scripts_are_the_unicode_property(text: str | None, script: str | None) -> None:
    assert script_of(text) == script

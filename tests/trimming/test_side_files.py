"""Files beside a tokenizer.json follow: names, ids, vocabularies in other forms; what can't is left out and named."""

from __future__ import annotations

import base64
import importlib.resources
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trimming_cases import added, bpe, document, special, wordlevel, wordpiece, words

from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.report import TrimReport
from trimbed.trimming.sentencepiece_model import cut_model, read_pieces
from trimbed.trimming.side_files import Names, edit_special_tokens_map
from trimbed.trimming.trim import trim


def folder(tmp_path: Path, tokenizer: dict[str, Any], **files: Any) -> Path:
    """``files``: name with __ for a dot -> text, bytes or JSON content."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    for name, content in files.items():
        path = source / name.replace("__", ".")
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return source


def run(source: Path, kept: list[int]) -> tuple[Path, TrimReport]:
    output = source.parent / "trimmed"
    return output, trim(TokenizerSpec.load(source), kept, output, config=TrimConfig(html=False))


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def named() -> dict[str, Any]:
    names = ["a", "b", "<unk>", "c", "<pad>", "<end>"]
    entries = [special(4, "<pad>"), special(5, "<end>"), added(6, "<tool>"), special(7, "<image>")]
    return document(wordlevel(names), entries, pre_tokenizer={"type": "Whitespace"})


def test_added_tokens_decoder_follows_names_and_a_stale_entry_does_not_come_back(tmp_path: Path) -> None:
    decoder = {
        str(n): {"content": c} for n, c in ((3, "gone"), (4, "<pad>"), (5, "<end>"), (6, "<tool>"), (99, "<image>"))
    }
    source = folder(
        tmp_path,
        named(),
        tokenizer_config__json={"added_tokens_decoder": decoder, "legacy": False, "add_bos_token": True},
    )
    output, report = run(source, [2, 3, 4, 5, 6, 7])
    found = read(output / "tokenizer_config.json")
    assert {int(n): entry["content"] for n, entry in found["added_tokens_decoder"].items()} == {
        2: "<pad>",
        3: "<end>",
        4: "<tool>",
        5: "<image>",
    }
    assert (found["legacy"], found["add_bos_token"]) == (False, True)
    assert any("'gone' at 3, which is no token" in line for line in report.warnings)
    assert any("'<image>' at 99, but its id is 7" in line for line in report.warnings)


def test_names_of_dropped_tokens_leave_every_list_and_role() -> None:
    config = {
        "sep_token": {"content": "b", "lstrip": False},
        "additional_special_tokens": ["<end>", {"content": "b"}, "<never was>"],
        "extra_special_tokens": {"image_token": "<image>", "other": "b"},
    }
    names = Names({"b": 1, "<end>": 5, "<image>": 7}, {"<end>": 3, "<image>": 5})
    edit = edit_special_tokens_map(config, names)
    assert edit.data == {
        "sep_token": None,
        "additional_special_tokens": ["<end>", "<never was>"],
        "extra_special_tokens": {"image_token": "<image>"},
    }
    assert edit.warnings == ["special_tokens_map.json: sep_token was 'b', which is not kept; set to null"]


def test_added_tokens_json_and_chat_templates_come_along(tmp_path: Path) -> None:
    template = "{{ bos_token }}\r\n{% for m in messages %}…{% endfor %}"
    source = folder(
        tmp_path, named(), added_tokens__json={"<tool>": 6, "<image>": 7, "<ghost>": 8}, chat_template__jinja=template
    )
    output, _ = run(source, [2, 3, 4, 5, 6, 7])
    assert read(output / "added_tokens.json") == {"<tool>": 4, "<image>": 5}
    assert (output / "chat_template.jinja").read_bytes() == (source / "chat_template.jinja").read_bytes()


def test_a_file_in_which_nothing_has_ids_keeps_its_very_bytes(tmp_path: Path) -> None:
    text = '{"model_max_length":   512,\n\t"pad_token": "<pad>"}\n'
    source = folder(tmp_path, named(), tokenizer_config__json=text)
    output, _ = run(source, [2, 3, 4, 5, 6, 7])
    assert (output / "tokenizer_config.json").read_text() == text


def test_vocab_txt_lists_the_kept_tokens_in_order(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "hello", "##o", "hell", "world"]
    source = folder(tmp_path, document(wordpiece(tokens), [special(0, "[PAD]")]), vocab__txt="\n".join(tokens) + "\n")
    output, _ = run(source, [0, 1, 3, 4])
    assert (output / "vocab.txt").read_text() == "[PAD]\n[UNK]\n##o\nhell\n"


def test_a_vocab_txt_of_another_vocabulary_is_left_out_and_named(tmp_path: Path) -> None:
    source = folder(tmp_path, document(wordpiece(["[UNK]", "a", "b"])), vocab__txt="[UNK]\nb\na\n")
    output, report = run(source, [0, 1])
    assert not (output / "vocab.txt").exists()
    assert [(f.name, f.reason) for f in report.files if f.action == "left out"] == [
        ("vocab.txt", "can't be rewritten: it doesn't list the vocabulary of tokenizer.json")
    ]


def test_vocab_json_and_merges_txt_follow(tmp_path: Path) -> None:
    vocab, merges = ["a", "b", "c", "ab", "bc", "abc"], [["b", "c"], ["a", "b"], ["a", "bc"]]
    tokenizer = document(bpe(vocab, merges))
    lines = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)
    source = folder(tmp_path, tokenizer, vocab__json=tokenizer["model"]["vocab"], merges__txt=lines)
    output, _ = run(source, [0, 1, 2, 4])
    assert read(output / "vocab.json") == {"a": 0, "b": 1, "c": 2, "bc": 3}
    assert (output / "merges.txt").read_text() == "#version: 0.2\nb c\n"


def test_merges_txt_is_left_out_where_a_token_has_a_space(tmp_path: Path) -> None:
    tokenizer = document(bpe(["a", " ", "b", " b"], [[" ", "b"]]))
    output, report = run(folder(tmp_path, tokenizer, merges__txt="#version: 0.2\n  b\n"), [0, 1, 2, 3])
    assert not (output / "merges.txt").exists()
    assert any("merges.txt is left out" in line for line in report.warnings)


def _data(name: str) -> Path:
    return Path(str(importlib.resources.files("mistral_common").joinpath("data", name)))


def kept_for(spec: TokenizerSpec, texts: list[str]) -> np.ndarray:
    mask = np.zeros(spec.vocab_size, dtype=bool)
    mask[list(spec.structural_ids())] = True
    for text in texts:
        mask[spec.encode(text)] = True
    return np.flatnonzero(spec.dependencies().closure(mask))


TEXTS = ["The lamp in the kitchen was left on all night.", "Größere Fahrzeuge blieben stecken.", "🙂 naïve\n\n  tabs"]


def test_a_sentencepiece_model_of_a_real_tokenizer_follows(tmp_path: Path) -> None:
    import sentencepiece

    source = tmp_path / "source"
    source.mkdir()
    (source / "tokenizer.model").write_bytes(_data("tokenizer.model.v1").read_bytes())
    spec = TokenizerSpec.load(source)
    kept = kept_for(spec, TEXTS)
    trim(spec, kept, tmp_path / "small", texts=TEXTS)
    old = sentencepiece.SentencePieceProcessor(model_file=str(source / "tokenizer.model"))
    new = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "small" / "tokenizer.model"))
    assert new.vocab_size() == len(kept)
    assert (new.unk_id(), new.bos_id(), new.eos_id(), new.pad_id()) == (0, 1, 2, -1)
    old_to_new = np.full(spec.vocab_size, -1)
    old_to_new[kept] = np.arange(len(kept))
    for text in TEXTS:
        assert new.encode(text) == old_to_new[old.encode(text)].tolist()
    assert TokenizerSpec.load(tmp_path / "small").vocab_size == len(kept)


def test_special_ids_of_a_sentencepiece_model_move_with_their_pieces() -> None:
    import io

    import sentencepiece

    out = io.BytesIO()
    sentences = iter(["the lamp in the kitchen", "a cat on the mat", "the end of the day"] * 20)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_writer=out, vocab_size=40, pad_id=3, minloglevel=2, hard_vocab_limit=False
    )
    pieces = read_pieces(out.getvalue())
    keep = [index not in (1, 10, 11) for index in range(len(pieces))]
    loaded = sentencepiece.SentencePieceProcessor(model_proto=cut_model(out.getvalue(), keep))
    assert loaded.vocab_size() == len(pieces) - 3
    assert (loaded.unk_id(), loaded.bos_id(), loaded.eos_id(), loaded.pad_id()) == (0, -1, 1, 2)
    assert [loaded.id_to_piece(i) for i in range(len(loaded))] == [
        p.text for p, k in zip(pieces, keep, strict=True) if k
    ]


def test_tiktoken_ranks_follow(tmp_path: Path) -> None:
    from trimbed.trimming.renumbering import Renumbering
    from trimbed.trimming.surgery import trim_document
    from trimbed.trimming.vocabulary_files import Vocabularies, rewrite

    old = document(bpe(["a", "b", "Ġ", "Ġa", "ab"], [["Ġ", "a"], ["a", "b"]]))
    new, old_to_new = trim_document(old, [0, 1, 2, 3])
    lines = b"".join(base64.b64encode(t) + b" %d\n" % n for n, t in enumerate([b"a", b"b", b" ", b" a", b"ab"]))
    found = rewrite("x.tiktoken", lines, Vocabularies(old, new, Renumbering(old_to_new)))
    assert [base64.b64decode(line.split()[0]) for line in found.splitlines()] == [b"a", b"b", b" ", b" a"]


@pytest.mark.slow
def test_a_real_tekken_file_follows(tmp_path: Path) -> None:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    source = tmp_path / "source"
    source.mkdir()
    (source / "tekken.json").write_bytes(_data("tekken_240911.json").read_bytes())
    spec = TokenizerSpec.load(source)
    kept = kept_for(spec, TEXTS)
    trim(spec, kept, tmp_path / "small", texts=TEXTS)
    old, new = (Tekkenizer.from_file(path / "tekken.json") for path in (source, tmp_path / "small"))
    old_to_new = np.full(spec.vocab_size, -1)
    old_to_new[kept] = np.arange(len(kept))
    for text in TEXTS:
        assert new.encode(text, bos=True, eos=True) == old_to_new[old.encode(text, bos=True, eos=True)].tolist()


def test_a_packages_folder_brings_only_what_belongs_to_the_tokenizer(tmp_path: Path) -> None:
    source = folder(tmp_path, words(4), module__py="print()")
    output, _ = run(source, [0, 1])
    assert not (output / "module.py").exists()


def test_weights_in_other_formats_are_left_out_and_named(tmp_path: Path) -> None:
    source = folder(tmp_path, words(4), config__json={}, model__onnx=b"x", tf_model__h5=b"x", LICENSE="free")
    (source / "1_Dense").mkdir()
    (source / "1_Dense" / "pytorch_model.bin").write_bytes(b"dense")
    output, report = run(source, [0, 1])
    left = {file.name for file in report.files if file.action == "left out"}
    assert left == {"model.onnx", "tf_model.h5"}
    assert (output / "LICENSE").read_text() == "free"
    assert (output / "1_Dense" / "pytorch_model.bin").read_bytes() == b"dense"

"""What a GGUF file says besides its tokens: names, templates, architecture, and where it can't be believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import made
import pytest
from gguf_writing import write_byte_level

from trimbed.errors import TokenizerError
from trimbed.tokenizer.gguf_metadata import read_metadata, read_tensor_shapes
from trimbed.tokenizer.spec import TokenizerSpec


def written(path: Path, **values: Any) -> Path:
    """A small byte-level vocabulary with more metadata: writer method (without ``add_``) -> argument."""
    document = made.tiny("bpe")
    vocab = dict(document["model"]["vocab"]) | {e["content"]: e["id"] for e in document["added_tokens"]}
    names = sorted(vocab, key=vocab.__getitem__)
    added = {e["content"] for e in document["added_tokens"]}
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(values.pop("pre", "gpt-2"))
    writer.add_token_list(names)
    writer.add_token_types([3 if name in added else 1 for name in names])
    writer.add_token_merges([" ".join(merge) for merge in document["model"]["merges"]])
    for method, value in values.items():
        getattr(writer, f"add_{method}")(*value if isinstance(value, tuple) else (value,))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_ids_templates_and_architecture_come_from_the_metadata(tmp_path: Path) -> None:
    vocab = TokenizerSpec.from_document(made.tiny("bpe"))
    end = vocab.token_to_id("<|im_end|>")
    templates = [{"name": "default", "template": "d"}, {"name": "rag", "template": "r"}]
    path = written(tmp_path / "a.gguf", eos_token_id=end, add_bos_token=False, chat_template=templates)
    spec = TokenizerSpec.load(path)
    assert spec.decided_by == "a.gguf (tokenizer.ggml.model = gpt2)"
    assert spec.eos_id == end and spec.bos_id is None
    assert spec.chat_templates() == {"default": "d", "rag": "r"}
    assert spec.family is not None and spec.family.name == "qwen"
    assert spec.tokens == vocab.tokens
    assert spec.encode("The lamp<|im_end|>") == vocab.encode("The lamp<|im_end|>")


def test_a_folder_with_one_gguf_is_read(tmp_path: Path) -> None:
    written(tmp_path / "only.gguf")
    assert TokenizerSpec.load(tmp_path).decided_by.startswith("only.gguf")


def test_a_whole_tokenizer_json_inside_is_taken_as_it_is(tmp_path: Path) -> None:
    document = made.tiny("unigram")
    path = written(tmp_path / "a.gguf", string=("tokenizer.huggingface.json", json.dumps(document)))
    spec = TokenizerSpec.load(path)
    assert spec.decided_by == "a.gguf (tokenizer.huggingface.json)"
    assert spec.fingerprint == TokenizerSpec.from_document(document).fingerprint


def test_our_reader_reads_what_the_gguf_package_writes(tmp_path: Path) -> None:
    path = write_byte_level(tmp_path / "a.gguf", made.tiny("bpe"), pre="gpt-2")
    ours = read_metadata(path)
    theirs = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert ours == fields
    assert read_tensor_shapes(path) == {}
    assert read_metadata(path, skip={"tokenizer.ggml.tokens"})["tokenizer.ggml.tokens"] is None


def test_tensors_with_other_rows_than_tokens_are_reported(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "a.gguf"
    document = made.tiny("bpe")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(document["model"]["vocab"], key=document["model"]["vocab"].__getitem__))
    writer.add_token_merges([" ".join(merge) for merge in document["model"]["merges"]])
    writer.add_tensor("token_embd.weight", np.zeros((1000, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_tensor_shapes(path) == {"token_embd.weight": (1000, 4)}
    assert any("1000 rows for 900 tokens" in note for note in TokenizerSpec.load(path).notes)


def test_tokens_that_no_merge_makes_are_noted(tmp_path: Path) -> None:
    document = made.tiny("bpe")
    document["model"]["merges"] = document["model"]["merges"][:-1]
    path = write_byte_level(tmp_path / "a.gguf", document, pre="gpt-2")
    assert any("1 ordinary tokens" in note and "whole pieces" in note for note in TokenizerSpec.load(path).notes)


@pytest.mark.parametrize("model", ["rwkv", "plamo2", "none"])
def test_other_kinds_of_vocabularies_are_refused_by_name(model: str, tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "x")
    writer.add_tokenizer_model(model)
    writer.add_token_list(["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(TokenizerError, match=f"tokenizer model '{model}'"):
        TokenizerSpec.load(tmp_path)

"""A GGUF file trims to a GGUF file: tokens, scores, types, merges, ids, and rows of plain and quantised tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import made
import numpy as np
import pytest
from gguf.quants import dequantize, quantize

from trimbed.errors import TrimError
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.trim import trim

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
WIDTH = 64


def byte_level(path: Path, *, extra_rows: int = 0, **fields: Any) -> Path:
    """The file that a converter makes of the small byte-level BPE, with Qwen 2's pre-tokenizer."""
    model = made.tiny("bpe")["model"]
    tokens = [*sorted(model["vocab"], key=model["vocab"].get), "<|im_start|>", "<|im_end|>"]
    kinds = [NORMAL] * len(tokens)
    kinds[0] = kinds[-2] = CONTROL
    kinds[-1] = USER_DEFINED
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge for merge in model["merges"]])
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_bos_token_id(0)
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(128)
    for name, value in fields.items():
        writer.add_uint32(name.replace("__", "."), value)
    rng = np.random.default_rng(0)
    rows = len(tokens) + extra_rows
    embeddings = rng.normal(size=(rows, WIDTH)).astype("float32")
    writer.add_tensor("token_embd.weight", embeddings)
    head = quantize(rng.normal(size=(rows, WIDTH)).astype("float32"), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("output.weight", head, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.0.attn_norm.weight", np.ones(WIDTH, dtype="float32"))
    finish(writer)
    return path


def sentencepiece(path: Path) -> Path:
    """The small metaspace BPE with byte fallback, by scores, as a converter writes it."""
    model = made.tiny("metaspace_bpe")["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (len(tokens) - 259)]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(rank) for rank in range(len(tokens) - 259)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_tensor("token_embd.weight", np.repeat(np.arange(len(tokens), dtype="float16")[:, None], WIDTH, axis=1))
    finish(writer)
    return path


def finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def closed(spec: TokenizerSpec, texts: list[str]) -> np.ndarray:
    mask = np.zeros(spec.vocab_size, dtype=bool)
    mask[list(spec.structural_ids())] = True
    for text in texts:
        mask[spec.encode(text)] = True
    return np.flatnonzero(spec.dependencies().closure(mask))


def fields(path: Path) -> dict[str, Any]:
    return {key: entry.contents() for key, entry in gguf.GGUFReader(path).fields.items()}


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {t.name: dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}


def test_a_byte_level_file_keeps_its_pre_tokenizer_merges_types_and_rows(tmp_path: Path) -> None:
    source = byte_level(tmp_path / "model.gguf")
    spec = TokenizerSpec.load(source)
    texts = [*made.SENTENCES[:2], *(f"{sentence} 12" for sentence in made.SENTENCES[:9]), "<|im_start|>def f():\n  x"]
    kept = closed(spec, texts)
    assert len(kept) < spec.vocab_size
    report = trim(spec, kept, tmp_path / "small", texts=texts)
    small = tmp_path / "small" / "model.gguf"
    found, before = fields(small), fields(source)
    old_tokens = before["tokenizer.ggml.tokens"]
    assert found["tokenizer.ggml.tokens"] == [old_tokens[number] for number in kept]
    assert found["tokenizer.ggml.token_type"] == [before["tokenizer.ggml.token_type"][number] for number in kept]
    assert found["tokenizer.ggml.pre"] == "qwen2"
    parts = [merge.split(" ") for merge in found["tokenizer.ggml.merges"]]
    assert parts
    names = set(found["tokenizer.ggml.tokens"])
    assert all({left, right, left + right} <= names for left, right in parts)
    assert found["tokenizer.ggml.eos_token_id"] == len(kept) - 1
    assert found["qwen2.vocab_size"] == len(kept)
    assert found["qwen2.context_length"] == 128
    one, two = tensors(source), tensors(small)
    assert np.array_equal(two["token_embd.weight"], one["token_embd.weight"][kept])
    assert np.array_equal(two["output.weight"], one["output.weight"][kept])
    assert np.array_equal(two["blk.0.attn_norm.weight"], one["blk.0.attn_norm.weight"])
    result = TokenizerSpec.load(small)
    old_to_new = np.full(spec.vocab_size, -1)
    old_to_new[kept] = np.arange(len(kept))
    for text in texts:
        assert result.encode(text) == old_to_new[spec.encode(text)].tolist()
    assert report.verification.texts.kept >= len(texts)
    assert report.verification.rows is not None
    assert report.verification.rows.rows == 2 * len(kept)
    assert json.loads((tmp_path / "small" / "trim_report.json").read_text())["tokens"]["after"] == len(kept)


def test_sentencepiece_scores_stay_with_their_tokens(tmp_path: Path) -> None:
    source = sentencepiece(tmp_path / "model.gguf")
    spec = TokenizerSpec.load(source)
    kept = closed(spec, [made.SENTENCES[0]])
    trim(spec, kept, tmp_path / "small", texts=made.SENTENCES)
    found, before = fields(tmp_path / "small" / "model.gguf"), fields(source)
    assert found["tokenizer.ggml.scores"] == [before["tokenizer.ggml.scores"][number] for number in kept]
    assert (found["tokenizer.ggml.bos_token_id"], found["tokenizer.ggml.unknown_token_id"]) == (1, 0)
    assert tensors(tmp_path / "small" / "model.gguf")["token_embd.weight"][:, 0].tolist() == kept.tolist()


def test_rows_past_the_tokens_are_not_written(tmp_path: Path) -> None:
    source = byte_level(tmp_path / "model.gguf", extra_rows=7)
    spec = TokenizerSpec.load(source)
    kept = closed(spec, ["the lamp"])
    trim(spec, kept, tmp_path / "small")
    assert len(tensors(tmp_path / "small" / "model.gguf")["output.weight"]) == len(kept)


def test_an_id_that_is_not_kept_is_removed_with_a_warning(tmp_path: Path) -> None:
    spec = TokenizerSpec.load(byte_level(tmp_path / "model.gguf"))
    kept = closed(spec, ["the lamp"])
    dropped = int(np.setdiff1d(np.arange(spec.vocab_size), kept)[0])
    source = byte_level(tmp_path / "model.gguf", tokenizer__ggml__eot_token_id=dropped)
    report = trim(TokenizerSpec.load(source), kept, tmp_path / "small")
    assert "tokenizer.ggml.eot_token_id" not in fields(tmp_path / "small" / "model.gguf")
    assert any("eot_token_id" in line for line in report.warnings)


def test_a_cut_without_any_merge_is_refused_because_gguf_has_no_empty_lists(tmp_path: Path) -> None:
    spec = TokenizerSpec.load(byte_level(tmp_path / "model.gguf"))
    with pytest.raises(TrimError, match="no merge survives"):
        trim(spec, closed(spec, ["a"]), tmp_path / "small")


def test_a_vocabulary_in_gguf_cannot_be_padded(tmp_path: Path) -> None:
    spec = TokenizerSpec.load(byte_level(tmp_path / "model.gguf"))
    kept = closed(spec, ["the lamp"])
    multiple = 64 if Renumbering(np.arange(len(kept)), 64).padded_size != len(kept) else 63
    with pytest.raises(TrimError, match="can't be padded"):
        trim(spec, kept, tmp_path / "small", config=TrimConfig(pad_to_multiple_of=multiple))


def test_the_folder_of_the_source_is_never_the_output(tmp_path: Path) -> None:
    spec = TokenizerSpec.load(byte_level(tmp_path / "model.gguf"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(TrimError, match="holds the source"):
        trim(spec, closed(spec, ["the lamp"]), tmp_path, config=TrimConfig(overwrite=True))
    assert (tmp_path / "model.gguf").is_file()

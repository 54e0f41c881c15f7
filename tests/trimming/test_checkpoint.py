"""Cutting checkpoints: which tensors, which rows, ties, biases, padding, configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trimming_cases import (
    added,
    document,
    numbered,
    read_tensors,
    save_model,
    save_tensors,
    special,
    wordlevel,
    words,
)

from trimbed.errors import TrimError
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.report import TrimReport
from trimbed.trimming.trim import trim

KEPT = [0, 2, 3, 6, 7]


def run(folder: Path, kept: list[int], **settings: Any) -> tuple[Path, TrimReport]:
    output = folder.parent / "trimmed"
    report = trim(TokenizerSpec.load(folder), kept, output, config=TrimConfig(**settings))
    return output, report


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def model(folder: Path, extra: dict[str, np.ndarray] | None = None, rows: int = 8, **config: Any) -> Path:
    tensors = {"model.embed_tokens.weight": numbered(rows), "model.norm.weight": np.ones(4, dtype="float32")}
    return save_model(folder / "source", words(8), {**tensors, **(extra or {})}, {"vocab_size": rows, **config})


# -- rows -----------------------------------------------------------------------------------------------------------


def test_every_kept_token_keeps_its_own_row_and_other_tensors_their_bytes(tmp_path: Path) -> None:
    folder = model(tmp_path)
    output, report = run(folder, KEPT)
    found = read_tensors(output / "model.safetensors")
    assert found["model.embed_tokens.weight"][:, 0].tolist() == KEPT
    assert found["model.norm.weight"].tolist() == [1, 1, 1, 1]
    assert read(output, "config.json")["vocab_size"] == 5
    assert report.verification.rows is not None
    assert report.verification.rows.rows == 5
    assert report.parameters is not None
    assert report.parameters.saved == 3 * 4


def test_added_tokens_keep_the_rows_they_learned(tmp_path: Path) -> None:
    names = ["w0", "w1", "w2", "w3", "w4", "w5", "<pad>", "<eos>"]
    tokenizer = document(wordlevel(names, unk="w5"), [special(6, "<pad>"), added(7, "<eos>")])
    folder = save_model(tmp_path / "source", tokenizer, {"wte.weight": numbered(8)}, {"vocab_size": 8})
    output, _ = run(folder, [2, 3, 4, 5, 6, 7])
    assert read_tensors(output / "model.safetensors")["wte.weight"][:, 0].tolist() == [2, 3, 4, 5, 6, 7]


def test_holes_take_no_rows_along(tmp_path: Path) -> None:
    tokenizer = document(wordlevel({"[UNK]": 0, "a": 1, "b": 3}, unk="[UNK]"))
    folder = save_model(tmp_path / "source", tokenizer, {"wte.weight": numbered(4)}, {"vocab_size": 4})
    output, _ = run(folder, [0, 1, 3])
    assert read_tensors(output / "model.safetensors")["wte.weight"][:, 0].tolist() == [0, 1, 3]


@pytest.mark.parametrize("block_bytes", [1, 16, 33, 10**9])
def test_the_size_of_blocks_is_about_memory_and_never_changes_output(tmp_path: Path, block_bytes: int) -> None:
    folder = model(tmp_path, rows=12)
    output, _ = run(folder, KEPT, block_bytes=block_bytes, pad_to_multiple_of=8, pad_fill="mean")
    found = read_tensors(output / "model.safetensors")["model.embed_tokens.weight"]
    assert found[:, 0].tolist() == [*KEPT, *[pytest.approx(np.mean(KEPT))] * 3]


@pytest.mark.parametrize(("dtype", "values"), [("float16", "float16"), ("uint16", "uint16"), ("float64", "float64")])
def test_any_dtype_is_copied_as_bits(tmp_path: Path, dtype: str, values: str) -> None:
    rows = np.random.default_rng(0).integers(0, 255, (8, 4 * np.dtype(values).itemsize), dtype=np.uint8).view(values)
    folder = save_model(tmp_path / "source", words(8), {"wte.weight": rows}, {"vocab_size": 8})
    output, _ = run(folder, KEPT)
    found = read_tensors(output / "model.safetensors")["wte.weight"]
    assert found.tobytes() == rows[KEPT].tobytes()


def test_fp8_rows_are_copied_and_a_scale_for_each_row_follows(tmp_path: Path) -> None:
    folder = model(tmp_path)
    tensors = {"lm_head.weight": numbered(8, dtype="uint8"), "lm_head.weight_scale": numbered(8, 1)}
    save_tensors(
        folder / "model.safetensors", {**tensors, "wte.weight": numbered(8)}, dtypes={"lm_head.weight": "F8_E4M3"}
    )
    output, _ = run(folder, KEPT)
    found = read_tensors(output / "model.safetensors")
    assert found["lm_head.weight"][:, 0].tolist() == found["lm_head.weight_scale"][:, 0].tolist() == KEPT


@pytest.mark.parametrize("name", ["lm_head.qweight", "lm_head.weight.absmax", "lm_head.weight_scale_inv"])
def test_packed_and_block_scaled_tables_are_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    extra = {"lm_head.weight": numbered(8)} if "weight" in name.split(".") or name.endswith("inv") else {}
    with pytest.raises(TrimError, match="quantised in blocks or packed"):
        run(model(tmp_path, {**extra, name: np.zeros((2, 8), dtype="uint8")}), KEPT)


def test_a_table_packed_into_one_column_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = model(tmp_path, {"lm_head.weight": np.zeros(16, dtype="uint8")})
    with pytest.raises(TrimError, match="Packed weights can't be cut by rows"):
        run(folder, KEPT)


@pytest.mark.parametrize("rest", ["copy", "hardlink"])
def test_shards_without_vocabulary_come_along_and_the_index_still_fits(tmp_path: Path, rest: str) -> None:
    tensors = {"wte.weight": numbered(8), "h.0.w": numbered(3), "h.1.w": numbered(3), "lm_head.weight": numbered(8)}
    shards = {f"model-0000{n}-of-00004.safetensors": [name] for n, name in enumerate(tensors, 1)}
    folder = save_model(tmp_path / "source", words(8), tensors, {"vocab_size": 8}, shards=shards)
    output, report = run(folder, KEPT, rest=rest)
    found: dict[str, np.ndarray] = {}
    for file, names in shards.items():
        assert list(read_tensors(output / file)) == names
        found |= read_tensors(output / file)
    assert np.array_equal(found["h.1.w"], numbered(3))
    assert found["lm_head.weight"][:, 0].tolist() == KEPT
    index = read(output, "model.safetensors.index.json")
    assert index["weight_map"] == read(folder, "model.safetensors.index.json")["weight_map"]
    assert index["metadata"]["total_size"] == sum(value.nbytes for value in found.values())
    assert {file.action for file in report.files if file.name in list(shards)[1:3]} == {"brought along"}


# -- which tensors --------------------------------------------------------------------------------------------------


def test_heads_and_biases_of_every_name_are_cut_with_the_embeddings(tmp_path: Path) -> None:
    extra = {
        "cls.predictions.bias": np.arange(10, 18, dtype="float32"),
        "cls.predictions.decoder.weight": numbered(8, start=100),
        "cls.predictions.decoder.bias": np.arange(10, 18, dtype="float32"),
        "final_logits_bias": np.arange(20, 28, dtype="float32")[None, :],
        "model.layers.0.mlp.weight": np.ones((8, 8), dtype="float32"),
    }
    output, _ = run(model(tmp_path, extra, num_attention_heads=8), KEPT)
    found = read_tensors(output / "model.safetensors")
    assert found["cls.predictions.bias"].tolist() == [10 + number for number in KEPT]
    assert found["cls.predictions.decoder.bias"].tolist() == [10 + number for number in KEPT]
    assert found["cls.predictions.decoder.weight"][:, 0].tolist() == [100 + number for number in KEPT]
    assert found["final_logits_bias"].tolist() == [[20 + number for number in KEPT]]
    assert found["model.layers.0.mlp.weight"].shape == (8, 8)


def test_encoder_and_decoder_tables_are_cut_each_from_its_own(tmp_path: Path) -> None:
    extra = {
        "shared.weight": numbered(8),
        "encoder.embed_tokens.weight": numbered(8, start=50),
        "decoder.embed_tokens.weight": numbered(8, start=90),
        "encoder.embed_positions.weight": numbered(8),
    }
    folder = save_model(tmp_path / "source", words(8), extra, {"vocab_size": 8, "decoder_vocab_size": 8})
    output, _ = run(folder, KEPT)
    found = read_tensors(output / "model.safetensors")
    assert found["encoder.embed_tokens.weight"][:, 0].tolist() == [50 + number for number in KEPT]
    assert found["decoder.embed_tokens.weight"][:, 0].tolist() == [90 + number for number in KEPT]
    assert len(found["encoder.embed_positions.weight"]) == 8
    assert read(output, "config.json")["decoder_vocab_size"] == 5


def test_nested_names_and_per_layer_tables_follow(tmp_path: Path) -> None:
    extra = {
        "model.language_model.embed_tokens.weight": numbered(8),
        "model.language_model.embed_tokens_per_layer.weight": numbered(6, 12),
        "model.vision_tower.blocks.0.weight": np.ones((3, 5), dtype="float32"),
    }
    config = {"text_config": {"vocab_size": 8, "vocab_size_per_layer_input": 6}, "vision_config": {"vocab_size": 8}}
    output, _ = run(save_model(tmp_path / "source", words(8), extra, config), KEPT)
    found = read_tensors(output / "model.safetensors")
    assert found["model.language_model.embed_tokens.weight"][:, 0].tolist() == KEPT
    assert found["model.language_model.embed_tokens_per_layer.weight"][:, 0].tolist() == [0, 2, 3]
    assert read(output, "config.json") == {
        "text_config": {"vocab_size": 5, "vocab_size_per_layer_input": 3},
        "vision_config": {"vocab_size": 8},
    }


def test_a_tensor_that_might_carry_the_vocabulary_is_an_error_that_lists_it(tmp_path: Path) -> None:
    folder = model(tmp_path, {"model.memory.keys": numbered(8, 6)})
    with pytest.raises(TrimError, match=r"model\.memory\.keys: F32 \[8, 6\]"):
        run(folder, KEPT)
    output, _ = run(folder, KEPT, tensors={"model.memory.keys": "none"})
    assert len(read_tensors(output / "model.safetensors")["model.memory.keys"]) == 8


def test_a_tensor_can_be_named_by_hand(tmp_path: Path) -> None:
    folder = model(tmp_path, {"model.memory.keys": numbered(8, 6)})
    output, _ = run(folder, KEPT, tensors={"model.memory.keys": "output"})
    assert read_tensors(output / "model.safetensors")["model.memory.keys"][:, 0].tolist() == KEPT
    with pytest.raises(TrimError, match=r"no tensor 'model\.memory\.key'"):
        run(folder, KEPT, tensors={"model.memory.key": "output"}, overwrite=True)


def test_tables_of_several_codebooks_are_refused_with_the_reason(tmp_path: Path) -> None:
    folder = model(tmp_path, {"lm_heads.0.weight": numbered(8), "lm_heads.1.weight": numbered(8)})
    with pytest.raises(TrimError, match="several codebooks"):
        run(folder, KEPT)


def test_a_checkpoint_without_embeddings_is_an_error(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "source", words(8), {"x": np.ones(3, dtype="float32")}, {"vocab_size": 8})
    with pytest.raises(TrimError, match="no table of input embeddings"):
        run(folder, KEPT)


def test_another_models_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrimError, match="the embedding table has 6 rows, the tokenizer 8 ids"):
        run(model(tmp_path, rows=6), KEPT)


# -- ties -----------------------------------------------------------------------------------------------------------


def tied(tmp_path: Path, *, equal: bool, flag: bool, sharded: bool, nested: bool = False) -> Path:
    tensors = {"model.embed_tokens.weight": numbered(8), "lm_head.weight": numbered(8, start=0 if equal else 40)}
    shards = {"model-00001-of-00002.safetensors": ["model.embed_tokens.weight"]} if sharded else None
    if shards is not None:
        shards["model-00002-of-00002.safetensors"] = ["lm_head.weight"]
    flags: dict[str, Any] = {"tie_word_embeddings": flag}
    config = {"vocab_size": 8, **({"text_config": flags} if nested else flags)}
    return save_model(tmp_path / "source", words(8), tensors, config, shards=shards)


def everything(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for file in sorted(folder.glob("*.safetensors")):
        found |= read_tensors(file)
    return found


@pytest.mark.parametrize("sharded", [False, True])
def test_equal_and_tied_twins_are_written_once(tmp_path: Path, sharded: bool) -> None:
    output, report = run(tied(tmp_path, equal=True, flag=True, sharded=sharded), KEPT)
    found = everything(output)
    assert list(found) == ["model.embed_tokens.weight"]
    assert read(output, "config.json")["tie_word_embeddings"] is True
    assert any("written once" in line for line in report.warnings)
    if sharded:
        index = read(output, "model.safetensors.index.json")
        assert list(index["weight_map"]) == ["model.embed_tokens.weight"]
        assert index["metadata"]["total_size"] == 5 * 4 * 4


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_different_twins_that_claim_to_be_tied_both_stay_and_the_flag_goes(
    tmp_path: Path, sharded: bool, nested: bool
) -> None:
    output, report = run(tied(tmp_path, equal=False, flag=True, sharded=sharded, nested=nested), KEPT)
    found = everything(output)
    assert found["model.embed_tokens.weight"][:, 0].tolist() == KEPT
    assert found["lm_head.weight"][:, 0].tolist() == [40 + number for number in KEPT]
    config = read(output, "config.json")
    assert (config["text_config"] if nested else config)["tie_word_embeddings"] is False
    assert any("tie_word_embeddings is set to false" in line for line in report.warnings)


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("equal", [False, True])
def test_untied_twins_both_stay(tmp_path: Path, sharded: bool, equal: bool) -> None:
    output, _ = run(tied(tmp_path, equal=equal, flag=False, sharded=sharded), KEPT)
    assert set(everything(output)) == {"model.embed_tokens.weight", "lm_head.weight"}
    assert read(output, "config.json")["tie_word_embeddings"] is False


# -- rows past the tokenizer, and padding ---------------------------------------------------------------------------


def test_rows_past_the_tokenizer_go_and_are_reported(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "source", words(10), {"wte.weight": numbered(16)}, {"vocab_size": 16})
    output, report = run(folder, [0, 1, 2, 3, 9])
    assert read_tensors(output / "model.safetensors")["wte.weight"].shape == (5, 4)
    assert read(output, "config.json")["vocab_size"] == 5
    assert any("6 rows past the tokenizer's 10 ids, 6 of them not zero" in line for line in report.warnings)


def test_padding_rows_are_zero_and_the_config_has_their_size(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "source", words(10), {"wte.weight": numbered(16, start=1)}, {"vocab_size": 16})
    output, report = run(folder, [0, 1, 2, 3, 9], pad_to_multiple_of=8)
    found = read_tensors(output / "model.safetensors")["wte.weight"]
    assert found[:, 0].tolist() == [1, 2, 3, 4, 10, 0, 0, 0]
    assert read(output, "config.json")["vocab_size"] == 8
    assert any("their logit is 0" in line for line in report.warnings)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint16"])
def test_mean_rows_never_have_the_largest_logit(tmp_path: Path, dtype: str) -> None:
    values = -np.abs(np.random.default_rng(1).normal(2, 1, (10, 4))).astype("float32")
    stored = values.astype(dtype) if dtype != "uint16" else (values.view(np.uint32) >> 16).astype("uint16")
    folder = save_model(tmp_path / "source", words(10), {"wte.weight": stored}, {"vocab_size": 10})
    output, _ = run(folder, [0, 1, 2, 3, 9], pad_to_multiple_of=8, pad_fill="mean")
    raw = read_tensors(output / "model.safetensors")["wte.weight"]
    found = (raw.astype(np.uint32) << 16).view(np.float32) if dtype == "uint16" else raw.astype("float32")
    logits = found @ np.ones(4, dtype="float32")  # all negative: a zero row would win
    assert logits.argmax() < 5


def test_a_heads_bias_keeps_padding_from_winning(tmp_path: Path) -> None:
    extra = {"lm_head.bias": np.zeros(8, dtype="float32"), "lm_head.weight": numbered(8)}
    output, report = run(model(tmp_path, extra), KEPT, pad_to_multiple_of=8)
    assert read_tensors(output / "model.safetensors")["lm_head.bias"].tolist() == [0] * 5 + [-30000] * 3
    assert any("the head's bias is -30000" in line for line in report.warnings)


def test_a_table_shorter_than_the_tokenizer_keeps_what_it_has(tmp_path: Path) -> None:
    tokenizer = document(wordlevel(["<unk>", *(f"w{n}" for n in range(1, 20))]), [special(20, "<new>")])
    folder = save_model(tmp_path / "source", tokenizer, {"wte.weight": numbered(20)}, {"vocab_size": 20})
    output, report = run(folder, [0, 5, 20])
    assert read_tensors(output / "model.safetensors")["wte.weight"][:, 0].tolist() == [0, 5]
    assert any("1 kept tokens have none, as before" in line for line in report.warnings)


# -- configs --------------------------------------------------------------------------------------------------------


def test_every_kind_of_id_in_the_configs_follows(tmp_path: Path) -> None:
    config = {
        "eos_token_id": [6, 7],
        "pad_token_id": -1,
        "bos_token_id": None,
        "num_hidden_layers": 6,
        "text_config": {"vocab_size": 8, "image_token_index": 7, "hidden_size": 4},
        "vision_config": {"hidden_size": 7, "pad_token_id": 6},
    }
    generation = {
        "suppress_tokens": [1, 2, 7],
        "begin_suppress_tokens": [3],
        "forced_decoder_ids": [[1, 6], [2, None], [3, 1]],
        "bad_words_ids": [[2, 3], [1, 2], [7]],
        "sequence_bias": [[[2, 7], -1.5], [[1], 2.0]],
        "lang_to_id": {"<|en|>": 6, "<|xx|>": 1},
        "temperature": 0.6,
    }
    folder = model(tmp_path, **config)
    (folder / "generation_config.json").write_text(json.dumps(generation))
    output, report = run(folder, KEPT)
    found = read(output, "config.json")
    assert found["eos_token_id"] == [3, 4]
    assert found["pad_token_id"] == -1
    assert found["num_hidden_layers"] == 6
    assert found["text_config"] == {"vocab_size": 5, "image_token_index": 4, "hidden_size": 4}
    assert found["vision_config"] == config["vision_config"]
    assert read(output, "generation_config.json") == {
        "suppress_tokens": [1, 4],
        "begin_suppress_tokens": [2],
        "forced_decoder_ids": [[1, 3], [2, None]],
        "bad_words_ids": [[1, 2], [4]],
        "sequence_bias": [[[1, 4], -1.5]],
        "lang_to_id": {"<|en|>": 3},
        "temperature": 0.6,
    }
    assert sum("which is not kept; removed" in line for line in report.warnings) == 5


def test_nested_sizes_and_multimodal_ids_are_renumbered_where_they_live(tmp_path: Path) -> None:
    config = {"text_config": {"vocab_size": 32}, "image_token_id": 30, "vision_start_token_id": 28}
    tokenizer = words(32)
    tokenizer["model"]["unk_token"] = "w31"
    folder = save_model(tmp_path / "source", tokenizer, {"embed_tokens.weight": numbered(32)}, config)
    output, _ = run(folder, list(range(10, 32)))
    assert read(output, "config.json") == {
        "text_config": {"vocab_size": 22},
        "image_token_id": 20,
        "vision_start_token_id": 18,
    }


@pytest.mark.parametrize("key", ["pad_token_id", "eos_token_id", "decoder_start_token_id", "image_token_id"])
def test_an_id_that_the_model_cannot_do_without_is_never_dropped_silently(tmp_path: Path, key: str) -> None:
    with pytest.raises(TrimError, match=r"config\.json|can't do without"):
        run(model(tmp_path, **{key: 5}), KEPT)


def test_ids_that_are_placed_behind_the_vocabulary_by_number_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(TrimError, match=r"audio_config\.vocab_offset places ids"):
        run(model(tmp_path, audio_config={"vocab_offset": 8, "vocab_size": 4}), KEPT)


@pytest.mark.parametrize("pad", [2, 9])
def test_padding_agrees_in_config_generation_config_and_tokenizer(tmp_path: Path, pad: int) -> None:
    names = ["<s>", "</s>", "<pad>", "the", "cat", "sat", "on", "mat", "dog", "<unk>"]
    if pad == 9:
        names = [*names[:2], "<unk>", *names[3:9], "<pad>"]
    table = numbered(10, start=1)
    table[pad] = 0
    ids = {"pad_token_id": pad, "eos_token_id": 1, "bos_token_id": 0}
    folder = save_model(
        tmp_path / "source",
        document(wordlevel(names)),
        {"model.embed_tokens.weight": table},
        {"vocab_size": 10, **ids},
        generation_config=ids,
        tokenizer_config={"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"},
    )
    output, _ = run(folder, [0, 1, 2, 5, 6, 7, 8, 9])
    expected = {2: 2, 9: 7}[pad]
    assert (
        read(output, "config.json")["pad_token_id"]
        == read(output, "generation_config.json")["pad_token_id"]
        == expected
    )
    assert TokenizerSpec.load(output).pad_id == expected
    assert not read_tensors(output / "model.safetensors")["model.embed_tokens.weight"][expected].any()
    assert TokenizerSpec.load(output).unk_id == {2: 7, 9: 2}[pad]

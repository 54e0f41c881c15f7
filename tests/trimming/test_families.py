"""Random models of every family: logits through the id map, and generated text, are those of the original.

Needs the model extra; part of the slow suite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trimming_cases import Document, document, special, wordlevel

from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.trim import trim

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow

SIZE = 200
IMAGE = 198
SPECIALS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def tokenizer() -> Document:
    names = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(4, SIZE))]
    names[IMAGE] = "<image>"
    found = [special(n, names[n]) for n in (0, 1, 2, 3, IMAGE)]
    return document(wordlevel(names), found, pre_tokenizer={"type": "WhitespaceSplit"})


def decoder(**settings: Any) -> dict[str, Any]:
    return {
        "vocab_size": SIZE,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        **SPECIALS,
        **settings,
    }


def encoder(**settings: Any) -> dict[str, Any]:
    return {**decoder(), "num_key_value_heads": None, **settings}


def t5(**settings: Any) -> dict[str, Any]:
    sizes = {"vocab_size": SIZE, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    return {**sizes, **SPECIALS, "decoder_start_token_id": 0, **settings}


def bart(**settings: Any) -> dict[str, Any]:
    sizes = {"vocab_size": SIZE, "d_model": 32, "max_position_embeddings": 128}
    layers = {
        f"{side}_{what}": value
        for side in ("encoder", "decoder")
        for what, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
    }
    return {**sizes, **layers, **SPECIALS, "decoder_start_token_id": 2, "forced_eos_token_id": None, **settings}


FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", decoder(head_dim=8, tie_word_embeddings=False)),
    "qwen3 tied": ("Qwen3Config", "Qwen3ForCausalLM", decoder(head_dim=8, tie_word_embeddings=True)),
    "llama": ("LlamaConfig", "LlamaForCausalLM", decoder(tie_word_embeddings=False)),
    "llama tied": ("LlamaConfig", "LlamaForCausalLM", decoder(tie_word_embeddings=True)),
    "llama padded": ("LlamaConfig", "LlamaForCausalLM", decoder(vocab_size=256, tie_word_embeddings=False)),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", decoder(head_dim=8, sliding_window=16)),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", decoder(original_max_position_embeddings=128)),
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {"vocab_size": SIZE, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, **SPECIALS},
    ),
    "bert": ("BertConfig", "BertForMaskedLM", encoder()),
    "bert untied": ("BertConfig", "BertForMaskedLM", encoder(tie_word_embeddings=False)),
    "bert without head": ("BertConfig", "BertModel", encoder()),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", encoder(max_position_embeddings=130)),
    "xlm-r": ("XLMRobertaConfig", "XLMRobertaForMaskedLM", encoder(max_position_embeddings=130)),
    "modernbert": (
        "ModernBertConfig",
        "ModernBertForMaskedLM",
        decoder(cls_token_id=1, sep_token_id=2, global_attn_every_n_layers=1),
    ),
    "t5 tied": ("T5Config", "T5ForConditionalGeneration", t5(tie_word_embeddings=True)),
    "t5 untied": (
        "T5Config",
        "T5ForConditionalGeneration",
        t5(tie_word_embeddings=False, feed_forward_proj="gated-gelu"),
    ),
    "mt5": ("MT5Config", "MT5ForConditionalGeneration", t5(tie_word_embeddings=False)),
    "bart": ("BartConfig", "BartForConditionalGeneration", bart()),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration", bart()),
    "marian": ("MarianConfig", "MarianMTModel", bart(decoder_vocab_size=SIZE)),
    "gemma3n": (
        "Gemma3nTextConfig",
        "Gemma3nForCausalLM",
        decoder(
            head_dim=8,
            vocab_size_per_layer_input=180,
            hidden_size_per_layer_input=8,
            laurel_rank=4,
            num_kv_shared_layers=0,
            intermediate_size=[48, 48],
            activation_sparsity_pattern=[0.0, 0.0],
            layer_types=["sliding_attention", "full_attention"],
            sliding_window=16,
            altup_num_inputs=2,
        ),
    ),
}
GENERATE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel")


def make(name: str, folder: Path) -> Any:
    torch.manual_seed(0)
    config_name, model_name, settings = FAMILIES[name]
    config = getattr(transformers, config_name)(**settings)
    model = getattr(transformers, model_name)(config).eval()
    with torch.no_grad():
        for key, value in [*model.named_parameters(), *model.named_buffers()]:
            if "bias" in key or "logits" in key:
                value.copy_(torch.randn_like(value))
    save(model, folder)
    return model


def save(model: Any, folder: Path) -> None:
    import json

    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}))


def kept_ids() -> np.ndarray:
    """About half of the words, the structural ids, and ids on both sides of Gemma 3n's shorter table."""
    rng = np.random.default_rng(3)
    words = 4 + rng.permutation(SIZE - 4)[:90]
    return np.unique(np.concatenate([words, [0, 1, 2, 3, 190, 191, IMAGE]]))


def cut(source: Path, **settings: Any) -> tuple[Path, Any]:
    output = source.parent / "trimmed"
    spec = TokenizerSpec.load(source)
    kept = kept_ids()
    texts = [" ".join(str(spec.tokens[int(n)]) for n in kept[start : start + 12]) for start in (4, 20, 50, 84)]
    report = trim(spec, kept, output, texts=texts, config=TrimConfig(verify_model="always", overwrite=True, **settings))
    return output, report


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_equal_the_originals_through_the_map_and_generation_gives_the_same_text(
    name: str, tmp_path: Path
) -> None:
    old = make(name, tmp_path / "source")
    output, report = cut(tmp_path / "source")
    check = report.verification.model
    assert check is not None
    assert check.skipped is None
    assert check.texts == 4
    has_head = not FAMILIES[name][1].endswith("Model") or "LMHead" in FAMILIES[name][1] or "MT" in FAMILIES[name][1]
    assert (check.logit_difference is not None) == has_head
    assert check.hidden_difference is not None
    kept = kept_ids()
    old_to_new = np.full(SIZE, -1)
    old_to_new[kept] = np.arange(len(kept))
    new = type(old).from_pretrained(output).eval()
    assert new.config.get_text_config().vocab_size == len(kept)
    if FAMILIES[name][1].endswith(GENERATE):
        prompt = torch.tensor([[kept[10], kept[30], kept[60]]])
        gone = [[int(n)] for n in range(old.config.get_text_config().vocab_size) if n >= SIZE or old_to_new[n] < 0]
        settings = {"do_sample": False, "max_new_tokens": 12, "num_beams": 1}
        one = old.generate(prompt, bad_words_ids=gone, **settings)[0].tolist()
        two = new.generate(torch.tensor(old_to_new[prompt.numpy()]), **settings)[0].tolist()
        assert old_to_new[one].tolist() == two


def test_whisper_keeps_its_decoder_prompt_and_suppressed_ids(tmp_path: Path) -> None:
    torch.manual_seed(0)
    settings = bart(decoder_start_token_id=1, num_mel_bins=8, max_source_positions=20, max_target_positions=40)
    config = transformers.WhisperConfig(**settings, suppress_tokens=None, begin_suppress_tokens=None)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.generation_config.suppress_tokens = [5, 190, 191]
    model.generation_config.begin_suppress_tokens = [190]
    save(model, tmp_path / "source")
    output, report = cut(tmp_path / "source", verify_model_texts=1)
    new = transformers.WhisperForConditionalGeneration.from_pretrained(output).eval()
    kept = kept_ids()
    old_to_new = np.full(SIZE, -1)
    old_to_new[kept] = np.arange(len(kept))
    assert new.generation_config.begin_suppress_tokens == [old_to_new[190]]
    features = torch.randn(1, 8, 40)
    ids = torch.tensor([[1, *kept[10:16]]])
    with torch.inference_mode():
        one = model(input_features=features, decoder_input_ids=ids).logits[0][:, kept]
        two = new(input_features=features, decoder_input_ids=torch.tensor(old_to_new[ids.numpy()])).logits[0]
    assert float((one - two).abs().max()) < 1e-5
    assert report.verification.model is not None
    assert report.verification.model.skipped is None


def test_a_vision_language_model_keeps_its_image_placeholder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = transformers.LlamaConfig(**decoder(tie_word_embeddings=False))
    vision = transformers.CLIPVisionConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=8, patch_size=4
    )
    config = transformers.LlavaConfig(
        text_config=text, vision_config=vision, image_token_id=IMAGE, image_seq_length=4, vision_feature_layer=-1
    )
    model = transformers.LlavaForConditionalGeneration(config).eval()
    save(model, tmp_path / "source")
    output, _ = cut(tmp_path / "source")
    new = transformers.LlavaForConditionalGeneration.from_pretrained(output).eval()
    kept = kept_ids()
    old_to_new = np.full(SIZE, -1)
    old_to_new[kept] = np.arange(len(kept))
    assert new.config.image_token_id == old_to_new[IMAGE]
    pixels = torch.randn(1, 3, 8, 8)
    ids = np.array([[1, *kept[10:14], IMAGE, IMAGE, IMAGE, IMAGE, *kept[30:34]]])
    with torch.inference_mode():
        one = model(input_ids=torch.tensor(ids), pixel_values=pixels).logits[0][:, kept]
        two = new(input_ids=torch.tensor(old_to_new[ids]), pixel_values=pixels).logits[0]
    assert float((one - two).abs().max()) < 1e-5


def test_padding_rows_of_the_mean_are_never_generated(tmp_path: Path) -> None:
    make("llama", tmp_path / "source")
    output, _ = cut(tmp_path / "source", pad_to_multiple_of=64, pad_fill="mean")
    new = transformers.LlamaForCausalLM.from_pretrained(output).eval()
    assert new.config.vocab_size == new.get_input_embeddings().weight.shape[0] == 128
    with torch.inference_mode():
        logits = new(torch.randint(0, len(kept_ids()), (8, 60))).logits
    assert int(logits.argmax(-1).max()) < len(kept_ids())


def test_an_untied_head_survives_saving_and_loading_again(tmp_path: Path) -> None:
    make("llama", tmp_path / "source")
    output, _ = cut(tmp_path / "source")
    model = transformers.LlamaForCausalLM.from_pretrained(output)
    before = model.lm_head.weight.detach().clone()
    model.post_init()
    model.save_pretrained(tmp_path / "again")
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "again")
    assert torch.equal(again.lm_head.weight, before)
    assert not torch.equal(again.lm_head.weight, again.get_input_embeddings().weight)


@pytest.mark.parametrize("name", ["llama", "bert", "t5 tied"])
def test_pytorch_bin_files_give_the_same_model(name: str, tmp_path: Path) -> None:
    old = make(name, tmp_path / "source")
    cut(tmp_path / "source")
    expected = type(old).from_pretrained(tmp_path / "trimmed").state_dict()
    (tmp_path / "source" / "model.safetensors").unlink()
    torch.save(old.state_dict(), tmp_path / "source" / "pytorch_model.bin")
    output, report = cut(tmp_path / "source")
    assert (output / "pytorch_model.bin").is_file()
    found = type(old).from_pretrained(output).state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert report.verification.model is not None
    assert report.verification.model.skipped is None


@pytest.mark.parametrize(
    ("name", "rebuilds"),
    [
        ("LlamaTokenizer", False),
        ("PreTrainedTokenizerFast", False),
        ("Qwen2Tokenizer", True),
        ("GPT2Tokenizer", True),
    ],
)
def test_a_class_that_rebuilds_the_pipeline_is_reported_and_the_result_behaves_as_its_source(
    name: str, rebuilds: bool, tmp_path: Path
) -> None:
    import json

    import made

    content = made.tiny("bpe")
    split = {"type": "Split", "pattern": {"Regex": r"\s?\p{L}+|\s+|[^\s\p{L}]+"}}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    content["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [{**split, "behavior": "Isolated", "invert": False}, byte_level],
    }
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    spec = TokenizerSpec.load(folder)
    texts = ["we add a net", "\n\nhello", "The lamp in the kitchen  was left on"]
    mask = np.zeros(spec.vocab_size, dtype=bool)
    mask[list(spec.structural_ids())] = True
    for text in texts:
        mask[spec.encode(text)] = True
    kept = np.flatnonzero(spec.dependencies().closure(mask))
    report = trim(spec, kept, tmp_path / "small", texts=texts)
    assert "encodings by" in report.verification.transformers
    # The ones that rebuild it do so in transformers 5.24, whatever the file says; a later version may not.
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path / "small")
    original = transformers.AutoTokenizer.from_pretrained(folder)
    different = any(original(text)["input_ids"] != spec.encode(text) for text in texts)
    assert ("itself differs" in report.verification.transformers) == different
    assert any("itself differs" in line for line in report.warnings) == different
    if not rebuilds:
        assert not different
    result = TokenizerSpec.load(tmp_path / "small")
    for text in texts:
        if original(text)["input_ids"] == spec.encode(text):
            assert loaded(text)["input_ids"] == result.encode(text)


def test_minilm_gives_the_same_sentence_embeddings(minilm_folder: Path, tmp_path: Path) -> None:
    sentences = pytest.importorskip("sentence_transformers")
    texts = ["A cat sat on the mat.", "Die Straße war nach dem Gewitter überflutet.", "the weather is fine today"]
    spec = TokenizerSpec.load(minilm_folder)
    mask = np.zeros(spec.vocab_size, dtype=bool)
    mask[list(spec.structural_ids())] = True
    for text in texts:
        mask[spec.encode(text)] = True
    kept = np.flatnonzero(spec.dependencies().closure(mask))
    report = trim(spec, kept, tmp_path / "small", texts=texts, config=TrimConfig(verify_model="always"))
    assert report.verification.model is not None
    assert report.verification.model.hidden_difference is not None
    assert "encodings by" in report.verification.transformers
    from sentence_transformers.sentence_transformer import modules as models

    def load(folder: Path) -> Any:  # the package leaves out the empty folder of its third module
        return sentences.SentenceTransformer(
            modules=[models.Transformer(str(folder)), models.Pooling.load(str(folder / "1_Pooling"))]
        )

    one, two = load(minilm_folder).encode(texts), load(tmp_path / "small").encode(texts)
    assert float(np.abs(one - two).max()) < 1e-5

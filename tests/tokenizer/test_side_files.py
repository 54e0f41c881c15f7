"""What the other files of a checkpoint add: special tokens by name, templates, families, contradictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import pytest

from trimbed.errors import TokenizerError
from trimbed.tokenizer.chat import CHAT_ROLES, chat_template_literals
from trimbed.tokenizer.families import Family, families, family_of, register_family
from trimbed.tokenizer.spec import TokenizerSpec


def checkpoint(folder: Path, name: str = "bpe", **files: Any) -> Path:
    """A folder with a small tokenizer and the given files; ``a__b`` is the file a.b."""
    (folder / "tokenizer.json").write_text(json.dumps(made.tiny(name)), "utf-8")
    for key, value in files.items():
        path = folder / key.replace("__", ".")
        path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return folder


def test_special_ids_come_by_name_and_are_none_where_absent(tmp_path: Path) -> None:
    config = {"eos_token": {"content": "<|im_end|>", "lstrip": False}, "pad_token": None, "bos_token": "not there"}
    spec = TokenizerSpec.load(checkpoint(tmp_path, tokenizer_config__json=config))
    assert spec.eos_id == spec.token_to_id("<|im_end|>")
    assert spec.bos_id is None and spec.pad_id is None and spec.unk_id is None
    assert "the bos token 'not there' is not in the vocabulary" in spec.notes


def test_special_tokens_map_fills_what_tokenizer_config_leaves_out(tmp_path: Path) -> None:
    mapped = {"pad_token": "<|endoftext|>", "eos_token": {"content": "<|im_start|>"}}
    folder = checkpoint(tmp_path, tokenizer_config__json={"eos_token": "<|im_end|>"}, special_tokens_map__json=mapped)
    spec = TokenizerSpec.load(folder)
    assert spec.pad_id == spec.token_to_id("<|endoftext|>")
    assert spec.eos_id == spec.token_to_id("<|im_end|>")
    assert any("special_tokens_map.json" in note for note in spec.notes)


def test_without_side_files_unk_is_the_models_own(tiny_documents: dict[str, dict[str, Any]]) -> None:
    unks = {name: TokenizerSpec.from_document(document) for name, document in tiny_documents.items()}
    assert {name: spec.unk_id is None or spec.tokens[spec.unk_id] for name, spec in unks.items()} == {
        "bpe": True,
        "metaspace_bpe": "<unk>",
        "unigram": "<unk>",
        "wordpiece": "[UNK]",
        "wordlevel": "<unk>",
    }


def test_encode_adds_special_tokens_only_when_asked(tmp_path: Path) -> None:
    config = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "add_bos_token": True, "add_eos_token": True}
    spec = TokenizerSpec.load(checkpoint(tmp_path, tokenizer_config__json=config))
    plain = spec.encode("the lamp")
    assert spec.encode("the lamp", add_special_tokens=True) == [spec.bos_id, *plain, spec.eos_id]


def test_a_post_processor_wins_over_add_bos_token(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "add_bos_token": True}
    spec = TokenizerSpec.load(checkpoint(tmp_path, "metaspace_bpe", tokenizer_config__json=config))
    assert spec.encode("a", add_special_tokens=True) == [spec.bos_id, *spec.encode("a")]


def test_every_id_the_files_use_is_structural(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen2",
        "text_config": {"image_token_id": 440, "vocab_size": 2000},
        "vision": {"video_token_index": 441},
        "forced_bos_token_id": None,
    }
    generation = {"eos_token_id": [442, 443], "suppress_tokens": [444], "pad_token_id": 10**6}
    spec = TokenizerSpec.load(checkpoint(tmp_path, config__json=config, generation_config__json=generation))
    reasons = spec.structural_ids()
    assert reasons[440] == "text_config.image_token_id in config.json"
    assert {441, 442, 443} <= set(reasons) and 10**6 not in reasons
    assert 444 not in reasons
    assert list(reasons) == sorted(reasons)
    assert {spec.token_to_id(token.content) for token in spec.added_tokens} <= set(reasons)


def test_templates_are_found_wherever_they_are_kept(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, tokenizer_config__json={"chat_template": "one"})
    assert TokenizerSpec.load(folder).chat_templates() == {"default": "one"}
    listed = [{"name": "default", "template": "two"}, {"name": "rag", "template": "three"}]
    checkpoint(tmp_path, tokenizer_config__json={"chat_template": listed})
    assert TokenizerSpec.load(folder).chat_templates() == {"default": "two", "rag": "three"}
    checkpoint(tmp_path, tokenizer_config__json={"chat_template": {"tool_use": "four"}})
    assert TokenizerSpec.load(folder).chat_templates() == {"tool_use": "four"}
    (folder / "chat_template.jinja").write_text("five", "utf-8")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "rag.jinja").write_text("six", "utf-8")
    assert TokenizerSpec.load(folder).chat_templates() == {"tool_use": "four", "default": "five", "rag": "six"}


def test_broken_side_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json is not valid JSON"):
        TokenizerSpec.load(checkpoint(tmp_path, tokenizer_config__json="{"))


def test_contradictions_between_files_are_reported(tmp_path: Path) -> None:
    listed = {"5": {"content": "<|im_end|>"}, "6": {"content": "nowhere"}}
    config = {"vocab_size": 10, "eos_token_id": 3}
    folder = checkpoint(
        tmp_path,
        tokenizer_config__json={"added_tokens_decoder": listed, "eos_token": "<|im_end|>"},
        config__json=config,
        vocab__txt="a\nb\n",
    )
    notes = "\n".join(TokenizerSpec.load(folder).notes)
    assert "vocab_size 10" in notes
    assert "gives '<|im_end|>' the id 5" in notes and "'nowhere' the id 6" in notes
    assert "eos_token_id 3" in notes
    assert "vocab.txt has 2 tokens" in notes


def test_files_that_agree_have_no_notes(minilm_folder: Path, deepseek_folder: Path) -> None:
    assert TokenizerSpec.load(minilm_folder).notes == ()
    assert not [n for n in TokenizerSpec.load(deepseek_folder).notes if "id" in n.split()]


# -- chat templates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "literals"),
    [
        ("plain text", ["plain text"]),
        ("a{{ b }}c", ["a", "c"]),
        ("{{ 'x' ~ \"y\" }}", ["x", "y"]),
        (r"{{ 'it\'s\n' }}", ["it's\n"]),
        (r'{{ "\u003c|a|\x3e \\ \q" }}', ["<|a|> \\ \\q"]),
        ("{# 'no' #}a", ["a"]),
        ("a {%- if b -%} c {%- endif %}", ["a", "c"]),
        ("{% if x == 'y' %}\nb\n{% endif %}\n", ["y", "b\n"]),
        ("{{ '}}' }}z", ["}}", "z"]),
        ("{% raw %}{{ not }}{% endraw %}!", ["{{ not }}", "!"]),
        ("{{ 'open", []),
        ("", []),
    ],
)
def test_literals_are_the_text_around_and_the_strings_inside(template: str, literals: list[str]) -> None:
    assert chat_template_literals(template) == literals


def test_roles_that_a_template_takes_from_messages_are_added() -> None:
    chatml = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] }}{% endfor %}"
    assert set(CHAT_ROLES) <= set(chat_template_literals(chatml))
    through_set = "{% set h = '<|' + message.role + '|>' %}{{ h }}"
    assert set(CHAT_ROLES) <= set(chat_template_literals(through_set))
    compared = "{% if m['role'] == 'user' %}U{% endif %}"
    assert chat_template_literals(compared) == ["role", "user", "U"]


def test_a_long_template_gives_its_markers_and_prose() -> None:
    template = (
        "{%- if tools %}\n    {{- '<|im_start|>system\\n# Tools\\n\\nYou may call \\\"one\\\"' }}\n{%- endif %}\n"
        "{%- for message in messages %}\n    {{- '<|im_start|>' + message.role + '\\n' "
        "+ message.content + '<|im_end|>' }}\n{%- endfor %}"
    )
    literals = chat_template_literals(template)
    assert literals[:4] == ['<|im_start|>system\n# Tools\n\nYou may call "one"', "<|im_start|>", "\n", "<|im_end|>"]
    assert set(literals[4:]) == set(CHAT_ROLES)


# -- families ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, "llama"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "qwen"),
        ({"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]}, "kimi"),
        ({"model_type": "odd", "text_config": {"model_type": "gemma3_text"}}, "gemma"),
        ({"model_type": "xlm-roberta"}, "xlm-roberta"),
        ({"model_type": "gpt_oss"}, "gpt-oss"),
        ({"model_type": "modernbert"}, "modernbert"),
        ({"model_type": "never heard of"}, None),
        ({}, None),
    ],
)
def test_a_family_is_known_by_its_architecture(config: dict[str, Any], name: str | None) -> None:
    family = family_of(config)
    assert (family.name if family else None) == name


def test_families_in_current_use_are_there_with_markers_not_ids() -> None:
    names = {family.name for family in families()}
    wanted = "llama mistral qwen gemma phi deepseek glm gpt-oss kimi apertus smollm bert modernbert xlm-roberta t5 nllb"
    assert {*wanted.split(), "whisper", "voxtral"} <= names
    assert all(family.markers and all(isinstance(m, str) for m in family.markers) for family in families())
    assert family_of({}, gguf_architecture="qwen2") == family_of({"model_type": "qwen2"})


def test_markers_of_the_family_that_the_vocabulary_has_become_structural(tmp_path: Path) -> None:
    document = made.tiny("bpe")
    document["added_tokens"] = [entry for entry in document["added_tokens"] if entry["content"] == "<|endoftext|>"]
    model_vocab = document["model"]["vocab"]
    model_vocab["<|im_end|>"] = len(model_vocab)
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), "utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}', "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    assert spec.family is not None and spec.family.name == "qwen" and spec.family.tool_calling
    assert spec.structural_ids()[model_vocab["<|im_end|>"]] == "qwen marker"


def test_users_register_families_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from trimbed.tokenizer import families as module

    monkeypatch.setattr(module, "_registered", [])
    register_family(Family("mine", model_types=("llama",), stop=("<end>",)))
    found = family_of({"model_type": "llama"})
    assert found is not None and found.name == "mine" and found.markers == ("<end>",)
    register_family(Family("mine", model_types=("other",)))
    assert family_of({"model_type": "llama"}).name == "llama"  # type: ignore[union-attr]

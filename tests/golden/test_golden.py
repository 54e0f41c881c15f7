"""Our tokenizers give the ids that the defining libraries gave when the golden corpus was recorded."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from gguf_writing import write_byte_level, write_sentencepiece, write_wordpiece
from inputs import ADDED, INPUTS
from record import condensed, path_of, recording
from sources import SOURCES, Source, encoder_of

from trimbed.tokenizer.spec import TokenizerSpec

BY_NAME = {source.name: source for source in SOURCES}


def names(*, wide: set[str]) -> list[Any]:
    """All sources; those of ``wide`` only in the slow suite, because others like them are in the default one."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in wide else []) for name in BY_NAME]


TWINS = {"tekken-240718", "mistral-v2", "mistral-v3"}


@cache
def spec_of(name: str) -> TokenizerSpec:
    return TokenizerSpec.load(BY_NAME[name].file)


@cache
def recorded(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path_of(BY_NAME[name]).read_text("utf-8"))
    return data


def assert_as_recorded(spec: TokenizerSpec, name: str) -> None:
    golden = recorded(name)
    assert list(golden["inputs"]) == list(INPUTS)
    for title, ids in golden["inputs"].items():
        assert condensed(spec.encode(INPUTS[title])) == ids, title
    assert list(golden["added"]) == ADDED.get(BY_NAME[name].added, [])
    for text, ids in golden["added"].items():
        assert condensed(spec.encode(text)) == ids, text


@pytest.mark.parametrize("name", names(wide=TWINS))
def test_ids_are_those_recorded_with_the_defining_library(name: str) -> None:
    assert_as_recorded(spec_of(name), name)


@pytest.mark.parametrize("name", names(wide=TWINS | {"qwen", "tekken-240911", "deepseek", "unigram"}))
def test_ids_are_the_same_through_a_gguf_file(name: str, tmp_path: Path) -> None:
    source, path = BY_NAME[name], tmp_path / f"{name}.gguf"
    if source.gguf:
        write_byte_level(path, spec_of(name).document.data, pre=source.gguf)
    elif source.library == "sentencepiece":
        write_sentencepiece(path, source.file)
    else:
        write_wordpiece(path, spec_of(name).document.data)
    assert_as_recorded(TokenizerSpec.load(path), name)


def test_a_bare_vocab_txt_gives_the_same_ids(minilm_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes((minilm_folder / "vocab.txt").read_bytes())
    spec = TokenizerSpec.load(tmp_path)
    assert spec.decided_by == "vocab.txt"
    assert "lower-cased" in spec.notes[0]
    assert_as_recorded(spec, "minilm")


@pytest.mark.slow
def test_bare_vocab_json_and_merges_give_the_same_ids(tmp_path: Path) -> None:
    model = spec_of("qwen").document.model
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), "utf-8")
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + merges + "\n", "utf-8")
    added = {str(token.id): {"content": token.content, "special": True} for token in spec_of("qwen").added_tokens}
    config = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    assert spec.decided_by == "vocab.json"
    assert_as_recorded(spec, "qwen")


@pytest.mark.parametrize("name", ["mistral-v1", "mistral-v7", "unigram", "unigram-bytes", "bpe-symbols"])
def test_real_sentences_are_encoded_as_by_sentencepiece(name: str) -> None:
    import made

    encode, spec = encoder_of(BY_NAME[name]), spec_of(name)
    texts = made.SENTENCES + [line for text in made.stdlib_texts(60_000) for line in text.split("\n")]
    for text in texts:
        assert spec.encode(text) == encode(text), text


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BY_NAME)
def test_whole_documents_are_encoded_as_by_the_defining_library(name: str) -> None:
    import made

    encode, spec = encoder_of(BY_NAME[name]), spec_of(name)
    for text in made.SENTENCES + made.stdlib_texts(1_000_000):
        if not any(token.content in text for token in spec.added_tokens):  # matched by us as a matter of policy
            assert spec.encode(text) == encode(text), text[:80]


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_recording_again_gives_the_same(name: str) -> None:
    again, before = recording(BY_NAME[name]), recorded(name)
    if again["versions"] != before["versions"]:
        print(f"recorded with {before['versions']}, now {again['versions']}")
    assert {**again, "versions": {}} == {**before, "versions": {}}


def test_the_corpus_stays_small() -> None:
    files = [path for path in Path(__file__).parent.iterdir() if path.suffix in (".json", ".xz")]
    assert {source.name for source in SOURCES} <= {path.stem for path in files}
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert all(recorded(name)["versions"] for name in BY_NAME)


def test_sources_are_what_they_say() -> None:
    kinds = {name: spec_of(name).algorithm for name in ("unigram", "unigram-bytes", "minilm", "mistral-v1")}
    assert list(kinds.values()) == ["unigram", "unigram", "wordpiece", "bpe"]
    assert all(isinstance(source, Source) and source.file.is_file() for source in SOURCES)

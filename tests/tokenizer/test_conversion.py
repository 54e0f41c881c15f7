"""Other formats become a tokenizer.json that encodes as they do; what can't is refused by the name of the feature."""

from __future__ import annotations

import base64
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import made
import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as schema
from sources import HERE, unpack
from tokenizers import Tokenizer

from trimbed.errors import TokenizerError, UsageError
from trimbed.tokenizer.merge_ranks import ranked_merges
from trimbed.tokenizer.rank_files import from_tiktoken
from trimbed.tokenizer.spec import TokenizerSpec

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPECIALS = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]


def model_file(folder: Path, pieces: list[tuple[str, float, int]], *, kind: str = "BPE", **normalizer: Any) -> Path:
    """A hand-made ``.model``."""
    model = schema.ModelProto()
    for piece, score, type_ in SPECIALS + pieces:
        model.pieces.add(piece=piece, score=score, type=type_)
    model.trainer_spec.model_type = schema.TrainerSpec.ModelType.Value(kind)
    model.trainer_spec.byte_fallback = any(type_ == BYTE for _, _, type_ in pieces)
    settings = {"name": "identity", "add_dummy_prefix": True, "remove_extra_whitespaces": False, **normalizer}
    for name, value in settings.items():
        setattr(model.normalizer_spec, name, value)
    path = folder / "tokenizer.model"
    path.write_bytes(model.SerializeToString())
    return path


def assert_same(path: Path, texts: list[str]) -> TokenizerSpec:
    spec, reference = TokenizerSpec.load(path), sentencepiece.SentencePieceProcessor(model_file=str(path))
    for text in texts:
        assert spec.encode(text) == reference.encode(text), text
    return spec


LETTERS = [(c, -100.0 - n, NORMAL) for n, c in enumerate("▁abcdeht<x>")]


def test_a_piece_with_score_zero_is_mergeable(tmp_path: Path) -> None:
    path = model_file(tmp_path, [("▁t", 0.0, NORMAL), ("he", -1.0, NORMAL), ("▁the", -2.0, NORMAL), *LETTERS])
    spec = assert_same(path, ["the", "t", "the the", "hehe t he"])
    assert [spec.tokens[i] for i in spec.encode("the t")] == ["▁the", "▁t"]


def test_user_defined_pieces_become_added_tokens_wherever_they_stand(tmp_path: Path) -> None:
    path = model_file(tmp_path, [("<x>", 0.0, USER_DEFINED), ("▁a", -1.0, NORMAL), *LETTERS])
    rng = random.Random(8)
    texts = ["".join(rng.choices(["<x>", "a", "b", " ", "<x", "the"], k=rng.randint(1, 8))) for _ in range(1000)]
    spec = assert_same(path, [text for text in texts if text != "<x>"])
    assert [(t.content, t.special) for t in spec.added_tokens if t.content == "<x>"] == [("<x>", False)]
    assert any("one user-defined symbol and nothing else" in note for note in spec.notes)


def test_special_names_come_from_the_model(tmp_path: Path) -> None:
    spec = TokenizerSpec.load(model_file(tmp_path, LETTERS))
    assert (spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id) == (0, 1, 2, None)
    assert spec.encode("a</s>b") == [*spec.encode("a"), 2, *spec.encode("b")]


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("extra", [True, False])
@pytest.mark.parametrize("escape", [True, False])
@pytest.mark.parametrize("kind", ["BPE", "UNIGRAM"])
def test_white_space_is_treated_as_the_normalizer_says(
    prefix: bool, extra: bool, escape: bool, kind: str, tmp_path: Path
) -> None:
    pieces = [*LETTERS, (" ", -120.0, NORMAL), ("▁▁", -5.0, NORMAL), ("▁a", -4.0, NORMAL), (" a", -4.5, NORMAL)]
    path = model_file(
        tmp_path, pieces, kind=kind, add_dummy_prefix=prefix, remove_extra_whitespaces=extra, escape_whitespaces=escape
    )
    assert_same(path, ["", " ", "   ", "a", " a", "  a  b ", "a▁", "▁", "▁ a", "a\tb", "a \n b", "aa   aa", "a▁▁ "])


def test_white_space_as_a_suffix(tmp_path: Path) -> None:
    path = model_file(tmp_path, [*LETTERS, ("a▁", -4.0, NORMAL)])
    model = schema.ModelProto()
    model.ParseFromString(path.read_bytes())
    model.trainer_spec.treat_whitespace_as_suffix = True
    path.write_bytes(model.SerializeToString())
    assert_same(path, ["", "a", "a a", " a ", "aa b"])


def test_byte_fallback_and_texts_that_look_like_bytes(tmp_path: Path) -> None:
    data = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    digits = [(c, -150.0 - n, NORMAL) for n, c in enumerate("0123456789ABF")]
    for kind in ("BPE", "UNIGRAM"):
        path = model_file(tmp_path, [*data, *LETTERS, *digits], kind=kind)
        assert_same(path, ["é世🙂", "<0x41>", "a <0x4", "<0x41><0x42> b", "<0x41", "0x41>", "z" * 20])


def test_unused_pieces_of_a_unigram_model_match_no_text(tmp_path: Path) -> None:
    pieces = [*LETTERS, ("ab", -1.0, UNUSED), ("abc", -400.0, UNUSED), ("bc", -3.0, NORMAL)]
    spec = assert_same(model_file(tmp_path, pieces, kind="UNIGRAM"), ["abc", "ab", "abab c", "zabz"])
    assert any("unused piece 'ab'" in note for note in spec.notes)


def test_runs_of_spaces_with_one_score_merge_from_the_left(tmp_path: Path) -> None:
    runs = [("▁" * n, -1e9, NORMAL) for n in (2, 3, 4, 5, 6, 8)]
    path = model_file(tmp_path, [*LETTERS, *runs])
    assert_same(path, [" " * n + "a" + " " * m for n in range(30) for m in (0, 3, 9)])


@pytest.mark.parametrize(
    ("pieces", "kind", "feature"),
    [
        ([*LETTERS, ("ab", -1.0, NORMAL), ("bc", -1.0, NORMAL)], "BPE", "'ab' and 'bc' have the same score"),
        ([*LETTERS, ("ab", -1.0, UNUSED)], "BPE", "unused piece 'ab'"),
        ([("a", -1.0, NORMAL), ("ab", -2.0, NORMAL)], "BPE", "such as 'b'.* unknown characters"),
        ([*LETTERS, ("a", -9.0, NORMAL)], "BPE", "'a' comes twice"),
        (LETTERS, "WORD", "type 'word'"),
        (LETTERS, "CHAR", "type 'char'"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(pieces: Any, kind: str, feature: str, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=feature):
        TokenizerSpec.load(model_file(tmp_path, pieces, kind=kind))


def test_near_ties_do_not_depend_on_where_in_a_text_they_stand(tmp_path: Path) -> None:
    # sentencepiece adds scores in single precision, so 0.0003 is lost deep in a long text; that is noted, not copied.
    pieces = [
        ("▁", -3.0, NORMAL),
        ("b", -9.0, NORMAL),
        ("x", -3.0, NORMAL),
        ("y", -3.0, NORMAL),
        ("xy", -6.0003, NORMAL),
    ]
    path = model_file(tmp_path, pieces, kind="UNIGRAM")
    spec = assert_same(path, ["xy", "bxy", "b" * 50 + "xy"])
    assert [spec.tokens[i] for i in spec.encode("b" * 60_000 + "xy")[-2:]] == ["x", "y"]
    assert any("double precision" in note for note in spec.notes)


def test_rare_orders_of_marks_are_noted_for_nfkc_maps() -> None:
    spec = TokenizerSpec.load(unpack(HERE / "unigram.model.xz"))
    assert "sequences" in spec.notes[0] and "normalization" in spec.notes[0]
    reference = sentencepiece.SentencePieceProcessor(model_file=str(unpack(HERE / "unigram.model.xz")))
    rng = random.Random(3)
    pool = [
        *"abcé ①½ﬁ\t\u00a0かハ가का℡…\u3000",
        "e\u0301",
        "ﾊﾞ",
        "\r\n",
        "\u1112\u1161\u11ab",
        "👩🏽\u200d🚀",
        "A\u030a",
    ]
    for _ in range(2000):
        text = "".join(rng.choices(pool, k=rng.randint(1, 8)))
        assert spec.encode(text) == reference.encode(text), ascii(text)


def test_classes_that_number_pieces_otherwise_are_refused(tmp_path: Path) -> None:
    model_file(tmp_path, LETTERS, kind="UNIGRAM")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}', "utf-8")
    with pytest.raises(TokenizerError, match="XLMRobertaTokenizer numbers the pieces"):
        TokenizerSpec.load(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "mbart"}', "utf-8")
    with pytest.raises(TokenizerError, match="mbart numbers the pieces"):
        TokenizerSpec.load(tmp_path)


def test_added_tokens_beyond_the_model_get_the_ids_that_files_give(tmp_path: Path) -> None:
    model_file(tmp_path, LETTERS)
    size = len(LETTERS) + len(SPECIALS)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<pad>": size + 1, "<new>": size, "a": 3}), "utf-8")
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": "<pad>"}', "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    assert (spec.token_to_id("<new>"), spec.pad_id, spec.vocab_size) == (size, size + 1, size + 2)
    assert [t.special for t in spec.added_tokens if t.id >= size] == [False, True]
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<pad>": size + 5}), "utf-8")
    with pytest.raises(TokenizerError, match=f"{size + 5} in the file, {size} when loaded"):
        TokenizerSpec.load(tmp_path)


def test_t5s_extra_ids_stand_behind_the_pieces_in_reverse(tmp_path: Path) -> None:
    model_file(tmp_path, LETTERS, kind="UNIGRAM")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer", "extra_ids": 3}', "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    assert spec.tokens[-3:] == ["<extra_id_2>", "<extra_id_1>", "<extra_id_0>"]


# -- ranks ------------------------------------------------------------------------------------------------------------


def ranked_bpe(text: bytes, ranks: dict[bytes, int]) -> list[int]:
    """The rule as tiktoken has it: the best-ranked joined pair first, the leftmost of equals."""
    parts = [text[n : n + 1] for n in range(len(text))]
    while True:
        joined = [(ranks[a + b], n) for n, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        if not joined:
            return [ranks[part] for part in parts]
        at = min(joined)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def test_one_merge_a_token_encodes_as_the_ranks_do() -> None:
    rng = random.Random(12)
    for _ in range(150):
        tokens = [b"a", b"b", b"c"]
        tokens += sorted(
            {bytes(rng.choices(b"abc", k=rng.randint(2, 5))) for _ in range(14)}, key=lambda _: rng.random()
        )
        ranks = {token: rank for rank, token in enumerate(tokens)}
        names = [token.decode() for token in tokens]
        merges = [[names[a], names[b]] for a, b, _ in ranked_merges(tokens, range(len(tokens)))]
        model = {"type": "BPE", "vocab": {name: rank for rank, name in enumerate(names)}, "merges": merges}
        tokenizer = Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
        for _ in range(30):
            text = bytes(rng.choices(b"abc", k=rng.randint(1, 14)))
            assert tokenizer.encode(text.decode()).ids == ranked_bpe(text, ranks)


def test_rank_files_of_unknown_vocabularies_are_refused(tmp_path: Path) -> None:
    lines = [base64.b64encode(bytes([byte])) + b" %d" % byte for byte in range(256)]
    (tmp_path / "some.tiktoken").write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(TokenizerError, match="no vocabulary of 256 ranks is known"):
        TokenizerSpec.load(tmp_path)
    (tmp_path / "some.tiktoken").write_bytes(b"\n".join(lines[:9]) + b"\nAA==\n")
    with pytest.raises(TokenizerError, match="line 10"):
        from_tiktoken(tmp_path / "some.tiktoken")


# -- which file decides -----------------------------------------------------------------------------------------------


def test_the_most_telling_file_decides_and_is_named(tmp_path: Path, minilm_folder: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes((minilm_folder / "vocab.txt").read_bytes())
    assert TokenizerSpec.load(tmp_path).decided_by == "vocab.txt"
    model_file(tmp_path, LETTERS)
    assert TokenizerSpec.load(tmp_path).decided_by == "tokenizer.model"
    (tmp_path / "tokenizer.json").write_text(json.dumps(made.tiny("bpe")), "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    assert spec.decided_by == "tokenizer.json" and spec.folder == tmp_path
    assert any(note.startswith("vocab.txt has 30522 tokens") for note in spec.notes)


def test_folders_without_a_tokenizer_say_what_they_have(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json.*weights\.bin"):
        TokenizerSpec.load(tmp_path)


def test_two_models_in_a_folder_are_not_chosen_from(tmp_path: Path) -> None:
    for name in ("a.model", "b.model"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(TokenizerError, match=r"a\.model, b\.model; name the one"):
        TokenizerSpec.load(tmp_path)


def test_a_revision_beside_a_local_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="revision"):
        TokenizerSpec.load(tmp_path, revision="main")


def test_json_text_mappings_and_objects_are_taken(tiny_bpe: dict[str, Any]) -> None:
    text = json.dumps(tiny_bpe)
    fingerprint = TokenizerSpec.load(text).fingerprint
    assert TokenizerSpec.load(tiny_bpe).fingerprint == fingerprint
    loaded = TokenizerSpec.load(Tokenizer.from_str(text))
    assert loaded.decided_by == "Tokenizer" and loaded.tokens == TokenizerSpec.load(text).tokens

    class Fast:  # as transformers' fast tokenizers are
        backend_tokenizer = Tokenizer.from_str(text)
        eos_token = "<|im_end|>"
        name_or_path = "some/model"

    spec = TokenizerSpec.load(Fast())
    assert spec.source == "some/model" and spec.eos_id == spec.token_to_id("<|im_end|>")
    with pytest.raises(TokenizerError, match=r"builtins\.int"):
        TokenizerSpec.load(3)


def test_a_name_that_is_neither_here_nor_a_hub_id_is_one_clear_error() -> None:
    with pytest.raises(TokenizerError, match="neither a file or folder here nor a Hub id"):
        TokenizerSpec.load("./no/such/folder")


def test_a_hub_id_that_cannot_be_had_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(TokenizerError, match="'no-such/model' is no folder here and can't be had from the Hub"):
        TokenizerSpec.load("no-such/model", revision="main")


def test_wordpiece_case_follows_the_vocabulary_unless_a_config_says_so(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "A", "##b", "a"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    assert spec.encode("A a") == [7, 9]  # of two lines the last one, as BERT reads it
    assert spec.tokens[5] is None and spec.kinds()[5] == "hole"
    assert spec.encode("a", add_special_tokens=True) == [2, 9, 3]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}', "utf-8")
    assert TokenizerSpec.load(tmp_path).encode("A a") == [9, 9]


def test_vocab_json_of_a_class_we_do_not_know_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}', "utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n", "utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "OddTokenizer"}', "utf-8")
    with pytest.raises(TokenizerError, match="OddTokenizer"):
        TokenizerSpec.load(tmp_path)


def test_clip_files_give_clips_pipeline(tmp_path: Path) -> None:
    vocab = ["a", "b", "a</w>", "b</w>", "ab</w>", "ab", "<|startoftext|>", "<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(vocab)}), "utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b</w>\na b\n", "utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CLIPTokenizer"}', "utf-8")
    spec = TokenizerSpec.load(tmp_path)
    assert spec.encode("AB  aba", add_special_tokens=True) == [6, 4, 5, 2, 7]
    assert spec.unk_id == 7

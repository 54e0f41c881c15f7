"""SentencePiece's compiled character map is read, and no cut falls where it works on more than one character."""

from __future__ import annotations

import base64
import io
import struct

import made
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_texts import document, piecewise, planned, pre_tokens, sequence, texts
from sentencepiece import sentencepiece_model_pb2

from trimbed.counting.plan.precompiled import read_charsmap
from trimbed.counting.plan.regex import NotUnderstood

JOINING = list("ae\u0301\u0308\u00a0\u00b4\u0327\r\n\u200d©\u0600\u02d8º \ufe0f\u093c\u0915\u0958がか\u3099ﾊﾞ1½")


@pytest.fixture(scope="module")
def charsmap() -> str:
    """The map of nmt_nfkc, taken from a model that is trained here and now."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made.SENTENCES * 5),
        model_writer=model,
        vocab_size=300,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def test_the_map_s_keys_are_read(charsmap: str) -> None:
    table = read_charsmap(charsmap)
    assert table["①"] == "1"
    assert table["\u3000"] == " "
    assert table["e\u0301"] == "é"
    assert table["\x01"] == ""


def test_a_broken_map_is_not_understood() -> None:
    with pytest.raises(NotUnderstood, match="broken"):
        read_charsmap(base64.b64encode(struct.pack("<I", 4000) + b"xx").decode())


def test_pieces_reach_the_model_as_the_whole_document_does(charsmap: str) -> None:
    normalizers = [
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Precompiled", "precompiled_charsmap": charsmap},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    of = document(normalizer=sequence("normalizers", normalizers), pre_tokenizer=metaspace)
    plan, executor, tokenizer = planned(of)
    joining = st.lists(st.sampled_from(JOINING), max_size=8).map("".join)

    @settings(max_examples=80, deadline=None, derandomize=True, database=None)
    @given(st.one_of(texts(plan), joining))
    def check(text: str) -> None:
        assert piecewise(executor, text) == pre_tokens(tokenizer, text)

    check()

"""The reference engine where the library itself fails."""

from __future__ import annotations

import json

import made
import pyarrow as pa
import pytest

from trimbed.counting.engine import EngineRecipe, load_engine
from trimbed.counting.reference import ReferenceEngine
from trimbed.errors import TokenizerError


class Panic(BaseException):
    """As the library's: no Exception."""


class Panicking:
    """A library's tokenizer that panics at one text."""

    def encode(self, text: str, *, add_special_tokens: bool) -> None:
        if text == "bad":
            raise Panic("index out of range")

    def encode_batch_fast(self, texts: list[str], *, add_special_tokens: bool) -> None:
        for text in texts:
            self.encode(text, add_special_tokens=add_special_tokens)


def test_a_panic_of_the_library_is_an_error_that_names_the_document() -> None:
    engine = load_engine(EngineRecipe("reference", json.dumps(made.tiny("bpe"))))
    assert isinstance(engine, ReferenceEngine)
    tally = engine.tally()
    tally._tokenizer = Panicking()
    with pytest.raises(TokenizerError, match="the document that begins 'bad': index out of range"):
        tally.add(pa.array(["good", "bad", "good"]))

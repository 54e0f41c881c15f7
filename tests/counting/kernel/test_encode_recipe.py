"""A recipe that isn't sound is an error, never a crash; and text that isn't UTF-8 is nobody's to encode."""

from __future__ import annotations

import random
from functools import cache

import made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimbed.counting.encoders import EncoderRecipe, make_encoder_recipe
from trimbed.counting.kernel._kernel import PieceEncoder, RecipeError


@cache
def recipe(name: str) -> EncoderRecipe:
    made_recipe = make_encoder_recipe(made.tiny(name))
    assert isinstance(made_recipe, EncoderRecipe)
    return made_recipe


@cache
def packed(name: str) -> bytes:
    return recipe(name).pack()


@cache
def encoder_of(name: str) -> PieceEncoder:
    return PieceEncoder.make(packed(name))


@pytest.mark.parametrize("name", made.TINY)
def test_a_recipe_that_ends_early_is_refused(name: str) -> None:
    data = packed(name)
    for size in [0, 7, 8, 16, *range(17, len(data), max(1, len(data) // 40))]:
        with pytest.raises(RecipeError):
            PieceEncoder.make(data[:size])


@pytest.mark.parametrize("name", made.TINY)
def test_a_recipe_without_one_of_its_arrays_is_refused(name: str) -> None:
    whole = recipe(name)
    for missing in whole.arrays:
        rest = {key: array for key, array in whole.arrays.items() if key != missing}
        with pytest.raises(RecipeError, match="missing"):
            PieceEncoder.make(EncoderRecipe(rest, ()).pack())


@pytest.mark.parametrize("name", made.TINY)
def test_a_recipe_with_wrong_numbers_is_refused_or_still_encodes_something(name: str) -> None:
    rng = random.Random(9)
    whole = recipe(name)
    names = list(whole.arrays)
    for _ in range(40):
        arrays = dict(whole.arrays)
        key = rng.choice(names)
        array = arrays[key].copy()
        if not array.size:
            continue
        array[rng.randrange(array.size)] = np.array(rng.choice([0, 1, 255, 2**31 - 1]) % 256).astype(array.dtype)
        arrays[key] = array if rng.random() < 0.8 else array[: array.size // 2]
        try:
            encoder = PieceEncoder.make(EncoderRecipe(arrays, ()).pack())
        except RecipeError:
            continue
        for text in made.SENTENCES:
            encoder.encode(text.encode())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
@pytest.mark.parametrize("name", made.TINY)
def test_bytes_that_are_no_text_are_left_alone(name: str, data: bytes) -> None:
    encoder = encoder_of(name)
    try:
        data.decode()
    except UnicodeDecodeError:
        assert encoder.encode(data) is None


def test_many_pieces_at_once_are_encoded_as_one_by_one() -> None:
    encoder = encoder_of("bpe")
    pieces = [s.encode() for s in made.SENTENCES] + [b"", b"\xff", b"a"]
    ends = np.cumsum([len(p) for p in pieces], dtype=np.uint64)
    ids, id_ends, left = encoder.encode_many(b"".join(pieces), ends.tobytes())
    all_ids = np.frombuffer(ids, np.uint32).tolist()
    begin = 0
    for piece, word in zip(pieces, np.frombuffer(id_ends, np.uint64).tolist(), strict=True):
        expected = encoder.encode(piece)
        assert word & 1 == (expected is None)
        assert all_ids[begin : word >> 1] == (expected or [])
        begin = word >> 1
    assert left == 1
    with pytest.raises(ValueError, match="ends"):
        encoder.encode_many(b"abc", np.array([2, 1], np.uint64).tobytes())
    with pytest.raises(ValueError, match="ends"):
        encoder.encode_many(b"abc", np.array([4], np.uint64).tobytes())

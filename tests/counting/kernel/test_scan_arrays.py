"""What the scan takes: every layout of Arrow text, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scan_checks as checks

from trimbed.storage.errors import CountingError, UsageError

TEXTS = ["a bc", None, "", "日本語 and more than sixteen bytes", "x", None, "é e", "d" * 12, "d" * 13, "last"]
PRESENT = [text for text in TEXTS if text is not None]
KINDS = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.fixture(scope="module")
def engine() -> Any:
    return checks.kernel(checks.make_plan())


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return checks.executed(checks.make_plan(), PRESENT)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_layout_of_text_counts_the_same(engine: Any, expected: np.ndarray, kind: pa.DataType) -> None:
    result = checks.count(engine, checks.text_array(TEXTS, kind))
    assert np.array_equal(result.counts, expected)
    assert (result.documents, result.empty_documents) == (len(PRESENT), 1)
    assert result.bytes == sum(len(text.encode()) for text in PRESENT)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("start", "length"), [(0, 3), (1, 5), (3, 7), (9, 1), (4, 0), (10, 0)])
def test_a_slice_is_counted_without_its_neighbours(engine: Any, kind: pa.DataType, start: int, length: int) -> None:
    own = [text for text in TEXTS[start : start + length] if text is not None]
    result = checks.count(engine, checks.text_array(TEXTS, kind).slice(start, length))
    assert np.array_equal(result.counts, checks.executed(checks.make_plan(), own))
    assert result.documents == len(own)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_arrays_of_nothing_count_nothing(engine: Any, kind: pa.DataType) -> None:
    arrays = [pa.array([], kind), pa.array([None, None], kind), pa.array(["", ""], kind), pa.nulls(3, kind)]
    result = checks.count(engine, *arrays)
    assert result.tokens == 0
    assert (result.documents, result.empty_documents, result.bytes) == (2, 2, 0)


def test_chunked_arrays_and_record_batch_columns_are_taken(engine: Any, expected: np.ndarray) -> None:
    chunked = pa.chunked_array([TEXTS[:4], [], TEXTS[4:]], pa.string())
    assert np.array_equal(checks.count(engine, chunked).counts, expected)
    batch = pa.record_batch({"text": checks.text_array(TEXTS)})
    assert np.array_equal(checks.count(engine, batch.column("text")).counts, expected)


def test_an_array_may_be_split_anywhere(engine: Any, expected: np.ndarray) -> None:
    array = checks.text_array(TEXTS)
    for size in (1, 2, 3, 7):
        parts = [array.slice(start, size) for start in range(0, len(array), size)]
        assert np.array_equal(checks.count(engine, *parts).counts, expected)


def test_text_at_the_very_end_of_a_buffer_is_read_and_no_further(engine: Any) -> None:
    # A buffer of exactly the text's bytes; the address checkers of the fuzz driver see the same arrays.
    for text in ("a", "日", "0123456789abcde", "0123456789abcdef", "a b", "é"):
        data = text.encode()
        array = pa.Array.from_buffers(
            pa.string(), 1, [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(bytearray(data))]
        )
        assert np.array_equal(checks.count(engine, array).counts, checks.executed(checks.make_plan(), [text]))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2]),
        pa.array([b"a"]),
        pa.array([b"a"], pa.binary_view()),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([["a"]]),
        pa.array([None, None]),
        pa.array([{"text": "a"}]),
        pa.chunked_array([[1, 2]]),
    ],
    ids=lambda array: str(array.type),
)
def test_other_arrays_are_refused(engine: Any, array: Any) -> None:
    with pytest.raises(UsageError, match="Arrow array of strings"):
        engine.tally().add(array)


@pytest.mark.parametrize("thing", [["a"], "a", np.array(["a"]), None])
def test_what_is_no_arrow_array_is_refused(engine: Any, thing: Any) -> None:
    with pytest.raises(UsageError, match="must be an Arrow array"):
        engine.tally().add(thing)


BROKEN = [
    *[b"\x80", b"a\xc3", b"\xc3(", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf0\x80\x80\xaf"],
    *[b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xe6\x97", b"\xf0\x9f\x98", b"ok then \xe6\x97"],
    *[b"a" * 40 + b"\xc3", b"a" * 40 + b"\xa0" + b"b" * 40],
]


@pytest.mark.parametrize("data", BROKEN, ids=repr)
def test_bytes_that_are_not_utf8_are_an_error_that_names_the_row(engine: Any, data: bytes) -> None:
    offsets = np.array([0, 2, 2, 2 + len(data)], np.int32)
    array = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"ab" + data)])
    tally = engine.tally()
    with pytest.raises(CountingError, match="row 2: the text is not valid UTF-8"):
        tally.add(array)
    with pytest.raises(UsageError, match="finished or failed"):
        tally.finish()


def test_offsets_that_contradict_themselves_are_an_error(engine: Any) -> None:
    for offsets in ([0, 5, 3], [2, 1, 3]):
        buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"abcdef")]
        with pytest.raises(CountingError, match="broken offsets"):
            engine.tally().add(pa.Array.from_buffers(pa.string(), 2, buffers))


def test_columns_of_another_type_are_refused_rather_than_converted() -> None:
    from trimbed.counting.kernel import _kernel

    good = {
        "classes": np.zeros(0x110000, np.uint8),
        "cut": np.zeros((1, 1), np.uint8),
        "joined": np.zeros(0, np.uint64),
        "added": [],
        "word": np.zeros(0, np.uint8),
        "initial": False,
        "initial_once": False,
        "initial_after_stage_1": True,
    }
    plan = _kernel.Plan(**good)
    wrong = {"classes": np.int8, "cut": np.int64, "joined": np.int64, "word": np.bool_}
    for name, dtype in wrong.items():
        with pytest.raises(TypeError):
            _kernel.Plan(**{**good, name: good[name].astype(dtype)})  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        _kernel.Plan(**{**good, "classes": np.zeros(2 * 0x110000, np.uint8)[::2]})
    tally = _kernel.Tally(
        plan=plan, table=_kernel.Table(bytes=1 << 20, pieces=0), encoder=None, id_count=4, keep_pieces=0
    )
    for ids, sizes in [(np.int64, np.int64), (np.uint32, np.int32), (np.uint32, np.uint64), (np.float64, np.int64)]:
        with pytest.raises(TypeError):
            tally.resolve(np.zeros(0, ids), np.zeros(0, sizes))


def test_tables_that_do_not_fit_together_are_refused() -> None:
    from trimbed.counting.kernel import _kernel

    good = {
        "classes": np.zeros(0x110000, np.uint8),
        "cut": np.zeros((2, 2), np.uint8),
        "joined": np.zeros(0, np.uint64),
        "added": [],
        "word": np.zeros(0, np.uint8),
        "initial": False,
        "initial_once": False,
        "initial_after_stage_1": True,
    }
    token = (b"x", 1, True, False, False, 0)
    for wrong in (
        {"classes": np.zeros(5, np.uint8)},
        {"classes": np.full(0x110000, 2, np.uint8)},
        {"cut": np.zeros((2, 3), np.uint8)},
        {"cut": np.full((2, 2), 3, np.uint8)},
        {"added": [token]},
        {"added": [(b"", 1, False, False, False, 0)]},
        {"added": [(b"x", 1, False, False, False, 2)]},
        {"added": [(b"x", 1, False, False, False, 0), (b"x", 2, False, False, False, 0)]},
    ):
        with pytest.raises(ValueError):
            _kernel.Plan(**{**good, **wrong})

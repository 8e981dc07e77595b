"""`_core.LengthIndex` and the packer's functions: the arrays that cross the border to the core."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from datacursor import _core
from datacursor.errors import ArgumentError, CorpusError

Ints = np.ndarray[Any, np.dtype[np.int64]]


def ints(*numbers: int) -> Ints:
    return np.array(numbers, dtype=np.int64)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def unaligned(count: int, dtype: str) -> Any:
    """Return zeros that begin one byte off."""
    size = np.dtype(dtype).itemsize
    return np.zeros(count * size + 1, dtype=np.uint8)[1:].view(dtype)


def index_of(*lengths: int) -> _core.LengthIndex:
    return _core.LengthIndex([(None, ints(*lengths))])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_offsets_may_have_four_dtypes(dtype: str) -> None:
    offsets = np.array([0, 5, 8, 8], dtype=dtype)
    index = _core.LengthIndex([(offsets[:-1], offsets[1:])])
    assert index.lengths(0, 3).tolist() == [5, 3, 0]
    assert (index.num_documents, index.num_tokens) == (3, 8)
    assert (index.num_empty, index.longest) == (1, 5)


def test_shards_may_differ_in_dtype_and_have_no_begins() -> None:
    offsets = np.array([2, 3, 9], dtype=np.uint32)
    index = _core.LengthIndex([(None, ints(4)), (offsets[:-1], offsets[1:]), (None, ints())])
    assert index.lengths(0, 3).tolist() == [4, 1, 6]
    assert index.lengths(1, 1).tolist() == [1]
    assert index.lengths(3, 0).dtype == np.int64


def test_an_index_keeps_its_arrays_alive() -> None:
    index = _core.LengthIndex([(None, np.arange(100_000))])
    gc.collect()
    np.full(100_000, 7)  # would take the memory if it were free
    assert index.lengths(0, 100_000).sum() == 99_999 * 50_000


@pytest.mark.parametrize(
    ("begins", "ends", "message"),
    [
        (None, np.zeros(2, dtype=np.int16), r"shards\[0\] ends must be int32, .* got int16\[2\]"),
        (None, np.zeros(2), "got float64"),
        (None, np.zeros(2, dtype=">i8"), "got >i8"),
        (
            None,
            np.zeros((1, 2), dtype=np.int64),
            r"ends must be a 1-D array of int64, got .*\[1, 2",
        ),
        (None, np.zeros(4, dtype=np.int64)[::2], "ends must be C-contiguous, got a strided"),
        (None, unaligned(2, "i8"), "ends must be aligned to 8 bytes, got an unaligned"),
        (np.zeros(2, dtype=np.int32), ints(1, 2), "begins must be a 1-D array of int64, got int32"),
        (np.zeros(4, dtype=np.int64)[::2], ints(1, 2), "begins must be C-contiguous"),
        (ints(0), ints(1, 2), "must have one length, got 1 and 2"),
    ],
)
def test_offsets_that_cannot_be_read_are_named(begins: Any, ends: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        _core.LengthIndex([(begins, ends)])


@pytest.mark.parametrize("shards", [[(None, [1, 2])], [(None,)], [ints(1)], [None], None])
def test_shards_are_pairs_of_arrays(shards: Any) -> None:
    with pytest.raises(TypeError):
        _core.LengthIndex(shards)


def test_a_document_that_ends_before_it_begins_is_named() -> None:
    with pytest.raises(CorpusError, match=r"document 1 must have .*, got begin=5 and end=4"):
        _core.LengthIndex([(ints(0, 5), ints(5, 4))])


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 4), (3, 1), (0, -1), (2**62, 1)])
def test_lengths_that_do_not_exist_are_refused(first: int, count: int) -> None:
    with pytest.raises(ArgumentError, match=rf"got (first|count)={first if count == 1 else count}"):
        index_of(1, 2, 3).lengths(first, count)


# -- concat, count_tokens, locate_token ------------------------------------------------------------


def concat(**changes: Any) -> tuple[int, int, int, int, int]:
    arguments: dict[str, Any] = {
        "documents": ints(0, 1, 2),
        "seq_len": 4,
        "num_virtual": 0,
        "keep_empty": False,
        "offset": 0,
        "filled": 0,
        "spans": np.zeros((5, 3), dtype=np.int64),
        "row_ends": np.zeros(2, dtype=np.int64),
    }
    return _core.concat(index_of(3, 2, 5), **(arguments | changes))


def test_concat_says_how_far_it_came() -> None:
    spans, row_ends = np.zeros((5, 3), dtype=np.int64), np.zeros(2, dtype=np.int64)
    assert concat(spans=spans, row_ends=row_ends) == (2, 3, 0, 4, 2)
    assert spans[:4].tolist() == [[0, 0, 3], [1, 0, 1], [1, 1, 2], [2, 0, 3]]
    assert row_ends.tolist() == [2, 4]
    rest = concat(documents=ints(2), offset=3, spans=spans, row_ends=row_ends)
    assert rest == (1, 0, 2, 1, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("documents", np.zeros(2, dtype=np.int32)),
        ("documents", np.zeros((1, 2), dtype=np.int64)),
        ("documents", np.zeros(4, dtype=np.int64)[::2]),
        ("documents", unaligned(2, "i8")),
        ("spans", np.zeros((5, 2), dtype=np.int64)),
        ("spans", np.zeros(15, dtype=np.int64)),
        ("spans", np.zeros((5, 3), dtype=np.uint64)),
        ("spans", np.zeros((3, 5), dtype=np.int64).T),
        ("spans", read_only(np.zeros((5, 3), dtype=np.int64))),
        ("spans", np.zeros((4, 3), dtype=np.int64)),
        ("row_ends", np.zeros((1, 2), dtype=np.int64)),
        ("row_ends", read_only(np.zeros(2, dtype=np.int64))),
        ("row_ends", unaligned(2, "i8")),
        ("seq_len", 0),
        ("num_virtual", 3),
        ("offset", -1),
        ("filled", 4),
    ],
)
def test_concat_names_a_wrong_argument(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must"):
        concat(**{name: value})


def test_tokens_are_counted_and_located() -> None:
    index, totals = index_of(3, 0, 2), np.zeros(2, dtype=np.int64)
    rule: Any = {"num_virtual": 1, "keep_empty": False}
    _core.count_tokens(index, ints(2, 1, 0), **rule, stride=2, before=10, totals=totals)
    assert totals.tolist() == [13, 17]
    assert _core.locate_token(index, ints(2, 1, 0), **rule, target=3) == (1, 0)
    assert _core.locate_token(index, ints(2, 1, 0), **rule, target=5) == (2, 2)
    with pytest.raises(ArgumentError, match=r"^totals must have 3 entries, got 2"):
        _core.count_tokens(index, ints(2, 1, 0), **rule, stride=1, before=0, totals=totals)
    with pytest.raises(ArgumentError, match=r"^totals must be writable"):
        _core.count_tokens(
            index, ints(2, 1, 0), **rule, stride=2, before=0, totals=read_only(totals)
        )
    with pytest.raises(ArgumentError, match=r"^documents must be a 1-D array"):
        _core.locate_token(index, np.zeros((1, 1), dtype=np.int64), **rule, target=1)

"""`PackingOptions`: every option that is wrong is named with its value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from datacursor.errors import ArgumentError
from datacursor.packing_options import PackingOptions
from datacursor.plan import PackingPlan

BEST_FIT: dict[str, Any] = {"packing": "best_fit", "long_documents": "split"}


def plan(seq_len: int = 8, **options: Any) -> PackingPlan:
    return PackingPlan([3, 2, 5], seq_len=seq_len, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"packing": "magic"}, "packing must be one of .*, got packing='magic'"),
        ({"packing": None}, "got packing=None"),
        ({"packing": "best_fit"}, "long_documents must be chosen .* 'split', 'truncate', 'drop'"),
        (BEST_FIT | {"long_documents": "cut"}, "got long_documents='cut'"),
        (BEST_FIT | {"long_documents": 3}, "got long_documents=3"),
        (BEST_FIT | {"item_order": "longest"}, "item_order must be .*got item_order='longest'"),
        (BEST_FIT | {"item_order": 1}, "got item_order=1"),
        (BEST_FIT | {"max_documents": 0}, "got max_documents=0"),
        (BEST_FIT | {"max_documents": 2**31}, "got max_documents=2147483648"),
        (BEST_FIT | {"align": 0}, "got align=0"),
        (BEST_FIT | {"align": 3}, "align must divide seq_len=8, got align=3"),
        (BEST_FIT | {"align": 16}, "align must divide seq_len=8, got align=16"),
        (BEST_FIT | {"min_fragment": 0}, "got min_fragment=0"),
        (BEST_FIT | {"min_fragment": 9}, r"min_fragment must be in \[1, 8\], got min_fragment=9"),
        (BEST_FIT | {"window_documents": 0}, "got window_documents=0"),
        (BEST_FIT | {"window_documents": 2**31}, "got window_documents=2147483648"),
        (BEST_FIT | {"cost_groups": 0}, "got cost_groups=0"),
        (BEST_FIT | {"cost_groups": 2, "shuffle": False}, "shuffled: .*cost_groups=2 with Seq"),
        (BEST_FIT | {"cost_groups": 2, "order": [2, 0, 1]}, "shuffled: .*cost_groups=2 with Sub"),
        (BEST_FIT | {"tail": "drop"}, "tail must be 'pad' with packing='best_fit'.*'drop'"),
        (BEST_FIT | {"seq_len": 2**24 + 1}, r"seq_len must be in \[1, 16777216\] .*=16777217"),
        ({"packing": "chunk", "long_documents": "drop"}, "'split' .*got long_documents='drop'"),
        ({"long_documents": "truncate"}, "packing='concat', got long_documents='truncate'"),
    ],
)
def test_a_value_that_is_wrong_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan(**options)


@pytest.mark.parametrize("name", ["max_documents", "align", "min_fragment", "window_documents"])
@pytest.mark.parametrize("value", ["2", 2.0, True])
def test_a_wrong_type_is_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} must be an integer, got {name}={value!r}"):
        plan(**BEST_FIT, **{name: value})


@pytest.mark.parametrize("name", ["align", "min_fragment"])
def test_none_is_no_number(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}=None"):
        plan(**(BEST_FIT | {name: None}))


@pytest.mark.parametrize("packing", ["concat", "chunk"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("item_order", "arrival"),
        ("max_documents", 2),
        ("align", 4),
        ("min_fragment", 2),
        ("window_documents", 100),
    ],
)
def test_an_option_of_best_fit_is_refused_elsewhere(packing: str, name: str, value: Any) -> None:
    message = f"{name} needs packing='best_fit', got {name}={value!r} with packing='{packing}'"
    with pytest.raises(ArgumentError, match=message):
        plan(packing=packing, **{name: value})


def test_numpy_integers_are_kept_as_plain_ones() -> None:
    options = PackingOptions(**BEST_FIT, align=np.int64(4), max_documents=np.uint8(3))  # type: ignore[arg-type]
    assert type(options.align) is type(options.max_documents) is int


@pytest.mark.parametrize(
    ("options", "item_order"),
    [
        ({}, "decreasing"),
        ({"max_documents": 3}, "arrival"),
        ({"max_documents": 3, "item_order": "decreasing"}, "decreasing"),
        ({"item_order": "arrival"}, "arrival"),
    ],
)
def test_documents_are_placed_as_they_arrive_where_a_row_holds_few(
    options: dict[str, Any], item_order: str
) -> None:
    assert plan(**BEST_FIT, **options).parameters["item_order"] == item_order


@pytest.mark.parametrize(
    ("lengths", "seq_len", "expected"),
    [
        ([100] * 10, 2048, 2048 * 2048 // 100),
        ([100] * 10, 4, 2**14),
        ([1] * 10, 2**20, 2**20),
        ([0] * 10, 4, 2**14),
        ([10**9], 4, 2**14),
        ([7, 8], 1000, 2048 * 1000 // 7),
    ],
)
def test_a_window_holds_about_2048_rows_of_documents(
    lengths: list[int], seq_len: int, expected: int
) -> None:
    chosen = PackingPlan(lengths, seq_len=seq_len, **BEST_FIT)
    assert chosen.parameters["window_documents"] == expected


def test_parameters_are_what_decides_the_rows() -> None:
    options = BEST_FIT | {"align": 4, "min_fragment": 2, "max_documents": 3, "shuffle": False}
    parameters = plan(**options, window_documents=50).parameters
    assert parameters == {
        "long_documents": "split",
        "window_documents": 50,
        "item_order": "arrival",
        "max_documents": 3,
        "align": 4,
        "min_fragment": 2,
        "shuffle_rows": False,
        "bos": None,
        "eos": None,
        "keep_empty": False,
    }
    chunks = plan(packing="chunk", tail="drop").parameters
    assert (chunks["tail"], chunks["shuffle_rows"]) == ("drop", True)
    assert [plan(**o).packing_id for o in ({}, BEST_FIT, {"packing": "chunk"})] == [1, 2, 3]

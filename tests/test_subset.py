"""`Subset`: equal to the reference, one to one on what it was given, strict."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import laws
import make_vectors
import numpy as np
import order_vectors
import pytest
import reference_orders
from hypothesis import given
from hypothesis import strategies as st

from datacursor.errors import ArgumentError
from datacursor.subset import Subset

LARGEST = 2**63 - 1
LAST_EPOCH = 2**40 - 1


def indices_of(words: list[str], num_samples: int) -> list[int]:
    numbers = [int(word) for word in words[1:]]
    if words[0] == "indices":
        return numbers
    count, factor = numbers
    return [i * factor % num_samples for i in range(count)]


def test_golden_indices() -> None:
    for name, lines in order_vectors.cases(make_vectors.read("subset.txt")):
        num_samples, seed, shuffle = (int(word) for word in lines[1][1:])
        indices = indices_of(lines[0], num_samples)
        order = Subset(indices, num_samples=num_samples, seed=seed, shuffle=bool(shuffle))
        for line in lines[2:]:
            epoch, position, index = map(int, line[1:])
            assert order.index_at(epoch, position) == index, (name, line)
            assert order.position_of(epoch, index) == position, (name, line)


@given(
    data=st.data(),
    indices=st.lists(st.integers(0, LARGEST - 1), min_size=1, max_size=50, unique=True),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, LAST_EPOCH),
    shuffle=st.booleans(),
)
def test_any_indices_give_what_the_reference_gives(
    data: st.DataObject, indices: list[int], seed: int, epoch: int, shuffle: bool
) -> None:
    order = Subset(indices, num_samples=LARGEST, seed=seed, shuffle=shuffle)
    expected = reference_orders.Subset(indices, LARGEST, seed, shuffle)
    assert order.indices(epoch, 0, len(indices)).tolist() == expected.indices(
        epoch, 0, len(indices)
    )
    laws.one_to_one(order, epoch, indices)
    cut = data.draw(st.integers(0, len(indices)))
    laws.split_invariance(order, epoch, 0, [cut, len(indices) - cut])


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 20_000])
def test_many_indices_come_once_each(count: int) -> None:
    indices = (np.arange(count) * 7 % (7 * count + 1)).tolist()
    for given_indices in (indices, indices[::-1]):
        for shuffle in (False, True):
            order = Subset(given_indices, num_samples=7 * count + 1, shuffle=shuffle)
            laws.one_to_one(order, 2, indices)


def test_a_mask_is_its_true_places() -> None:
    mask = np.arange(100) % 3 == 1
    order = Subset(mask, seed=4)
    assert order == Subset(np.flatnonzero(mask), num_samples=100, seed=4)
    assert order.num_samples == 100
    laws.one_to_one(order, 1, range(1, 100, 3))
    assert Subset([False, True]).num_samples == 2


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.uint64, ">i8"])
def test_any_integers_are_indices(dtype: Any) -> None:
    order = Subset(np.array([7, 3, 100], dtype=dtype), num_samples=101, seed=1)
    assert order == Subset([7, 3, 100], num_samples=101, seed=1)
    assert order.indices(3, 0, 3).tolist() == Subset([7, 3, 100], seed=1).indices(3, 0, 3).tolist()


def test_views_are_taken_and_not_kept() -> None:
    base = np.arange(20)
    base.flags.writeable = False
    order = Subset(base[::-3], shuffle=False)
    assert order.indices(0, 0, 7).tolist() == [19, 16, 13, 10, 7, 4, 1]
    mine = np.array([5, 6, 7])
    order = Subset(mine, shuffle=False)
    mine[:] = 0
    assert pickle.loads(pickle.dumps(order)).indices(0, 0, 3).tolist() == [5, 6, 7]
    assert copy.deepcopy(order) == order != Subset([5, 7, 6], shuffle=False)


@pytest.mark.parametrize("shuffle", [False, True])
def test_what_is_left_out_has_no_position(shuffle: bool) -> None:
    order = Subset([7, 3, 5], num_samples=10, shuffle=shuffle)
    for index in (0, 4, 9):
        with pytest.raises(ArgumentError, match=rf"index must be in the subset, got index={index}"):
            order.position_of(0, index)
    with pytest.raises(ArgumentError, match="index=10"):
        order.position_of(0, 10)
    with pytest.raises(ArgumentError, match="position=3"):
        order.index_at(0, 3)


@pytest.mark.parametrize(
    ("indices", "options", "error", "message"),
    [
        ([], {}, ArgumentError, r"indices .*\(0,\)"),
        (np.zeros(0, dtype=np.int64), {}, ArgumentError, r"indices .*\(0,\)"),
        ([[1, 2]], {}, ArgumentError, r"indices .*\(1, 2\)"),
        (3, {}, ArgumentError, r"indices .*\(\)"),
        ([1, [2]], {}, TypeError, "indices must be .*inhomogeneous"),
        ([1.0, 2.0], {}, TypeError, "indices .*float64"),
        (["1"], {}, TypeError, "indices .*<U1"),
        ([1, None], {}, TypeError, "indices .*object"),
        ([2**70], {}, TypeError, "indices .*object"),
        (None, {}, TypeError, r"indices .*object"),
        ([3, 1, 3], {}, ArgumentError, "indices must not repeat, got 3 twice"),
        ([3, 3], {}, ArgumentError, "indices must not repeat, got 3 twice"),
        ([1, -2], {}, ArgumentError, "indices must be .*got -2"),
        ([1, 10], {"num_samples": 10}, ArgumentError, "10"),
        (np.array([2**63], dtype=np.uint64), {}, ArgumentError, "got 9223372036854775808"),
        ([2**63 - 1], {}, ArgumentError, "got 9223372036854775807"),
        ([False, False], {}, ArgumentError, "indices must .*True"),
        ([True, False], {"num_samples": 3}, ArgumentError, r"len\(mask\)=2, num_samples=3"),
        ([1], {"num_samples": 0}, ArgumentError, "num_samples=0"),
        ([1], {"num_samples": 2.0}, TypeError, "num_samples=2.0"),
        ([1], {"num_samples": 2**63}, ArgumentError, "num_samples=9223372036854775808"),
        ([1], {"seed": -1}, ArgumentError, "seed=-1"),
        ([1], {"shuffle": 1}, TypeError, "shuffle=1"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    indices: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Subset(indices, **options)

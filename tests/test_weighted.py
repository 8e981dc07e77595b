"""`Weighted`: equal to the reference, in proportion to its weights, strict."""

from __future__ import annotations

import copy
import pickle
import struct
from typing import Any

import laws
import make_vectors
import numpy as np
import order_vectors
import pytest
import reference_orders
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from datacursor.errors import ArgumentError
from datacursor.weighted import Weighted

LARGEST = 2**63 - 1
LAST_EPOCH = 2**40 - 1


def weights_of(words: list[str]) -> list[float]:
    if words[0] == "weights":
        return [struct.unpack(">d", bytes.fromhex(word))[0] for word in words[1:]]
    count, modulus = map(int, words[1:])
    return [float(i * i % modulus) for i in range(count)]


def test_golden_indices() -> None:
    for name, lines in order_vectors.cases(make_vectors.read("weighted.txt")):
        num_positions, seed = map(int, lines[1][1:])
        order = Weighted(weights_of(lines[0]), seed, num_positions=num_positions)
        for line in lines[2:]:
            epoch, position, index = map(int, line[1:])
            assert order.index_at(epoch, position) == index, (name, line)
            assert order.indices(epoch, position, 1).tolist() == [index], (name, line)


weights = st.one_of(
    st.just(0.0), st.floats(0, 1), st.floats(0, 1e300), st.floats(0, 1e-300), st.integers(0, 9)
)


@settings(max_examples=80)
@given(
    data=st.data(),
    given_weights=st.lists(weights, min_size=1, max_size=40).filter(lambda w: sum(w) > 0),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, LAST_EPOCH),
)
def test_any_weights_give_what_the_reference_gives(
    data: st.DataObject, given_weights: list[float], seed: int, epoch: int
) -> None:
    first = data.draw(st.integers(0, LARGEST - 40))
    order = Weighted(given_weights, seed, num_positions=LARGEST)
    expected = reference_orders.Weighted(given_weights, LARGEST, seed)
    assert order.indices(epoch, first, 40).tolist() == expected.indices(epoch, first, 40)
    laws.same_by_every_way(order, epoch, first, 10)
    laws.split_invariance(order, epoch, first, [7, 0, 30])


def test_many_uneven_weights_give_what_the_reference_gives() -> None:
    for count in (300, 5000):
        uneven = (np.random.default_rng(1).random(count) ** 20).tolist()
        expected = reference_orders.Weighted(uneven, 3000, seed=4)
        assert Weighted(uneven, 4, num_positions=3000).indices(2, 0, 3000).tolist() == (
            expected.indices(2, 0, 3000)
        )


def test_draws_are_in_proportion() -> None:
    given_weights = np.array([1, 0, 3, 7, 0.5, 20, 2, 0, 9])
    order = Weighted(given_weights, seed=1, num_positions=200_000)
    for epoch in range(3):
        counts = np.bincount(order.indices(epoch, 0, 200_000), minlength=9)
        expected = given_weights * 200_000 / given_weights.sum()
        drawn = expected > 0
        assert counts[~drawn].sum() == 0
        statistic = ((counts - expected)[drawn] ** 2 / expected[drawn]).sum()
        assert statistic < 35.9  # chi-square, 6 degrees of freedom, p = 3e-6


def test_draws_of_neighbouring_positions_are_independent() -> None:
    pairs = Weighted([1.0] * 4, seed=2, num_positions=80_000).indices(0, 0, 80_000).reshape(-1, 2)
    counts = np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=16)
    assert ((counts - 2500) ** 2 / 2500).sum() < 52.8  # 15 degrees of freedom, p = 4e-6


def test_a_shorter_epoch_is_the_beginning_of_a_longer_one() -> None:
    given_weights = [3.0, 1.0, 2.0]
    longest = Weighted(given_weights, 5, num_positions=LARGEST).indices(3, 0, 500)
    for num_positions in (1, 3, 100, 500):
        order = Weighted(given_weights, 5, num_positions=num_positions)
        assert np.array_equal(order.indices(3, 0, num_positions), longest[:num_positions])


def test_seeds_and_epochs_are_separate_keys() -> None:
    keys = [(0, 0), (0, 1), (1, 0), (1, 1), (2**64 - 1, 0), (0, LAST_EPOCH)]
    heads = {tuple(Weighted([1.0] * 8, seed).indices(epoch, 0, 8).tolist()) for seed, epoch in keys}
    assert len(heads) == len(keys)


@pytest.mark.parametrize(
    "same",
    [
        (1, 2, 4),
        np.array([1, 2, 4], dtype=np.int32),
        np.array([1, 2, 4], dtype=np.uint8),
        np.array([1, 2, 4], dtype=np.float16),
        np.array([1, 2, 4], dtype=">f8"),
        np.array([4, 2, 1.0])[::-1],
    ],
)
def test_numbers_of_any_kind_are_weights(same: ArrayLike) -> None:
    order = Weighted(same, seed=3, num_positions=50)
    expected = Weighted([1.0, 2.0, 4.0], seed=3, num_positions=50)
    assert order == expected
    assert order.indices(1, 0, 50).tolist() == expected.indices(1, 0, 50).tolist()


def test_a_copy_keeps_weights_of_its_own() -> None:
    mine = np.array([1.0, 5.0])
    order = Weighted(mine, seed=3, num_positions=50)
    before = order.indices(1, 0, 50).tolist()
    mine[:] = [0, 1]
    for other in (order, copy.deepcopy(order), pickle.loads(pickle.dumps(order))):
        assert other.indices(1, 0, 50).tolist() == before
        assert other == Weighted([1.0, 5.0], seed=3, num_positions=50)


def test_there_is_no_inverse() -> None:
    with pytest.raises(ArgumentError, match="no position_of: index=1 may occur many times"):
        Weighted([1.0, 2.0]).position_of(0, 1)
    with pytest.raises(ArgumentError, match="index=2"):
        Weighted([1.0, 2.0]).position_of(0, 2)


@pytest.mark.parametrize(
    ("given_weights", "options", "error", "message"),
    [
        ([], {}, ArgumentError, r"weights .*\(0,\)"),
        ([[1.0]], {}, ArgumentError, r"weights .*\(1, 1\)"),
        (1.0, {}, ArgumentError, r"weights .*\(\)"),
        ([1, [2]], {}, TypeError, "weights must be .*inhomogeneous"),
        (["1"], {}, TypeError, "weights .*<U1"),
        ([None], {}, TypeError, "weights .*object"),
        ([True], {}, TypeError, "weights .*bool"),
        ([1j], {}, TypeError, "weights .*complex"),
        ([2**70], {}, TypeError, "weights .*object"),
        ([1, float("nan")], {}, ArgumentError, r"weights\[1\]=nan"),
        ([float("inf")], {}, ArgumentError, r"weights\[0\]=inf"),
        ([1, 2, -3.5], {}, ArgumentError, r"weights\[2\]=-3.5"),
        ([-1e-300, 1], {}, ArgumentError, r"weights\[0\]=-1e-300"),
        ([0, 0.0], {}, ArgumentError, "weights must have a sum above 0.*sum of 0"),
        ([1e308, 1e308], {}, ArgumentError, "weights must have .*finite.*sum of inf"),
        ([1], {"num_positions": 0}, ArgumentError, "num_positions=0"),
        ([1], {"num_positions": 2**63}, ArgumentError, "num_positions=9223372036854775808"),
        ([1], {"num_positions": 1.0}, TypeError, "num_positions=1.0"),
        ([1], {"seed": 2**64}, ArgumentError, "seed=18446744073709551616"),
        ([1], {"seed": True}, TypeError, "seed=True"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    given_weights: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Weighted(given_weights, **options)

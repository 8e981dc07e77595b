"""Orders: equal to the reference, lawful at every size, and strict about their arguments."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import laws
import make_vectors
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from datacursor.errors import ArgumentError
from datacursor.order import Order, Sequential, Shuffle

LARGEST = 2**63 - 1
LAST_EPOCH = 2**40 - 1

sizes = st.one_of(
    st.integers(1, 64),
    st.integers(1, 10**4),
    st.integers(1, LARGEST),
    st.builds(lambda k, d: 2**k + d, st.integers(2, 62), st.sampled_from([-1, 0, 1])),
)
seeds = st.integers(0, 2**64 - 1)
epochs = st.integers(0, LAST_EPOCH)


def powers_and_neighbours(low: int, high: int) -> list[int]:
    """Return 2**k - 1, 2**k and 2**k + 1 for every k in [low, high]."""
    return [2**k + d for k in range(low, high + 1) for d in (-1, 0, 1)]


class Reversed(Order):
    """An order a user could write: last sample first."""

    order_id = 0x8000

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        out[:] = self.num_samples - 1 - np.arange(first, first + len(out))

    def position_of(self, epoch: int, index: int) -> int:
        return self.num_samples - 1 - index


# -- Equal to the reference ------------------------------------------------------------------------


def test_shuffle_gives_the_golden_indices() -> None:
    for line in make_vectors.read("shuffle.txt"):
        num_samples, seed, epoch, position, index = map(int, line)
        order = Shuffle(num_samples, seed)
        assert order.index_at(epoch, position) == index, line
        assert order.position_of(epoch, index) == position, line
        assert order.indices(epoch, position, 1).tolist() == [index], line


@given(data=st.data(), num_samples=sizes, seed=seeds, epoch=epochs)
def test_shuffle_equals_the_reference_at_any_argument(
    data: st.DataObject, num_samples: int, seed: int, epoch: int
) -> None:
    number = data.draw(st.integers(0, num_samples - 1))
    order, expected = Shuffle(num_samples, seed), reference.Shuffle(num_samples, seed)
    assert order.index_at(epoch, number) == expected.index_at(epoch, number)
    assert order.position_of(epoch, number) == expected.position_of(epoch, number)


@settings(max_examples=50)
@given(data=st.data(), num_samples=sizes, seed=seeds, epoch=epochs)
def test_fill_equals_the_reference_over_any_range(
    data: st.DataObject, num_samples: int, seed: int, epoch: int
) -> None:
    count = data.draw(st.integers(0, min(num_samples, 300)))
    first = data.draw(st.integers(0, num_samples - count))
    expected = reference.Shuffle(num_samples, seed).indices(epoch, first, count)
    assert laws.filled(Shuffle(num_samples, seed), epoch, first, count).tolist() == expected


@pytest.mark.parametrize("num_samples", [4096, 4097, 5000, 8192, 8193, 65537])
def test_whole_order_equals_the_reference(num_samples: int) -> None:
    expected = reference.Shuffle(num_samples, seed=11).indices(3, 0, num_samples)
    assert laws.filled(Shuffle(num_samples, seed=11), 3, 0, num_samples).tolist() == expected


@pytest.mark.parametrize(
    "num_samples", [5000, 10**6 + 3, 2**31 - 5, 2**31 + 1, 10**12 + 1, 2**62 + 12345]
)
def test_fill_equals_the_reference_where_cycles_are_walked(num_samples: int) -> None:
    network = reference.Network.of(num_samples, 5, 2)
    walked = 0
    for outside in range(num_samples, num_samples + 4):  # the network leads from `value` out there
        value = network.decrypt(outside)
        if value < num_samples:
            position = network.exchange((value - network.offset) % num_samples)
            assert_window_is_right(num_samples, position)
            walked += 1
    assert walked > 0


@pytest.mark.parametrize("num_samples", [5000, 2**31, 2**31 + 1, 10**12, LARGEST])
def test_fill_equals_the_reference_where_the_rotation_wraps(num_samples: int) -> None:
    network = reference.Network.of(num_samples, 5, 2)
    assert_window_is_right(num_samples, -network.offset % num_samples)


def assert_window_is_right(num_samples: int, position: int) -> None:
    """Compare 41 positions about one; 20 before it, so that it stands inside a vector block."""
    first = min(max(position - 20, 0), num_samples - 41)
    expected = reference.Shuffle(num_samples, 5).indices(2, first, 41)
    assert laws.filled(Shuffle(num_samples, 5), 2, first, 41).tolist() == expected


def test_sequential_is_the_identity_in_every_epoch() -> None:
    order = Sequential(LARGEST, seed=3)
    for epoch in (0, LAST_EPOCH):
        assert order.indices(epoch, LARGEST - 3, 3).tolist() == [LARGEST - k for k in (3, 2, 1)]
        assert order.index_at(epoch, 2**40) == order.position_of(epoch, 2**40) == 2**40


# -- Laws ------------------------------------------------------------------------------------------


def test_every_small_shuffle_is_a_bijection() -> None:
    for num_samples in range(1, 4097):
        order = Shuffle(num_samples, seed=num_samples % 3)
        for epoch in (0, 1, LAST_EPOCH):
            laws.bijection(order, epoch)


@pytest.mark.parametrize("num_samples", powers_and_neighbours(12, 20))
def test_shuffle_is_a_bijection_about_each_power_of_two(num_samples: int) -> None:
    for seed in range(3):
        laws.bijection(Shuffle(num_samples, seed), 1)


@pytest.mark.parametrize("num_samples", [*powers_and_neighbours(2, 62), LARGEST])
def test_shuffle_and_its_inverse_undo_each_other(num_samples: int) -> None:
    numbers = {num_samples * k // 97 for k in range(97)} | {num_samples - 1, num_samples - 2}
    for seed in range(3):
        laws.round_trip(Shuffle(num_samples, seed), 1, numbers)


@pytest.mark.parametrize("make", [Shuffle, Sequential])
@settings(max_examples=50)
@given(data=st.data(), num_samples=sizes)
def test_every_way_and_every_split_give_the_same(
    make: Callable[[int], Order], data: st.DataObject, num_samples: int
) -> None:
    order = make(num_samples)
    counts = data.draw(st.lists(st.integers(0, 70), min_size=1, max_size=6))
    while sum(counts) > num_samples:
        counts.pop()
    first = data.draw(st.integers(0, num_samples - sum(counts)))
    laws.split_invariance(order, 1, first, [*counts, 0])
    laws.same_by_every_way(order, 1, first, sum(counts))


@pytest.mark.parametrize("order", [Shuffle(300), Shuffle(5000), Shuffle(2**40), Reversed(300)])
@pytest.mark.parametrize(("block", "num_ranks"), [(1, 1), (3, 2), (4, 1), (7, 5), (32, 8)])
def test_blocks_of_all_ranks_are_the_whole(order: Order, block: int, num_ranks: int) -> None:
    stride = block * num_ranks
    num_rounds = 299 // stride
    ranks = []
    for rank in range(num_ranks):
        out = np.full(num_rounds * block, -1, dtype=np.int64)
        order.fill_blocks(2, 1 + rank * block, block, stride, out)
        ranks.append(out.reshape(num_rounds, block))
    union = np.concatenate(ranks, axis=1).ravel()
    assert np.array_equal(union, order.indices(2, 1, num_rounds * stride))


def test_order_of_a_user_is_lawful_with_two_methods_defined() -> None:
    order = Reversed(300, seed=2)
    laws.bijection(order, 1)
    laws.round_trip(order, 1, range(300))
    laws.same_by_every_way(order, 1, 5, 200)


# -- What keys an order ----------------------------------------------------------------------------


@pytest.mark.parametrize("num_samples", [64, 5000, 2**33])
def test_seeds_and_epochs_are_separate_keys(num_samples: int) -> None:
    keys = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2), (2**64 - 1, 0), (0, LAST_EPOCH)]
    heads = {tuple(Shuffle(num_samples, s).indices(e, 0, 64).tolist()) for s, e in keys}
    assert len(heads) == len(keys)


def test_neighbouring_sizes_have_unrelated_orders() -> None:
    heads = [Shuffle(num_samples).indices(0, 0, 200) for num_samples in (5000, 5001)]
    assert np.count_nonzero(heads[0] == heads[1]) < 5


def test_both_even_and_odd_permutations_occur() -> None:
    num_odd = sum(is_odd(Shuffle(5000, seed).indices(0, 0, 5000).tolist()) for seed in range(40))
    assert 5 <= num_odd <= 35


def is_odd(permutation: list[int]) -> bool:
    num_cycles = 0
    seen = [False] * len(permutation)
    for start in range(len(permutation)):
        num_cycles += not seen[start]
        while not seen[start]:
            seen[start] = True
            start = permutation[start]
    return (len(permutation) - num_cycles) % 2 == 1


def test_positions_about_32_bits_of_a_huge_order_are_distinct() -> None:
    num_samples = 10**12
    order = Shuffle(num_samples)
    positions = (0, 2**31 - 1, 2**31, 2**31 + 1, 2**32, num_samples - 1)
    indices = [order.index_at(0, position) for position in positions]
    assert len(set(indices)) == len(positions)
    assert all(type(index) is int and 0 <= index < num_samples for index in indices)
    assert max(indices) >= 2**32


# -- One object, many users ------------------------------------------------------------------------


@pytest.mark.parametrize("num_samples", [1000, 4096, 10**6 + 3])
def test_threads_at_several_epochs_get_right_values(num_samples: int) -> None:
    shared = Shuffle(num_samples, seed=6)
    expected = [Shuffle(num_samples, seed=6).indices(epoch, 0, 1000) for epoch in range(8)]

    def mixed_use(epoch: int) -> bool:
        for _ in range(50):
            if not np.array_equal(shared.indices(epoch, 0, 1000), expected[epoch]):
                return False
            if shared.position_of(epoch, int(expected[epoch][7])) != 7:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(mixed_use, range(8)))


@pytest.mark.parametrize("order", [Shuffle(10**9, seed=2**64 - 1), Shuffle(9, 4), Sequential(9, 4)])
@pytest.mark.parametrize(
    "duplicate", [lambda order: pickle.loads(pickle.dumps(order)), copy.copy, copy.deepcopy]
)
def test_copies_give_the_same_order(order: Order, duplicate: Callable[[Order], Order]) -> None:
    order.index_at(5, 3)  # an order in use is copied as well as a fresh one
    other = duplicate(order)
    assert type(other) is type(order)
    assert (other.num_samples, other.seed, other.order_id) == (
        order.num_samples,
        order.seed,
        order.order_id,
    )
    assert np.array_equal(other.indices(5, 0, 9), order.indices(5, 0, 9))


def test_numpy_integers_are_integers() -> None:
    size, seed, epoch, position = np.array([5000, 3, 2, 7])
    assert Shuffle(size, seed).index_at(epoch, position) == Shuffle(5000, 3).index_at(2, 7)


# -- Refusals --------------------------------------------------------------------------------------

NOT_INTEGERS = [True, 1.0, "1", None, np.float64(1), np.bool_(True)]


@pytest.mark.parametrize("make", [Shuffle, Sequential])
@pytest.mark.parametrize("num_samples", [0, -1, 2**63, 2**64])
def test_num_samples_out_of_range_is_refused(make: type[Order], num_samples: int) -> None:
    with pytest.raises(ArgumentError, match=rf"num_samples must be in .*, got .*={num_samples}"):
        make(num_samples)


@pytest.mark.parametrize("make", [Shuffle, Sequential])
@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_out_of_range_is_refused(make: type[Order], seed: int) -> None:
    with pytest.raises(ArgumentError, match=rf"seed must be in \[0, 2\*\*64\), got seed={seed}"):
        make(5, seed)


@pytest.mark.parametrize("value", NOT_INTEGERS)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("num_samples", Shuffle),
        ("seed", lambda value: Shuffle(5, seed=value)),
        ("epoch", lambda value: Shuffle(5).index_at(value, 0)),
        ("epoch", lambda value: Shuffle(5).num_positions(value)),
        ("position", lambda value: Shuffle(5).index_at(0, value)),
        ("index", lambda value: Shuffle(5).position_of(0, value)),
        ("first", lambda value: Shuffle(5).fill(0, value, np.empty(1, dtype=np.int64))),
        ("count", lambda value: Shuffle(5).indices(0, 0, value)),
    ],
)
def test_what_is_no_integer_is_refused(
    name: str, call: Callable[[Any], object], value: object
) -> None:
    with pytest.raises(TypeError, match=rf"{name} must be an integer, got {name}="):
        call(value)


@pytest.mark.parametrize("num_samples", [5, 5000])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("epoch=-1", lambda order: order.index_at(-1, 0)),
        ("epoch=1099511627776", lambda order: order.index_at(2**40, 0)),
        ("epoch=-1", lambda order: order.position_of(-1, 0)),
        ("epoch=-1", lambda order: order.indices(-1, 0, 1)),
        ("epoch=-1", lambda order: order.num_positions(-1)),
        ("position=-1", lambda order: order.index_at(0, -1)),
        ("position=5000", lambda order: order.index_at(0, 5000)),
        ("index=-1", lambda order: order.position_of(0, -1)),
        ("index=5000", lambda order: order.position_of(0, 5000)),
        ("first=-1", lambda order: order.indices(0, -1, 1)),
        ("first=5001", lambda order: order.indices(0, 5001, 0)),
        ("count=-1", lambda order: order.indices(0, 0, -1)),
        ("count=5001", lambda order: order.indices(0, 0, 5001)),
    ],
)
def test_arguments_out_of_range_are_refused_by_name_and_value(
    name: str, call: Callable[[Order], object], num_samples: int
) -> None:
    with pytest.raises(ArgumentError, match=rf"got {name}$"):
        call(Shuffle(num_samples))


@pytest.mark.parametrize("make", [Shuffle, Sequential])
@pytest.mark.parametrize("n", [5, 5000, LARGEST])
def test_fill_stops_at_the_end_of_the_order(make: type[Order], n: int) -> None:
    order = make(n)
    assert laws.filled(order, 0, n, 0).tolist() == []
    last_two = [order.index_at(0, position) for position in (n - 2, n - 1)]
    assert laws.filled(order, 0, n - 2, 2).tolist() == last_two
    out = np.full(3, -7, dtype=np.int64)
    with pytest.raises(ArgumentError, match=str(n)):
        order.fill(0, n - 2, out)
    assert out.tolist() == [-7, -7, -7]


def read_only() -> Any:
    out = np.zeros(4, dtype=np.int64)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize("make", [Shuffle, Sequential])
@pytest.mark.parametrize(
    ("out", "named"),
    [
        ([0, 0], "list"),
        (None, "NoneType"),
        (bytearray(16), "bytearray"),
        (np.zeros(4, dtype=np.int32), "int32"),
        (np.zeros(4, dtype=np.uint64), "uint64"),
        (np.zeros(4, dtype=np.float64), "float64"),
        (np.zeros(4, dtype=">i8"), ">i8"),
        (np.zeros((2, 2), dtype=np.int64), r"1-D.* got int64\[2, 2\]"),
        (np.zeros((), dtype=np.int64), r"1-D.* got int64\[\]"),
        (np.zeros(8, dtype=np.int64)[::2], "contiguous"),
        (np.zeros(8, dtype=np.int64)[::-1], "contiguous"),
        (read_only(), "read-only"),
    ],
)
def test_fill_refuses_an_array_it_cannot_write(make: type[Order], out: Any, named: str) -> None:
    error = ArgumentError if isinstance(out, np.ndarray) else TypeError
    with pytest.raises(error, match=rf"^out .*({named})"):
        make(5).fill(0, 0, out)


@pytest.mark.parametrize(
    ("first", "block", "stride", "length", "named"),
    [
        (0, 0, 4, 4, "block=0"),
        (0, 3, 2, 6, "block=3, stride=2"),
        (0, 4, 4, 6, r"block=4, .*len\(out\)=6"),
        (-1, 2, 2, 4, "first=-1"),
        (4990, 2, 10, 4, "first=4990, stride=10, 2 blocks of 2"),
        (0, 2, 2**62, 6, f"stride={2**62}, 3 blocks of 2"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(
    first: int, block: int, stride: int, length: int, named: str
) -> None:
    out = np.full(length, -7, dtype=np.int64)
    with pytest.raises(ArgumentError, match=rf"got .*{named}"):
        Shuffle(5000).fill_blocks(0, first, block, stride, out)
    assert out.tolist() == [-7] * length

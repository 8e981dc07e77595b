"""`BlockShuffle`: equal to the reference, a bijection at every size, local, strict."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import laws
import make_vectors
import pytest
import reference_orders
from hypothesis import given, settings
from hypothesis import strategies as st

from datacursor.block_shuffle import BlockShuffle
from datacursor.errors import ArgumentError

LARGEST = 2**63 - 1
LAST_EPOCH = 2**40 - 1
SHAPES = [(1, 1), (1, 7), (3, 2), (8, 1), (10, 3), (64, 100)]

sizes = st.one_of(
    st.integers(1, 64),
    st.integers(1, LARGEST),
    st.builds(lambda k, d: 2**k + d, st.integers(2, 62), st.sampled_from([-1, 0, 1])),
)


def test_golden_indices() -> None:
    for line in make_vectors.read("block_shuffle.txt"):
        n, block_size, window_blocks, seed, epoch, position, index = map(int, line)
        order = BlockShuffle(n, block_size, window_blocks, seed)
        assert order.index_at(epoch, position) == index, line
        assert order.position_of(epoch, index) == position, line
        assert order.indices(epoch, position, 1).tolist() == [index], line


@settings(max_examples=150)
@given(
    data=st.data(),
    n=sizes,
    block_size=sizes,
    window_blocks=sizes,
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, LAST_EPOCH),
)
def test_any_argument_gives_what_the_reference_gives(
    data: st.DataObject, n: int, block_size: int, window_blocks: int, seed: int, epoch: int
) -> None:
    if (n - 1) // min(n, block_size * window_blocks) >= 2**55:
        with pytest.raises(ArgumentError, match=r"2\*\*55 windows"):
            BlockShuffle(n, block_size, window_blocks, seed)
        return
    order = BlockShuffle(n, block_size, window_blocks, seed)
    expected = reference_orders.BlockShuffle(n, block_size, window_blocks, seed)
    number = data.draw(st.integers(0, n - 1))
    assert order.index_at(epoch, number) == expected.index_at(epoch, number)
    assert order.position_of(epoch, number) == expected.position_of(epoch, number)


@pytest.mark.parametrize("shape", [(10, 3), (3000, 2), (5000, 1), (1, 4097), (2, 40_000)])
def test_a_whole_epoch_is_the_one_of_the_reference(shape: tuple[int, int]) -> None:
    n = 12_345
    expected = reference_orders.BlockShuffle(n, *shape, 5).indices(3, 0, n)
    assert laws.filled(BlockShuffle(n, *shape, 5), 3, 0, n).tolist() == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_every_small_size_is_a_local_bijection(shape: tuple[int, int]) -> None:
    for n in range(1, 301):
        order = BlockShuffle(n, *shape, n % 3)
        for epoch in (0, LAST_EPOCH):
            laws.bijection(order, epoch)
            laws.locality(order, epoch, *shape)
        laws.round_trip(order, 1, range(0, n, 7))


@pytest.mark.parametrize("shape", [(1, 300), (100, 7), (5000, 3)])
@pytest.mark.parametrize("power", range(9, 17))
def test_sizes_about_a_power_of_two_are_local_bijections(
    shape: tuple[int, int], power: int
) -> None:
    for n in (2**power - 1, 2**power, 2**power + 1):
        order = BlockShuffle(n, *shape, 2)
        laws.bijection(order, 1)
        laws.locality(order, 1, *shape)
        laws.round_trip(order, 1, range(0, n, 1 + n // 50))


@pytest.mark.parametrize("power", range(17, 63))
def test_large_sizes_are_undone_by_their_inverse(power: int) -> None:
    for n in (2**power - 1, 2**power, 2**power + 1):
        for block_size, window_blocks in ((2**14, 2**6), (3 * power, 2**10), (2**power, 1)):
            numbers = {n * k // 13 for k in range(13)} | {n - 2, n - 1}
            laws.round_trip(BlockShuffle(n, block_size, window_blocks, 2), 1, numbers)


@settings(max_examples=80)
@given(data=st.data(), n=sizes, block_size=st.integers(1, 40), window_blocks=st.integers(1, 9))
def test_every_way_and_every_split_give_the_same(
    data: st.DataObject, n: int, block_size: int, window_blocks: int
) -> None:
    n = min(n, 2**55)
    counts = data.draw(st.lists(st.integers(0, 90), min_size=1, max_size=5))
    while sum(counts) > n:
        counts.pop()
    first = data.draw(st.integers(0, n - sum(counts)))
    order = BlockShuffle(n, block_size, window_blocks)
    laws.split_invariance(order, 1, first, [*counts, 0])
    laws.same_by_every_way(order, 1, first, sum(counts))


def test_the_end_of_the_largest_order() -> None:
    for shape in ((LARGEST, LARGEST), (LARGEST, 1), (1, LARGEST), (2**62, 1), (2**31, 2**31)):
        order = BlockShuffle(LARGEST, *shape)
        laws.round_trip(order, LAST_EPOCH, [0, 2**62 - 1, 2**62, LARGEST - 1])
        laws.same_by_every_way(order, LAST_EPOCH, LARGEST - 20, 20)


WITHOUT_THREADS = """
import resource
import numpy as np
from datacursor.block_shuffle import BlockShuffle

out = np.zeros(2**22, dtype=np.int64)
pages = int(open("/proc/self/statm").read().split()[0])
limit = (pages + 512) * resource.getpagesize()  # less than the stack of one more thread
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
order = BlockShuffle(2**22, 64, 64, 1)
order.fill(0, 0, out, num_threads=32)
assert order.position_of(0, int(out[-1])) == 2**22 - 1
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux does")
def test_a_fill_does_without_threads_it_cannot_have() -> None:
    command = [sys.executable, "-c", WITHOUT_THREADS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["num_samples", "block_size", "window_blocks", "seed"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1, ArgumentError),
        (2**64, ArgumentError),
        (1.0, TypeError),
        (True, TypeError),
        (None, TypeError),
        ("3", TypeError),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    name: str, value: Any, error: type[Exception]
) -> None:
    arguments: dict[str, Any] = {"num_samples": 9, "block_size": 2, "window_blocks": 2, "seed": 0}
    with pytest.raises(error, match=rf"{name} must .*got {name}={value!r}"):
        BlockShuffle(**arguments | {name: value})


@pytest.mark.parametrize("name", ["num_samples", "block_size", "window_blocks"])
def test_zero_of_anything_is_refused(name: str) -> None:
    arguments = {"num_samples": 9, "block_size": 2, "window_blocks": 2}
    with pytest.raises(ArgumentError, match=rf"got {name}=0"):
        BlockShuffle(**arguments | {name: 0})

"""`sample_generator` and `sample_seed`: pure functions of (seed, stream, epoch, index)."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import make_vectors
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference import sample_blocks

import datacursor as dc

SEEDS = st.integers(0, 2**64 - 1)
EPOCHS = st.integers(0, 2**40 - 1)
INDICES = st.integers(0, 2**63 - 1)
STREAMS = st.text(st.characters(codec="utf-8"))

Draw = Callable[..., Any]
BOTH = pytest.mark.parametrize("draw", [dc.sample_generator, dc.sample_seed])


def words(generator: np.random.Generator, count: int) -> list[int]:
    return [int(word) for word in generator.bit_generator.random_raw(count)]


def counter_of(generator: np.random.Generator) -> list[int]:
    state: dict[str, Any] = dict(generator.bit_generator.state)
    return [int(word) for word in state["state"]["counter"]]


def test_the_numbers_are_the_golden_ones() -> None:
    for seed, epoch, index, stream, *expected in make_vectors.read("rng.txt"):
        arguments = (int(seed), int(epoch), int(index), stream)
        assert dc.sample_seed(*arguments) == int(expected[0], 16)
        found = words(dc.sample_generator(*arguments), 8)
        assert found == [int(word, 16) for word in expected[1:]]


@given(seed=SEEDS, epoch=EPOCHS, index=INDICES, stream=STREAMS)
def test_the_numbers_are_those_of_the_reference(
    seed: int, epoch: int, index: int, stream: str
) -> None:
    first, *blocks = islice(sample_blocks(seed, epoch, index, stream), 4)
    found = words(dc.sample_generator(seed, epoch, index, stream), 12)
    assert found == [word for block in blocks for word in block]
    assert dc.sample_seed(seed, epoch, index, stream) == first[0] >> 1


@given(seed=SEEDS, epoch=EPOCHS, index=INDICES)
def test_the_generator_is_numpy_s_philox_with_that_key_and_counter(
    seed: int, epoch: int, index: int
) -> None:
    generator = dc.sample_generator(seed, epoch, index)
    key: NDArray[np.uint64] = generator.bit_generator.state["state"]["key"]
    assert int(key[0]) == seed
    counter = np.array([0, 0, index, epoch], dtype=np.uint64)
    theirs = np.random.Generator(np.random.Philox(key=key, counter=counter))
    assert generator.normal(size=5).tobytes() == theirs.normal(size=5).tobytes()


@given(seed=SEEDS, epoch=EPOCHS, index=INDICES)
def test_the_seed_comes_from_the_block_just_before_the_generator(
    seed: int, epoch: int, index: int
) -> None:
    key = dc.sample_generator(seed, epoch, index).bit_generator.state["state"]["key"]
    number = (epoch << 192 | index << 128) - 1  # numpy adds one before it draws
    before = np.array([number >> shift & 2**64 - 1 for shift in (0, 64, 128, 192)], dtype=np.uint64)
    [word] = np.random.Philox(key=key, counter=before).random_raw(1)
    assert dc.sample_seed(seed, epoch, index) == int(word) >> 1


def test_a_sample_owns_all_the_counters_up_to_the_next_one() -> None:
    last = dc.sample_generator(7, 2, 31)
    last.bit_generator.advance(2**128 - 1)  # type: ignore[attr-defined]  # Philox has it
    assert counter_of(last) == [2**64 - 1, 2**64 - 1, 31, 2]
    last.bit_generator.advance(1)  # type: ignore[attr-defined]  # Philox has it
    assert counter_of(last) == counter_of(dc.sample_generator(7, 2, 32))


@given(st.lists(st.tuples(EPOCHS, INDICES), min_size=2, max_size=2, unique=True))
def test_samples_and_epochs_begin_2_to_the_128_counters_apart(
    places: list[tuple[int, int]],
) -> None:
    def start(place: tuple[int, int]) -> int:
        counter = counter_of(dc.sample_generator(0, *place))
        return sum(word << 64 * number for number, word in enumerate(counter))

    assert abs(start(places[0]) - start(places[1])) >= 2**128


@BOTH
def test_nothing_is_shared_between_seeds_epochs_samples_and_streams(draw: Draw) -> None:
    arguments = [
        (seed, epoch, index, stream)
        for seed in range(4)
        for epoch in range(4)
        for index in range(16)
        for stream in ("augment", "mask", "", "augment ")
    ]
    drawn = [draw(*each) for each in arguments]
    firsts = [each if isinstance(each, int) else words(each, 1)[0] for each in drawn]
    assert len(set(firsts)) == len(arguments)


def test_seeds_are_uniform_over_samples_in_every_bit() -> None:
    seeds = np.array([dc.sample_seed(0, 0, index) for index in range(4096)], dtype=np.uint64)
    for bit in range(63):
        ones = int((seeds >> np.uint64(bit) & np.uint64(1)).sum())
        assert abs(ones - 2048) < 6 * 32  # six standard deviations
    assert int(seeds.max()) < 2**63


def test_generators_of_one_sample_are_independent_objects() -> None:
    first, second = dc.sample_generator(0, 0, 5), dc.sample_generator(0, 0, 5)
    drawn = first.random(3).tolist()
    assert second.random(3).tolist() == drawn


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_generator_is_copied_where_it_stands(
    copied: Callable[[np.random.Generator], np.random.Generator],
) -> None:
    generator = dc.sample_generator(3, 1, 4)
    generator.random(7)
    assert copied(generator).random(9).tolist() == generator.random(9).tolist()


def test_a_generator_does_not_spawn_from_entropy() -> None:
    with pytest.raises(TypeError, match="spawn"):
        dc.sample_generator(0, 0, 0).spawn(1)


def test_numpy_integers_count_as_numbers() -> None:
    assert dc.sample_seed(np.uint64(2**64 - 1), np.int32(3), np.int64(9)) == (  # type: ignore[arg-type]
        dc.sample_seed(2**64 - 1, 3, 9)
    )


@BOTH
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0, 0), r"seed must be in \[0, 2\*\*64\), got seed=-1"),
        ((2**64, 0, 0), r"seed must be in \[0, 2\*\*64\), got seed=18446744073709551616"),
        ((0, 2**40, 0), r"epoch must be in \[0, 2\*\*40\), got epoch=1099511627776"),
        ((0, -1, 0), r"epoch must be in .* got epoch=-1"),
        ((0, 0, 2**63), r"index must be in \[0, 2\*\*63\), got index=9223372036854775808"),
        ((0, 0, -1), r"index must be in .* got index=-1"),
    ],
)
def test_a_number_out_of_range_is_refused(
    draw: Draw, arguments: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(dc.ArgumentError, match=message):
        draw(*arguments)


@BOTH
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 0, 0), r"seed must be an integer, got seed=0\.0"),
        ((0, None, 0), "epoch must be an integer, got epoch=None"),
        ((0, 0, True), "index must be an integer, got index=True"),
        ((0, 0, 0, b"augment"), r"stream must be a str, got stream=b'augment'"),
        ((0, 0, 0, None), "stream must be a str, got stream=None"),
    ],
)
def test_another_type_is_refused(draw: Draw, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        draw(*arguments)

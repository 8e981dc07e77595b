"""`Mixture`: equal to the reference, exact in its counts, safe between threads, strict."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import laws
import make_vectors
import numpy as np
import order_vectors
import pytest
import reference
import reference_orders
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from datacursor.block_shuffle import BlockShuffle
from datacursor.errors import ArgumentError
from datacursor.mixture import Mixture
from datacursor.order import Order, Sequential, Shuffle
from datacursor.subset import Subset
from datacursor.weighted import Weighted

LARGEST = 2**63 - 1
LAST_EPOCH = 2**40 - 1
STOPPINGS = ["first_exhausted", "all_exhausted", "forever"]
MANY = 2**18 + 77  # above 2**17, from where on threads start


class Reversed(Order):
    """An order written in Python: last sample first."""

    order_id = 0x8000

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        out[:] = self.num_samples - 1 - np.arange(first, first + len(out))

    def position_of(self, epoch: int, index: int) -> int:
        return self.num_samples - 1 - index


def by_quotas(
    orders: Sequence[Order],
    stages: Sequence[tuple[int, Sequence[int]]],
    stopping: str = "first_exhausted",
    seed: int = 11,
) -> Mixture:
    """Return a mixture of these quotas: as weights, quotas are themselves."""
    (_, quotas), *later = stages
    return Mixture(
        orders,
        quotas,
        seed,
        block=sum(quotas),
        stopping=stopping,
        stages=[(f, q) for f, q in later],
    )


# -- Equal to the reference ------------------------------------------------------------------------


def source_of_line(words: list[str]) -> Order:
    numbers = [int(word) for word in words[1:]]
    return Shuffle(*numbers) if words[0] == "shuffle" else Sequential(*numbers)


def test_golden_draws() -> None:
    for name, lines in order_vectors.cases(make_vectors.read("mixture.txt")):
        by_keyword: dict[str, list[list[str]]] = {}
        for line in lines:
            by_keyword.setdefault(line[0], []).append(line)
        [[_, block, stopping, seed]] = by_keyword["mixture"]
        sources = [line for line in lines if line[0] in ("shuffle", "sequential")]
        stages = [(int(line[1]), [int(q) for q in line[2:]]) for line in by_keyword["stage"]]
        order = by_quotas([source_of_line(line) for line in sources], stages, stopping, int(seed))
        assert order.block == int(block)
        assert order.num_positions(1) == int(by_keyword["positions"][0][1])
        for line in by_keyword["draw"]:
            epoch, position, index, source, source_index, *counts = map(int, line[1:])
            assert order.index_at(epoch, position) == index, (name, line)
            assert order.draw_at(epoch, position) == (source, source_index), (name, line)
            assert order.counts(epoch, position).tolist() == counts, (name, line)
            assert order.source_of(index) == (source, source_index), (name, line)


weights = st.one_of(st.integers(0, 50), st.floats(0, 1), st.fractions(0, 3), st.just(1 / 3))


@given(
    given_weights=st.lists(weights, min_size=1, max_size=9).filter(any),
    block=st.integers(1, 2000),
)
def test_quotas_are_those_of_the_reference(given_weights: list[Any], block: int) -> None:
    expected = reference_orders.quotas_of(given_weights, block)
    orders = [Sequential(9)] * len(given_weights)
    missing = [i for i, w in enumerate(given_weights) if w > 0 and expected[i] == 0]
    if missing:
        with pytest.raises(ArgumentError, match=rf"block .*weights\[{missing[0]}\].*block={block}"):
            Mixture(orders, given_weights, block=block, stopping="forever")
        return
    mixture = Mixture(orders, given_weights, block=block, stopping="forever")
    assert mixture.stages == ((0, tuple(expected)),)
    assert str(expected) in repr(mixture)


@settings(max_examples=80)
@given(data=st.data(), stopping=st.sampled_from(STOPPINGS), seed=st.integers(0, 2**64 - 1))
def test_any_mixture_gives_what_the_reference_gives(
    data: st.DataObject, stopping: str, seed: int
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=4))
    block = data.draw(st.integers(len(sizes), 40))
    gaps = data.draw(st.lists(st.integers(1, 4), max_size=3))
    firsts = [block * sum(gaps[:number]) for number in range(len(gaps) + 1)]
    quotas = st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)).filter(any)
    stages = [(f, reference_orders.quotas_of(data.draw(quotas), block)) for f in firsts]
    arguments: dict[str, Any] = {"block": block, "stopping": stopping}
    arguments["stages"] = stages[1:]
    sources = [reference.Shuffle(size, seed=size) for size in sizes]
    expected = reference_orders.Mixture(sources, stages, block, stopping, seed)
    orders = [Shuffle(size, seed=size) for size in sizes]
    try:
        num_positions = expected.num_positions(0)
    except AssertionError:
        with pytest.raises(ArgumentError, match=r"no whole block|never ends"):
            Mixture(orders, stages[0][1], seed, **arguments)
        return
    order = Mixture(orders, stages[0][1], seed, **arguments)
    assert order.num_positions(0) == num_positions
    epoch = 0 if stopping == "forever" else data.draw(st.integers(0, LAST_EPOCH))
    count = min(num_positions, 60)
    first = data.draw(st.integers(0, min(num_positions, 2**30) - count))
    if epoch * num_positions >= min(sizes) * 2**40:  # the source has no such epoch
        return
    assert order.indices(epoch, first, count).tolist() == expected.indices(epoch, first, count)
    place = data.draw(st.integers(first, first + count - 1))
    assert order.draw_at(epoch, place) == expected.draw_at(epoch, place)
    assert order.counts(epoch, place).tolist() == expected.counts(epoch, place)


# -- Laws ------------------------------------------------------------------------------------------

STAGES: list[list[tuple[int, list[int]]]] = [
    [(0, [7, 3, 2])],
    [(0, [12, 0, 0]), (12, [1, 10, 1]), (36, [4, 4, 4])],
]


def sources() -> list[Order]:
    return [Shuffle(97, seed=1), Reversed(31), Subset([4, 9, 2, 17], num_samples=20, seed=3)]


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("stopping", STOPPINGS[:2])
def test_counts_are_exact_and_every_source_goes_on(
    stages: list[tuple[int, list[int]]], stopping: str
) -> None:
    mixture = by_quotas(sources(), stages, stopping)

    def in_force(position: int) -> list[int]:
        return [quotas for first, quotas in stages if first <= position][-1]

    for epoch in (0, 1, 2**20):
        laws.exact_counts(mixture, epoch, 12, in_force)
    laws.continued(mixture, 5, sources())


@pytest.mark.parametrize("stages", STAGES)
def test_every_way_and_every_split_give_the_same(stages: list[tuple[int, list[int]]]) -> None:
    mixture = by_quotas(sources(), stages, "all_exhausted")
    n = mixture.num_positions(3)
    laws.same_by_every_way(mixture, 3, 0, n)
    for cut in range(n + 1):
        laws.split_invariance(mixture, 3, 0, [cut, n - cut])
    blocks = np.empty(8, dtype=np.int64)
    mixture.fill_blocks(3, 1, 2, 5, blocks)
    assert blocks.tolist() == [mixture.index_at(3, p) for p in (1, 2, 6, 7, 11, 12, 16, 17)]


def test_a_stage_leaves_what_lies_before_it() -> None:
    plain = by_quotas(sources(), [(0, [7, 3, 2])], "forever")
    for first in (12, 24, 12_000):
        staged = by_quotas(sources(), [(0, [7, 3, 2]), (first, [1, 1, 10])], "forever")
        window = max(0, first - 600)
        before = plain.indices(0, window, first - window)
        assert np.array_equal(staged.indices(0, window, first - window), before)
        assert not np.array_equal(staged.indices(0, first, 24), plain.indices(0, first, 24))


def test_mixtures_of_mixtures_and_of_every_order() -> None:
    inner = Mixture([Shuffle(30, 1), Sequential(5)], [0.8, 0.2], seed=2, block=5)
    parts: list[Order] = [
        inner,
        BlockShuffle(50, 7, 2, seed=3),
        Weighted([1, 0, 2], seed=4, num_positions=10),
    ]
    outer = by_quotas(parts, [(0, [3, 4, 3])], "all_exhausted")
    laws.exact_counts(outer, 2, 10, lambda _: [3, 4, 3])
    laws.continued(outer, 4, parts)
    laws.same_by_every_way(outer, 3, 0, outer.num_positions(3))
    endless = Mixture([Mixture([outer], [1], block=1, stopping="forever")], [1], stopping="forever")
    assert endless.indices(0, 10**9, 5).tolist() == [
        outer.index_at(*divmod(p, outer.num_positions(0))) for p in range(10**9, 10**9 + 5)
    ]


def test_a_thousand_sources() -> None:
    many = [Shuffle(20 + number, seed=number) for number in range(1000)]
    mixture = Mixture(many, [1.0 + i % 3 for i in range(1000)], seed=1, block=4000)
    quotas = mixture.stages[0].quotas
    assert mixture.counts(1, 4000).tolist() == list(quotas)
    firsts = np.cumsum([0, *(order.num_samples for order in many)])
    drawn = np.searchsorted(firsts, mixture.indices(1, 0, 4000), side="right") - 1
    assert np.bincount(drawn, minlength=1000).tolist() == list(quotas)


def test_the_ends_of_endless_and_of_late_epochs() -> None:
    vast = Mixture([Shuffle(2**61, 1), Sequential(2**61)], [2, 1], block=3, stopping="forever")
    last = vast.num_positions(0) - 1
    blocks = 2**48 // 3
    assert last + 1 == 3 * blocks
    for epoch in (0, 1, 9):
        laws.same_by_every_way(vast, epoch, last - 20, 20)
        assert vast.counts(epoch, last + 1).tolist() == [2 * blocks, blocks]
    with pytest.raises(ArgumentError, match=f"epoch={LAST_EPOCH}"):
        vast.index_at(LAST_EPOCH, 0)
    late = Mixture([Shuffle(10**6, 1), Sequential(10)], [9, 1], block=10)
    laws.same_by_every_way(late, 2**40 - 1, 80, 20)
    assert late.draw_at(LAST_EPOCH, 0) == late.draw_at(LAST_EPOCH, 0)


# -- Threads ---------------------------------------------------------------------------------------


def large_orders() -> list[Any]:
    return [
        BlockShuffle(10**6 + 3, 100, 13, seed=1),
        BlockShuffle(10**6 + 3, 5, 20_000, seed=1),
        Weighted([1, 2, 0, 5], seed=1, num_positions=10**6),
        Subset(np.arange(0, 10**6, 3), num_samples=10**6, seed=1),
        Subset(np.arange(0, 10**6, 3)[::-1], num_samples=10**6, shuffle=False),
        Mixture([Shuffle(50, 2), Shuffle(10**6, 3)], [0.6, 0.4], seed=4, stopping="forever"),
        Mixture([Reversed(10**5), Shuffle(10**5, 3)], [0.5, 0.5], block=60_000, stopping="forever"),
    ]


@pytest.mark.parametrize("order", large_orders(), ids=lambda order: type(order).__name__)
def test_threads_fill_what_one_does(order: Any) -> None:
    expected = (
        order.indices(2, 4321, MANY) if not order.is_endless else order.indices(0, 4321, MANY)
    )
    epoch = 0 if order.is_endless else 2
    for num_threads in (1, 2, 3, 4):
        out = np.full(MANY, -1, dtype=np.int64)
        order.fill(epoch, 4321, out, num_threads=num_threads)
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("order", large_orders(), ids=lambda order: type(order).__name__)
def test_python_threads_may_fill_one_order_at_once(order: Any) -> None:
    epochs = [0] * 4 if order.is_endless else [0, 1, 2, 3]
    expected = [order.indices(epoch, 100 * k, MANY) for k, epoch in enumerate(epochs)]

    def fill(k: int) -> bool:
        out = np.empty(MANY, dtype=np.int64)
        order.fill(epochs[k], 100 * k, out, num_threads=1 + k % 2)
        return np.array_equal(out, expected[k])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(fill, [*range(4), *range(4)]))


class Failing(Reversed):
    """Raises, or gives an index that is not there, from a position on."""

    def __init__(self, num_samples: int, error: Exception | None, first_bad: int) -> None:
        super().__init__(num_samples)
        self.error = error
        self.first_bad = first_bad

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        super().fill(epoch, first, out)
        if first + len(out) > self.first_bad:
            if self.error is not None:
                raise self.error
            out[-1] = self.num_samples


@pytest.mark.parametrize("num_threads", [1, 2, 3, 4])
@pytest.mark.parametrize("first_bad", [0, 400_000])
def test_an_error_of_a_python_source_reaches_the_caller(num_threads: int, first_bad: int) -> None:
    error = KeyError("a source of my own")
    mixture = Mixture([Failing(10**6, error, first_bad), Shuffle(10**6)], [1, 1])
    out = np.empty(2 * 10**6, dtype=np.int64)
    for _ in range(3):
        with pytest.raises(KeyError, match="a source of my own"):
            mixture.fill(0, 0, out, num_threads=num_threads)
    wrong = Mixture([Failing(10**6, None, first_bad), Shuffle(10**6)], [1, 1])
    with pytest.raises(ArgumentError, match=r"index in \[0, 1000000\) .*got 1000000 at"):
        wrong.fill(0, 0, out, num_threads=num_threads)


def test_errors_in_several_python_threads_reach_each_caller() -> None:
    mixture = Mixture([Failing(10**6, OSError("gone"), 0), Shuffle(10**6)], [1, 1])
    barrier = threading.Barrier(4)

    def fill(_: int) -> bool:
        barrier.wait()
        with pytest.raises(OSError, match="gone"):
            mixture.fill(0, 0, np.empty(MANY, dtype=np.int64), num_threads=2)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fill, range(4))) == [True] * 4


def test_a_python_source_that_keeps_the_array_it_filled_does_no_harm() -> None:
    class Keeps(Reversed):
        kept: NDArray[np.int64]

        def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
            super().fill(epoch, first, out)
            self.kept = out

    source = Keeps(50)
    mixture = Mixture([source], [1], block=50)
    indices = mixture.indices(0, 0, 50)
    source.kept[:] = -1
    assert sorted(indices.tolist()) == list(range(50))


# -- Copies ----------------------------------------------------------------------------------------


def test_copies_give_the_same_order() -> None:
    mixture = by_quotas(sources(), STAGES[1], "all_exhausted")
    mixture.index_at(5, 3)
    for other in (pickle.loads(pickle.dumps(mixture)), copy.deepcopy(mixture)):
        assert other == mixture
        assert hash(other) == hash(mixture)
        assert repr(other) == repr(mixture)
        assert np.array_equal(other.indices(5, 0, 30), mixture.indices(5, 0, 30))


def test_whatever_decides_the_draws_decides_equality() -> None:
    plain = by_quotas(sources(), STAGES[0], "all_exhausted")
    others = [
        by_quotas(sources(), STAGES[0], "first_exhausted"),
        by_quotas(sources(), STAGES[1], "all_exhausted"),
        by_quotas(sources(), STAGES[0], "all_exhausted", seed=12),
        by_quotas([Shuffle(97, seed=2), *sources()[1:]], STAGES[0], "all_exhausted"),
        by_quotas([*sources()[:2], Subset([4, 9, 2, 16], num_samples=20)], STAGES[0]),
    ]
    assert plain == by_quotas(sources(), STAGES[0], "all_exhausted")
    assert all(plain != other for other in others)


# -- Refusals --------------------------------------------------------------------------------------


def test_there_is_no_inverse() -> None:
    mixture = Mixture([Sequential(9)], [1], block=3)
    with pytest.raises(ArgumentError, match="no position_of: index=1 may occur many times"):
        mixture.position_of(0, 1)
    with pytest.raises(ArgumentError, match="index=9"):
        mixture.position_of(0, 9)
    with pytest.raises(ArgumentError, match="index=9"):
        mixture.source_of(9)
    with pytest.raises(ArgumentError, match="position=9"):
        mixture.draw_at(0, 9)
    with pytest.raises(ArgumentError, match="position=10"):
        mixture.counts(0, 10)
    with pytest.raises(ArgumentError, match="epoch=1099511627776"):
        mixture.counts(2**40, 0)


PAIR = [Shuffle(100, 1), Sequential(50)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"orders": []}, ArgumentError, r"orders must hold at least one order, got \[\]"),
        ({"orders": None}, TypeError, "orders must .*got None"),
        ({"orders": Shuffle(5)}, TypeError, r"orders must .*got Shuffle\(5"),
        ({"orders": [Shuffle(5), 7]}, TypeError, "orders must hold .*got int"),
        ({"orders": [Sequential(LARGEST), Sequential(1)]}, ArgumentError, f"num_samples={2**63}"),
        ({"weights": [1]}, ArgumentError, "weights must be one for each order, got 1"),
        ({"weights": []}, ArgumentError, "weights must be one for each order, got 0"),
        ({"weights": 1.0}, TypeError, "weights must .*got 1.0"),
        ({"weights": None}, TypeError, "weights must .*got None"),
        ({"weights": "12"}, TypeError, "weights must .*got '12'"),
        ({"weights": ["1", 2]}, TypeError, "weights must .*got '1'"),
        ({"weights": [None, 2]}, TypeError, "weights must .*got None"),
        ({"weights": [True, 2]}, TypeError, "weights must .*got True"),
        ({"weights": [1j, 2]}, TypeError, "weights must .*got 1j"),
        ({"weights": [float("nan"), 2]}, ArgumentError, "weights must .*got nan"),
        ({"weights": [1, float("inf")]}, ArgumentError, "weights must .*got inf"),
        ({"weights": [1, -0.5]}, ArgumentError, "weights must .*got -0.5"),
        ({"weights": [0, 0.0]}, ArgumentError, r"weights must not all be 0, got \[0, 0.0\]"),
        ({"weights": [1, 1e-9]}, ArgumentError, r"weights\[1\]=1e-09 .* block=10"),
        ({"weights": [[1, 2], [3, 4]]}, TypeError, r"weights must .*got \[1, 2\]"),
        ({"weights": np.ones((2, 2))}, TypeError, "weights must .*got array"),
        ({"block": 0}, ArgumentError, "block=0"),
        ({"block": 65_537}, ArgumentError, "block=65537"),
        ({"block": 1.0}, TypeError, "block=1.0"),
        ({"block": 1}, ArgumentError, r"weights\[1\]=1 .* block=1"),
        ({"stopping": "never"}, ArgumentError, "stopping='never'"),
        ({"stopping": None}, ArgumentError, "stopping=None"),
        ({"seed": -1}, ArgumentError, "seed=-1"),
        ({"seed": "1"}, TypeError, "seed='1'"),
        ({"stages": [(15, [1, 2])]}, ArgumentError, r"stages\[0\] .*block=10, got 15"),
        ({"stages": [(0, [1, 2])]}, ArgumentError, r"stages\[0\] must .*=0"),
        ({"stages": [(-10, [1, 2])]}, ArgumentError, r"stages\[0\] must .*=-10"),
        ({"stages": [(2**62, [1, 2])]}, ArgumentError, rf"stages\[0\] must .*={2**62}"),
        ({"stages": [(20, [1, 2]), (20, [2, 1])]}, ArgumentError, r"stages\[1\] must .*=20"),
        ({"stages": [(20, [1, 2]), (10, [2, 1])]}, ArgumentError, r"stages\[1\] must .*=10"),
        ({"stages": [(1.0, [1, 2])]}, TypeError, r"stages\[0\].*=1.0"),
        ({"stages": [(20, [1])]}, ArgumentError, "weights must be one for each order, got 1"),
        ({"stages": [20, [1, 2]]}, TypeError, r"stages must hold \(position, weights\) .*got 20"),
        ({"stages": [(20,)]}, TypeError, r"stages must hold .*got \(20,\)"),
        ({"stages": 20}, TypeError, "stages must .*got 20"),
        ({"block": 1000}, ArgumentError, "no whole block of 1000"),
        ({"weights": [1, 0], "stopping": "all_exhausted"}, ArgumentError, "never ends"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"orders": PAIR, "weights": [1, 1], "block": 10}
    with pytest.raises(error, match=message):
        Mixture(**arguments | options)


def test_numbers_of_any_kind_are_weights() -> None:
    expected = Mixture(PAIR, [1, 3], block=8)
    kinds: list[Any] = [
        (0.25, 0.75),
        np.array([1, 3], dtype=np.uint8),
        np.array([1, 3], dtype=np.float32),
        np.array([1, 3], dtype=np.longdouble),
        [Fraction(1, 4), Fraction(3, 4)],
        [1e300, 3e300],
    ]
    for same in kinds:
        assert Mixture(PAIR, same, block=8) == expected

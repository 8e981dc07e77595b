"""Slow, plain restatement of block-shuffle-1, mixture-1, weighted-1 and subset-1.

Written from the specification and the headers of the core alone, like `reference`, and with the
same rule: where the text leaves a choice, "Reading:" names the choice taken.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from reference import Permutation, bounded, words

BLOCK_SHUFFLE_ID, MIXTURE_ID, WEIGHTED_ID, SUBSET_ID = 3, 4, 5, 6
BLOCK_WINDOW, MIXTURE_BLOCK = 1, 3


def sub_permutation(
    num_samples: int, seed: int, epoch: int, order_id: int, purpose: int, number: int
) -> Permutation:
    """Return sub-permutation `number` of one purpose."""
    stream = purpose * 2**56 + number
    return Permutation(num_samples, seed, epoch, order_id, stream, stream + 2**55)


class Source(Protocol):
    """What a mixture needs of the orders that it draws from."""

    @property
    def num_samples(self) -> int: ...
    def num_positions(self, epoch: int) -> int: ...
    def index_at(self, epoch: int, position: int) -> int: ...


class Indexed:
    """What every order has besides index_at."""

    def index_at(self, epoch: int, position: int) -> int:
        raise NotImplementedError

    def indices(self, epoch: int, first: int, count: int) -> list[int]:
        return [self.index_at(epoch, position) for position in range(first, first + count)]

    def fill(self, epoch: int, first: int, out: MutableSequence[int]) -> None:
        out[:] = self.indices(epoch, first, len(out))


@dataclass(frozen=True)
class Sequential(Indexed):
    """sequential-1."""

    num_samples: int

    def num_positions(self, epoch: int) -> int:
        return self.num_samples

    def index_at(self, epoch: int, position: int) -> int:
        return position


# -- block-shuffle-1 -------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockShuffle(Indexed):
    """Whole blocks permuted, a tail behind them, then samples permuted inside windows.

    Reading: windows are cut by position, so a tail behind a full last window is one of its own.
    """

    num_samples: int
    block_size: int
    window_blocks: int
    seed: int = 0

    def num_positions(self, epoch: int) -> int:
        return self.num_samples

    def blocks(self, epoch: int) -> Permutation:
        num_whole = self.num_samples // self.block_size
        return Permutation(num_whole, self.seed, epoch, BLOCK_SHUFFLE_ID)

    def window(self, epoch: int, place: int) -> tuple[int, Permutation]:
        """Return the first position of the window around a place, and its permutation."""
        size = self.block_size * self.window_blocks
        number = place // size
        num_inside = min(size, self.num_samples - number * size)
        key = (self.seed, epoch, BLOCK_SHUFFLE_ID, BLOCK_WINDOW, number)
        return number * size, sub_permutation(num_inside, *key)

    def index_at(self, epoch: int, position: int) -> int:
        first, window = self.window(epoch, position)
        place = first + window.index_at(position - first)
        number, rest = divmod(place, self.block_size)
        blocks = self.blocks(epoch)
        if number < blocks.num_samples:
            number = blocks.index_at(number)
        return number * self.block_size + rest

    def position_of(self, epoch: int, index: int) -> int:
        number, rest = divmod(index, self.block_size)
        blocks = self.blocks(epoch)
        if number < blocks.num_samples:
            number = blocks.position_of(number)
        place = number * self.block_size + rest
        first, window = self.window(epoch, place)
        return first + window.position_of(place - first)


# -- mixture-1 -------------------------------------------------------------------------------------


def quotas_of(weights: Sequence[float], block: int) -> list[int]:
    """Share the slots of a block out by largest remainder, ties to the lower source.

    Reading: a weight is the exact value of its float, so no rounding decides between remainders.
    """
    exact = [Fraction(weight) for weight in weights]
    shares = [weight * block / sum(exact) for weight in exact]
    quotas = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda s: (quotas[s] - shares[s], s))
    for source in by_remainder[: block - sum(quotas)]:
        quotas[source] += 1
    return quotas


Stage = tuple[int, list[int]]
"""First position, and the quota of every source from there on."""


@lru_cache(maxsize=8)
def owners_of(quotas: tuple[int, ...], seed: int, epoch: int, number: int) -> list[int]:
    """Return the source drawn from at each position of block `number`."""
    slots = [source for source, quota in enumerate(quotas) for _ in range(quota)]
    places = sub_permutation(len(slots), seed, epoch, MIXTURE_ID, MIXTURE_BLOCK, number)
    return [slots[places.index_at(place)] for place in range(len(slots))]


def first_where(holds: Callable[[int], bool], limit: int) -> int:
    """Return the first number in [0, limit] where a condition holds; once true, it stays true."""
    low, high = 0, limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


@dataclass(frozen=True)
class Mixture(Indexed):
    """Several orders drawn from by exact quotas of a block."""

    sources: Sequence[Source]
    stages: list[Stage]
    block: int
    stopping: str = "first_exhausted"
    seed: int = 0

    @property
    def num_samples(self) -> int:
        return sum(source.num_samples for source in self.sources)

    def draws_before(self, number: int) -> list[int]:
        """Return how often each source is drawn from in an epoch before a block.

        Reading: a stage that begins behind the epoch's end plays no part.
        """
        starts = [first // self.block for first, _ in self.stages]
        draws = [0] * len(self.sources)
        for start, stop, (_, quotas) in zip(
            starts, [*starts[1:], number], self.stages, strict=True
        ):
            blocks = max(0, min(stop, number) - start)
            draws = [d + blocks * quota for d, quota in zip(draws, quotas, strict=True)]
        return draws

    def num_blocks(self) -> int:
        """Reading: each epoch is measured alone, as if every source began anew in it."""
        sizes = [source.num_positions(0) for source in self.sources]
        endless = min(2**62 // self.block, 2**55)
        if self.stopping == "forever":
            return endless

        def too_many(number: int) -> bool:
            return any(d > m for d, m in zip(self.draws_before(number), sizes, strict=True))

        def all_given(number: int) -> bool:
            return all(d >= m for d, m in zip(self.draws_before(number), sizes, strict=True))

        if self.stopping == "first_exhausted":
            number = first_where(too_many, 2**64) - 1
        else:
            number = first_where(all_given, 2**64)
        assert 0 < number < endless, "no block, or no end"
        return number

    def num_positions(self, epoch: int) -> int:
        return self.num_blocks() * self.block

    def owners(self, epoch: int, number: int) -> list[int]:
        quotas = [quotas for first, quotas in self.stages if first <= number * self.block][-1]
        return owners_of(tuple(quotas), self.seed, epoch, number)

    def counts(self, epoch: int, position: int) -> list[int]:
        number, inside = divmod(position, self.block)
        owners = self.owners(epoch, number)[:inside] if inside else []
        return [d + owners.count(s) for s, d in enumerate(self.draws_before(number))]

    def draw_at(self, epoch: int, position: int) -> tuple[int, int]:
        number, inside = divmod(position, self.block)
        source = self.owners(epoch, number)[inside]
        earlier = epoch * self.draws_before(self.num_blocks())[source]
        order = self.sources[source]
        draw = earlier + self.counts(epoch, position)[source]
        source_epoch, source_position = divmod(draw, order.num_positions(0))
        assert source_epoch < 2**40, "there is no such epoch of the source"
        return source, order.index_at(source_epoch, source_position)

    def index_at(self, epoch: int, position: int) -> int:
        source, index = self.draw_at(epoch, position)
        return index + sum(order.num_samples for order in self.sources[:source])


# -- weighted-1 ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weighted(Indexed):
    """Draws with replacement by an alias table of integers."""

    weights: Sequence[float]
    positions: int
    seed: int = 0
    capacity: int = field(init=False)
    columns: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        masses = self.masses(self.weights)
        object.__setattr__(self, "capacity", sum(masses))
        object.__setattr__(self, "columns", self.table(masses))

    @staticmethod
    def masses(weights: Sequence[float]) -> list[int]:
        """Reading: the sum is the one of binary64 additions; all that follows is exact."""
        total = 0.0
        for weight in weights:
            total += weight
        scale = Fraction(1)
        while Fraction(total) * scale >= 2**62:
            scale /= 2
        while Fraction(total) * scale < 2**61:
            scale *= 2
        return [int(Fraction(weight) * scale + Fraction(1, 2)) for weight in weights]

    @staticmethod
    def table(masses: Sequence[int]) -> list[tuple[int, int]]:
        """Return threshold and alias of every column."""
        n, capacity = len(masses), sum(masses)
        held = [mass * n for mass in masses]
        low = [column for column in range(n) if held[column] < capacity]
        high = [column for column in range(n) if held[column] >= capacity]
        columns = [(capacity, column) for column in range(n)]
        while low and high:
            small, large = low.pop(), high[-1]
            columns[small] = (held[small], large)
            held[large] -= capacity - held[small]
            if held[large] < capacity:
                low.append(high.pop())
        return columns

    @property
    def num_samples(self) -> int:
        return len(self.weights)

    def num_positions(self, epoch: int) -> int:
        return self.positions

    def index_at(self, epoch: int, position: int) -> int:
        n = len(self.weights)
        stream = words(self.seed, epoch, position, n, WEIGHTED_ID)
        column, r = bounded(stream, n), bounded(stream, self.capacity)
        threshold, alias = self.columns[column]
        return column if r < threshold else alias


# -- subset-1 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subset(Indexed):
    """Given indices, shuffled anew in every epoch or as they are given."""

    given: Sequence[int]
    num_samples: int
    seed: int = 0
    shuffle: bool = True

    def num_positions(self, epoch: int) -> int:
        return len(self.given)

    def index_at(self, epoch: int, position: int) -> int:
        if not self.shuffle:
            return self.given[position]
        return self.given[self.permutation(epoch).index_at(position)]

    def position_of(self, epoch: int, index: int) -> int:
        place = self.given.index(index)
        return self.permutation(epoch).position_of(place) if self.shuffle else place

    def permutation(self, epoch: int) -> Permutation:
        return Permutation(len(self.given), self.seed, epoch, SUBSET_ID)

"""Which statistics are taken at which sizes, over which keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import factorial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quality import statistics
from quality.report import Finding
from quality.statistics import Indices


class Filled(Protocol):
    """All that the suite asks of an order."""

    def fill(self, epoch: int, first: int, out: NDArray[np.int64], /) -> None: ...


Make = Callable[[int, int], Filled]
"""(num_samples, seed) -> order."""

Key = tuple[int, int]
"""(seed, epoch)."""


@dataclass(frozen=True)
class Effort:
    """How much is looked at.

    Attributes:
        code_book: Indices in the whole orders of one size.
        window: Indices in the windows of one size.
        bases: Keys of which every seed bit and epoch bit is flipped, about.
        whole: Sizes of which many whole orders are taken.
        single: Sizes of which one whole order is taken.
        windowed: Sizes of which only windows are taken.
        first_seeds: Each size is examined once with the seeds from each of these on.
    """

    code_book: int
    window: int
    bases: int
    whole: Sequence[int]
    single: Sequence[int]
    windowed: Sequence[int]
    first_seeds: Sequence[int] = (0,)


def about(*numbers: int) -> list[int]:
    return [number + d for number in numbers for d in (-1, 0, 1)]


SHORT = Effort(
    code_book=600_000,
    window=200_000,
    bases=8,
    whole=[*range(2, 7), 13, 52, 1025, 4096, 4097, 8193],
    single=[10**6, 2**20 + 1],
    windowed=[2**31, 2**31 + 1, 2**63 - 1],
)
LONG = Effort(
    code_book=20_000_000,
    window=4_000_000,
    bases=32,
    whole=[*range(2, 33), 52, 100, *about(256, 1000, 1024, 2048, 4096), 5000, *about(8192, 16384)],
    single=[2**16 + 1, *about(10**6, 10**7, 2**20, 2**22, 2**24)],
    windowed=[*about(2**31, 2**32, 2**40, 2**41, 10**12, 2**62), 2**63 - 1],
    first_seeds=(0, 2**39),
)

# Up to which size there are whole orders, many or one, and above which there are the others.
MAX_ENUMERATED = 6
MAX_WHOLE = 2**15
MAX_SINGLE = 2**25
MIN_RELATED = 50
MIN_WINDOWED = 1000

NUM_SEEDS = 4
MAX_KEYS = 20_000
"""Orders of a code book; those of all n! orders may be more."""
MAX_COUNTED = 300_000
"""Indices of a code book in which cycles and inversions are counted."""

# A key beside each key, for orders that must have nothing to do with one another.
RELATED: dict[str, Callable[[int, int], Key]] = {
    "next epoch": lambda seed, epoch: (seed, epoch + 1),
    "second next epoch": lambda seed, epoch: (seed, epoch + 2),
    "next seed": lambda seed, epoch: (seed + 1, epoch),
    "same sum": lambda seed, epoch: (seed + 1, epoch - 1),
    "same exclusive or": lambda seed, epoch: (seed ^ 1, epoch ^ 1),
    "exchanged": lambda seed, epoch: (epoch, seed),
}


def run(make: Make, effort: Effort) -> Iterator[Finding]:
    """Examine an order at every size of an effort."""
    for num_samples in (*effort.whole, *effort.single, *effort.windowed):
        yield from examine(make, num_samples, effort)


def examine(make: Make, num_samples: int, effort: Effort) -> Iterator[Finding]:
    """Yield what one size shows."""
    for first_seed in effort.first_seeds:
        examination = Examination(make, num_samples, effort, first_seed)
        for statistic, p_value in examination.p_values():
            yield Finding(statistic, num_samples, p_value)


@dataclass(frozen=True)
class Examination:
    """One size and the seeds from one on."""

    make: Make
    n: int
    effort: Effort
    first_seed: int

    def p_values(self) -> Iterator[tuple[str, float]]:
        if self.n <= MAX_ENUMERATED:
            count = max(MAX_KEYS, 50 * factorial(self.n))
            yield "all orders", statistics.all_orders(self.whole(count))
        elif self.n <= MAX_WHOLE:
            count = min(MAX_KEYS, self.effort.code_book // self.n)
            yield from permutation_statistics(self.whole(count))
        elif self.n <= MAX_SINGLE:
            yield from large_statistics(self.whole(1)[0])
        if self.n > MIN_WINDOWED:
            yield from window_statistics(self.windows(), self.n)
        if self.n > MIN_RELATED:
            yield from self.avalanche()
            yield from self.related()

    def sample(self, chosen: Sequence[Key], count: int, first: int = 0) -> Indices:
        """Return the indices at positions [first, first + count), one row for each key."""
        rows = np.empty((len(chosen), count), np.int32 if self.n < 2**31 else np.int64)
        row = np.empty(count, dtype=np.int64)
        for number, (seed, epoch) in enumerate(chosen):
            self.make(self.n, seed).fill(epoch, first, row)
            rows[number] = row
        return rows

    def keys(self, count: int) -> list[Key]:
        """Return the first epochs of a few neighbouring seeds: what users choose."""
        seeds = range(self.first_seed, self.first_seed + NUM_SEEDS)
        return [(seed, epoch) for epoch in range(-(-count // NUM_SEEDS)) for seed in seeds][:count]

    def whole(self, count: int) -> Indices:
        return self.sample(self.keys(count), self.n)

    def windows(self) -> Indices:
        """Return windows at the beginning, in the middle and at the end of an epoch."""
        count = min(1024, self.n // 16)
        chosen = self.keys(self.effort.window // count)
        firsts = (0, self.n // 2 - count // 2, self.n - count)
        return np.concatenate(
            [self.sample(chosen[i::3], count, first) for i, first in enumerate(firsts)]
        )

    def avalanche(self) -> Iterator[tuple[str, float]]:
        """Flip each bit of the seed and of the epoch: the order must be another one."""
        count = min(self.n, 256)
        # An even number of bits, so that no flipped key is among the plain ones.
        chosen = [key for key in self.keys(2 * self.effort.bases) if num_bits(key) % 2 == 0]
        plain = self.sample(chosen, count)
        flips = [("seed", 1 << bit, 0) for bit in range(64)]
        flips += [("epoch", 0, 1 << bit) for bit in range(40)]
        for name, seed_bit, epoch_bit in flips:
            other = self.sample([(s ^ seed_bit, e ^ epoch_bit) for s, e in chosen], count)
            yield f"avalanche of the {name}", statistics.differences(plain, other, self.n)
            yield f"avalanche of the {name}", statistics.difference_residues(plain, other, self.n)

    def related(self) -> Iterator[tuple[str, float]]:
        """Compare the orders of neighbouring keys: they must have nothing to do with another."""
        count = min(self.n, 5000)
        # Epochs far from the seeds and from each other, so that no pair of keys comes twice.
        chosen = [(s, 2**20 + 4 * e) for s, e in self.keys(self.effort.window // count)]
        plain = self.sample(chosen, count)
        for name, related in RELATED.items():
            other = self.sample([related(*key) for key in chosen], count)
            yield f"{name}: differences", statistics.differences(plain, other, self.n)
            yield f"{name}: residues", statistics.difference_residues(plain, other, self.n)
            yield f"{name}: correlation", statistics.correlation(plain, other, self.n)


def num_bits(key: Key) -> int:
    seed, epoch = key
    return (bin(seed) + bin(epoch)).count("1")


def permutation_statistics(book: Indices) -> Iterator[tuple[str, float]]:
    """Yield the statistics of many whole orders of a size; `book` has the shape (m, n)."""
    n = book.shape[1]
    yield "position x value", statistics.position_value(book)
    yield "first item", statistics.item(book, 0)
    yield "last item", statistics.item(book, n - 1)
    yield "displacements", statistics.displacements(book)
    yield "descents", statistics.descents(book)
    yield "fixed points", statistics.fixed_points(book)
    few = book[: max(100, MAX_COUNTED // n)]
    yield "inversions", statistics.inversions(few)
    yield "cycles", statistics.cycles(few)
    yield "parity", statistics.parity(few)
    if n <= 32:
        yield "longest increasing subsequence", statistics.longest_increasing(book)
    if n >= 1000:
        yield "position x residue", statistics.position_residue(book)
        yield from lag_statistics(book, n)
        spread = book[:, :: n // 32][:, :32]
        yield from pattern_statistics(spread)


def window_statistics(windows: Indices, n: int) -> Iterator[tuple[str, float]]:
    """Yield the statistics of windows of orders; `windows` has the shape (m, k), k well below n."""
    yield "values", statistics.values(windows, n)
    yield "residues", statistics.residues(windows, n)
    yield "neighbours", statistics.neighbours(windows, n)
    yield from lag_statistics(windows, n)
    yield from pattern_statistics(windows)


def lag_statistics(windows: Indices, n: int) -> Iterator[tuple[str, float]]:
    yield "low-bit runs", statistics.low_bit_runs(windows)
    for lag in (1, 2, 4, 8):
        yield "lag differences", statistics.lag_differences(windows, n, lag)
        for modulus in (16, 128):
            yield "lag residues", statistics.lag_residues(windows, n, lag, modulus)


def pattern_statistics(windows: Indices) -> Iterator[tuple[str, float]]:
    patterns = statistics.patterns(windows, 32)[: MAX_COUNTED // 32]
    yield "descents", statistics.descents(patterns)
    yield "inversions", statistics.inversions(patterns)
    yield "longest increasing subsequence", statistics.longest_increasing(patterns)


def large_statistics(order: Indices) -> Iterator[tuple[str, float]]:
    """Yield the statistics of one whole order of a large size, of shape (n,)."""
    n = len(order)
    index = np.arange(n, dtype=np.int32)
    classes = {"sorted classes": index // -(-n // 10), "index parity": index & 1}
    for name, labels in classes.items():
        for batch_size in (32, 256):
            yield f"batch variance, {name}", statistics.batch_variance(order, batch_size, labels)
    book = order[None]
    yield "position x value", statistics.position_value(book, max_cells=256)
    yield "displacements", statistics.displacements(book)
    for lag in (1, 2):
        yield "lag differences", statistics.lag_differences(book, n, lag)

"""The statistics themselves: exact laws, p-values that are uniform on true shuffles, and power."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import permutations as every_order

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from quality import distributions, statistics
from quality.fit import MIN_DEGREES_TWO_SIDED, Cells, chi_square, goodness_of_fit, uniformity
from quality.report import CERTAIN, FAMILY_ERROR, Finding, family_p_value
from quality.statistics import Indices
from quality.suite import large_statistics, permutation_statistics, window_statistics

Floats = NDArray[np.float64]


def shuffled(rng: np.random.Generator, m: int, n: int) -> Indices:
    return rng.permuted(np.tile(np.arange(n), (m, 1)), axis=1)


# -- Exact laws ------------------------------------------------------------------------------------

COUNTED: dict[str, tuple[Callable[[Indices], Indices], Callable[[int], Floats]]] = {
    "descents": (lambda p: (p[:, 1:] < p[:, :-1]).sum(axis=1), distributions.descents),
    "inversions": (statistics.count_inversions, distributions.inversions),
    "fixed points": (lambda p: (p == np.arange(7)).sum(axis=1), distributions.fixed_points),
    "cycles": (statistics.count_cycles, distributions.cycles),
    "longest increasing": (
        statistics.count_longest_increasing,
        distributions.longest_increasing,
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_law_is_the_count_over_all_orders(name: str) -> None:
    count, law = COUNTED[name]
    everything = np.array(list(every_order(range(7))))
    expected = np.bincount(count(everything), minlength=len(law(7))) / len(everything)
    assert law(7) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("n", [32, 5000])
def test_a_law_sums_to_one(n: int) -> None:
    laws = [distributions.descents, distributions.fixed_points, distributions.cycles]
    laws += [distributions.inversions, distributions.longest_increasing] if n == 32 else []
    assert [law(n).sum() for law in laws] == pytest.approx([1.0] * len(laws), abs=1e-12)


def test_inversions_are_counted_for_any_size() -> None:
    for n in (2, 3, 37, 300):
        p = shuffled(np.random.default_rng(n), 5, n)
        pairs = [sum((row[:i] > row[i]).sum() for i in range(n)) for row in p]
        assert statistics.count_inversions(p).tolist() == pairs


@pytest.mark.parametrize(("size", "count"), [(1, 4), (10, 3), (9, 2), (5000, 64), (2**63 - 1, 32)])
def test_cells_cover_every_number_once(size: int, count: int) -> None:
    cells = Cells.at_most(count, size)
    assert cells.sizes.sum() == size
    assert len(cells.sizes) <= count
    if size <= 5000:
        assert np.bincount(cells.of(np.arange(size))).tolist() == cells.sizes.tolist()


def test_counts_that_are_too_even_are_as_wrong() -> None:
    assert uniformity(np.arange(10_000) % 100, 100, max_cells=100) < CERTAIN
    assert chi_square(0.0, MIN_DEGREES_TWO_SIDED - 1) == 1.0  # a few may be exact by chance


def test_the_smallest_p_value_is_corrected_for_their_number() -> None:
    findings = [Finding("", 1, p) for p in (0.5, 1e-5, 0.01)]
    assert family_p_value(findings) == pytest.approx(3e-5)
    assert family_p_value(findings[:1] * 3) == 1.0


# -- Calibration: on true shuffles p-values are uniform --------------------------------------------

REPEATS = 25


def true_findings(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yield every statistic of the suite over numpy's shuffles."""
    for n in (13, 1024):
        yield from permutation_statistics(shuffled(rng, 100_000 // n, n))
    yield from window_statistics(shuffled(rng, 100, 2048)[:, :128], 2048)
    yield from window_statistics(rng.integers(0, 2**62 + 1, (50, 512)), 2**62 + 1)
    yield from large_statistics(rng.permutation(50_001))
    yield "all orders", statistics.all_orders(shuffled(rng, 2000, 4))
    for n, k in ((1000, 1000), (1000, 100)):
        p, q = shuffled(rng, 50, n)[:, :k], shuffled(rng, 50, n)[:, :k]
        yield "differences", statistics.differences(p, q, n)
        yield "difference residues", statistics.difference_residues(p, q, n)
        yield "correlation", statistics.correlation(p, q, n)


def test_p_values_of_true_shuffles_are_uniform() -> None:
    p_values = defaultdict(list)
    for seed in range(REPEATS):
        for name, p_value in true_findings(np.random.default_rng(seed)):
            p_values[name].append(p_value)
    fits = {name: stats.kstest(found, "uniform").pvalue for name, found in p_values.items()}
    assert min(fits.values()) * len(fits) >= FAMILY_ERROR, fits


# -- Power: each statistic sees a fault made for it ------------------------------------------------

N = 1000
TRUE = shuffled(np.random.default_rng(1), 400, N)


def sometimes_sorted() -> Indices:
    """One in eight orders is the identity."""
    book = TRUE.copy()
    book[::8] = np.arange(N)
    return book


def one_cycle() -> Indices:
    """Sattolo's algorithm: a shuffle that exchanges each element with an earlier one only."""
    rng = np.random.default_rng(2)
    book = np.tile(np.arange(N), (400, 1))
    rows = np.arange(400)
    for i in range(N - 1, 0, -1):
        j = rng.integers(0, i, 400)
        book[rows, i], book[rows, j] = book[rows, j], book[rows, i]
    return book


def naive(n: int) -> Indices:
    """Exchange each position with any: n**n equal ways cannot be n! equal orders."""
    rng = np.random.default_rng(3)
    book = np.tile(np.arange(n), (50_000, 1))
    rows = np.arange(50_000)
    for i in range(n):
        j = rng.integers(0, n, 50_000)
        book[rows, i], book[rows, j] = book[rows, j], book[rows, i]
    return book


def rotated() -> Indices:
    """Every order is one order from another place on."""
    return np.array([np.roll(TRUE[0], shift) for shift in range(0, N, 2)])


def taking_turns() -> Indices:
    """Even and odd indices take turns."""
    halves = TRUE[:, TRUE[0] < N // 2]
    halves = np.argsort(np.argsort(halves, axis=1), axis=1)
    return np.stack((2 * halves, 2 * halves[::-1] + 1), axis=2).reshape(400, N)


def stratified() -> Indices:
    """Batches of 50 with five of each of ten sorted classes: too even."""
    return np.arange(N).reshape(10, 100).T.ravel()


FAULTS: dict[str, Callable[[], float]] = {
    "all orders": lambda: statistics.all_orders(naive(4)),
    "position x value": lambda: statistics.position_value(naive(13)),
    "position x residue": lambda: statistics.position_residue(taking_turns()),
    "batch variance": lambda: statistics.batch_variance(stratified(), 50, np.arange(N) // 100),
    "item": lambda: statistics.item(sometimes_sorted(), 0),
    "displacements": lambda: statistics.displacements(sometimes_sorted()),
    "descents": lambda: statistics.descents(statistics.patterns(sometimes_sorted(), 32)),
    "inversions": lambda: statistics.inversions(sometimes_sorted()),
    "longest increasing subsequence": lambda: statistics.longest_increasing(
        statistics.patterns(sometimes_sorted(), 32)
    ),
    "fixed points": lambda: statistics.fixed_points(sometimes_sorted()),
    "cycles": lambda: statistics.cycles(one_cycle()),
    "parity": lambda: statistics.parity(one_cycle()),
    "values": lambda: statistics.values(TRUE[:, :100] // 2, N),
    "residues": lambda: statistics.residues(TRUE[:, :100] // 2 * 2, N),
    "neighbours": lambda: statistics.neighbours(rotated(), N),
    "lag differences": lambda: statistics.lag_differences(rotated(), N, 1),
    "lag residues": lambda: statistics.lag_residues(taking_turns(), N, 1, 16),
    "low-bit runs": lambda: statistics.low_bit_runs(taking_turns()),
    "differences": lambda: statistics.differences(TRUE, (TRUE + 1) % N, N),
    "difference residues": lambda: statistics.difference_residues(TRUE, TRUE ^ 1, N),
    "correlation": lambda: statistics.correlation(TRUE, N - 1 - TRUE, N),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_statistic_sees_a_fault_made_for_it(name: str) -> None:
    assert FAULTS[name]() < CERTAIN


def test_rare_values_share_a_cell() -> None:
    law = distributions.cycles(5000)
    values = np.random.default_rng(4).choice(len(law), 1000, p=law / law.sum())
    assert goodness_of_fit(values, law) > FAMILY_ERROR
    assert goodness_of_fit(values + 1, law) < CERTAIN

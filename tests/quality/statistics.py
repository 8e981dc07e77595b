"""The statistics, under their names in the literature; each returns one p-value.

`permutations` is an array of shape (m, n): m whole orders of [0, n). `windows` is an array of shape
(m, k): k neighbouring positions of m orders of [0, num_samples). Rows are independent, of different
keys. `modulus` is a power of two. See Knuth, The Art of Computer Programming 2, 3.3.2, and
Diaconis, Group Representations in Probability and Statistics, chapter 6.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations as every_order
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quality import distributions
from quality.fit import Cells, chi_square, goodness_of_fit, pearson, scores, uniformity

Indices = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]

MAX_EXACT_INVERSIONS = 64

# -- Whole permutations ----------------------------------------------------------------------------


def all_orders(permutations: Indices) -> float:
    """How often each of the n! orders occurs, for small n."""
    n = permutations.shape[1]
    digits = n ** np.arange(n)[::-1]
    codes = np.array(list(every_order(range(n)))) @ digits
    counts = np.bincount(np.searchsorted(codes, permutations @ digits), minlength=factorial(n))
    return pearson(counts, np.full(len(codes), len(permutations) / len(codes)))


def position_value(permutations: Indices, max_cells: int = 64) -> float:
    """Does an index prefer some positions? Counts of (position, index) in a square of cells."""
    m, n = permutations.shape
    cells = Cells.at_most(max_cells, n)
    squares = cells.of(np.arange(n)) * len(cells.sizes) + cells.of(permutations)
    return _table(squares, cells.sizes, cells.sizes, n, m)


def position_residue(permutations: Indices, modulus: int = 4) -> float:
    """Do the low bits of an index prefer some of the n positions?"""
    m, n = permutations.shape
    squares = np.arange(n) * modulus + (permutations & (modulus - 1))
    return _table(squares, np.ones(n), _residue_sizes(n, modulus), n, m)


def batch_variance(permutation: Indices, batch_size: int, labels: Indices) -> float:
    """Are the classes in the batches as uneven as they should be, no more and no less?

    Args:
        permutation: One whole order, of shape (n,).
        batch_size: Positions in a batch.
        labels: The class of every index; the data are sorted if the labels are.
    """
    n = len(permutation)
    batches = Cells(n, batch_size)
    classes = np.bincount(labels).astype(np.float64)
    squares = batches.of(np.arange(n)) * len(classes) + labels[permutation]
    return _table(squares, batches.sizes, classes, n, 1)


def _table(squares: Indices, rows: Floats, columns: Floats, n: int, num_orders: int) -> float:
    """Test a table of positions against indices, given the square of every pair.

    With both margins fixed the counts of one order are hypergeometric: the covariances are those of
    a product of two multinomials, times n / (n - 1).
    """
    expected = np.outer(rows, columns).ravel() * (num_orders / n)
    counts = np.bincount(squares.ravel(), minlength=expected.size)
    statistic = float((np.square(counts - expected) / expected).sum()) * (n - 1) / n
    return chi_square(statistic, (len(rows) - 1) * (len(columns) - 1))


def item(permutations: Indices, position: int) -> float:
    """Is the index at one position (the first, the last) uniform?"""
    return uniformity(permutations[:, position], permutations.shape[1], max_cells=1024)


def displacements(permutations: Indices) -> float:
    """Is (p[i] - i) mod n uniform? Rotations and near-identities show here."""
    n = permutations.shape[1]
    return differences(np.arange(n), permutations, n)


def descents(permutations: Indices) -> float:
    """Number of descents, that is of increasing runs less one."""
    falls = (permutations[:, 1:] < permutations[:, :-1]).sum(axis=1)
    return goodness_of_fit(falls, distributions.descents(permutations.shape[1]))


def inversions(permutations: Indices) -> float:
    """Number of pairs out of order (Kendall's tau)."""
    n = permutations.shape[1]
    counts = count_inversions(permutations)
    if n <= MAX_EXACT_INVERSIONS:
        return goodness_of_fit(counts, distributions.inversions(n))
    mean, variance = n * (n - 1) / 4, n * (n - 1) * (2 * n + 5) / 72
    return scores((counts - mean) / np.sqrt(variance))


def longest_increasing(permutations: Indices) -> float:
    """Length of the longest increasing subsequence; n up to about 40."""
    lengths = count_longest_increasing(permutations)
    return goodness_of_fit(lengths, distributions.longest_increasing(permutations.shape[1]))


def fixed_points(permutations: Indices) -> float:
    """Number of positions that hold their own index."""
    n = permutations.shape[1]
    counts = (permutations == np.arange(n)).sum(axis=1)
    law = distributions.fixed_points(n)
    return goodness_of_fit(np.minimum(counts, len(law) - 1), law)


def cycles(permutations: Indices) -> float:
    """Number of cycles."""
    law = distributions.cycles(permutations.shape[1])
    return goodness_of_fit(np.minimum(count_cycles(permutations), len(law) - 1), law)


def parity(permutations: Indices) -> float:
    """Are half of the permutations even? A permutation is even when n less its cycles is."""
    odd = (permutations.shape[1] - count_cycles(permutations)) % 2
    return goodness_of_fit(odd, np.array([0.5, 0.5]))


def count_inversions(permutations: Indices) -> NDArray[np.int64]:
    """Count by bits: an inversion is a 1 before a 0 at the highest bit in which the two differ."""
    m, n = permutations.shape
    slots = np.arange(n)
    total = np.zeros(m, dtype=np.int64)
    compact = permutations.astype(np.min_scalar_type(n - 1))  # 16 bits are sorted by radix
    for bit in range((n - 1).bit_length()):
        order = np.argsort(compact >> (bit + 1), axis=1, kind="stable")
        ones = np.take_along_axis(compact, order, axis=1) >> bit & 1
        # Every index occurs, so the groups before a slot are full and half of them are ones.
        earlier = np.cumsum(ones, axis=1, dtype=np.int64) - (slots >> (bit + 1) << bit)
        total += np.where(ones, 0, earlier).sum(axis=1)
    return total


def count_cycles(permutations: Indices) -> NDArray[np.int64]:
    """Count the elements that are the smallest of their cycle, by pointer doubling."""
    m, n = permutations.shape
    elements = np.arange(m * n)
    step = (permutations + elements[::n, None]).ravel()  # one permutation of all rows
    smallest = elements
    for _ in range((n - 1).bit_length()):
        smallest = np.minimum(smallest, smallest[step])
        step = step[step]
    counts: NDArray[np.int64] = (smallest == elements).reshape(m, n).sum(axis=1)
    return counts


def count_longest_increasing(permutations: Indices) -> NDArray[np.int64]:
    """Count by patience sorting: the smallest end of an increasing subsequence of each length."""
    m, n = permutations.shape
    ends = np.full((m, n), n, dtype=np.int64)
    for column in permutations.T:
        pile = (ends < column[:, None]).sum(axis=1)
        ends[np.arange(m), pile] = column
    lengths: NDArray[np.int64] = (ends < n).sum(axis=1)
    return lengths


# -- Windows of orders of any size -----------------------------------------------------------------


def patterns(windows: Indices, length: int) -> NDArray[np.int64]:
    """Return the relative order of every `length` neighbours, as permutations of [0, length).

    Those of a true shuffle are uniform and, where they do not overlap, independent.
    """
    used = windows.shape[1] // length * length
    pieces = windows[:, :used].reshape(-1, length)
    return np.argsort(np.argsort(pieces, axis=1), axis=1)


def values(windows: Indices, num_samples: int) -> float:
    """Are the indices uniform?"""
    scale = _without_replacement(windows, num_samples)
    return uniformity(windows, num_samples, max_cells=4096, scale=scale)


def residues(windows: Indices, num_samples: int, modulus: int = 64) -> float:
    """Are the low bits of the indices uniform?"""
    sizes = _residue_sizes(num_samples, modulus)
    counts = np.bincount((windows & (modulus - 1)).ravel(), minlength=modulus)
    scale = _without_replacement(windows, num_samples)
    return pearson(counts, sizes / num_samples * windows.size, scale=scale)


def _without_replacement(windows: Indices, num_samples: int) -> float:
    """Return the variance of counts in k draws with replacement over that of k positions."""
    k: int = windows.shape[1]
    return (num_samples - 1) / (num_samples - k)


def neighbours(windows: Indices, num_samples: int, max_cells: int = 32) -> float:
    """The serial test: are pairs at positions (0, 1), (2, 3), ... uniform in a square of cells?

    The pairs count as independent, so a window is a small part of its order.
    """
    cells = Cells.at_most(max_cells, num_samples)
    sizes = cells.sizes
    pairs = cells.of(windows[:, : windows.shape[1] // 2 * 2]).reshape(-1, 2)
    counts = np.bincount(pairs[:, 0] * len(sizes) + pairs[:, 1], minlength=len(sizes) ** 2)
    probability = (np.outer(sizes, sizes) - np.diag(sizes)) / num_samples / (num_samples - 1)
    return pearson(counts, probability.ravel() * len(pairs))


def lag_differences(windows: Indices, num_samples: int, lag: int) -> float:
    """Is (p[i + lag] - p[i]) mod n uniform over 1 .. n - 1?"""
    steps = _modulo(windows[:, lag:] - windows[:, :-lag], num_samples) - 1
    return uniformity(steps, num_samples - 1, max_cells=num_samples)


def lag_residues(windows: Indices, num_samples: int, lag: int, modulus: int) -> float:
    """Are the low bits of p[i + lag] - p[i] as they should be? Linear low bits show here."""
    steps = (windows[:, lag:] - windows[:, :-lag]) & (modulus - 1)
    pairs = _residue_pairs(num_samples, modulus)
    pairs = np.append(pairs[0] - num_samples, pairs[1:])  # no index comes twice
    return pearson(np.bincount(steps.ravel(), minlength=modulus), pairs / pairs.sum() * steps.size)


def _modulo(steps: Indices, num_samples: int) -> Indices:
    """Return steps of (-n, n) modulo n, without a division."""
    return np.where(steps < 0, steps + num_samples, steps)


def low_bit_runs(windows: Indices) -> float:
    """Number of runs of odd and even indices, for each order by itself (Wald-Wolfowitz 1940)."""
    odd = windows & 1
    k = windows.shape[1]
    ones = odd.sum(axis=1).astype(np.float64)
    runs = 1 + (odd[:, 1:] != odd[:, :-1]).sum(axis=1)
    mean = 1 + 2 * ones * (k - ones) / k
    return scores((runs - mean) / np.sqrt((mean - 1) * (mean - 2) / (k - 1)))


def _residue_sizes(num_samples: int, modulus: int) -> Floats:
    return np.array([len(range(r, num_samples, modulus)) for r in range(modulus)], np.float64)


@lru_cache(maxsize=32)
def _residue_pairs(num_samples: int, modulus: int) -> Floats:
    """Return how many pairs (a, b) of [0, n) have (b - a) mod modulus == r, for every r."""
    sizes = _residue_sizes(num_samples, modulus)
    return np.array([sizes @ np.roll(sizes, -r) for r in range(modulus)])


# -- Two orders of different keys, position by position --------------------------------------------


def differences(windows: Indices, others: Indices, num_samples: int) -> float:
    """Is (q[i] - p[i]) mod n uniform? Equal and shifted orders show here."""
    n, k = num_samples, others.shape[1]
    # No index comes twice in either, which makes the counts of k of n positions more uneven.
    scale = (n - 1) ** 2 / (n * (n - 2) + k)
    return uniformity(_modulo(others - windows, n), n, max_cells=n, scale=scale)


def difference_residues(
    windows: Indices, others: Indices, num_samples: int, modulus: int = 16
) -> float:
    """Are the low bits of q[i] - p[i] as they should be?"""
    steps = (others - windows) & (modulus - 1)
    pairs = _residue_pairs(num_samples, modulus)
    return pearson(np.bincount(steps.ravel(), minlength=modulus), pairs / pairs.sum() * steps.size)


def correlation(windows: Indices, others: Indices, num_samples: int) -> float:
    """Rank correlation of two orders (Spearman's rho)."""
    k = windows.shape[1]
    centre = (num_samples - 1) / 2
    variance = (float(num_samples) ** 2 - 1) / 12
    products = ((windows - centre) * (others - centre)).sum(axis=1) / variance
    # The sum over a whole order varies a little more: k + k (k - 1) / (n - 1)^2 in place of k.
    spread = k + k * (k - 1) / (num_samples - 1.0) ** 2
    return scores(products / np.sqrt(spread))

"""Exact distributions of statistics of a uniformly random permutation of n elements.

Entry k of every array is the probability of the value k; a tail below 1e-16 may be cut off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@lru_cache(maxsize=32)
def descents(n: int) -> Floats:
    """Eulerian numbers: places i with p[i] > p[i + 1]."""
    law = np.ones(1)
    for size in range(2, n + 1):
        k = np.arange(size)
        law = ((k + 1) * np.append(law, 0) + (size - k) * np.append(0, law)) / size
    return law


@lru_cache(maxsize=32)
def inversions(n: int) -> Floats:
    """Mahonian numbers: pairs i < j with p[i] > p[j]."""
    law = np.ones(1)
    for size in range(2, n + 1):
        law = np.convolve(law, np.full(size, 1 / size))
    return law


@lru_cache(maxsize=32)
def fixed_points(n: int) -> Floats:
    """Rencontres numbers: places i with p[i] == i."""
    alternating = np.cumsum([(-1) ** j / math.factorial(j) for j in range(min(n, 20) + 1)])
    terms = range(min(n, 20) + 1)
    return np.array([alternating[min(n - k, 20)] / math.factorial(k) for k in terms])


@lru_cache(maxsize=32)
def cycles(n: int) -> Floats:
    """Stirling numbers of the first kind: cycles; element i closes one with probability 1 / i."""
    law = np.zeros(64)
    law[0] = 1
    for size in range(1, n + 1):
        law[1:] = law[1:] * (1 - 1 / size) + law[:-1] / size
        law[0] *= 1 - 1 / size
    return law


@lru_cache(maxsize=32)
def longest_increasing(n: int) -> Floats:
    """Length of the longest increasing subsequence.

    Source: Schensted 1961 (its distribution is that of the first row of a pair of Young tableaux
    of one shape); Frame, Robinson and Thrall 1954 (their number, by hook lengths).
    """
    law = np.zeros(n + 1)
    for shape in partitions(n, n):
        law[shape[0]] += float(tableaux(shape)) ** 2 / math.factorial(n)
    return law


def partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield the partitions of a number into parts of at most `largest`, each in falling order."""
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)


def tableaux(shape: tuple[int, ...]) -> int:
    """Return the number of standard Young tableaux: n! over the product of the hook lengths."""
    columns = [sum(row > j for row in shape) for j in range(shape[0])]
    hooks = (row - j + columns[j] - i - 1 for i, row in enumerate(shape) for j in range(row))
    return math.factorial(sum(shape)) // math.prod(hooks)

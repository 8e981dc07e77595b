"""From counts to p-values.

They are two-sided, as too even is as wrong as too uneven, but for chi-square tests of few degrees
of freedom: by chance alone, a few counts may be exactly the expected ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

# Below about five expected counts in a cell the chi-square approximation is poor (Cochran 1954).
MIN_EXPECTED = 5.0
MIN_DEGREES_TWO_SIDED = 10


def chi_square(statistic: float, degrees: int) -> float:
    """Return the p-value of a statistic that follows the chi-square distribution."""
    below, above = special.chdtr(degrees, statistic), special.chdtrc(degrees, statistic)
    if degrees < MIN_DEGREES_TWO_SIDED:
        return float(above)
    return min(1.0, 2 * min(float(below), float(above)))


def pearson(counts: NDArray[Any], expected: NDArray[Any], *, scale: float = 1.0) -> float:
    """Test counts of a fixed total against expected ones (Pearson 1900).

    Args:
        counts: Observed counts.
        expected: Expected counts of the same shape and total, each at least MIN_EXPECTED.
        scale: Covariance of multinomial counts over that of the counts.
    """
    assert expected.min() >= MIN_EXPECTED, "too few counts expected in a cell"
    statistic = float((np.square(counts - expected) / expected).sum())
    return chi_square(statistic * scale, expected.size - 1)


def goodness_of_fit(values: NDArray[Any], probabilities: Floats) -> float:
    """Test integers against their exact distribution over 0, 1, ...; rare values share a cell."""
    expected = probabilities * len(values)
    cells = np.zeros(len(probabilities), dtype=np.int64)
    cell, room = 0, 0.0
    for value, count in enumerate(expected.tolist()):
        cells[value] = cell
        room += count
        if room >= MIN_EXPECTED:
            cell, room = cell + 1, 0.0
    cells[cells == cell] = cell - 1  # what is left at the end joins the cell before it
    counts = np.bincount(values, minlength=len(probabilities))
    return pearson(np.bincount(cells, counts), np.bincount(cells, expected))


def uniformity(values: NDArray[Any], size: int, *, max_cells: int, scale: float = 1.0) -> float:
    """Test integers that are uniform on [0, size), in equal cells of 50 values or more."""
    cells = Cells.at_most(max(2, min(max_cells, values.size // 50)), size)
    counts = np.bincount(cells.of(values).ravel(), minlength=len(cells.sizes))
    return pearson(counts, cells.sizes / size * values.size, scale=scale)


@dataclass(frozen=True)
class Cells:
    """[0, size) cut into cells of `width` numbers; a short rest joins the last one."""

    size: int
    width: int

    @classmethod
    def at_most(cls, count: int, size: int) -> Cells:
        return cls(size, -(-size // count))

    @property
    def sizes(self) -> Floats:
        """How many numbers fall in each cell."""
        count = max(1, (self.size + self.width // 2) // self.width)
        sizes = np.full(count, self.width, dtype=np.float64)
        sizes[-1] = self.size - self.width * (count - 1)
        return sizes

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the number of the cell of each value."""
        return values if self.width == 1 else np.minimum(values // self.width, len(self.sizes) - 1)


def scores(z: Floats) -> float:
    """Test numbers that are standard normal: their mean and, apart from it, their spread."""
    mean = z.sum() / math.sqrt(len(z))
    p_mean = 2 * float(special.ndtr(-abs(mean)))
    p_spread = chi_square(float(np.square(z - z.mean()).sum()), len(z) - 1)
    # The two are independent, so the smaller is corrected exactly (Sidak 1967).
    smaller = min(p_mean, p_spread)
    return 1.0 if smaller == 1 else -math.expm1(2 * math.log1p(-smaller))

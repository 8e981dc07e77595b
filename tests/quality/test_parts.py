"""The shuffles inside block shuffles, mixtures and subsets are as good as true ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from quality.parts import Blocks, Slots, Window, subset
from quality.report import CERTAIN, FAMILY_ERROR, family_p_value, table
from quality.suite import SHORT, Make, examine

EFFORT = replace(SHORT, code_book=100_000, bases=2)


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        pytest.param(partial(Window, block_size=1, number=0), (5, 13), id="window of samples"),
        pytest.param(partial(Window, block_size=4, number=5), (52, 4100), id="late window"),
        pytest.param(Blocks, (5, 52, 5000), id="blocks"),
        pytest.param(partial(Slots, number=0), (5, 52), id="first block of a mixture"),
        pytest.param(partial(Slots, number=7), (13, 100), id="later block of a mixture"),
        pytest.param(subset, (5, 52, 5000), id="subset"),
    ],
)
def test_a_part_passes(make: Make, sizes: tuple[int, ...]) -> None:
    findings = [finding for size in sizes for finding in examine(make, size, EFFORT)]
    assert family_p_value(findings) >= FAMILY_ERROR, table(findings)


def test_windows_that_are_not_shuffled_fail() -> None:
    in_order = partial(Window, block_size=52, number=1)  # one block: a window of one block
    findings = list(examine(in_order, 52, EFFORT))
    assert family_p_value(findings) >= FAMILY_ERROR, table(findings)

    class Unshuffled(Window):
        def fill(self, epoch: int, first: int, out: object) -> None:
            super().fill(0, first, out)  # type: ignore[arg-type]  # every epoch the same

    findings = list(examine(partial(Unshuffled, block_size=4, number=1), 52, EFFORT))
    assert family_p_value(findings) < CERTAIN, table(findings)

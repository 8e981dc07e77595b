"""Orders that must fail, each shuffle-1 with one thing spoilt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from quality.networks import Design, Network, affine, summed
from quality.suite import SHORT, Effort, Make


@dataclass(frozen=True)
class KnownBad:
    """An order, the size and the effort at which it must fail, and the statistic that sees why."""

    name: str
    make: Make
    num_samples: int
    effort: Effort
    caught_by: str


KNOWN_BAD = (
    KnownBad(
        "six rounds",
        partial(Network, design=Design(num_rounds=6)),
        5000,
        replace(SHORT, code_book=8_000_000),
        "lag residues",
    ),
    KnownBad(
        "affine round",
        partial(Network, design=Design(mixer=affine)),
        5000,
        SHORT,
        "lag residues",
    ),
    # Cycle walking from 2**14 to two less keeps nearly every permutation even.
    KnownBad(
        "balanced network",
        partial(Network, design=Design(balanced=True)),
        2**14 - 2,
        replace(SHORT, code_book=2_000_000),
        "parity",
    ),
    KnownBad(
        "seed + epoch",
        partial(Network, design=Design(philox_key=summed)),
        5000,
        SHORT,
        "same sum: differences",
    ),
    KnownBad(
        "three wide rounds",
        partial(Network, design=Design(num_rounds=3)),
        10**12,
        SHORT,
        "lag differences",
    ),
)

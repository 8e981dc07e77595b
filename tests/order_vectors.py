"""Cases and lines of the golden files of the orders that have more parameters than a size.

A file is a list of cases, each a group of lines: a keyword and its words, from `case` to `end`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reference import MASK64, Shuffle
from reference_orders import BlockShuffle, Mixture, Sequential, Source, Stage, Subset, Weighted

LAST_EPOCH = 2**40 - 1


def line(*words: object) -> str:
    return " ".join(map(str, words))


# -- block_shuffle.txt -----------------------------------------------------------------------------

BLOCK_SHUFFLE_HEADER = """\
# block-shuffle-1, decimal: num_samples block_size window_blocks seed epoch position index.
# Every position up to 16 samples; above, positions about the ends, the windows and the tail.
"""

BLOCK_SHUFFLE_CASES = [
    (1, 1, 1),
    (2, 1, 1),
    (5, 8, 3),  # no whole block
    (7, 3, 1),  # a short last block in a window of its own
    (8, 3, 2),  # a short last block behind two whole ones, in the second window
    (11, 3, 2),  # a short last block behind a window's only whole one
    (12, 3, 2),
    (16, 1, 4),
    (15, 5, 100),  # one window
    (1000, 10, 7),
    (1003, 10, 7),
    (4097, 4097, 1),
    (5000, 1, 5000),  # as many blocks as a network permutes
    (20_000, 50, 100),  # windows of 5000
    (20_001, 5000, 1),  # blocks of 5000 and a tail of one
    (30_007, 5000, 2),
    (1_000_003, 4096, 16),
    (2**31 + 77, 65_536, 1024),
    (10**12 + 1, 2**33, 3),  # windows above 2^31
    (2**55, 1, 1),
    (2**63 - 1, 2**20, 2**10),
    (2**63 - 1, 1, 2**63 - 1),
    (2**63 - 1, 2**63 - 1, 2**63 - 1),
]


def block_shuffle_lines() -> Iterator[str]:
    for n, block_size, window_blocks in BLOCK_SHUFFLE_CASES:
        window = block_size * window_blocks
        tail = n - n % block_size
        near = {0, 1, window - 1, window, n // 2, tail - 1, tail, n // window * window, n - 1}
        positions: Iterable[int] = range(n) if n <= 16 else sorted(p for p in near if 0 <= p < n)
        for seed, epoch in ((0, 0), (7, 1), (MASK64, LAST_EPOCH)):
            order = BlockShuffle(n, block_size, window_blocks, seed)
            for position in positions:
                index = order.index_at(epoch, position)
                yield line(n, block_size, window_blocks, seed, epoch, position, index)


# -- mixture.txt -----------------------------------------------------------------------------------

MIXTURE_HEADER = """\
# mixture-1, decimal. A case is a group of lines, each a keyword and its words:
#   case name
#   mixture block stopping seed
#   shuffle num_samples seed | sequential num_samples      (one line a source, in order)
#   stage first quotas...                                  (one line a stage)
#   positions num_positions
#   draw epoch position index source source_index counts...
#                      (counts: draws of each source in this epoch before the position)
#   end
"""


class MixtureCase(NamedTuple):
    """A mixture, and the places to draw from."""

    name: str
    sources: list[Source]
    stages: list[Stage]
    block: int
    stopping: str
    epochs: tuple[int, ...] = (0, 1, 5)
    positions: tuple[int, ...] | None = None  # None: all


_PAIR: list[Source] = [Shuffle(23, 1), Sequential(7)]
_HUGE: list[Source] = [Shuffle(2**61, 1), Sequential(2**40), Shuffle(10**6, 9)]

MIXTURE_CASES = [
    MixtureCase("one-source", [Shuffle(5, 3)], [(0, [1])], 1, "first_exhausted"),
    MixtureCase("blocks-of-one", _PAIR, [(0, [1, 0]), (20, [0, 1])], 1, "first_exhausted"),
    MixtureCase("first-exhausted", _PAIR, [(0, [7, 3])], 10, "first_exhausted"),
    MixtureCase("first-exhausted-exactly", _PAIR, [(0, [1, 1])], 2, "first_exhausted"),
    MixtureCase("small-source-wraps", _PAIR, [(0, [7, 3])], 10, "all_exhausted"),
    MixtureCase("all-exhausted-exactly", _PAIR, [(0, [23, 7])], 30, "all_exhausted"),
    MixtureCase("block-above-a-source", _PAIR, [(0, [13, 37])], 50, "all_exhausted"),
    MixtureCase("stages", _PAIR, [(0, [5, 0]), (10, [1, 4]), (15, [4, 1])], 5, "first_exhausted"),
    MixtureCase("stages-wrap", _PAIR, [(0, [5, 0]), (25, [0, 5])], 5, "all_exhausted"),
    MixtureCase("stage-at-the-end", _PAIR, [(0, [2, 1]), (36, [1, 2])], 3, "all_exhausted"),
    MixtureCase("stage-behind-the-end", _PAIR, [(0, [2, 1]), (300, [3, 0])], 3, "all_exhausted"),
    MixtureCase(
        "left-out-source",
        [*_PAIR, Shuffle(4, 2)],
        [(0, [2, 1, 0])],
        3,
        "forever",
        (0,),
        (*range(60), 2**40, 2**44 + 1),
    ),
    MixtureCase("forever", _PAIR, [(0, [1, 1])], 2, "forever", (0,), (0, 1, 46, 47, 10**9)),
    MixtureCase(
        "forever-late",
        _HUGE,
        [(0, [898, 101, 1])],
        1000,
        "forever",
        (0, 1),
        (0, 999, 1000, 10**15 + 123, 2**62 // 1000 * 1000 - 1),
    ),
    MixtureCase(
        "network-in-a-block",
        _HUGE,
        [(0, [4000, 999, 1])],
        5000,
        "first_exhausted",
        (0, 3),
        (0, 1, 4999, 5000, 2_500_000, 4_999_999_999),
    ),
    MixtureCase(
        "largest-block",
        [Shuffle(10**7, 1), Shuffle(3, 2)],
        [(0, [65_535, 1])],
        65_536,
        "all_exhausted",
        (2,),
        (0, 1, 65_535, 65_536),
    ),
    MixtureCase(
        "last-epoch", _PAIR, [(0, [7, 3])], 10, "first_exhausted", (LAST_EPOCH,), (0, 7, 19)
    ),
]


def _source_line(source: Source) -> str:
    if isinstance(source, Shuffle):
        return line("shuffle", source.num_samples, source.seed)
    return line("sequential", source.num_samples)


def mixture_lines() -> Iterator[str]:
    for case in MIXTURE_CASES:
        order = Mixture(case.sources, case.stages, case.block, case.stopping, seed=11)
        num_positions = order.num_positions(0)
        yield line("case", case.name)
        yield line("mixture", case.block, case.stopping, order.seed)
        yield from map(_source_line, case.sources)
        for first, quotas in case.stages:
            yield line("stage", first, *quotas)
        yield line("positions", num_positions)
        for epoch in case.epochs:
            for position in case.positions or range(num_positions):
                drawn = order.draw_at(epoch, position)
                counts = order.counts(epoch, position)
                yield line(
                    "draw", epoch, position, order.index_at(epoch, position), *drawn, *counts
                )
        yield "end"


# -- weighted.txt ----------------------------------------------------------------------------------

WEIGHTED_HEADER = """\
# weighted-1, decimal but for the weights. A case is a group of lines, each a keyword and its words:
#   case name
#   weights bits...                 (each the bits of a binary64, hexadecimal)
#   squares count modulus           (in place of weights: weight i is i * i mod modulus)
#   order num_positions seed
#   draw epoch position index
#   end
"""

# Scaled by the case below, one mass is a half less 2^-54, the others odd and above 2^52: adding
# 1/2 in binary64 would change all of them.
_ROUNDED_TWICE = [2.0**60, 2.0**60, 0.5 - 2.0**-54, 2.0**52 + 1, 2.0**52 + 3, 2.0**52 + 5]

WEIGHTED_CASES: list[tuple[str, list[float], int]] = [
    ("one", [0.25], 40),
    ("equal", [3.0] * 8, 40),
    ("equal-odd", [0.1] * 7, 40),
    ("zeros", [0.0, 1.0, 0.0, 0.0, 5.5, 0.0], 60),
    ("rising", [float(i) for i in range(1, 12)], 80),
    ("far-apart", [1e-300, 1e300, 1e-300], 20),
    ("subnormal", [5e-324, 1.5e-323, 0.0], 40),
    ("largest", [1.7e308, 0.0, 3e306], 40),
    ("below-the-grid", [1.0, 2.0**-62, 2.0**-63, 0.5], 40),
    ("rounded-twice", _ROUNDED_TWICE, 40),
    ("endless", [0.5, 0.25, 0.125], 2**63 - 1),
]
SQUARES_CASES = [("table-limit", 4096, 1009, 10**6), ("many", 5003, 1009, 10**6)]


def bits(weight: float) -> str:
    return struct.pack(">d", weight).hex()


def _weighted_case(name: str, weights: list[float], given: str, positions: int) -> Iterator[str]:
    order = Weighted(weights, positions, seed=5)
    yield line("case", name)
    yield given
    yield line("order", positions, order.seed)
    for epoch in (0, LAST_EPOCH):
        for position in (*range(min(positions, 30)), positions // 2, positions - 1):
            yield line("draw", epoch, position, order.index_at(epoch, position))
    yield "end"


def weighted_lines() -> Iterator[str]:
    for name, weights, positions in WEIGHTED_CASES:
        yield from _weighted_case(name, weights, line("weights", *map(bits, weights)), positions)
    for name, count, modulus, positions in SQUARES_CASES:
        squares = [float(i * i % modulus) for i in range(count)]
        yield from _weighted_case(name, squares, line("squares", count, modulus), positions)


# -- subset.txt ------------------------------------------------------------------------------------

SUBSET_HEADER = """\
# subset-1, decimal. A case is a group of lines, each a keyword and its words:
#   case name
#   indices indices...
#   multiples count factor          (in place of indices: index i is i * factor mod num_samples)
#   order num_samples seed shuffle  (shuffle: 0 or 1)
#   draw epoch position index
#   end
"""

SUBSET_CASES: list[tuple[str, list[int], int]] = [
    ("one", [0], 1),
    ("one-of-many", [2**63 - 2], 2**63 - 1),
    ("rising", [1, 2, 4, 8, 9], 10),
    ("falling", [9, 8, 4, 2, 1], 10),
    ("all", [3, 0, 2, 1], 4),
    ("far", [2**62, 5, 2**40, 0, 2**63 - 2], 2**63 - 1),
]
MULTIPLES_CASES = [("table-limit", 4096, 31, 5000), ("network", 5000, 999_983, 10**9 + 7)]


def _subset_case(name: str, indices: list[int], given: str, num_samples: int) -> Iterator[str]:
    n = len(indices)
    positions = range(n) if n <= 10 else (0, 1, n // 3, n - 2, n - 1)
    for shuffle in (False, True):
        order = Subset(indices, num_samples, seed=13, shuffle=shuffle)
        yield line("case", f"{name}-{'shuffled' if shuffle else 'as-given'}")
        yield given
        yield line("order", num_samples, order.seed, int(shuffle))
        for epoch in (0, 1, LAST_EPOCH):
            for position in positions:
                yield line("draw", epoch, position, order.index_at(epoch, position))
        yield "end"


def subset_lines() -> Iterator[str]:
    for name, indices, num_samples in SUBSET_CASES:
        yield from _subset_case(name, indices, line("indices", *indices), num_samples)
    for name, count, factor, num_samples in MULTIPLES_CASES:
        multiples = [i * factor % num_samples for i in range(count)]
        yield from _subset_case(name, multiples, line("multiples", count, factor), num_samples)


# -- Reading ---------------------------------------------------------------------------------------

Case = list[list[str]]
"""The lines of one case as words, without its first and its last."""


def cases(lines: Iterable[list[str]]) -> Iterator[tuple[str, Case]]:
    """Yield the name and the other lines of every case."""
    name = ""
    inner: Case = []
    for words in lines:
        if words[0] == "case":
            name, inner = words[1], []
        elif words[0] == "end":
            yield name, inner
        else:
            inner.append(words)

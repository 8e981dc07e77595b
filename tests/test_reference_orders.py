"""The reference of the further orders: laws, and values worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import laws
import pytest
import reference
from reference import Permutation, Shuffle
from reference_orders import (
    BlockShuffle,
    Mixture,
    Sequential,
    Subset,
    Weighted,
    quotas_of,
    sub_permutation,
)


def test_sub_permutations_share_no_stream_with_each_other_or_the_whole() -> None:
    streams = [0, 0xFFFF]
    for purpose in (1, 2, 3):
        for number in (0, 1, 0xFFFF, 2**55 - 1):
            part = sub_permutation(9, 0, 0, 3, purpose, number)
            streams += [part.key_stream, part.offset_stream]
    assert len(set(streams)) == len(streams)
    assert max(streams) < 2**64


def test_order_ids_and_streams_key_different_permutations() -> None:
    for n in (60, 5000):
        keys = [(1, 0, 0xFFFF), (3, 0, 0xFFFF), (1, 1, 0xFFFF), (3, 2**56, 2**56 + 2**55)]
        heads = {tuple(Permutation(n, 0, 0, *key).index_at(p) for p in range(50)) for key in keys}
        assert len(heads) == len(keys)


# -- block-shuffle-1 -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 8, 3), (11, 3, 2), (12, 3, 2), (103, 10, 3)])
def test_block_shuffle_is_a_local_bijection(shape: tuple[int, int, int]) -> None:
    n, block_size, window_blocks = shape
    order = BlockShuffle(n, block_size, window_blocks, seed=3)
    laws.bijection(order, 2)
    laws.round_trip(order, 2, range(n))
    laws.locality(order, 2, block_size, window_blocks)


def test_blocks_of_one_in_windows_of_one_are_a_permutation_of_blocks_alone() -> None:
    order, blocks = BlockShuffle(50, 1, 1, seed=4), Permutation(50, 4, 6, order_id=3)
    assert order.indices(6, 0, 50) == [blocks.index_at(position) for position in range(50)]


def test_without_a_whole_block_the_only_window_is_all() -> None:
    order, window = BlockShuffle(7, 8, 3, seed=4), sub_permutation(7, 4, 6, 3, 1, 0)
    assert order.indices(6, 0, 7) == [window.index_at(position) for position in range(7)]


# -- mixture-1 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "block", "quotas"),
    [
        ([1, 1, 1], 10, [4, 3, 3]),  # a tie goes to the lower source
        ([1, 1, 1], 11, [4, 4, 3]),
        ([0.9, 0.1], 10, [9, 1]),
        ([0, 3, 1], 4, [0, 3, 1]),
        ([5, 3, 1], 2, [1, 1, 0]),  # 1.11, 0.67, 0.22
        ([1e300, 1e300], 2, [1, 1]),
        ([1, Fraction(1, 3)], 4, [3, 1]),
    ],
)
def test_quotas_by_largest_remainder(weights: list[float], block: int, quotas: list[int]) -> None:
    assert quotas_of(weights, block) == quotas


def test_an_epoch_ends_before_or_after_its_source_does() -> None:
    sources: list[Shuffle | Sequential] = [Shuffle(23, 1), Sequential(7)]
    by_stopping = {"first_exhausted": 20, "all_exhausted": 40}  # 7 * 3 < 23 <= 7 * 4; 3 * 2 < 7
    for stopping, num_positions in by_stopping.items():
        mixture = Mixture(sources, [(0, [7, 3])], 10, stopping)
        assert mixture.num_positions(0) == num_positions
        laws.exact_counts(mixture, 1, 10, lambda _: [7, 3])
        laws.continued(mixture, 4, sources)


# -- weighted-1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[1.0], [0, 1, 0, 5.5], [3, 1, 1e-300, 7], [0.1] * 7])
def test_columns_hold_every_mass_exactly(weights: list[float]) -> None:
    order = Weighted(weights, 1)
    held = [0] * len(weights)
    for column, (threshold, alias) in enumerate(order.columns):
        held[column] += threshold
        held[alias] += order.capacity - threshold
    assert held == [mass * len(weights) for mass in Weighted.masses(weights)]
    assert 2**61 - len(weights) <= order.capacity <= 2**62 + len(weights)


def test_masses_round_halves_up_and_exactly() -> None:
    weights = [2.0**60, 2.0**60, 0.5, 0.5 - 2.0**-54, 2.0**52 + 1]
    assert Weighted.masses(weights) == [2**60, 2**60, 1, 0, 2**52 + 1]


def test_alias_table_of_three_by_hand() -> None:
    # Masses 1, 2, 5 (times 2^58): columns hold 3, 6, 15 and are full at 8.
    order = Weighted([1.0, 2.0, 5.0], 1)
    unit = order.capacity // 8
    assert order.columns == [(3 * unit, 2), (6 * unit, 2), (8 * unit, 2)]


# -- subset-1 --------------------------------------------------------------------------------------


def test_subset_shuffles_what_is_given() -> None:
    given = [7, 3, 90, 5]
    laws.one_to_one(Subset(given, 100, seed=2), 3, given)
    assert Subset(given, 100, shuffle=False).indices(3, 0, 4) == given
    heads = {tuple(Subset(given, 100, seed).indices(0, 0, 4)) for seed in range(400)}
    assert len(heads) == 24


def test_a_word_is_consumed_for_each_number_of_a_draw() -> None:
    stream = reference.words(9, 2, 6, 3, 5)
    column, r = reference.bounded(stream, 3), reference.bounded(stream, 2**61)
    order = Weighted([1.0, 1.0, 2.0], 10, seed=9)
    assert order.capacity == 2**61
    threshold, alias = order.columns[column]
    assert order.index_at(2, 6) == (column if r < threshold else alias)

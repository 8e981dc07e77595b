"""The reference against other implementations and against values worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice, permutations

import laws
import make_vectors
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import Layout, Network, Shuffle

uint64 = st.integers(0, 2**64 - 1)

# -- Philox and its streams ------------------------------------------------------------------------


def numpy_words(counter: Sequence[int], key: Sequence[int], count: int) -> list[int]:
    generator = np.random.Philox(
        counter=np.array(counter, dtype=np.uint64), key=np.array(key, dtype=np.uint64)
    )
    return [int(word) for word in generator.random_raw(count)]


@pytest.mark.parametrize(
    ("counter", "key", "output"),
    [
        (
            (0, 0, 0, 0),
            (0, 0),
            (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
        ),
        (
            (2**64 - 1,) * 4,
            (2**64 - 1,) * 2,
            (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
        ),
        (
            (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
            (0x452821E638D01377, 0xBE5466CF34E90C6C),
            (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_philox_gives_the_known_answers_of_random123(
    counter: reference.Block, key: tuple[int, int], output: reference.Block
) -> None:
    assert reference.philox4x64_10(counter, key) == output


@given(
    counter=st.tuples(st.integers(1, 2**64 - 1), uint64, uint64, uint64),
    key=st.tuples(uint64, uint64),
)
def test_philox_equals_numpy(counter: reference.Block, key: tuple[int, int]) -> None:
    before = (counter[0] - 1, *counter[1:])  # numpy adds 1 before its first block
    assert list(reference.philox4x64_10(counter, key)) == numpy_words(before, key, 4)


@given(seed=uint64, epoch=st.integers(0, 2**40 - 1), stream=st.sampled_from([0, 0xFFFF]))
def test_stream_equals_numpy_with_the_same_counter_and_key(
    seed: int, epoch: int, stream: int
) -> None:
    after_first_block = numpy_words((0, stream, 5000, 1), (seed, epoch), 8)
    assert list(islice(reference.words(seed, epoch, stream, 5000), 4, 12)) == after_first_block


def test_halves_are_low_half_first() -> None:
    assert list(reference.halves(iter([0x1111111122222222, 3]))) == [0x22222222, 0x11111111, 3, 0]


@pytest.mark.parametrize(
    ("drawn", "bound", "value", "left"),
    [
        ([0, 5], 1, 0, [5]),
        ([0, 5], 2, 0, [5]),
        ([2**63, 5], 2, 1, [5]),
        ([0, 1, 5], 3, 0, [5]),  # 2**64 mod 3 = 1: the word 0 is the one too many
        ([2**64 - 1, 5], 3, 2, [5]),
        ([0, 2**63 - 1, 2**62, 5], 2**63 - 1, 2**61 - 1, [5]),  # two are rejected
    ],
)
def test_bounded_takes_the_upper_half_of_the_product_and_rejects_the_excess(
    drawn: list[int], bound: int, value: int, left: list[int]
) -> None:
    stream = iter(drawn)
    assert reference.bounded(stream, bound) == value
    assert list(stream) == left


# -- shuffle-1 -------------------------------------------------------------------------------------

SIZES = [1, 2, 3, 4, 7, 100, 4095, 4096, 4097, 5000, 8191, 8192, 8193]


@pytest.mark.parametrize("num_samples", SIZES)
def test_shuffle_is_a_bijection(num_samples: int) -> None:
    laws.bijection(Shuffle(num_samples, seed=3), 2)


@pytest.mark.parametrize("num_samples", [*SIZES, 2**31, 2**31 + 1, 10**12, 2**63 - 1])
def test_shuffle_and_its_inverse_undo_each_other(num_samples: int) -> None:
    numbers = {0, 1, num_samples // 3, num_samples // 2, num_samples - 2, num_samples - 1}
    for seed in range(8):
        inside = [number for number in numbers if 0 <= number < num_samples]
        laws.round_trip(Shuffle(num_samples, seed), 1, inside)


def test_smallest_shuffles_follow_fisher_yates_by_hand() -> None:
    for seed in range(64):
        stream = reference.words(seed, 5, 0, 3)
        order = [0, 1, 2]
        j = next(stream) * 3 >> 64
        order[2], order[j] = order[j], order[2]
        if next(stream) < 2**63:
            order[1], order[0] = order[0], order[1]
        assert Shuffle(3, seed).indices(5, 0, 3) == order


def test_every_order_of_three_and_four_is_equally_likely() -> None:
    for num_samples, limit in ((3, 30.9), (4, 64.0)):  # chi-square, 5 and 23 degrees, p = 1e-5
        num_keys = 6000
        orders = Counter(
            tuple(Shuffle(num_samples, seed).indices(1, 0, num_samples)) for seed in range(num_keys)
        )
        everything = list(permutations(range(num_samples)))
        expected = num_keys / len(everything)
        assert sum((orders[order] - expected) ** 2 / expected for order in everything) < limit


def test_every_index_is_equally_likely_at_a_position_of_a_large_shuffle() -> None:
    num_samples, num_cells, num_keys = 5000, 20, 4000
    for position in (0, 1, 4999):
        cells = Counter(
            Shuffle(num_samples, 9).index_at(epoch, position) * num_cells // num_samples
            for epoch in range(num_keys)
        )
        expected = num_keys / num_cells
        statistic = sum((cells[cell] - expected) ** 2 / expected for cell in range(num_cells))
        assert statistic < 57.4  # chi-square, 19 degrees of freedom, p = 1e-5


# -- Digest ----------------------------------------------------------------------------------------


def test_digest_counts_a_doubled_sample_and_ignores_order() -> None:
    a, b = (4, 0, 0), (9, 0, 0)
    assert reference.digest(2, [a, b]) == reference.digest(2, [b, a])
    assert reference.digest(2, [a, a]) not in (reference.digest(2, []), reference.digest(2, [a]))
    assert reference.digest(2, [a]) != reference.digest(3, [a])


# -- Golden files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", make_vectors.FILES)
def test_golden_file_is_what_the_reference_gives(name: str) -> None:
    assert (make_vectors.VECTORS / name).read_text(encoding="ascii") == make_vectors.content(name)


def test_golden_shuffles_reach_walks_swaps_and_rejected_offsets() -> None:
    walks = swaps = plain = rejections = 0
    for line in make_vectors.read("shuffle.txt"):
        n, seed, epoch, position, _ = map(int, line)
        if n <= reference.TABLE_LIMIT:
            continue
        network = Network.of(n, seed, epoch)
        value = network.encrypt((network.exchange(position) + network.offset) % n)
        walks += value >= n
        swaps += network.swap and position < 2
        plain += not network.swap and position < 2
        first_word = next(islice(reference.words(seed, epoch, 0xFFFF, n), 1, 2))
        rejections += first_word * n % 2**64 < (2**64 - n) % n
    assert min(walks, swaps, plain, rejections) > 0


# -- Sampler: scenarios in positions ---------------------------------------------------------------


def real(layout: Layout, position: int = 0) -> list[list[list[int]]]:
    """Return the positions each rank gets in each round, without padding."""
    return [
        [[slot for slot, is_padding in micro_batch if not is_padding] for micro_batch in ranks]
        for ranks in layout.rounds(position)
    ]


def test_d01_short_last_batch_or_none() -> None:
    keep, drop = Layout(10, 1, 3), Layout(10, 1, 3, drop_last=True)
    assert real(keep) == [[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]], [[9]]]
    assert real(drop) == [[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]]]
    assert keep.commit(0, 0, 4) == drop.commit(0, 0, 3) == (1, 0)


def test_d03_resume_inside_an_epoch() -> None:
    layout = Layout(64, 2, 4)
    assert layout.commit(2, 0, 3) == (2, 24)
    assert real(layout, 24)[0] == [[24, 25, 26, 27], [28, 29, 30, 31]]
    assert (layout.num_rounds(24), layout.num_rounds(0)) == (5, 8)


def test_d07_last_update_of_an_epoch_has_fewer_micro_batches() -> None:
    layout = Layout(9, 1, 2, accumulation_steps=2)
    assert layout.num_rounds(0) == 5
    assert layout.updates(0) == [(0, 4), (4, 8), (8, 9)]


def test_d13_updates_do_not_depend_on_the_layout() -> None:
    updates = [Layout(100, w, b).updates(0) for w, b in ((4, 4), (2, 8), (8, 2))]
    assert updates[0] == updates[1] == updates[2]
    assert updates[0] == [(16 * k, min(16 * k + 16, 100)) for k in range(7)]


def test_d14_other_layout_in_the_middle_of_an_epoch() -> None:
    assert Layout(24, 2, 3).commit(0, 0, 2) == (0, 12)
    assert Layout(24, 3, 4).updates(12) == [(12, 24)]
    assert Layout(24, 3, 4).commit(0, 12, 1) == (1, 0)
    assert [len(ranks[0]) for ranks in real(Layout(30, 1, 5), 12)] == [5, 5, 5, 3]


def test_d17_ranks_stay_level() -> None:
    drop, pad = Layout(10, 3, 2, drop_last=True), Layout(10, 3, 2)
    assert len(drop.rounds(0)) == 1
    assert drop.commit(0, 0, 1) == (1, 0)
    assert pad.rounds(0)[1] == [
        [(6, False), (7, False)],
        [(8, False), (9, False)],
        [(0, True), (1, True)],
    ]


def test_d18_padding_repeats_the_order_as_often_as_needed() -> None:
    assert [slots[0] for slots in Layout(4, 9, 1).rounds(0)[0]] == [
        *((position, False) for position in range(4)),
        *((position, True) for position in (0, 1, 2, 3, 0)),
    ]


def test_rest_below_a_round_after_a_change_of_layout_runs_the_next_epoch() -> None:
    layout = Layout(10, 2, 3, drop_last=True)
    assert layout.start(4, 6) == (5, 0)
    assert layout.commit(4, 6, 1) == (6, 0)

"""The laws, stated once: every order, every sampler and every packing plan passes them.

A law is a function that raises AssertionError where it is broken. The arguments are duck-typed, so
that the package, the reference and deliberately broken models all go through the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

# -- Orders ----------------------------------------------------------------------------------------


class Order(Protocol):
    """Position -> index, a pure function of (epoch, position)."""

    @property
    def num_samples(self) -> int: ...
    def num_positions(self, epoch: int) -> int: ...
    def index_at(self, epoch: int, position: int) -> int: ...
    def position_of(self, epoch: int, index: int) -> int: ...
    def indices(self, epoch: int, first: int, count: int) -> Any: ...
    def fill(self, epoch: int, first: int, out: Any) -> None: ...


def filled(order: Order, epoch: int, first: int, count: int) -> NDArray[np.int64]:
    out = np.full(count, -1, dtype=np.int64)
    order.fill(epoch, first, out)
    return out


def bijection(order: Order, epoch: int) -> None:
    """Every index stands at exactly one position, by enumeration."""
    n = order.num_samples
    assert order.num_positions(epoch) == n
    counts = np.bincount(filled(order, epoch, 0, n), minlength=n)
    assert np.array_equal(counts, np.ones(n, dtype=np.int64))


def round_trip(order: Order, epoch: int, numbers: Iterable[int]) -> None:
    """position_of undoes index_at and index_at undoes position_of, at the given numbers."""
    for number in numbers:
        index, position = order.index_at(epoch, number), order.position_of(epoch, number)
        assert 0 <= index < order.num_samples
        assert 0 <= position < order.num_samples
        assert order.position_of(epoch, index) == number
        assert order.index_at(epoch, position) == number


def same_by_every_way(order: Order, epoch: int, first: int, count: int) -> None:
    """index_at, indices and fill agree."""
    one_by_one = [order.index_at(epoch, first + i) for i in range(count)]
    assert list(order.indices(epoch, first, count)) == one_by_one
    assert filled(order, epoch, first, count).tolist() == one_by_one


def split_invariance(order: Order, epoch: int, first: int, counts: Sequence[int]) -> None:
    """Filling in pieces gives what filling at once gives."""
    whole = filled(order, epoch, first, sum(counts))
    pieces = []
    for count in counts:
        pieces.append(filled(order, epoch, first, count))
        first += count
    assert np.array_equal(np.concatenate(pieces), whole)


def locality(order: Order, epoch: int, block_size: int, window_blocks: int) -> None:
    """The positions of every window lie in as many blocks of the data as a window has.

    By enumeration. Whole windows lie in whole blocks, so only the last one meets a short block.
    """
    size = block_size * window_blocks
    blocks = filled(order, epoch, 0, order.num_samples) // block_size
    for first in range(0, order.num_samples, size):
        touched = np.unique(blocks[first : first + size])
        assert len(touched) == -(-len(blocks[first : first + size]) // block_size)


def one_to_one(order: Order, epoch: int, indices: Sequence[int]) -> None:
    """The positions hold the given indices, each once, and position_of finds each of them."""
    count = len(indices)
    assert order.num_positions(epoch) == count
    held = filled(order, epoch, 0, count).tolist()
    assert sorted(held) == sorted(indices)
    assert [order.position_of(epoch, index) for index in held] == list(range(count))


class Source(Protocol):
    """An order that another one draws from."""

    @property
    def num_samples(self) -> int: ...
    def num_positions(self, epoch: int) -> int: ...
    def indices(self, epoch: int, first: int, count: int) -> Any: ...


class Drawing(Protocol):
    """An order that draws from several others."""

    def num_positions(self, epoch: int) -> int: ...
    def index_at(self, epoch: int, position: int) -> int: ...
    def draw_at(self, epoch: int, position: int) -> tuple[int, int]: ...
    def counts(self, epoch: int, position: int) -> Any: ...


def exact_counts(
    mixture: Drawing, epoch: int, block: int, quotas: Callable[[int], Sequence[int]]
) -> None:
    """Every block holds its quotas, and counts says what was drawn before every position.

    quotas gives the quotas in force at the first position of a block.
    """
    num_positions = mixture.num_positions(epoch)
    assert num_positions % block == 0
    seen = [0] * len(quotas(0))
    for first in range(0, num_positions, block):
        before = list(seen)
        for position in range(first, first + block):
            assert list(mixture.counts(epoch, position)) == seen
            seen[mixture.draw_at(epoch, position)[0]] += 1
        assert [n - b for n, b in zip(seen, before, strict=True)] == list(quotas(first))
    assert list(mixture.counts(epoch, num_positions)) == seen


def continued(mixture: Drawing, num_epochs: int, sources: Sequence[Source]) -> None:
    """What is drawn from a source, over all epochs of the mixture, is its own order continued."""
    drawn: list[list[int]] = [[] for _ in sources]
    for epoch in range(num_epochs):
        for position in range(mixture.num_positions(epoch)):
            number, index = mixture.draw_at(epoch, position)
            drawn[number].append(index)
            offset = sum(source.num_samples for source in sources[:number])
            assert mixture.index_at(epoch, position) == offset + index
    for source, indices in zip(sources, drawn, strict=True):
        size = source.num_positions(0)
        num_passes = -(-len(indices) // size)
        whole = [i for epoch in range(num_passes) for i in source.indices(epoch, 0, size)]
        assert indices == whole[: len(indices)]


# -- Samplers --------------------------------------------------------------------------------------


class Sampler(Protocol):
    """Issues indices in batches of batch_size; only commit moves the saved state."""

    @property
    def batch_size(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def commit(self, micro_batches: int, /) -> object: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with its arrays or tensors as lists, so that == compares values."""
    return {key: value.tolist() for key, value in state.items()}


def epoch_batches(sampler: Sampler) -> Iterator[list[int]]:
    """Yield the batches of one pass; the last one may be short."""
    iterator = iter(sampler)
    while batch := list(islice(iterator, sampler.batch_size)):
        yield batch


def run(sampler: Sampler, num_batches: int) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """Commit batch after batch, over epoch ends; return the batches and the states between them."""
    batches: list[list[int]] = []
    states = [sampler.state_dict()]
    while len(batches) < num_batches:
        before = len(batches)
        for batch in islice(epoch_batches(sampler), num_batches - before):
            sampler.commit(1)
            batches.append(batch)
            states.append(sampler.state_dict())
        assert len(batches) > before, "an epoch without a batch"
    return batches, states


def restore_at_every_step(make: Callable[[], Sampler], num_batches: int) -> None:
    """A fresh object given the state after any commit delivers the same rest.

    num_batches reaches over an epoch's end, so that both of its sides are among the steps.
    """
    batches, states = run(make(), num_batches)
    for step, state in enumerate(states):
        fresh = make()
        fresh.load_state_dict(state)
        assert plain(fresh.state_dict()) == plain(state)
        assert run(fresh, num_batches - step)[0] == batches[step:]


def restore_after_every_step(make: Callable[[], Sampler], num_batches: int) -> None:
    """A run that is stopped and resumed after each single commit delivers the same batches."""
    state = make().state_dict()
    resumed = []
    for _ in range(num_batches):
        fresh = make()
        fresh.load_state_dict(state)
        [batch], [_, state] = run(fresh, 1)
        resumed.append(batch)
    assert resumed == run(make(), num_batches)[0]


def prefetch_safety(make: Callable[[], Sampler], num_committed: int, num_ahead: int) -> None:
    """Batches issued ahead of the commits, to the epoch's end at most, leave no trace.

    num_committed lies within the epoch in which make() begins.
    """
    whole, states = run(make(), num_committed + 1)
    sampler = make()
    issued = list(islice(epoch_batches(sampler), num_committed + num_ahead))
    assert issued[:num_committed] == whole[:num_committed]
    for _ in range(num_committed):
        sampler.commit(1)
    assert plain(sampler.state_dict()) == plain(states[num_committed])
    fresh = make()
    fresh.load_state_dict(sampler.state_dict())
    assert run(fresh, 1)[0] == whole[num_committed:]


def rank_union(ranks: Sequence[Sampler], whole: Sequence[int]) -> None:
    """One pass of all ranks, a micro-batch from each in turn, is the whole order.

    Padding j behind it repeats whole[j mod n], and every rank gets as many batches.
    """
    per_rank = [list(epoch_batches(sampler)) for sampler in ranks]
    assert len({len(batches) for batches in per_rank}) == 1
    union = [index for turn in zip(*per_rank, strict=True) for batch in turn for index in batch]
    padding = len(union) - len(whole)
    assert 0 <= padding < len(ranks) * ranks[0].batch_size
    assert union == [*whole, *(whole[j % len(whole)] for j in range(padding))]


# -- Packing plans ---------------------------------------------------------------------------------

Rows = list[list[list[int]]]


class Block(Protocol):
    """Rows of spans, and where the next row begins."""

    @property
    def spans(self) -> NDArray[np.int64]: ...
    @property
    def row_offsets(self) -> NDArray[np.int64]: ...
    @property
    def reader(self) -> tuple[int, int]: ...


class Plan(Protocol):
    """Lengths in, rows of spans (document, start, stop) out."""

    @property
    def seq_len(self) -> int: ...
    def num_rows(self, epoch: int) -> int: ...
    def rows(self, epoch: int, first: int, count: int) -> tuple[Any, Any]: ...
    def rows_from(self, epoch: int, reader: tuple[int, int], first: int, count: int) -> Block: ...
    def reader_of(self, epoch: int, row: int) -> tuple[int, int]: ...


def split_rows(spans: NDArray[np.int64], row_offsets: NDArray[np.int64]) -> Rows:
    """Return the spans of every row as lists."""
    assert row_offsets[0] == 0
    assert row_offsets[-1] == len(spans)
    return [spans[start:stop].tolist() for start, stop in pairwise(row_offsets.tolist())]


def planned(plan: Plan, epoch: int, first: int, count: int) -> Rows:
    return split_rows(*plan.rows(epoch, first, count))


def rows_split_invariance(plan: Plan, epoch: int, first: int, counts: Sequence[int]) -> None:
    """Planning in pieces gives what planning at once gives."""
    whole = planned(plan, epoch, first, sum(counts))
    pieces = []
    for count in counts:
        pieces += planned(plan, epoch, first, count)
        first += count
    assert pieces == whole


def every_reader_resumes(plan: Plan, epoch: int) -> None:
    """From the reader behind any row the same rest follows, and reader_of finds that reader."""
    num_rows = plan.num_rows(epoch)
    whole = planned(plan, epoch, 0, num_rows)
    reader: tuple[int, int] = (0, 0)
    for row in range(num_rows):
        assert plan.reader_of(epoch, row) == reader
        rest = plan.rows_from(epoch, reader, row, num_rows - row)
        assert split_rows(rest.spans, rest.row_offsets) == whole[row:]
        reader = plan.rows_from(epoch, reader, row, 1).reader


def every_token_once(plan: Plan, epoch: int, sizes: Sequence[int]) -> None:
    """The spans of an epoch are every document once, in whole rows but for the last.

    sizes counts the bos and eos of every document that has them.
    """
    rows = planned(plan, epoch, 0, plan.num_rows(epoch))
    filled = [sum(stop - start for _, start, stop in row) for row in rows]
    assert filled[:-1] == [plan.seq_len] * (len(rows) - 1)
    read = [0] * len(sizes)
    for document, start, stop in (span for row in rows for span in row):
        assert read[document] == start < stop
        read[document] = stop
    assert read == list(sizes)

"""`CursorLoader`: counted deliveries, marked padding, refused options."""

from __future__ import annotations

import io
from itertools import islice
from typing import Any

import pytest
import torch
from runs import Numbers, order

import datacursor as dc
from datacursor import _core

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


def make(
    n: int = 24, batch_size: int = 2, num_workers: int = 0, **options: Any
) -> tuple[dc.CursorSampler, dc.CursorLoader[Any]]:
    sampler = dc.CursorSampler(n, batch_size=batch_size, seed=7, **options)
    context = "fork" if num_workers > 0 else None
    loader: dc.CursorLoader[Any] = dc.CursorLoader(
        Numbers(n), sampler=sampler, num_workers=num_workers, multiprocessing_context=context
    )
    return sampler, loader


@WORKERS
def test_commit_means_everything_delivered_since_the_last(num_workers: int) -> None:
    sampler, loader = make(num_workers=num_workers)
    positions = []
    for number, _ in enumerate(loader):
        if number in (0, 3, 4):
            sampler.commit()
            positions.append(sampler.cursor.position)
    assert positions == [2, 8, 10]


@WORKERS
def test_what_was_prefetched_cannot_be_committed(num_workers: int) -> None:
    sampler, loader = make(num_workers=num_workers)
    iterator = iter(loader)
    with pytest.raises(dc.CommitError):
        sampler.commit()
    next(iterator)
    with pytest.raises(dc.CommitError, match=r"cannot commit 2 .* 1 delivered"):
        sampler.commit(2)
    sampler.commit()
    with pytest.raises(dc.CommitError, match="0 delivered"):
        sampler.commit()


def test_what_is_uncommitted_is_counted_over_all_ranks_without_padding() -> None:
    sampler, loader = make(10, 2, num_replicas=2, rank=1)
    assert tuple(sampler.uncommitted) == (0, None)
    for _ in islice(loader, 2):
        pass
    assert tuple(sampler.uncommitted) == (8, 8)
    sampler.commit(1)
    assert tuple(sampler.uncommitted) == (4, 4)
    list(loader)
    assert tuple(sampler.uncommitted) == (6, 6)
    list(sampler)
    assert tuple(sampler.uncommitted) == (6, None)


@WORKERS
@pytest.mark.parametrize("drawn", [1, 11])
def test_a_load_makes_a_running_loader_stale_even_with_batches_in_flight(
    num_workers: int, drawn: int
) -> None:
    sampler, loader = make(num_workers=num_workers)
    iterator = iter(loader)
    list(islice(iterator, drawn))
    sampler.load_cursor(sampler.cursor)
    with pytest.raises(dc.StaleIteratorError, match="loaded"):
        next(iterator)
    with pytest.raises(dc.CommitError):
        sampler.commit()


@WORKERS
def test_an_iterator_that_was_replaced_before_its_commit_is_stale(num_workers: int) -> None:
    sampler, loader = make(num_workers=num_workers)
    next(iter(loader))
    iter(loader)
    with pytest.raises(dc.CommitError, match="0 delivered"):
        sampler.commit()


@WORKERS
def test_the_newest_of_several_iterators_is_the_live_one(num_workers: int) -> None:
    sampler, loader = make(num_workers=num_workers)
    first, second = iter(loader), iter(loader)
    assert next(second).tolist() == order(24, 0)[:2]
    with pytest.raises(dc.StaleIteratorError, match="iterated again"):
        next(first)
    sampler.commit()
    assert sampler.cursor.position == 2


def test_a_loader_that_was_only_begun_leaves_other_loaders_alone() -> None:
    sampler, loader = make()
    iter(loader)
    plain: torch.utils.data.DataLoader[int] = torch.utils.data.DataLoader(
        Numbers(24), batch_size=2, sampler=sampler
    )
    for _ in islice(plain, 3):
        sampler.commit()
    assert sampler.cursor.position == 6


@WORKERS
def test_a_second_loop_delivers_what_the_first_did_not_commit(num_workers: int) -> None:
    sampler, loader = make(num_workers=num_workers)
    for number, _ in enumerate(loader):
        if number < 4:
            sampler.commit()
        if number == 6:
            break
    assert torch.cat(list(loader)).tolist() == order(24, 0)[8:]


@WORKERS
def test_padding_is_described_for_the_batch_just_delivered(num_workers: int) -> None:
    described = []
    for rank in range(3):
        _, loader = make(10, 2, num_workers, num_replicas=3, rank=rank)
        described += [(loader.num_real, loader.padding_mask.tolist()) for _ in loader]
    full, none = (2, [False, False]), (0, [True, True])
    assert described == [full, full, full, full, full, none]


def test_a_short_batch_of_one_rank_has_no_padding() -> None:
    _, loader = make(5, 2)
    described = [(len(batch), loader.num_real, loader.padding_mask.tolist()) for batch in loader]
    assert described[-1] == (1, 1, [False])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_size": 3}, ValueError, "loader.batch_size=3, sampler.batch_size=2"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"drop_last": True}, ValueError, "drop_last=True must be given to the sampler"),
        ({"shuffle": True}, ValueError, "shuffle must be left to the sampler"),
        ({"batch_sampler": [[1]]}, ValueError, "batch_sampler must be left to the sampler"),
        ({"in_order": False, "num_workers": 1}, ValueError, "in_order must be True"),
        ({"dataset": Numbers(25)}, ValueError, r"len\(dataset\)=25, len\(sampler.dataset\)=24"),
        ({"sampler": torch.utils.data.SequentialSampler(range(3))}, TypeError, "Sequential"),
        ({"sampler": None}, TypeError, "sampler must be a CursorSampler, got NoneType"),
    ],
)
def test_options_that_contradict_the_sampler_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    sampler = dc.CursorSampler(24, batch_size=2)
    with pytest.raises(error, match=message):
        dc.CursorLoader(**{"dataset": Numbers(24), "sampler": sampler, **options})


def test_the_loader_carries_the_samplers_state() -> None:
    sampler, loader = make()
    next(iter(loader))
    sampler.commit()
    other, other_loader = make()
    other_loader.load_state_dict(loader.state_dict())
    assert other.cursor == sampler.cursor
    assert torch.cat(list(other_loader)).tolist() == order(24, 0)[2:]


def test_progress_starts_at_the_cursor() -> None:
    sampler, loader = make()
    for _ in islice(loader, 5):
        sampler.commit()
    shown = io.StringIO()
    seen = 0
    for _ in loader.progress("epoch 0", file=shown):
        seen += 1
    assert seen == 7
    assert "12/12" in shown.getvalue()
    assert "epoch 0" in shown.getvalue()


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_every_kind(context: str, persistent: bool) -> None:
    sampler = dc.CursorSampler(12, batch_size=2, seed=7)
    loader: dc.CursorLoader[int] = dc.CursorLoader(
        Numbers(12),
        sampler=sampler,
        num_workers=2,
        multiprocessing_context=context,
        persistent_workers=persistent,
    )
    items = []
    for _ in range(2):
        for batch in loader:
            items += batch.tolist()
            sampler.commit()
    assert items == order(12, 0) + order(12, 1)


class Failing(Numbers):
    """Raises at one index."""

    def __init__(self, n: int, error: type[BaseException]) -> None:
        super().__init__(n)
        self.error = error

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise self.error("bad sample")
        return index


@WORKERS
@pytest.mark.parametrize("first", [0, 2])
def test_a_batch_that_failed_ends_the_iterator_and_is_never_counted(
    num_workers: int, first: int
) -> None:
    dataset = Failing(12, ValueError)
    sampler = dc.CursorSampler(dataset, batch_size=2, shuffle=False)
    sampler.seek(0, first)
    loader: dc.CursorLoader[int] = dc.CursorLoader(
        dataset, sampler=sampler, num_workers=num_workers
    )
    iterator = iter(loader)
    if first == 0:
        assert next(iterator).tolist() == [0, 1]
    with pytest.raises(ValueError, match="bad sample"):
        next(iterator)
    with pytest.raises(dc.StaleIteratorError, match="a batch could not be delivered"):
        next(iterator)
    if first == 0:
        sampler.commit()
    with pytest.raises(dc.CommitError, match="0 delivered"):
        sampler.commit()
    assert (sampler.cursor.epoch, sampler.cursor.position) == (0, 2)


def test_an_early_end_is_no_end_of_an_epoch() -> None:
    dataset = Failing(12, StopIteration)
    sampler = dc.CursorSampler(dataset, batch_size=2, shuffle=False)
    loader: dc.CursorLoader[int] = dc.CursorLoader(dataset, sampler=sampler)
    with pytest.raises(dc.DeliveryError, match="after 1 micro-batches, before the end"):
        list(loader)


class Drawn(Numbers):
    """Draws a random number for every sample, in whatever process reads it."""

    def __getitem__(self, index: int) -> int:
        return int(torch.randint(2**40, ()))


def test_workers_draw_other_numbers_on_every_rank_and_in_every_epoch() -> None:
    drawn = []
    for rank in range(2):
        sampler = dc.CursorSampler(Drawn(8), batch_size=2, num_replicas=2, rank=rank)
        loader: dc.CursorLoader[int] = dc.CursorLoader(Drawn(8), sampler=sampler, num_workers=1)
        for _ in range(2):
            for batch in loader:
                drawn += batch.tolist()
                sampler.commit()
    assert len(set(drawn)) == len(drawn) == 16


# -- skipped updates


@pytest.mark.parametrize("persistent", [False, True])
@WORKERS
def test_deferred_batches_follow_the_epochs_last(num_workers: int, persistent: bool) -> None:
    sampler = dc.CursorSampler(11, batch_size=2, seed=7, on_skip="defer")
    loader: dc.CursorLoader[int] = dc.CursorLoader(
        Numbers(11),
        sampler=sampler,
        num_workers=num_workers,
        multiprocessing_context="fork" if num_workers else None,
        persistent_workers=persistent and num_workers > 0,
    )
    for epoch in range(2):
        places = order(11, epoch)
        batches = []
        for number, batch in enumerate(loader):
            batches.append(batch.tolist())
            if number in (1, 5):
                sampler.skip()
            else:
                sampler.commit()
        positions = [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10), (10, 11), (2, 4), (10, 11)]
        assert batches == [places[first:stop] for first, stop in positions]
        assert sampler.cursor.epoch == epoch + 1
    assert len(loader) == 6


@WORKERS
def test_a_skipped_window_is_given_again_whole(num_workers: int) -> None:
    sampler, loader = make(12, 2, num_workers, accumulation_steps=3, on_skip="retry")
    tries = iter([False, True, True, False, False, True])
    delivered, described = [], []
    for batch in loader:
        delivered.append(batch.tolist())
        described.append(loader.num_real)
        if loader.ends_update:
            if next(tries):
                sampler.commit()
            else:
                sampler.skip()
    windows = [[order(12, 0)[k : k + 2] for k in range(first, first + 6, 2)] for first in (0, 6)]
    assert delivered == windows[0] * 2 + windows[1]
    assert described == [2] * 9
    assert sampler.cursor.updates_committed == 2
    assert next(iter(loader)).tolist() == order(12, 1)[:2]


@WORKERS
def test_an_open_update_goes_on_behind_its_pending_batches(num_workers: int) -> None:
    sampler, loader = make(22, 2, num_workers, accumulation_steps=3)
    for number, _ in enumerate(loader):
        if loader.ends_update:
            sampler.commit()
        if number == 7:
            break
    saved = sampler.pending_cursor()
    assert (saved.position, saved.pending) == (12, 2)
    resumed, rest = make(22, 2, num_workers, accumulation_steps=3)
    resumed.load_cursor(saved)
    assert (
        resumed.state_dict()["datacursor"].tolist() == sampler.state_dict()["datacursor"].tolist()
    )
    batches, ends = [], []
    for batch in rest:
        batches.append(batch.tolist())
        ends.append(rest.ends_update)
        if rest.ends_update:
            resumed.commit()
    assert batches == [order(22, 0)[k : k + 2] for k in range(16, 22, 2)]
    assert ends == [True, False, True]
    assert (resumed.cursor.epoch, resumed.cursor.updates_committed) == (1, 4)
    indices = dc.Shuffle(22, 7).indices(0, 0, 22)
    assert resumed.cursor.last_digest == _core.digest_samples(0, indices)


def test_an_update_left_open_at_every_epochs_end_is_noticed() -> None:
    sampler, loader = make(10, 2, accumulation_steps=2)

    def train() -> None:
        for number, _ in enumerate(loader):
            if number % 2 == 1:
                sampler.commit()

    train()
    train()
    with pytest.warns(UserWarning, match=r"delivered to its end again.*loader.ends_update tells"):
        train()

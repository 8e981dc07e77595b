"""`CursorSampler` as a torch sampler: arguments, iterators, state, what it says of itself."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from runs import Numbers, order
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import datacursor as dc


def make(n: int = 24, batch_size: int = 2, **options: Any) -> dc.CursorSampler:
    return dc.CursorSampler(n, batch_size=batch_size, **({"seed": 7} | options))


def place(sampler: dc.CursorSampler) -> tuple[int, int]:
    return sampler.cursor.epoch, sampler.cursor.position


# -- arguments


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n": -1}, ValueError, "num_samples=-1"),
        ({"n": 2**63}, ValueError, "num_samples=9223372036854775808"),
        ({"n": 2.0}, TypeError, "num_samples=2.0"),
        ({"n": None}, TypeError, "num_samples=None"),
        ({"n": True}, TypeError, "num_samples=True"),
        ({"batch_size": -2}, ValueError, r"batch_size must be in \[1, .* batch_size=-2"),
        ({"batch_size": 2.5}, TypeError, "batch_size=2.5"),
        ({"num_replicas": 3}, ValueError, "rank must be given with num_replicas=3"),
        ({"num_replicas": 3, "rank": -1}, ValueError, "rank=-1"),
        ({"num_replicas": 3, "rank": 3}, ValueError, r"rank must be in \[0, 3\), got rank=3"),
        ({"rank": 1}, ValueError, r"rank must be in \[0, 1\), got rank=1"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"seed": 2**64}, ValueError, "seed=18446744073709551616"),
        ({"seed": "7"}, TypeError, "seed='7'"),
        ({"shuffle": 1}, TypeError, "shuffle=1"),
        ({"drop_last": "no"}, TypeError, "drop_last='no'"),
        ({"accumulation_steps": 0}, ValueError, "accumulation_steps=0"),
        ({"order": "shuffle"}, TypeError, "order must be a datacursor.Order or an array"),
        ({"order": [1, 0]}, ValueError, "order must hold all num_samples=24 indices, got 2"),
        ({"order": dc.Shuffle(25)}, ValueError, "num_samples=24, got order.num_samples=25"),
        ({"order": dc.Shuffle(24, 3)}, ValueError, "seed must be left to the order, got seed=7"),
        ({"fingerprint": 12}, TypeError, "fingerprint must be str or bytes, got int"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(**options)


def test_a_stream_is_no_data_set() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    with pytest.raises(TypeError, match=r"map-style .* Stream"):
        dc.CursorSampler(Stream(), batch_size=2)  # type: ignore[arg-type]


def test_numpy_numbers_are_integers() -> None:
    sampler = dc.CursorSampler(
        np.int64(10),  # type: ignore[arg-type]
        batch_size=np.int8(4),  # type: ignore[arg-type]
        num_replicas=np.int16(2),  # type: ignore[arg-type]
        rank=np.int64(1),  # type: ignore[arg-type]
        accumulation_steps=np.uint8(2),  # type: ignore[arg-type]
        seed=np.uint64(7),  # type: ignore[arg-type]
    )
    assert len(sampler) == 8
    list(sampler)
    sampler.commit()
    assert place(sampler) == (1, 0)


def test_a_launcher_without_a_process_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match=r"WORLD_SIZE=4 .* init_process_group"):
        make()
    assert len(make(num_replicas=4, rank=0)) == 6


def test_what_decides_the_layout_cannot_be_set() -> None:
    sampler = make()
    for name in ("batch_size", "accumulation_steps", "drop_last", "num_replicas", "rank", "seed"):
        with pytest.raises(AttributeError):
            setattr(sampler, name, 1)


def test_an_explicit_fingerprint_comes_first() -> None:
    class Named(Numbers):
        _fingerprint = "3f2a"

    with pytest.raises(TypeError, match="fingerprint must be str or bytes, got int"):
        dc.CursorSampler(Named(10), batch_size=2, fingerprint=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("order_id", [None, 3, 0x7FFF, 0x10000])
def test_an_order_of_ones_own_has_an_id_of_its_own(order_id: int | None) -> None:
    numbered = type("Numbered", (Reversed,), {"order_id": order_id})
    with pytest.raises((ValueError, TypeError), match="order_id"):
        numbered(10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [{"batch_size": 8}, {"batch_size": 4, "drop_last": True}])
def test_a_plain_loader_that_does_not_fit_is_noticed(options: dict[str, Any]) -> None:
    sampler = make(18, 4)
    loader = DataLoader(Numbers(18), sampler=sampler, **options)

    def train() -> None:
        for _ in range(6):
            for _ in loader:
                sampler.commit()

    with pytest.raises(UserWarning, match=r"micro-batches were committed; .*sampler.check"):
        train()


def test_the_seed_of_an_order_is_the_samplers() -> None:
    sampler = dc.CursorSampler(24, batch_size=2, order=dc.Shuffle(24, 7))
    assert sampler.cursor.seed == sampler.seed == 7
    assert list(sampler) == order(24, 0)


class Reversed(dc.Order):
    """A user's own order."""

    order_id = 0x8001

    def fill(self, epoch: int, first: int, out: Any) -> None:
        out[:] = self.num_samples - 1 - np.arange(first, first + len(out))

    def position_of(self, epoch: int, index: int) -> int:
        return self.num_samples - 1 - index


def test_an_order_of_ones_own() -> None:
    sampler = dc.CursorSampler(10, batch_size=2, num_replicas=2, rank=1, order=Reversed(10))
    assert list(sampler) == [7, 6, 3, 2, 9, 8]
    sampler.commit(2)
    assert [sampler.committed(index) for index in (2, 1)] == [True, False]
    with pytest.raises(dc.CursorMismatchError, match="order 0x8001"):
        make(10, seed=0).load_cursor(sampler.cursor)


# -- what torch and the frameworks see


def test_frameworks_see_a_distributed_sampler_without_a_generator() -> None:
    sampler = make(10, 3, num_replicas=2, rank=1)
    assert isinstance(sampler, DistributedSampler)
    assert not isinstance(sampler, torch.utils.data.RandomSampler)
    assert not hasattr(sampler, "generator")
    assert (sampler.num_replicas, sampler.rank, sampler.epoch) == (2, 1, 0)
    assert (len(sampler), sampler.num_samples, sampler.total_size) == (6, 6, 12)


def test_indices_are_plain_ints() -> None:
    assert {type(index) for index in make()} == {int}


@pytest.mark.parametrize(
    ("n", "batch_size", "num_replicas", "drop_last", "length", "batches"),
    [
        (10, 3, 1, False, 10, 4),
        (10, 3, 1, True, 9, 3),
        (10, 3, 2, False, 6, 2),
        (10, 3, 2, True, 3, 1),
        (12, 3, 2, False, 6, 2),
    ],
)
def test_lengths_are_those_of_a_full_epoch(
    n: int, batch_size: int, num_replicas: int, drop_last: bool, length: int, batches: int
) -> None:
    sampler = make(n, batch_size, num_replicas=num_replicas, rank=0, drop_last=drop_last)
    loader = DataLoader(Numbers(n), batch_size=batch_size, sampler=sampler)
    assert (len(sampler), len(loader), sampler.remaining()) == (length, batches, batches)
    next(iter(loader))
    sampler.commit()
    assert (len(sampler), len(loader)) == (length, batches)
    assert sampler.remaining() == (batches - 1 or batches)


def test_no_global_generator_is_read_or_written() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    sampler = make()
    loader: dc.CursorLoader[int] = dc.CursorLoader(Numbers(24), sampler=sampler, num_workers=2)
    for _ in islice(loader, 4):
        sampler.commit()
    sampler.load_state_dict(sampler.state_dict())
    assert torch.equal(before[0], torch.get_rng_state())
    assert all(
        np.array_equal(old, new)
        for old, new in zip(before[1], np.random.get_state(), strict=True)  # noqa: NPY002
    )
    assert before[2] == random.getstate()
    first = list(sampler)
    torch.manual_seed(6)
    assert list(sampler) == first


# -- iterators

MOVES: dict[str, Callable[[dc.CursorSampler], Any]] = {
    "loaded": lambda sampler: sampler.load_cursor(sampler.cursor),
    "iterated again": iter,
    "moved by seek": lambda sampler: sampler.seek(1, 3),
}


@pytest.mark.parametrize("reason", MOVES)
@pytest.mark.parametrize("drawn", [0, 1, 2, 3, 24])
def test_an_iterator_is_stale_at_once(reason: str, drawn: int) -> None:
    sampler = make()
    iterator = iter(sampler)
    list(islice(iterator, drawn))
    MOVES[reason](sampler)
    with pytest.raises(dc.StaleIteratorError, match=f"{reason}.* since it began at epoch 0"):
        next(iterator)


def test_set_epoch_on_a_fresh_sampler_makes_its_iterator_stale() -> None:
    sampler = make()
    iterator = iter(sampler)
    next(iterator)
    sampler.set_epoch(0)
    next(iterator)
    sampler.set_epoch(1)
    with pytest.raises(dc.StaleIteratorError, match="set_epoch"):
        next(iterator)


def test_set_epoch_elsewhere_warns_once_called_and_moves_nothing() -> None:
    sampler = make()
    next(iter(sampler))
    sampler.commit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.set_epoch(0)
    with pytest.warns(UserWarning, match=r"set_epoch\(4\) ignored: .* epoch 0"):
        sampler.set_epoch(4)
    assert place(sampler) == (0, 2)


@pytest.mark.parametrize("epoch", [-1, 2**40, 1.5, None])
def test_set_epoch_takes_an_epoch(epoch: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="epoch"):
        make().set_epoch(epoch)


def test_the_iterators_state_is_the_drawn_position() -> None:
    sampler = make()
    iterator = iter(sampler)
    list(islice(iterator, 6))
    sampler.commit(1)
    drawn = iterator.state_dict()
    assert place(sampler) == (0, 2)

    other = make()
    fresh = iter(other)
    fresh.load_state_dict(drawn)
    assert list(fresh) == order(24, 0)[6:]
    assert place(other) == (0, 6)


def test_a_half_drawn_batch_is_not_in_the_iterators_state() -> None:
    iterator = iter(make())
    list(islice(iterator, 5))
    fresh = iter(make())
    fresh.load_state_dict(iterator.state_dict())
    assert list(fresh) == order(24, 0)[4:]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("epoch", [0, 1])
def test_torchdatas_stateful_loader_resumes_at_what_it_delivered(
    num_workers: int, epoch: int
) -> None:
    def make_loader() -> tuple[dc.CursorSampler, StatefulDataLoader[int]]:
        sampler = make()
        context = "fork" if num_workers > 0 else None
        loader: StatefulDataLoader[int] = StatefulDataLoader(
            Numbers(24),
            batch_size=2,
            sampler=sampler,
            num_workers=num_workers,
            multiprocessing_context=context,
        )
        return sampler, loader

    state = None
    items: list[int] = []
    for count in (3, 4, 5):
        sampler, loader = make_loader()
        if state is None:
            sampler.set_epoch(epoch)
        else:
            loader.load_state_dict(state)
        for batch in islice(loader, count):
            items += batch.tolist()
            sampler.commit()
        state = loader.state_dict()
    assert items == order(24, epoch)
    assert place(sampler) == (epoch + 1, 0)


def test_an_iterator_that_has_ended_takes_no_state() -> None:
    iterator = iter(make())
    state = iterator.state_dict()
    list(iterator)
    with pytest.raises(dc.StaleIteratorError, match="has ended"):
        iterator.load_state_dict(state)


def test_a_stale_iterator_has_no_state() -> None:
    sampler = make()
    iterator = iter(sampler)
    next(iterator)
    sampler.seek(0, 0)
    with pytest.raises(dc.StaleIteratorError):
        iterator.state_dict()


# -- positions


def test_indices_of_an_update_under_the_present_layout() -> None:
    sampler = make(22, 2, num_replicas=3, rank=1, accumulation_steps=2)
    assert sampler.indices_of(5, 0).tolist() == order(22, 5)[:12]
    assert sampler.indices_of(5, 1).tolist() == order(22, 5)[12:22]
    dropping = make(22, 2, num_replicas=3, rank=1, accumulation_steps=2, drop_last=True)
    assert dropping.indices_of(5, 1).tolist() == order(22, 5)[12:18]


@pytest.mark.parametrize(("epoch", "update"), [(-1, 0), (2**40, 0), (0, -1), (0, 12), (0, 0.5)])
def test_indices_of_refuses_what_does_not_exist(epoch: Any, update: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"epoch|update"):
        make().indices_of(epoch, update)


def test_committed_tells_what_lies_behind_the_cursor() -> None:
    sampler = make()
    list(sampler)
    sampler.commit(5)
    done = [index for index in range(24) if sampler.committed(index)]
    assert sorted(done) == sorted(order(24, 0)[:10])
    for index in (-1, 24, 1.0):
        with pytest.raises((ValueError, TypeError), match="index"):
            sampler.committed(index)  # type: ignore[arg-type]


def test_seek_and_state_go_together() -> None:
    sampler = make()
    sampler.seek(9, 13)
    other = make()
    other.load_state_dict(sampler.state_dict())
    assert list(other) == order(24, 9)[13:]


@pytest.mark.parametrize(("n", "counted", "given"), [(24, True, 12), (2000, False, 1000)])
def test_a_state_that_never_moved_is_noticed_once(n: int, counted: bool, given: int) -> None:
    sampler = make(n)
    loader: DataLoader[int] = DataLoader(Numbers(n), batch_size=2, sampler=sampler)
    if counted:
        loader = dc.CursorLoader(Numbers(n), sampler=sampler)
    list(loader)
    with pytest.warns(UserWarning, match=f"{given} micro-batches were given out and none was"):
        sampler.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.state_dict()


def test_an_update_that_is_open_or_was_skipped_is_no_forgotten_commit() -> None:
    sampler = make(24)
    sampler.seek(0, 22)  # one micro-batch is left
    loader: dc.CursorLoader[int] = dc.CursorLoader(Numbers(24), sampler=sampler)
    next(iter(loader))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.state_dict()
        sampler.seek(0, 0)
        for _ in loader:
            sampler.skip()
        next(iter(loader))
        sampler.state_dict()


def test_a_worker_process_cannot_commit() -> None:
    class Committing(Numbers):
        sampler: dc.CursorSampler

        def __getitem__(self, index: int) -> int:
            with pytest.raises(dc.CommitError, match="worker process"):
                self.sampler.commit()
            return index

    dataset = Committing(8)
    dataset.sampler = make(8)
    loader = DataLoader(dataset, batch_size=2, sampler=dataset.sampler, num_workers=1)
    assert len(list(loader)) == 4


# -- state


def test_the_state_is_one_tensor_of_fixed_size_and_a_fresh_one_each_call() -> None:
    sampler = make()
    state = sampler.state_dict()
    assert list(state) == ["datacursor"]
    assert (state["datacursor"].dtype, state["datacursor"].shape) == (torch.uint8, (512,))
    state["datacursor"].zero_()
    assert sampler.state_dict()["datacursor"].any()


def test_the_state_survives_torch_save_with_weights_only(tmp_path: Any) -> None:
    sampler = make()
    next(iter(sampler))
    sampler.commit()
    torch.save(sampler.state_dict(), tmp_path / "state.pt")
    other = make()
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert other.cursor == sampler.cursor


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        [],
        {"datacursor": None},
        {"datacursor": b"x" * 512},
        {"datacursor": torch.zeros(512)},
        {"datacursor": torch.zeros(511, dtype=torch.uint8)},
        {"datacursor": torch.zeros((1, 512), dtype=torch.uint8)},
        {"datacursor": torch.zeros(512, dtype=torch.uint8)},
        {"datacursor": torch.zeros(512, dtype=torch.uint8, device="meta")},
        {"datacursor": torch.zeros(512, dtype=torch.uint8), "epoch": 3},
        {"samples": 3},
        {3: 4},
        torch.utils.data.RandomSampler(range(3)),
    ],
    ids=lambda state: type(state).__name__,
)
def test_a_foreign_state_is_refused_and_changes_nothing(state: Any) -> None:
    sampler = make()
    iterator = iter(sampler)
    before = sampler.cursor
    with pytest.raises(dc.CursorFormatError, match="not a"):
        sampler.load_state_dict(state)
    assert sampler.cursor is before
    assert list(iterator) == order(24, 0)


def test_every_flipped_bit_of_a_state_is_refused() -> None:
    sampler = make()
    sampler.seek(2, 5)
    state = sampler.state_dict()["datacursor"]
    before = sampler.cursor
    for bit in range(8 * 512):
        damaged = state.clone()
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(dc.CursorFormatError):
            sampler.load_state_dict({"datacursor": damaged})
    assert sampler.cursor is before


def test_a_mismatch_changes_nothing() -> None:
    sampler, other = make(), make(25)
    iterator = iter(sampler)
    with pytest.raises(dc.CursorMismatchError):
        sampler.load_state_dict(other.state_dict())
    assert list(iterator) == order(24, 0)


def test_copies_and_pickles_stand_where_the_original_stood() -> None:
    sampler = make()
    list(islice(sampler, 5))
    sampler.commit()
    for twin in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
        assert twin.cursor == sampler.cursor
        assert list(twin) == order(24, 0)[2:]
        twin.commit()
        assert place(sampler) == (0, 2)


def test_the_fingerprint_of_the_data_set_is_used() -> None:
    class Named(Numbers):
        _fingerprint = "3f2a"

    sampler = dc.CursorSampler(Named(10), batch_size=2)
    assert not sampler.cursor.data_unverified
    assert "unverified" in str(make().cursor)
    with pytest.raises(dc.CursorMismatchError, match="fingerprint"):
        dc.CursorSampler(10, batch_size=2).load_cursor(sampler.cursor)


def test_a_sampler_shows_its_layout_and_place() -> None:
    text = repr(make(24, 2, num_replicas=3, rank=1))
    assert "Shuffle(24, seed=7)" in text
    assert "rank=1, num_replicas=3, batch_size=2" in text
    assert "epoch 0" in text


# -- check


def test_check_accepts_a_loader_that_fits() -> None:
    sampler = make()
    sampler.check(DataLoader(Numbers(24), batch_size=2, sampler=sampler))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 3}, "loader.batch_size=3, sampler.batch_size=2"),
        ({"batch_size": None}, "was it given batch_sampler="),
        ({"batch_size": 2, "drop_last": True}, "drop_last=True must be given to the sampler"),
        ({"batch_size": 2, "in_order": False}, "in_order must be True"),
    ],
)
def test_check_names_what_does_not_fit(options: dict[str, Any], message: str) -> None:
    sampler = make()
    with pytest.raises(ValueError, match=message):
        sampler.check(DataLoader(Numbers(24), sampler=sampler, **options))


def test_check_refuses_another_sampler() -> None:
    sampler = make()
    batches = BatchSampler(sampler, 2, drop_last=False)
    for loader in (
        DataLoader(Numbers(24), batch_size=2, sampler=make()),
        DataLoader(Numbers(24), batch_sampler=batches),
    ):
        with pytest.raises(ValueError, match="sampler=sampler"):
            sampler.check(loader)

"""`SampleSeeded`: augmentation that workers, prefetch, skips and restarts do not change."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import packed
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from runs import Numbers, fresh, fresh_context
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

import datacursor as dc
from datacursor.issuing import IssuedIndex

Noise = tuple[float, ...]
Noises = dict[tuple[int, int], Noise]  # by (epoch, index)

N, BATCH_SIZE = 12, 2
WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


class Drawing(Dataset[tuple[int, Noise]]):
    """Sample i is i with what it drew from the global streams."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> tuple[int, Noise]:
        for _ in range(index % 3):  # an uneven number of draws, as cropping and rejection make
            random.random()
        drawn = random.gauss(), np.random.standard_normal(), float(torch.randn(()))  # noqa: NPY002
        return int(index), drawn


def draw(index: int, generator: Generator) -> tuple[int, Noise]:
    return int(index), tuple(generator.normal(size=index % 3 + 1).tolist())


def keep(batch: list[tuple[int, Noise]]) -> list[tuple[int, Noise]]:
    return batch


def seeded(sampler: dc.CursorSampler, kind: str, **options: Any) -> dc.SampleSeeded:
    if kind == "global":
        return dc.SampleSeeded(Drawing(), sampler, **options)
    return dc.SampleSeeded(Numbers(N), sampler, transform=draw, **options)


def make_loader(
    sampler: dc.CursorSampler, kind: str, num_workers: int = 0, **options: Any
) -> dc.CursorLoader[Any]:
    if num_workers > 0:
        options = {"multiprocessing_context": "fork", "num_workers": num_workers} | options
    return dc.CursorLoader(seeded(sampler, kind), sampler=sampler, collate_fn=keep, **options)


def train(
    sampler: dc.CursorSampler, loader: DataLoader[Any], updates: int, skipped: int = -1
) -> Noises:
    """Return what the committed samples drew, over as many epochs as it takes."""
    noises: Noises = {}
    while updates > 0:
        for number, batch in enumerate(loader):
            if number == skipped:
                sampler.skip()
                skipped = -1
                continue
            noises |= {(sampler.epoch, index): noise for index, noise in batch}
            sampler.commit()
            updates -= 1
            if updates == 0:
                break
    return noises


def make_sampler(**options: Any) -> dc.CursorSampler:
    return dc.CursorSampler(N, **({"batch_size": BATCH_SIZE, "seed": 7} | options))


def expected(kind: str, epochs: int) -> Noises:
    """What a loop without loader and sampler sees."""
    dataset = seeded(make_sampler(), kind)
    return {
        (epoch, index): dataset.sample(epoch, index)[1]
        for epoch in range(epochs)
        for index in range(N)
    }


def resumed(state: dict[str, torch.Tensor], kind: str, num_workers: int, updates: int) -> Noises:
    sampler = make_sampler()
    sampler.load_state_dict(state)
    return train(sampler, make_loader(sampler, kind, num_workers), updates)


KINDS = pytest.mark.parametrize("kind", ["global", "transform"])


@KINDS
@pytest.mark.parametrize(
    ("num_workers", "options"),
    [
        (0, {}),
        (2, {}),
        (2, {"prefetch_factor": 7}),  # the whole epoch ahead
        (2, {"persistent_workers": True}),
        (2, {"persistent_workers": True, "prefetch_factor": 4}),
    ],
)
def test_d25_noise_is_equal_for_any_workers_and_prefetch(
    kind: str, num_workers: int, options: dict[str, Any]
) -> None:
    sampler = make_sampler()
    noises = train(sampler, make_loader(sampler, kind, num_workers, **options), 3 * 6)
    assert noises == expected(kind, 3)


@KINDS
def test_d25_noise_differs_between_epochs_samples_and_streams(kind: str) -> None:
    noises = expected(kind, 3)
    firsts = [noise[0] for noise in noises.values()]
    assert len(set(firsts)) == 3 * N
    for other in ({"seed": 1}, {"stream": "other"}):
        dataset = seeded(make_sampler(), kind, **other)
        assert dataset.sample(1, 5)[1][0] not in firsts


@KINDS
@WORKERS
def test_d25_noise_is_equal_after_two_resumes(kind: str, num_workers: int) -> None:
    sampler = make_sampler()
    noises = train(sampler, make_loader(sampler, kind, num_workers), 8)
    noises |= resumed(sampler.state_dict(), kind, 2 - num_workers, 3)
    sampler.seek(1, 10)
    noises |= fresh(resumed, sampler.state_dict(), kind, num_workers, 7)
    assert noises == expected(kind, 3)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_persistent_workers_know_the_epoch_however_they_were_started(context: str) -> None:
    sampler = make_sampler()
    method: Any = fresh_context() if context == "forkserver" else context
    options = {"multiprocessing_context": method, "persistent_workers": True}
    loader = make_loader(sampler, "transform", 1, **options)
    assert train(sampler, loader, 2 * 6) == expected("transform", 2)


@WORKERS
def test_a_loop_that_is_left_and_begun_again_draws_the_same(num_workers: int) -> None:
    sampler = make_sampler()
    persistent = num_workers > 0
    loader = make_loader(sampler, "global", num_workers, persistent_workers=persistent)
    noises: Noises = {}
    for updates in (4, 1, 3, 6, 4):  # each leaves batches of the epoch in the workers' queues
        noises |= train(sampler, loader, updates)
    assert noises == expected("global", 3)


def test_batches_of_an_epoch_that_was_left_keep_their_epoch() -> None:
    sampler = make_sampler()
    loader: DataLoader[Any] = DataLoader(
        seeded(sampler, "transform"),
        batch_size=BATCH_SIZE,
        sampler=sampler,
        collate_fn=keep,
        num_workers=1,
        prefetch_factor=7,  # all that is left of the epoch
        multiprocessing_context="fork",
    )
    old = iter(loader)
    next(old)
    sampler.seek(5, 0)
    new = iter(loader)
    ahead = [item for batch in islice(old, 2) for item in batch]  # drawn before the seek
    assert all(expected("transform", 1)[0, index] == noise for index, noise in ahead)
    dataset = seeded(make_sampler(), "transform")
    assert all(dataset.sample(5, index)[1] == noise for index, noise in next(new))


@WORKERS
@pytest.mark.parametrize("on_skip", ["retry", "defer"])
def test_a_skipped_update_that_comes_again_draws_the_same(num_workers: int, on_skip: str) -> None:
    sampler = make_sampler(on_skip=on_skip)
    noises = train(sampler, make_loader(sampler, "global", num_workers), 2 * 6, skipped=2)
    assert noises == expected("global", 2)


def test_every_rank_and_batch_size_draws_the_same() -> None:
    noises: Noises = {}
    for rank in range(2):
        sampler = make_sampler(batch_size=3, num_replicas=2, rank=rank)
        noises |= train(sampler, make_loader(sampler, "global"), 2)
    assert noises == expected("global", 1)


@WORKERS
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it
def test_other_loaders_pass_the_epoch_on(num_workers: int) -> None:
    sampler = make_sampler()
    loader = StatefulDataLoader(
        seeded(sampler, "transform"),
        batch_size=BATCH_SIZE,
        sampler=sampler,
        collate_fn=keep,
        num_workers=num_workers,
        multiprocessing_context="fork" if num_workers else None,
    )
    noises = {(0, index): noise for batch in loader for index, noise in batch}
    assert noises == expected("transform", 1)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_sampler_and_data_set_draws_the_same(copied: Callable[[Any], Any]) -> None:
    sampler = make_sampler()
    dataset = seeded(sampler, "global")
    sampler, dataset = copied((sampler, dataset))
    loader: dc.CursorLoader[Any] = dc.CursorLoader(dataset, sampler=sampler, collate_fn=keep)
    assert train(sampler, loader, 6) == expected("global", 1)


MOVES = st.sampled_from(["deliver", "deliver", "commit", "skip", "seek", "resume", "again"])


@pytest.mark.filterwarnings("ignore:epoch .* was delivered to its end")  # some loops are clumsy
@given(
    moves=st.lists(MOVES, max_size=60),
    on_skip=st.sampled_from(["advance", "retry", "defer"]),
    batch_size=st.integers(1, 5),
)
def test_whatever_happens_a_sample_draws_by_the_epoch_it_is_committed_in(
    moves: list[str], on_skip: str, batch_size: int
) -> None:
    dataset = seeded(make_sampler(), "transform")
    sampler = make_sampler(batch_size=batch_size, on_skip=on_skip)
    loader = make_loader(sampler, "transform")
    batches = iter(loader)
    for move in moves:
        if move == "deliver":
            for index, noise in next(batches, []):
                assert noise == dataset.sample(sampler.epoch, index)[1]
            continue
        if move in ("commit", "skip"):
            # Updates of one micro-batch, as none may cross a range's end; the last one is skipped.
            while delivered := sampler.uncommitted.delivered:
                is_last = delivered <= batch_size
                conclude = sampler.skip if move == "skip" and is_last else sampler.commit
                conclude(micro_batches=1)
            if sampler.uncommitted.issued == 0:  # perhaps at the epoch's end
                batches = iter(loader)
            continue
        if move == "seek":
            sampler.seek(sampler.epoch + 1, 3)
        elif move == "resume":
            state = bytes(sampler.cursor)
            sampler = make_sampler(batch_size=batch_size, on_skip=on_skip)
            sampler.load_cursor(dc.Cursor.from_bytes(state))
            loader = make_loader(sampler, "transform")
        batches = iter(loader)


# -- Streams ---------------------------------------------------------------------------------------


def streams() -> tuple[Any, ...]:
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002
    return random.getstate(), pickle.dumps(numpy), torch.get_rng_state().tolist()


@KINDS
def test_the_global_streams_stand_where_they_stood(kind: str) -> None:
    sampler = make_sampler()
    loader = make_loader(sampler, kind)
    torch.randn(1), random.gauss(), np.random.standard_normal()  # noqa: NPY002  # half a pair each
    before = streams()
    train(sampler, loader, 8)
    assert streams() == before


class Failing(Drawing):
    def __getitem__(self, index: int) -> tuple[int, Noise]:
        super().__getitem__(index)
        raise OSError("no such image")


def test_the_global_streams_are_put_back_when_a_sample_fails() -> None:
    dataset = dc.SampleSeeded(Failing(), make_sampler())
    before = streams()
    with pytest.raises(OSError, match="no such image"):
        dataset.sample(0, 1)
    assert streams() == before


def test_numpy_and_torch_are_not_seeded_alike() -> None:
    _, (python, numpy, default) = seeded(make_sampler(), "global").sample(0, 0)
    assert len({python, numpy, default}) == 3
    twins = np.random.RandomState(5).uniform(), float(torch.rand((), dtype=torch.float64))
    assert len(set(twins)) == 2


# -- Data sets that are read in batches ------------------------------------------------------------


class Batched(Numbers):
    """As Hugging Face data sets are read."""

    def __getitem__(self, index: int) -> int:
        raise AssertionError("read by the batch")

    def __getitems__(self, indices: list[int]) -> list[int]:
        return list(indices)


def test_a_data_set_is_read_by_the_batch_where_it_can_be() -> None:
    sampler = make_sampler()
    dataset = dc.SampleSeeded(Batched(N), sampler, transform=draw)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(dataset, sampler=sampler, collate_fn=keep)
    assert train(sampler, loader, 6) == expected("transform", 1)


def mask_tokens(batch: dict[str, Any], generators: list[Generator]) -> dict[str, Any]:
    seq_len = batch["input_ids"].shape[1]
    masks = np.stack([generator.random(seq_len) < 0.3 for generator in generators])
    batch["input_ids"][torch.from_numpy(masks)] = -1
    return batch


def masked_rows(num_workers: int, batch_size: int, first: int = 0) -> list[list[int]]:
    rows = packed.make(packed.counted(*range(3, 13)), 5, batch_size, shuffle=True, seed=3)
    rows.seek(1, first)
    dataset = dc.SampleSeeded(rows.dataset, rows, seed=2, transform=mask_tokens)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(
        dataset,
        sampler=rows,
        num_workers=num_workers,
        multiprocessing_context="fork" if num_workers else None,
    )
    return [row for batch in loader for row in batch["input_ids"].tolist()]


@WORKERS
def test_packed_rows_draw_by_their_epoch_and_number(num_workers: int) -> None:
    whole = masked_rows(0, 1)
    assert sum(row.count(-1) for row in whole) > 10
    assert masked_rows(num_workers, 4) == whole
    assert masked_rows(num_workers, 2, first=6) == whole[6:]
    generator = dc.sample_generator(2, epoch=1, index=6)
    assert [token == -1 for token in whole[6]] == (generator.random(5) < 0.3).tolist()


def test_a_packed_row_alone_is_a_batch_of_one() -> None:
    rows = packed.make([[1, 2, 3, 4, 5]], 5)
    dataset = dc.SampleSeeded(rows.dataset, rows, transform=mask_tokens)
    [index] = rows
    assert dataset[index]["input_ids"].shape == (1, 5)
    with pytest.raises(TypeError, match="known by its spans"):
        dataset.sample(0, 0)


# -- Orders that repeat ----------------------------------------------------------------------------


@WORKERS
def test_by_position_every_repetition_of_a_sample_draws_anew(num_workers: int) -> None:
    def noises(by: str, first: int = 0) -> list[tuple[int, Noise]]:
        order = dc.Weighted([1.0, 3.0], num_positions=N, seed=1)
        sampler = dc.CursorSampler(2, batch_size=3, order=order)
        sampler.seek(1, first)
        dataset = dc.SampleSeeded(Numbers(2), sampler, transform=draw, by=by)
        context = "fork" if num_workers else None
        loader: dc.CursorLoader[Any] = dc.CursorLoader(
            dataset,
            sampler=sampler,
            collate_fn=keep,
            num_workers=num_workers,
            multiprocessing_context=context,
        )
        return [item for batch in loader for item in batch]

    assert len(set(noises("index"))) == 2
    assert len(set(noises("position"))) == N
    assert noises("position", first=6) == noises("position")[6:]
    index, noise = noises("position")[7]
    generator = dc.sample_generator(0, epoch=1, index=7)
    assert noise == draw(index, generator)[1]


def test_a_sample_by_position_is_read_by_its_position() -> None:
    dataset = seeded(make_sampler(), "transform", by="position")
    assert dataset.sample(1, 4, position=9) == draw(4, dc.sample_generator(0, 1, 9))
    with pytest.raises(TypeError, match="position must be given"):
        dataset.sample(1, 4)


# -- The index that knows its place ----------------------------------------------------------------


def test_an_index_is_the_number_it_was() -> None:
    index = IssuedIndex(5, epoch=3, position=8)
    assert (index, hash(index), str(index), f"{index:03}") == (5, hash(5), "5", "005")
    for copied in (pickle.loads(pickle.dumps(index)), copy.deepcopy(index)):
        assert (copied, copied.epoch, copied.position) == (5, 3, 8)
    assert list("abcdef")[index] == "f"
    assert torch.arange(6)[index] == np.arange(6)[index] == 5


def test_indices_know_no_place_unless_something_asks() -> None:
    sampler = make_sampler()
    assert {type(index) for index in sampler} == {int}
    seeded(sampler, "global")
    sampler.seek(4, 3)
    places = [(index.epoch, index.position) for index in sampler if isinstance(index, IssuedIndex)]
    assert places == [(4, position) for position in range(3, N)]


@pytest.mark.parametrize("num_replicas", [1, 2, 3])
def test_positions_are_those_of_the_order_on_every_rank(num_replicas: int) -> None:
    for rank in range(num_replicas):
        sampler = make_sampler(batch_size=5, num_replicas=num_replicas, rank=rank)
        seeded(sampler, "global")
        sampler.seek(2, 1)
        order = dc.Shuffle(N, seed=7)
        for index in sampler:
            assert isinstance(index, IssuedIndex)
            if index.position < N:  # else it only fills the last round
                assert order.index_at(2, index.position) == index


def test_the_state_is_the_same_with_and_without_places() -> None:
    plain, marked = (make_sampler(num_replicas=2, rank=1) for _ in range(2))
    seeded(marked, "global")
    for sampler in (plain, marked):
        for _ in islice(sampler, 4):
            pass
        sampler.commit(2)
        sampler.agree()
    assert plain.cursor == marked.cursor


# -- What is refused -------------------------------------------------------------------------------


def test_an_index_without_its_epoch_is_refused() -> None:
    sampler = make_sampler()
    dataset = seeded(sampler, "global")
    with pytest.raises(TypeError, match=r"int 3 does not know.*sample\(epoch, index\)"):
        dataset[3]
    between: dc.CursorLoader[Any] = dc.CursorLoader(Subset(dataset, range(N)), sampler=sampler)
    with pytest.raises(TypeError, match="does not know"):
        next(iter(between))
    foreign: dc.CursorLoader[Any] = dc.CursorLoader(dataset, sampler=make_sampler())
    with pytest.raises(TypeError, match="does not know"):
        next(iter(foreign))


def test_a_sample_that_is_not_there_is_refused() -> None:
    dataset = seeded(make_sampler(), "global")
    with pytest.raises(dc.ArgumentError, match=r"index must be in \[0, 12\), got index=12"):
        dataset.sample(0, 12)
    with pytest.raises(dc.ArgumentError, match=r"epoch must be in .* got epoch=-1"):
        dataset.sample(-1, 0)


def test_wrong_arguments_are_refused() -> None:
    sampler = make_sampler()
    with pytest.raises(TypeError, match="must be a CursorSampler, got RandomSampler"):
        dc.SampleSeeded(Drawing(), RandomSampler(Drawing()))  # type: ignore[arg-type]
    with pytest.raises(dc.ArgumentError, match=r"len\(dataset\)=13, len\(sampler.dataset\)=12"):
        dc.SampleSeeded(Numbers(13), sampler)
    with pytest.raises(dc.ArgumentError, match="got seed=-1"):
        dc.SampleSeeded(Drawing(), sampler, seed=-1)
    with pytest.raises(TypeError, match="got stream=3"):
        dc.SampleSeeded(Drawing(), sampler, stream=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got transform=3"):
        dc.SampleSeeded(Drawing(), sampler, transform=3)  # type: ignore[arg-type]
    with pytest.raises(dc.ArgumentError, match=r"by must be one of .* got by='row'"):
        seeded(sampler, "global", by="row")
    rows = packed.make([[1, 2, 3]], 3)
    with pytest.raises(dc.ArgumentError, match="transform must be given"):
        dc.SampleSeeded(rows.dataset, rows)
    assert {type(index) for index in sampler} == {int}


def test_workers_are_really_used() -> None:
    def where(_: int, __: Generator) -> bool:
        return get_worker_info() is not None

    sampler = make_sampler()
    dataset = dc.SampleSeeded(Numbers(N), sampler, transform=where)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(
        dataset, sampler=sampler, num_workers=1, multiprocessing_context="fork"
    )
    assert all(bool(batch.all()) for batch in loader)

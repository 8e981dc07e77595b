"""Small inputs with right values: what users of other loaders report going wrong.

Shuffle is on unless a test says off. "Resume" means a new process that has only the
saved state. (e, k) is the cursor: epoch e, k contributions committed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import Numbers, Run, Seen, fresh, order, run

import datacursor as dc

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])
LOADERS = pytest.mark.parametrize("loader", ["DataLoader", "CursorLoader", "attached"])


def per_step(seen_by_rank: list[Seen]) -> list[list[int]]:
    """The union of the ranks' micro-batches, step by step."""
    steps = zip(*(seen.batches for seen in seen_by_rank), strict=True)
    return [joined(batches) for batches in steps]


def joined(batches: Iterable[list[int]]) -> list[int]:
    return [item for batch in batches for item in batch]


def run_ranks(job: Run, state: dict[str, torch.Tensor] | None, **options: int) -> list[Seen]:
    return [fresh(run, rank, state, **options) for rank in job.ranks()]


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@WORKERS
@LOADERS
@pytest.mark.parametrize(
    ("drop_last", "batches"),
    [(False, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]), (True, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])],
)
def test_d01_plain_arithmetic(
    num_workers: int, loader: str, drop_last: bool, batches: list[list[int]]
) -> None:
    job = Run(10, 3, shuffle=False, drop_last=drop_last, num_workers=num_workers, loader=loader)
    seen = run(job, epochs=1)
    assert seen.batches == batches
    assert seen.length == len(batches)
    assert seen.place == (1, 0)


def test_d02_every_epoch_is_its_own_permutation_without_set_epoch() -> None:
    seen = run(Run(64, 8), epochs=3)
    epochs = [seen.items[64 * e : 64 * (e + 1)] for e in range(3)]
    assert all(sorted(items) == list(range(64)) for items in epochs)
    assert len({tuple(items) for items in epochs}) == 3
    assert fresh(run, Run(64, 8), epochs=3).items == seen.items


def test_d02_set_epoch_on_a_fresh_object_gives_that_epoch_at_once() -> None:
    sampler = Run(64, 8).make_sampler()
    sampler.set_epoch(2)
    assert list(sampler) == order(64, 2)


def test_d02_seed_and_epoch_are_not_added() -> None:
    assert order(64, 1, seed=0) != order(64, 0, seed=1)


@WORKERS
@LOADERS
def test_d03_resume_inside_a_later_epoch(num_workers: int, loader: str) -> None:
    job = Run(64, 4, num_replicas=2, num_workers=num_workers, loader=loader)
    saved = run_ranks(job, None, updates=2 * 8 + 3)
    assert [seen.place for seen in saved] == [(2, 24)] * 2
    assert [(seen.remaining, seen.length) for seen in saved] == [(5, 8)] * 2
    assert equal(saved[0].state, saved[1].state)

    resumed = per_step(run_ranks(job, saved[0].state, epochs=2))
    assert resumed[0] == order(64, 2)[24:32]
    assert len(resumed) == 5 + 8
    assert sorted(joined(resumed[5:])) == list(range(64))
    assert joined(resumed[5:]) == order(64, 3)


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
@pytest.mark.parametrize(
    ("num_workers", "prefetch_factor"),
    [(0, None), (1, 1), (1, 2), (1, 8), (4, 1), (4, 2), (4, 8)],
)
@LOADERS
def test_d04_prefetch_does_not_count(
    num_workers: int, prefetch_factor: int | None, loader: str
) -> None:
    job = Run(64, 2, num_workers=num_workers, prefetch_factor=prefetch_factor, loader=loader)
    saved = run(job, updates=3)
    assert saved.place == (0, 6)

    resumed = fresh(run, job, saved.state, epochs=1)
    assert resumed.batches[0] == order(64, 0)[6:8]
    assert len(resumed.batches) == 29


@WORKERS
@LOADERS
def test_d05_delivered_is_not_committed(num_workers: int, loader: str) -> None:
    job = Run(12, 2, num_workers=num_workers, loader=loader)
    saved = run(job, updates=2, extra=2)
    assert len(saved.batches) == 4
    assert saved.place == (0, 4)

    resumed = fresh(run, job, saved.state, epochs=1)
    assert resumed.batches == [order(12, 0)[k : k + 2] for k in (4, 6, 8, 10)]


@WORKERS
@LOADERS
def test_d06_accumulation(num_workers: int, loader: str) -> None:
    job = Run(32, 2, accumulation_steps=4, num_workers=num_workers, loader=loader)
    saved = run(job, updates=1, extra=2)
    assert len(saved.batches) == 6
    assert saved.place == (0, 8)

    resumed = fresh(run, job, saved.state, epochs=1)
    assert resumed.batches[0] == order(32, 0)[8:10]
    assert resumed.updates == 3
    assert len(resumed.batches) == 3 * 4


@WORKERS
@LOADERS
def test_d07_an_open_window_at_the_end_of_an_epoch_is_one_smaller_update(
    num_workers: int, loader: str
) -> None:
    job = Run(9, 2, accumulation_steps=2, num_workers=num_workers, loader=loader)
    seen = run(job, epochs=3)
    assert len(seen.batches) == 3 * 5
    assert seen.updates == 9
    assert seen.place == (3, 0)


@WORKERS
def test_d09_the_end_of_an_epoch_is_the_start_of_the_next(num_workers: int) -> None:
    job = Run(6, 2, num_workers=num_workers)
    sampler = job.make_sampler()
    states = []
    for _ in job.make_loader(sampler):
        sampler.commit()
        states.append(sampler.state_dict())
    states.append(sampler.state_dict())
    assert sampler.cursor.epoch == 1
    assert sampler.cursor.position == 0
    assert equal(states[-2], states[-1])

    resumed = fresh(run, job, states[-1], epochs=1)
    assert resumed.batches == [order(6, 1)[k : k + 2] for k in (0, 2, 4)]


@WORKERS
@LOADERS
def test_d10_the_skip_is_used_once(num_workers: int, loader: str) -> None:
    job = Run(10, 2, num_workers=num_workers, loader=loader)
    saved = run(job, updates=5 + 2)
    assert saved.place == (1, 4)

    resumed = fresh(run, job, saved.state, epochs=3)
    assert len(resumed.batches) == 3 + 5 + 5
    assert resumed.items[6:16] == order(10, 2)
    assert resumed.items[16:] == order(10, 3)


@WORKERS
@LOADERS
@pytest.mark.parametrize("epoch", [0, 2])
def test_d11_several_resumes(num_workers: int, loader: str, epoch: int) -> None:
    job = Run(100, 1, num_workers=num_workers, loader=loader)
    first = run(job, updates=100 * epoch + 30)
    second = fresh(run, job, first.state, updates=10)
    third = fresh(run, job, second.state, updates=1)
    assert third.batches == [[order(100, epoch)[40]]]

    again = fresh(run, job, second.state, epochs=1)
    assert again.items[0] == order(100, epoch)[40]
    items = first.items[100 * epoch :] + second.items + again.items
    assert sorted(items) == list(range(100))


def test_d12_a_state_is_a_value() -> None:
    job = Run(20, 2)
    sampler = job.make_sampler()
    before = sampler.state_dict()
    iterator = iter(sampler)
    assert equal(sampler.state_dict(), before)
    next(iterator)
    assert equal(sampler.state_dict(), before)

    other = job.make_sampler()
    other.load_state_dict(before)
    assert (other.cursor.epoch, other.cursor.position) == (0, 0)
    assert equal(other.state_dict(), before)

    saved = run(job, updates=4).state
    kept = {key: tensor.clone() for key, tensor in saved.items()}
    resumed = fresh(run, job, saved, updates=3)
    assert equal(saved, kept)
    assert not equal(resumed.state, saved)
    other.load_state_dict(saved)
    assert equal(other.state_dict(), saved)


@WORKERS
@LOADERS
def test_d13_another_world_size_at_the_same_global_batch(num_workers: int, loader: str) -> None:
    state, steps = None, []
    for num_replicas, batch_size, updates in [(4, 4, 3), (2, 8, 2), (8, 2, 1)]:
        job = Run(
            100, batch_size, num_replicas=num_replicas, num_workers=num_workers, loader=loader
        )
        seen = run_ranks(job, state, updates=updates)
        assert all(equal(seen[0].state, other.state) for other in seen)
        steps += per_step(seen)
        state = seen[0].state
    assert steps == [order(100, 0)[16 * k : 16 * (k + 1)] for k in range(6)]

    tail = run_ranks(replace(job, rank=0), state, epochs=1)
    assert per_step(tail)[0][:4] == order(100, 0)[96:]
    assert tail[0].place == (1, 0)


def test_d14_another_global_batch() -> None:
    job = Run(24, 3, num_replicas=2)
    saved = run_ranks(job, None, updates=2)
    resumed = run_ranks(replace(job, num_replicas=3, batch_size=4), saved[0].state, epochs=1)
    assert per_step(resumed) == [order(24, 0)[12:24]]
    assert resumed[0].place == (1, 0)


@WORKERS
@LOADERS
def test_d14_another_batch_size(num_workers: int, loader: str) -> None:
    job = Run(30, 4, num_workers=num_workers, loader=loader)
    saved = run(job, updates=3)
    resumed = fresh(run, replace(job, batch_size=5), saved.state, epochs=1)
    assert [len(batch) for batch in resumed.batches] == [5, 5, 5, 3]
    assert resumed.items == order(30, 0)[12:]


@pytest.mark.parametrize(
    ("changed", "name", "values"),
    [
        ({"n": 101}, "num_samples", ("100", "101")),
        ({"n": 99}, "num_samples", ("100", "99")),
        ({"seed": 8}, "seed", ("7", "8")),
        ({"shuffle": False}, "order", ("shuffle-1", "sequential-1")),
        ({"drop_last": True}, "drop_last", ("False", "True")),
    ],
)
def test_d15_another_setup_is_refused(
    changed: dict[str, Any], name: str, values: tuple[str, str]
) -> None:
    saved = run(Run(100, 4), updates=27).state
    sampler = replace(Run(100, 4), **changed).make_sampler()
    before = sampler.state_dict()
    with pytest.raises(dc.CursorMismatchError) as error:
        sampler.load_state_dict(saved)
    message = str(error.value)
    assert name in message
    assert all(value in message for value in values)
    assert f"allow_changed={{'{name}'}}" in message
    assert equal(sampler.state_dict(), before)

    sampler.load_state_dict(saved, allow_changed={name})
    assert sampler.cursor.accepted == (name,)
    assert (sampler.cursor.epoch, sampler.cursor.position) == (1, 8)
    again = replace(Run(100, 4), **changed).make_sampler()
    again.load_state_dict(sampler.state_dict())
    assert again.cursor.accepted == (name,)


def test_d15_other_content_is_refused() -> None:
    sampler = dc.CursorSampler(100, batch_size=4, fingerprint="first")
    other = dc.CursorSampler(100, batch_size=4, fingerprint="second")
    with pytest.raises(dc.CursorMismatchError, match="fingerprint") as error:
        other.load_state_dict(sampler.state_dict())
    assert sampler.cursor.data_fingerprint.hex() in str(error.value)
    assert other.cursor.data_fingerprint.hex() in str(error.value)
    other.load_state_dict(sampler.state_dict(), allow_changed={"fingerprint"})
    assert other.cursor.accepted == ("fingerprint",)


def test_d15_another_layout_is_accepted() -> None:
    saved = run(Run(100, 4, num_replicas=2), updates=3).state
    job = Run(100, 2, num_replicas=3, rank=1, accumulation_steps=5, num_workers=2)
    assert fresh(run, job, saved, updates=1).batches[0] == order(100, 0)[26:28]


@pytest.mark.parametrize("persistent", [False, True])
@LOADERS
def test_d16_another_number_of_workers(persistent: bool, loader: str) -> None:
    plain = run(Run(40, 4), epochs=2)
    state, items = None, []
    for num_workers, updates in [(0, 3), (4, 3), (2, 14)]:
        job = Run(
            40,
            4,
            num_workers=num_workers,
            persistent=persistent and num_workers > 0,
            loader=loader,
        )
        seen = fresh(run, job, state, updates=updates)
        state = seen.state
        items += seen.items
    assert items == plain.items
    assert order(40, 1) != order(40, 0)


def test_d17_ranks_stay_level_when_the_tail_is_dropped() -> None:
    seen = [run(rank, epochs=1) for rank in Run(10, 2, num_replicas=3, drop_last=True).ranks()]
    assert [len(one.batches) for one in seen] == [1, 1, 1]
    assert sorted(joined(one.items for one in seen)) == sorted(order(10, 0)[:6])
    assert [one.place for one in seen] == [(1, 0)] * 3


@WORKERS
def test_d17_ranks_stay_level_when_the_tail_is_padded(num_workers: int) -> None:
    real, masked = [], []
    for job in Run(10, 2, num_replicas=3, num_workers=num_workers).ranks():
        sampler = job.make_sampler()
        loader = job.make_loader(sampler)
        assert isinstance(loader, dc.CursorLoader)
        num_batches = 0
        for batch in loader:
            num_batches += 1
            assert loader.num_real == int((~loader.padding_mask).sum())
            real += batch[~loader.padding_mask].tolist()
            masked += batch[loader.padding_mask].tolist()
            sampler.commit()
        assert num_batches == 2
        assert (sampler.cursor.epoch, sampler.cursor.position) == (1, 0)
    assert sorted(real) == list(range(10))
    assert masked == order(10, 0)[:2]


@pytest.mark.parametrize(("n", "num_replicas"), [(3, 7), (4, 9)])
def test_d18_fewer_samples_than_ranks(n: int, num_replicas: int) -> None:
    real = masked = 0
    for job in Run(n, 1, num_replicas=num_replicas).ranks():
        sampler = job.make_sampler()
        loader = job.make_loader(sampler)
        assert isinstance(loader, dc.CursorLoader)
        for batch in loader:
            assert len(batch) == 1
            real += loader.num_real
            masked += int(loader.padding_mask.sum())
    assert (real, masked) == (n, num_replicas - n)

    with pytest.raises(ValueError, match=rf"num_samples={n} .* {num_replicas} \* 1 = "):
        Run(n, 1, num_replicas=num_replicas, drop_last=True).make_sampler()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"dataset_or_num_samples": 0}, "num_samples=0"),
        ({"dataset_or_num_samples": []}, "num_samples=0"),
        ({"num_replicas": 0, "rank": 0}, "num_replicas=0"),
        ({"num_replicas": 4, "rank": 4}, "rank=4"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_d18_wrong_sizes_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        dc.CursorSampler(**{"dataset_or_num_samples": 8, "batch_size": 2, **arguments})


def test_d18_one_sample() -> None:
    assert run(Run(1, 1), epochs=3).batches == [[0]] * 3


def test_d19_huge_n() -> None:
    n = 10**12
    code = f"""
import resource, datacursor as dc
import datacursor.sampler
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sampler = dc.CursorSampler({n}, batch_size=8, seed=7)
order = dc.Shuffle({n}, seed=7)
positions = [0, 2**31 - 1, 2**31, 2**31 + 1, 2**32, {n} - 1]
indices = []
for position in positions:
    sampler.seek(1, position)
    indices.append(next(iter(sampler)))
    assert order.position_of(1, indices[-1]) == position
assert len(set(indices)) == 6 and all(0 <= index < {n} for index in indices), indices
assert max(indices) > 2**32
small = dc.CursorSampler(10, batch_size=8)
assert [s.state_dict()["datacursor"].numel() for s in (sampler, small)] == [512, 512]
growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert growth * 1024 < 10 * 2**20, growth
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_resume_from_a_file_in_another_interpreter(tmp_path: Path) -> None:
    job = Run(50, 3, num_replicas=2)
    torch.save(run(job, updates=9 + 4).state, tmp_path / "state.pt")
    code = (
        "import sys, pickle, torch; from runs import Run, run\n"
        f"state = torch.load({str(tmp_path / 'state.pt')!r}, weights_only=True)\n"
        "seen = run(Run(50, 3, num_replicas=2, rank=1), state, epochs=2)\n"
        "sys.stdout.buffer.write(pickle.dumps(seen.batches))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, timeout=120, env=environment
    )
    uninterrupted = run(replace(job, rank=1), epochs=3)
    assert pickle.loads(done.stdout) == uninterrupted.batches[9 + 4 :]


def test_numbers_is_what_the_scenarios_assume() -> None:
    assert [Numbers(3)[i] for i in range(3)] == [0, 1, 2]

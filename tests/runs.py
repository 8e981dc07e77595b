"""Short training runs for tests, in this process or in a fresh one.

`Run` describes one rank of a job; `run` plays it from a saved state: deliver some
micro-batches, commit after each update, return what was seen. `fresh` plays it in a
new process that has nothing but its arguments.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

import datacursor as dc

T = TypeVar("T")
_TIMEOUT_SECONDS = 120


class Numbers(Dataset[int]):
    """The data set whose sample i is i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index


@dataclass(frozen=True)
class Run:
    """One rank of a training job."""

    n: int
    batch_size: int
    seed: int = 7
    shuffle: bool = True
    num_replicas: int = 1
    rank: int = 0
    accumulation_steps: int = 1
    drop_last: bool = False
    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent: bool = False
    loader: str = "CursorLoader"  # or "DataLoader", or "attached": committed by an optimizer
    context: str = "fork"

    def ranks(self) -> list[Run]:
        return [replace(self, rank=rank) for rank in range(self.num_replicas)]

    def make_sampler(self) -> dc.CursorSampler:
        return dc.CursorSampler(
            Numbers(self.n),
            batch_size=self.batch_size,
            num_replicas=self.num_replicas,
            rank=self.rank,
            shuffle=self.shuffle,
            seed=self.seed,
            drop_last=self.drop_last,
            accumulation_steps=self.accumulation_steps,
        )

    def make_loader(self, sampler: dc.CursorSampler) -> DataLoader[int]:
        options: dict[str, Any] = {"num_workers": self.num_workers}
        if self.num_workers > 0:
            options |= {
                "prefetch_factor": self.prefetch_factor,
                "persistent_workers": self.persistent,
                "multiprocessing_context": self.context,
            }
        if self.loader != "DataLoader":
            return dc.CursorLoader(sampler.dataset, sampler=sampler, **options)
        return DataLoader(sampler.dataset, batch_size=self.batch_size, sampler=sampler, **options)


@dataclass
class Seen:
    """What one run delivered and where it stood at its end."""

    batches: list[list[int]]
    updates: int
    epoch: int
    position: int
    remaining: int
    length: int
    state: dict[str, torch.Tensor]

    @property
    def items(self) -> list[int]:
        return [item for batch in self.batches for item in batch]

    @property
    def place(self) -> tuple[int, int]:
        return self.epoch, self.position


def run(
    job: Run,
    state: dict[str, torch.Tensor] | None = None,
    *,
    updates: int | None = None,
    epochs: int | None = None,
    extra: int = 0,
) -> Seen:
    """Train from a state for some updates, or to the ends of some epochs.

    After the last update, `extra` more micro-batches are delivered and not committed.
    """
    sampler = job.make_sampler()
    if state is not None:
        sampler.load_state_dict(state)
    loader = job.make_loader(sampler)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
    if job.loader == "attached":
        sampler.attach(optimizer)
    end_update = optimizer.step if job.loader == "attached" else sampler.commit
    batches: list[list[int]] = []
    done = passes = 0
    while (updates is None or done < updates) and (epochs is None or passes < epochs):
        window = 0
        left = sampler.remaining()
        for batch in loader:
            batches.append([int(item) for item in batch])
            window, left = window + 1, left - 1
            if updates is not None and done == updates:
                if window == extra:
                    break
                continue
            if window == job.accumulation_steps or left == 0:
                end_update()
                done, window = done + 1, 0
                if done == updates and extra == 0:
                    break
        passes += 1
    return Seen(
        batches,
        done,
        sampler.cursor.epoch,
        sampler.cursor.position,
        sampler.remaining(),
        len(loader),
        sampler.state_dict(),
    )


def order(n: int, epoch: int, *, seed: int = 7, shuffle: bool = True) -> list[int]:
    """Return O_epoch as a list."""
    chosen = dc.Shuffle(n, seed) if shuffle else dc.Sequential(n, seed)
    return [int(index) for index in chosen.indices(epoch, 0, n)]


def fresh_context() -> ForkServerContext:
    """Return a context whose processes have imported torch and none of our objects.

    torch._dynamo takes seconds to import, and the first step of any optimizer does.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch._dynamo", "datacursor.loader"])
    return context


def fresh(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Return function(*args, **options), computed in a new process without our objects."""
    context = fresh_context()
    ours, theirs = context.Pipe(duplex=False)
    # Plain pickles: torch's own would share memory with a process that is about to end.
    call = pickle.dumps((function, args, options))
    process = context.Process(target=_answer, args=(theirs, call))
    process.start()
    theirs.close()
    try:
        if not ours.poll(_TIMEOUT_SECONDS):
            raise TimeoutError(f"no answer from a fresh process in {_TIMEOUT_SECONDS} s")
        succeeded, value = pickle.loads(ours.recv_bytes())
    finally:
        if not ours.closed:
            ours.close()
        process.join(_TIMEOUT_SECONDS)
        if process.is_alive():
            process.kill()
    if not succeeded:
        raise AssertionError(f"the fresh process failed: {value}")
    answer: T = value
    return answer


def _answer(pipe: Any, call: bytes) -> None:
    function, args, options = pickle.loads(call)
    try:
        answer = pickle.dumps((True, function(*args, **options)))
    except Exception as error:
        pipe.send_bytes(pickle.dumps((False, repr(error))))
        raise
    pipe.send_bytes(answer)

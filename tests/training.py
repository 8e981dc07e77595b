"""A small training program with everything a training state holds, for tests of recovery."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import datacursor as dc
from datacursor.recovery import (
    LoopConvention,
    LoopState,
    RestoreReport,
    RNGState,
    TrainingState,
    digest_tree,
    step_applied,
)
from datacursor.state import cursor_of, state_of

NUM_SAMPLES = 20
SKIPPED = (1, 4)  # of 12 attempts
NUM_ATTEMPTS = 12

Make = Callable[[Any], Any]


# Threads that wait for each other take a hundred times as long as the work of so small a model.
torch.set_num_threads(1)


class Net(nn.Module):
    """Dropout draws random numbers, a mean is a buffer, one weight is frozen, two are tied."""

    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.dropout = nn.Dropout(0.25)
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)
        self.last = nn.Linear(4, 4)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.lerp_(x.mean(0), 0.1)
        hidden = self.dropout(self.first(x - self.mean).relu()) + self.frozen
        output: torch.Tensor = self.last(hidden)
        return output


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    """The data set whose sample i is (i, i + 1, i + 2, i + 3) / n."""

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        return (torch.arange(4) + index) / NUM_SAMPLES


def adamw(parameters: Any, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.1, **options)


def two_groups(model: nn.Module, make: Make = adamw) -> torch.optim.Optimizer:
    """An optimizer that decays weights and leaves the rest alone."""
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    optimizer: torch.optim.Optimizer = make(
        [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    )
    return optimizer


def warm_up(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / 10))


def make_scaler(**options: Any) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3, **options)


class Program:
    """One process of the training run; two made alike differ in their first parameters."""

    _seeds = iter(range(1000, 10**6))

    def __init__(
        self,
        *,
        model: Callable[[], nn.Module] = Net,
        optimizer: Make = two_groups,
        scheduler: Make | None = warm_up,
        scaler: torch.amp.GradScaler | None = None,
        convention: LoopConvention | None = None,
        sampling: dict[str, Any] | None = None,
        loading: dict[str, Any] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        seed = next(Program._seeds) if seed is None else seed
        for start in (torch.manual_seed, np.random.seed, random.seed):
            start(seed)
        self.model = model()
        self.optimizer = optimizer(self.model)
        self.scheduler = None if scheduler is None else scheduler(self.optimizer)
        self.scaler = make_scaler() if scaler is None else scaler
        chosen: dict[str, Any] = {"batch_size": 2, "seed": 7, "fingerprint": "samples"}
        self.sampler = dc.CursorSampler(Samples(), **chosen | (sampling or {}))
        self.loader: dc.CursorLoader[Any] = dc.CursorLoader(
            Samples(), sampler=self.sampler, **(loading or {})
        )
        self.augment = np.random.default_rng(seed)
        self.state = TrainingState(
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            scaler=self.scaler,
            sampler=self.sampler,
            loop=LoopState(convention),
            rng=RNGState(augment=self.augment, shuffle=torch.Generator().manual_seed(seed)),
            **options,
        )
        self.losses: list[float] = []
        self._batches: Any = iter(())

    def restore(self, state: Any) -> RestoreReport:
        """Restore a saved state; a process has one set of random streams, so run on at once."""
        report = self.state.load_state_dict(state)
        self._batches = iter(())
        return report

    def batch(self) -> torch.Tensor:
        """Return the next batch, of the next epoch where one has ended."""
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self.loader)
            batch = next(self._batches)
        offset = random.random() + np.random.rand()  # noqa: NPY002  # the global stream is meant
        noise = torch.tensor(self.augment.random(4) + offset, dtype=torch.float32)
        noisy: torch.Tensor = batch + noise
        return noisy

    def backward(self, *, overflows: bool = False) -> None:
        """Add the gradients of one batch."""
        loss = self.model(self.batch()).square().mean()
        self.losses.append(loss.item())
        scaled: torch.Tensor = self.scaler.scale(loss * (float("inf") if overflows else 1.0))
        scaled.backward()  # type: ignore[no-untyped-call]  # torch has no type for it

    def finish(self) -> None:
        """End the update that the gradients are of."""
        self.scaler.step(self.optimizer)
        applied = step_applied(self.optimizer, self.scaler)
        self.scaler.update()
        self.optimizer.zero_grad()
        num_samples = self.sampler.uncommitted.delivered or 0
        if applied:
            self.sampler.commit()
        else:
            self.sampler.skip()
        if applied and self.scheduler is not None:
            self.scheduler.step()
        loop = self.state.loop
        assert loop is not None
        loop.record(applied=applied, samples=num_samples)

    def update(self) -> None:
        """Attempt one update; two of twelve overflow."""
        loop = self.state.loop
        assert loop is not None
        self.backward(overflows=loop.attempted in SKIPPED)
        self.finish()

    def run(self, attempts: int = NUM_ATTEMPTS) -> list[dict[str, str]]:
        """Attempt updates up to a number in all; return what the state was after each."""
        loop = self.state.loop
        assert loop is not None
        trail = []
        while loop.attempted < attempts:
            self.update()
            trail.append(fingerprint(self.state))
        return trail


def fingerprint(state: TrainingState) -> dict[str, str]:
    """Return the digest of every leaf; of the cursor without the number of the restart."""
    saved = state.state_dict()
    if saved["sampler"] is not None:
        saved["sampler"] = state_of(cursor_of(saved["sampler"]).replace(attempt=0, replicas=1))
    return digest_tree(saved)


def through_file(state: Any) -> Any:
    """Return a state as it comes back from a file, without a byte shared."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, map_location="cpu", weights_only=True)


def saved(state: TrainingState) -> Any:
    return through_file(state.state_dict())


class refusal(AbstractContextManager[None]):  # noqa: N801  # reads as pytest.raises does
    """Expect an error whose message holds all of some words, and a state that stays as it was."""

    def __init__(
        self, error: type[Exception], *words: object, state: TrainingState | None = None
    ) -> None:
        self._raises = pytest.raises(error)
        self._error = error
        self._words = [str(word) for word in words]
        self._state = state

    def __enter__(self) -> None:
        self._before = None if self._state is None else fingerprint(self._state)
        self._info = self._raises.__enter__()

    def __exit__(self, *raised: Any) -> bool:
        if not self._raises.__exit__(*raised):
            return False
        assert type(self._info.value) is self._error
        message = str(self._info.value)
        assert [word for word in self._words if word not in message] == [], message
        if self._state is not None:
            assert fingerprint(self._state) == self._before
        return True


def parameter(value: float | Sequence[float | Sequence[float]], **options: Any) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, **options))


def step(optimizer: torch.optim.Optimizer, *gradients: tuple[nn.Parameter, float]) -> None:
    """Take a step with given gradients."""
    for one, gradient in gradients:
        one.grad = torch.full_like(one, gradient)
    optimizer.step()
    optimizer.zero_grad()

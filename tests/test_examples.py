"""The example trains on as if nobody had killed it, wherever it is killed."""

from __future__ import annotations

import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import torch
from forked import forked, load_example, train
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from datacursor import recovery
from datacursor.recovery.trace import Orders
from datacursor.verify.compare import BITWISE, Tolerance, first_difference
from datacursor.verify.log import Log, read_log

EXAMPLE = load_example()
BATCHES_PER_EPOCH = -(-EXAMPLE.NUM_SAMPLES // EXAMPLE.BATCH_SIZE)
UPDATES_PER_EPOCH = -(-BATCHES_PER_EPOCH // EXAMPLE.ACCUMULATION)
NUM_BATCHES = EXAMPLE.EPOCHS * BATCHES_PER_EPOCH
NUM_UPDATES = EXAMPLE.EPOCHS * UPDATES_PER_EPOCH
NEVER = 10**9
EXACTLY = Tolerance(0.0, 0.0)


def train_and_die(run_dir: Path, num_workers: int, event: int) -> None:
    """Train, killed at an event: before micro-batch m of this process at 2m, after it at 2m + 1."""
    events = count()
    backward: Any = torch.Tensor.backward

    def reach(*_: Any) -> None:
        if next(events) == event:
            os.killpg(0, signal.SIGKILL)

    def call_backward(tensor: torch.Tensor) -> None:
        backward(tensor)
        reach()

    register_module_forward_pre_hook(
        lambda module, _: reach() if isinstance(module, nn.Sequential) else None
    )
    torch.Tensor.backward = call_backward  # type: ignore[assignment,method-assign]
    train(run_dir, num_workers)


def batches_before(update: int) -> Any:
    """Micro-batches of the first updates; the last one of an epoch may hold fewer."""
    epochs, rest = divmod(update, UPDATES_PER_EPOCH)
    return epochs * BATCHES_PER_EPOCH + rest * EXAMPLE.ACCUMULATION


def run(function: Any, run_dir: Path, trace: Path, *words: int) -> Log:
    return forked(function, *words).run(Orders(NEVER, str(run_dir)), trace)


def run_killed(run_dir: Path, trace: Path, *words: int) -> Log:
    trace.mkdir()
    orders = Orders(NEVER, str(run_dir))
    orders.write(trace)
    assert forked(train_and_die, *words)._wait(orders, trace) == -signal.SIGKILL
    return read_log(trace)


def test_kills_around_every_micro_batch_change_no_bit(tmp_path: Path) -> None:
    whole = run(train, tmp_path / "whole", tmp_path / "whole-trace", 2)
    assert list(whole.updates) == list(range(1, NUM_UPDATES + 1))
    run_dir = tmp_path / "killed"
    run_dir.mkdir()
    made: set[int] = set()
    for event in range(2 * NUM_BATCHES):
        trace = tmp_path / f"trace-{event}"
        saved = recovery.latest(run_dir) or 0
        words = ((2, 0, 1)[event % 3], event - 2 * batches_before(saved))
        log = run_killed(run_dir, trace, *words)
        assert first_difference(whole, log, log.updates, BITWISE, EXACTLY) is None, event
        made |= log.updates.keys()
    log = run(train, run_dir, tmp_path / "last-trace", 1)
    assert first_difference(whole, log, log.updates, BITWISE, EXACTLY) is None
    assert made | log.updates.keys() == whole.updates.keys()

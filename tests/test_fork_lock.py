"""A fork goes on although a thread of its parent held a lock."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import datacursor as dc
from datacursor.fork_lock import ForkLock

FORK = multiprocessing.get_context("fork")
TIMEOUT_SECONDS = 60
N = 5000


def exit_code_in_a_fork(function: Callable[[], object]) -> int | None:
    child = FORK.Process(target=function)
    child.start()
    try:
        child.join(TIMEOUT_SECONDS)
        return child.exitcode
    finally:
        child.kill()
        child.join()


def enter(lock: ForkLock) -> None:
    with lock:
        pass


def test_a_fork_finds_a_lock_free_that_its_parent_holds() -> None:
    lock = ForkLock()
    with lock:
        assert exit_code_in_a_fork(lambda: enter(lock)) == 0
    enter(lock)


class Waiting(dc.Order):
    """Waits in the process that made it, while its plan holds a lock."""

    order_id = 0x8000
    is_permutation = False

    def __init__(self, num_samples: int) -> None:
        super().__init__(num_samples)
        self.process = os.getpid()
        self.is_asked = Event()
        self.may_answer = Event()

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        if os.getpid() == self.process:
            self.is_asked.set()
            self.may_answer.wait(2 * TIMEOUT_SECONDS)
        out[:] = np.arange(first, first + len(out))

    def position_of(self, epoch: int, index: int) -> int:
        return index


@pytest.mark.parametrize(
    "options", [{}, {"packing": "best_fit", "long_documents": "split", "window_documents": 1000}]
)
def test_a_fork_counts_rows_while_a_thread_of_its_parent_does(options: dict[str, Any]) -> None:
    order = Waiting(N)
    plan = dc.PackingPlan([4] * N, seq_len=4, order=order, **options)

    def count_in_child() -> None:
        assert plan.num_rows(0) == N

    counting = Thread(target=plan.num_rows, args=(0,))
    counting.start()
    try:
        assert order.is_asked.wait(TIMEOUT_SECONDS)
        assert exit_code_in_a_fork(count_in_child) == 0
    finally:
        order.may_answer.set()
        counting.join()
    assert plan.num_rows(0) == N

"""Time and memory, taken so that a ratio means something on a shared machine."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

Action = Callable[[], object]
T = TypeVar("T")

_PROC = Path("/proc/self")


class Timing(NamedTuple):
    """Seconds one call takes."""

    best: float
    median: float
    num_calls: int


def interleave(
    actions: Mapping[str, Action],
    *,
    rounds: int,
    burst_seconds: float = 0.02,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time actions side by side.

    Every round calls every action for a burst, at least once, so that whatever else the
    machine does meets all of them alike. Garbage is collected between turns only.

    Args:
        actions: What to call, by name.
        rounds: Times each action gets its turn.
        burst_seconds: Length of a turn; an action that takes longer is called once.
        clock: Seconds; `time.process_time` counts the work of all threads of this process, and
            none of other processes.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    with _collecting_between_turns():
        for _ in range(rounds):
            for name, action in actions.items():
                seconds[name].extend(_burst(action, burst_seconds, clock))
                gc.collect()
    return {name: Timing(min(calls), median(calls), len(calls)) for name, calls in seconds.items()}


def peak_growth(action: Action, warm_up: Action) -> int | None:
    """Return by how many bytes an action's peak raises the resident memory of a fresh process.

    Args:
        action: What to measure; it is pickled.
        warm_up: Called first, so that what it imports does not count; it is pickled.

    Returns:
        Bytes, in whole pages; None where the system cannot tell (it takes Linux).
    """
    if not (_PROC / "clear_refs").exists():
        return None
    # Pickled by hand: multiprocessing would pass tensors through shared memory.
    actions = pickle.dumps((action, warm_up))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_peak_growth_here, actions).result()


def in_child(action: Callable[[], T]) -> T:
    """Return what an action returns in a process that is forked for it.

    No thread that anybody left behind here runs there beside it.

    Raises:
        RuntimeError: It raised; what, is on standard error.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(action()))
    process.start()
    sender.close()
    try:
        result: T = receiver.recv()
    except EOFError as error:
        raise RuntimeError(f"{action!r} raised") from error
    finally:
        process.join()
    return result


def _burst(action: Action, burst_seconds: float, clock: Callable[[], float]) -> Iterator[float]:
    stop = clock() + burst_seconds
    while True:
        start = clock()
        action()
        end = clock()
        yield end - start
        if end >= stop:
            return


@contextmanager
def _collecting_between_turns() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()  # leaves what exists now alone, so that a collection is quick
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def _peak_growth_here(actions: bytes) -> int:
    action, warm_up = pickle.loads(actions)
    warm_up()
    gc.collect()
    (_PROC / "clear_refs").write_text("5")  # sets the peak back to what is resident now
    before = _resident_bytes("VmRSS")
    action()
    return max(0, _resident_bytes("VmHWM") - before)


def _resident_bytes(field: str) -> int:
    for line in (_PROC / "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise RuntimeError(f"/proc/self/status has no field {field}")

"""SlotPool: a slot is lent again only when nobody holds it, here or in a forked child."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from datacursor import forked_children
from datacursor.slot_pool import SlotMemory, SlotPool

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files without a name are Linux's"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
NUM_SLOTS = 3


@pytest.fixture
def pool() -> SlotPool:
    return SlotPool(SlotMemory.create(NUM_SLOTS, 100))


def take_all(pool: SlotPool) -> list[int]:
    return list(iter(pool.take, None))


def fill(memory: memoryview, value: int) -> bool:
    np.asarray(memory)[:] = value
    return holds(memory, value)


def holds(memory: memoryview, value: int) -> bool:
    return bool((np.asarray(memory) == value).all())


def num_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def wait_for(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def forked(work: Callable[[], bool] = lambda: True) -> Iterator[int]:
    """A child that does some work and then lives until the end of the block."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        is_right = False
        try:
            os.read(reading, 1)
            is_right = work()
        finally:
            os._exit(not is_right)
    os.close(reading)
    try:
        yield child
    finally:
        os.close(writing)
        assert wait_for(child) == 0


def test_slots_are_apart_and_keep_what_is_written() -> None:
    pool = SlotPool(SlotMemory.create(NUM_SLOTS, 100))
    lent = [pool.lend(slot) for slot in take_all(pool)]
    assert len(lent) == NUM_SLOTS
    for number, memory in enumerate(lent):
        fill(memory, number)
    for number, memory in enumerate(lent):
        assert len(memory) >= 100
        assert holds(memory, number)


def test_the_slot_that_was_free_last_is_taken_first(pool: SlotPool) -> None:
    first, second, _ = take_all(pool)
    pool.lend(second)
    pool.lend(first)
    assert take_all(pool) == [first, second]


def test_no_slot_is_taken_twice_before_it_is_free(pool: SlotPool) -> None:
    assert sorted(take_all(pool)) == [0, 1, 2]
    assert pool.take() is None


def test_a_slot_is_free_when_the_last_view_of_it_is_gone(pool: SlotPool) -> None:
    [slot, *_] = take_all(pool)
    lent = pool.lend(slot)
    part = lent[3:5]
    del lent
    assert pool.take() is None
    array = np.asarray(part)[:1]
    del part
    assert pool.take() is None
    del array
    assert pool.take() == slot


def test_lent_memory_outlives_its_pool() -> None:
    pool = SlotPool(SlotMemory.create(NUM_SLOTS, 100))
    lent = pool.lend(0)
    fill(lent, 7)
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    assert holds(lent, 7)


def test_a_slot_that_was_lent_at_a_fork_waits_for_the_child(pool: SlotPool) -> None:
    [slot, *_] = take_all(pool)
    held = [pool.lend(slot)]
    fill(held[0], 7)
    with forked(lambda: holds(held[0], 7)):
        held.clear()
        assert pool.take() is None
    assert pool.take() == slot


def test_it_waits_for_children_of_the_child(pool: SlotPool) -> None:
    slots = take_all(pool)
    lent = pool.lend(slots[0])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    assert wait_for(child) == 0
    del lent
    assert pool.take() is None
    os.close(writing)
    while (slot := pool.take()) is None:  # nobody waits for a grandchild; it is about to end
        os.sched_yield()
    assert slot == slots[0]


def test_it_waits_for_every_child(pool: SlotPool) -> None:
    [slot, *_] = take_all(pool)
    lent = pool.lend(slot)
    with forked():
        with forked():
            del lent
            assert pool.take() is None
        assert pool.take() is None
    assert pool.take() == slot


def test_a_slot_that_was_free_or_only_taken_at_a_fork_waits_for_nobody(pool: SlotPool) -> None:
    taken = pool.take()
    assert taken is not None
    with forked():
        pool.lend(taken)
        assert sorted(take_all(pool)) == [0, 1, 2]


def test_a_child_takes_no_slot(pool: SlotPool) -> None:
    lent = [pool.lend(1)]

    def takes_none() -> bool:
        lent.clear()
        return pool.take() is None

    with forked(takes_none):
        pass
    assert pool.take() is not None


def test_a_lent_slot_keeps_no_files_of_children_that_are_gone(pool: SlotPool) -> None:
    lent = pool.lend(0)
    with forked():
        pass
    before = num_files()
    for _ in range(5):
        with forked():
            pass
    assert num_files() == before
    assert len(lent) > 0


def test_files_are_closed_once_the_slot_is_free(pool: SlotPool) -> None:
    before = num_files()
    lent = pool.lend(0)
    with forked():
        pass
    assert num_files() == before + 1
    del lent
    assert num_files() == before


def test_a_child_that_cannot_be_watched_keeps_the_slot(
    pool: SlotPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> tuple[int, int]:
        raise OSError("too many open files")

    [slot, *_] = take_all(pool)
    lent = pool.lend(slot)
    with forked():
        pass
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe", refuse)
        child = os.fork()
        if child == 0:
            os._exit(0)
    assert wait_for(child) == 0
    del lent
    assert pool.take() is None


def test_what_is_given_back_during_a_fork_waits_for_its_child(pool: SlotPool) -> None:
    slots = take_all(pool)
    held, given_back = pool.lend(slots[0]), pool.lend(slots[1])
    forked_children._FORKS.before()
    del given_back
    during = pool.lend(slots[2])
    assert pool.take() is None
    forked_children._FORKS.after_in_parent()  # the child is gone at once
    del during
    assert {pool.take(), pool.take()} == {slots[1], slots[2]}
    assert (pool.take(), len(held)) == (None, pool.memory.slot_bytes)


def test_slots_that_will_never_be_lent_are_free_again(pool: SlotPool) -> None:
    slots = take_all(pool)
    taken = pool.taken
    lent, again = pool.lend(slots[0]), pool.lend(slots[1])
    del again
    assert pool.take() == slots[1]  # another time, so not among those before
    pool.forgo(taken)
    assert sorted(take_all(pool)) == sorted(slots[2:])
    assert len(lent) > 0


def test_a_pool_that_retires_keeps_the_memory_of_what_is_held() -> None:
    pool = SlotPool(SlotMemory.create(NUM_SLOTS, 100))
    slots = take_all(pool)
    for slot in slots:
        fill(pool.memory.slot(slot).data, 7)
    held, later = pool.lend(slots[0]), pool.lend(slots[1])
    pool.retire()
    values = [int(pool.memory.slot(slot)[0]) for slot in slots]
    assert values == [7, 7] + [0] * (NUM_SLOTS - 2)
    del later
    assert [int(pool.memory.slot(slot)[0]) for slot in slots[:2]] == [7, 0]
    assert (held[0], pool.take()) == (7, None)


def test_a_child_clears_nothing_of_its_parents(pool: SlotPool) -> None:
    lent = pool.lend(0)
    fill(lent, 5)
    fill(pool.memory.slot(1).data, 6)
    with forked(lambda: pool.retire() is None):  # type: ignore[func-returns-value]
        pass
    assert (lent[0], int(pool.memory.slot(1)[0])) == (5, 6)


def test_a_pool_that_is_gone_leaves_no_file_and_no_mapping() -> None:
    before = num_files()
    pool = SlotPool(SlotMemory.create(NUM_SLOTS, 100))
    lent = pool.lend(0)
    del pool, lent
    gc.collect()
    assert num_files() == before


def test_a_refused_file_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    before = num_files()
    with pytest.raises(OSError, match=r"memory|large"):
        SlotMemory.create(NUM_SLOTS, 2**61)
    assert num_files() == before
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(OSError, match="Linux"):
        SlotMemory.create(NUM_SLOTS, 100)


def test_memory_is_one_in_all_processes(pool: SlotPool) -> None:
    lent = pool.lend(0)
    with forked(lambda: fill(lent, 9)):
        pass
    assert holds(lent, 9)


def test_threads_never_hold_one_slot_together(pool: SlotPool) -> None:
    def use(number: int) -> bool:
        is_right = True
        for _ in range(500):
            slot = pool.take()
            if slot is not None:
                lent = pool.lend(slot)
                is_right &= fill(lent, number)
                time.sleep(0)  # lets another thread run
                is_right &= holds(lent, number)
                del lent
        return is_right

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(use, range(4)))
    assert sorted(take_all(pool)) == [0, 1, 2]

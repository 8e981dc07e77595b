"""A resume with best_fit packs the cursor's window and counts no other."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import laws
import numpy as np
import packed
import pytest

import datacursor as dc
from datacursor import _core
from datacursor.errors import ArgumentError, CursorMismatchError

LENGTHS = np.random.default_rng(0).integers(0, 30, 400).tolist()
DOCUMENTS = packed.counted(*LENGTHS)
POLICIES: dict[str, dict[str, Any]] = {
    "split": {"long_documents": "split"},
    "split without fragments": {"long_documents": "split", "min_fragment": 4},
    "truncate": {"long_documents": "truncate"},
    "drop": {"long_documents": "drop"},
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "alone": {},
    "alone, drop_last": {"drop_last": True},
    "three": {"num_replicas": 3, "rank": 1},
    "three, drop_last": {"num_replicas": 3, "rank": 1, "drop_last": True},
    "more than a window": {"num_replicas": 3, "rank": 2, "batch_size": 40},
}


def make(documents: list[list[int]] = DOCUMENTS, **options: Any) -> dc.PackedSampler:
    defaults: dict[str, Any] = {
        "packing": "best_fit",
        "long_documents": "split",
        "window_documents": 40,
        "shuffle": True,
        "seed": 3,
        "batch_size": 2,
    }
    return packed.make(documents, 16, **(defaults | options))


class Work:
    """The windows that were packed and counted since it began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.packed = self.counted = 0
        best_fit, count_best_fit = _core.best_fit, _core.count_best_fit

        def pack(*arguments: Any, **options: Any) -> Any:
            self.packed += 1
            return best_fit(*arguments, **options)

        def count(*arguments: Any, **options: Any) -> Any:
            self.counted += 1
            return count_best_fit(*arguments, **options)

        monkeypatch.setattr(_core, "best_fit", pack)
        monkeypatch.setattr(_core, "count_best_fit", count)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("num_replicas", [1, 4])
def test_a_resume_packs_one_window_and_the_next(
    policy: str, num_replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**POLICIES[policy], "num_replicas": num_replicas, "rank": 0}
    sampler = make(DOCUMENTS * 5, **options)
    sampler.seek(2, sampler.plan.num_rows(2) // 2)
    state = sampler.state_dict()
    expected = [int(row) for row in islice(sampler, 2)]
    work = Work(monkeypatch)
    fresh = make(DOCUMENTS * 5, **options)
    fresh.load_state_dict(state)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(fresh.dataset, sampler=fresh)
    batches = iter(loader)
    next(batches)
    fresh.commit()
    assert fresh.cursor.position == expected[0] + 2 * num_replicas
    # The cursor's, the next, and those that a round or the commit touches.
    assert work.packed <= 4
    assert work.counted <= 2  # the first ones, by a policy that leaves tokens out
    assert fresh.plan.num_windows(2) == 50


def test_a_new_run_counts_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    sampler = make()
    next(packed.deliver(sampler))
    assert work.counted == 0
    assert sampler.dataset_size == len(sampler)
    assert work.counted == sampler.plan.num_windows(0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_an_epoch_that_nobody_counts_ends_where_a_counted_one_does(
    policy: str, layout: str
) -> None:
    options = POLICIES[policy] | LAYOUTS[layout]
    counted, uncounted = make(**options), make(**options)
    for epoch in range(3):
        assert len(counted) > 0
        assert counted.remaining() > 0
        whole = [list(batch) for batch in laws.epoch_batches(counted)]
        assert [list(batch) for batch in laws.epoch_batches(uncounted)] == whole
        for sampler in (counted, uncounted):
            for _ in whole:
                sampler.commit(1)
            assert (sampler.cursor.epoch, sampler.cursor.position) == (epoch + 1, 0)
        assert laws.plain(counted.state_dict()) == laws.plain(uncounted.state_dict())


@pytest.mark.parametrize("policy", ["split", "drop"])
@pytest.mark.parametrize("layout", ["alone", "three, drop_last"])
def test_every_state_resumes_over_two_epochs(policy: str, layout: str) -> None:
    options = POLICIES[policy] | LAYOUTS[layout] | {"batch_size": 9}
    sampler = make(**options)
    num_batches = sum(
        sampler.plan.num_rows(epoch) // (9 * sampler.num_replicas) for epoch in (0, 1)
    )
    laws.restore_after_every_step(partial(make, **options), num_batches)


def test_updates_end_with_the_epoch_that_nobody_counted() -> None:
    for batch_size in (1, 7):
        rows = make(batch_size=batch_size, accumulation_steps=4)
        loader: dc.CursorLoader[Any] = dc.CursorLoader(rows.dataset, sampler=rows)
        num_updates = 0
        for _ in loader:
            if loader.ends_update:
                rows.commit()
                num_updates += 1
        num_batches = -(-rows.plan.num_rows(0) // batch_size)
        assert rows.cursor.epoch == 1
        assert num_updates == -(-num_batches // 4)


def test_a_position_that_contradicts_counted_windows_is_refused() -> None:
    sampler = make()
    sampler.seek(1, 150)
    cursor = sampler.cursor
    assert cursor.reader_position > 0
    fresh = make()
    fresh.plan.num_rows(1)
    with pytest.raises(CursorMismatchError, match="of a window that begins at row"):
        fresh.load_cursor(cursor.replace(position=151, digest_first=151))


def test_an_endless_order_without_rows_is_refused_in_time() -> None:
    order = dc.Mixture([dc.Shuffle(2)], [1.0], stopping="forever")
    with pytest.raises(ArgumentError, match=r"1048576 documents in a row of .* made none"):
        packed.make(
            packed.counted(9, 9),
            4,
            packing="best_fit",
            long_documents="drop",
            window_documents=2**18,
            order=order,
        )

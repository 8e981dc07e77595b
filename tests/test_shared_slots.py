"""Batches that workers write to slots: right as without workers, and never written over."""

from __future__ import annotations

import gc
import io
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packed import counted, make
from runs import fresh_context
from torch.utils.data import DataLoader, get_worker_info

import datacursor as dc
from datacursor.row_buffers import RowBuffers
from datacursor.row_index import RowIndex
from datacursor.rows import RowDataset
from datacursor.shared_slots import WorkerSlots
from datacursor.slot_pool import SlotMemory, SlotPool

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files without a name are Linux's"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
SEQ_LEN = 8
DOCUMENTS = counted(*(3 + number % 11 for number in range(60)))
COLUMN = dc.TokenColumn(np.arange(sum(map(len, DOCUMENTS)), dtype=np.uint16), fill=7, shifted=True)


class Squares(dc.DocumentSource):
    """Documents that are read in windows."""

    def documents(self, epoch: int, first: int, count: int) -> list[Any]:
        stop = min(first + count, 60)
        return [[number + 1] * (3 + number % 11) for number in range(first, stop)]


class Lent(list[int]):
    """The slots that were lent while a test ran, in order."""


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> Lent:
    slots = Lent()
    lend = SlotPool.lend

    def note(pool: SlotPool, slot: int) -> Any:
        slots.append(slot)
        return lend(pool, slot)

    monkeypatch.setattr(SlotPool, "lend", note)
    return slots


def rows_of(**options: Any) -> dc.PackedSampler:
    return make(DOCUMENTS, SEQ_LEN, **({"batch_size": 2, "shuffle": True, "seed": 3} | options))


def load(
    rows: dc.PackedSampler, dataset: Any = None, num_workers: int = 1, **options: Any
) -> dc.CursorLoader[Any]:
    options = {"multiprocessing_context": "fork"} | options if num_workers > 0 else {}
    return dc.CursorLoader(
        rows.dataset if dataset is None else dataset,
        sampler=rows,
        num_workers=num_workers,
        **options,
    )


def copied(batch: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for name, value in batch.items()
    }


def require_equal(batches: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(batches) == len(expected) > 0
    for batch, other in zip(batches, expected, strict=True):
        assert list(batch) == list(other)
        for name, value in other.items():
            assert type(batch[name]) is type(value)
            if isinstance(value, torch.Tensor):
                assert batch[name].dtype == value.dtype
                assert torch.equal(batch[name], value)
                assert batch[name].shape == value.shape
            else:
                assert batch[name] == value


def expected_of(**options: Any) -> list[dict[str, Any]]:
    return [copied(batch) for batch in load(rows_of(**options), num_workers=0)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"format": "hf", "flash_attn_kwargs": True},
        {"format": "varlen", "ids_dtype": "int32"},
        {"format": "flex", "columns": {"weight": COLUMN}},
        {"format": "megatron"},
        {"packing": "best_fit", "long_documents": "split", "max_documents": 3},
        {"packing": "chunk", "bos": 1, "eos": 2},
        {"num_replicas": 4, "rank": 3, "batch_size": 3, "columns": {"weight": COLUMN}},
    ],
    ids=["all", "hf", "varlen", "flex", "megatron", "best_fit", "chunk", "padding_rows"],
)
def test_workers_give_what_the_process_itself_gives(lent: Lent, options: dict[str, Any]) -> None:
    expected = expected_of(**options)
    batches = [copied(batch) for batch in load(rows_of(**options), num_workers=2)]
    require_equal(batches, expected)
    assert len(lent) == len(expected)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_that_do_not_fork_map_the_slots_too(lent: Lent, context: str) -> None:
    method = fresh_context() if context == "forkserver" else context
    batches = [copied(batch) for batch in load(rows_of(), multiprocessing_context=method)]
    require_equal(batches, expected_of())
    assert len(lent) == len(batches)
    assert len(set(lent)) < len(batches)


def test_rows_of_a_source_come_in_slots(lent: Lent) -> None:
    def batches(num_workers: int) -> list[dict[str, Any]]:
        rows = dc.PackedSampler(
            Squares(),
            seq_len=SEQ_LEN,
            batch_size=2,
            packing="best_fit",
            long_documents="split",
            window_documents=20,
        )
        return [copied(batch) for batch in load(rows, num_workers=num_workers)]

    expected = batches(0)
    require_equal(batches(2), expected)
    assert len(lent) == len(expected)


def augment(batch: dict[str, Any], generators: list[Any]) -> dict[str, Any]:
    noise = torch.tensor([generator.random() for generator in generators])
    ids = batch["input_ids"]
    return batch | {
        "input_ids": ids + 1,
        "noise": noise,
        "strided": torch.arange(12).view(3, 4).t(),
        "bfloat16": noise.bfloat16(),
        "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
        "scalar": torch.tensor(7),
        "empty": torch.empty(0, 3),
        "weight": torch.ones(2, requires_grad=True),
        "name": "augmented",
    }


def test_what_a_transform_makes_is_copied_to_the_slot(lent: Lent) -> None:
    def batches(num_workers: int) -> list[dict[str, Any]]:
        rows = rows_of()
        dataset = dc.SampleSeeded(rows.dataset, rows, transform=augment)
        return [copied(batch) for batch in load(rows, dataset, num_workers)]

    expected = batches(0)
    require_equal(batches(2), expected)
    assert len(lent) == len(expected)


def test_what_a_transform_makes_is_sent_without_a_slot_too(lent: Lent) -> None:
    rows, others = rows_of(), rows_of()
    alone = dc.SampleSeeded(rows.dataset, rows, transform=augment)
    sent = dc.SampleSeeded(others.dataset, others, transform=augment)
    kept = list(load(others, sent))
    require_equal(kept, list(load(rows, alone, num_workers=0)))
    assert 0 < len(lent) < len(kept)


class Twice(torch.utils.data.Dataset[Any]):
    """A data set that reads its rows twice, and keeps what it read first."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.kept: list[Any] = []

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, rows: Any) -> list[Any]:
        [first] = self.dataset.__getitems__(rows)
        [second] = self.dataset.__getitems__(rows)
        self.kept.append(first)
        first["before"] = self.kept[0]["input_ids"]
        first["again"] = second["input_ids"]
        return [first]


def test_a_data_set_may_keep_what_it_reads(lent: Lent) -> None:
    rows = rows_of(drop_last=True)
    batches = list(load(rows, Twice(rows.dataset)))
    for batch in batches:
        assert torch.equal(batch["again"], batch["input_ids"])
        assert torch.equal(batch["before"], batches[0]["input_ids"])
    assert len(lent) > 0


class Collating(torch.utils.data.Dataset[Any]):
    """A data set that collates its rows itself and changes the list of them as it likes."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, rows: list[Any]) -> list[Any]:
        rows.reverse()
        batch: Any = torch.utils.data.default_collate(self.dataset.__getitems__(rows))
        rows.clear()
        return [batch | {"more": batch["input_ids"] + 1}]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_set_may_collate_by_itself(num_workers: int) -> None:
    rows = rows_of()
    batches = list(load(rows, Collating(rows.dataset), num_workers))
    for batch, expected in zip(batches, expected_of(), strict=True):
        assert torch.equal(batch["input_ids"][0].flip(0), expected["input_ids"])
        assert torch.equal(batch["more"], batch["input_ids"] + 1)


def test_what_a_data_set_does_to_its_rows_concerns_no_commit() -> None:
    digests = []
    for changes in (False, True):
        rows = rows_of(num_replicas=2, rank=1)
        for batch in load(rows, Collating(rows.dataset) if changes else None, num_workers=0):
            batch["row_offsets"].zero_()
            rows.commit()
        digests.append((rows._tracker.moving.tally, rows.cursor))
    assert digests[0] == digests[1]


def test_a_collate_fn_of_the_user_sees_tensors(lent: Lent) -> None:
    def collate(batches: list[dict[str, Any]]) -> Any:
        return batches[0]["input_ids"] + 100

    expected = [batch["input_ids"] + 100 for batch in expected_of()]
    batches = list(load(rows_of(), collate_fn=collate, num_workers=2))
    assert all(map(torch.equal, batches, expected))
    assert lent == []


class Counting(dc.PackedSampler):
    """A sampler that looks at the rows it gives out."""

    num_spans = 0

    def __iter__(self) -> Any:
        for row in super().__iter__():
            self.num_spans += len(row.spans)  # type: ignore[attr-defined]  # a RowIndex
            yield row


def test_a_sampler_that_gives_out_rows_itself_sees_rows(lent: Lent) -> None:
    corpus = dc.TokenCorpus.open(DOCUMENTS)
    rows = Counting(corpus, seq_len=SEQ_LEN, batch_size=2, seed=3)
    batches = list(load(rows))
    require_equal(batches, expected_of())
    assert rows.num_spans == sum(len(batch["spans"]) for batch in batches)
    assert lent == []


def test_a_plain_loader_uses_no_slot(lent: Lent) -> None:
    rows = rows_of()
    plain: Any = DataLoader(rows.dataset, batch_size=2, sampler=rows, num_workers=1)
    require_equal(list(plain), expected_of())
    assert lent == []


# -- a worker's side --------------------------------------------------------------------------


def marked(slot: tuple[bytes, int, int]) -> list[RowIndex]:
    row = RowIndex(0, 0, np.array([[0, 0, 3]]))
    row.slot = slot
    return [row]


def sent(slots: WorkerSlots, slot: tuple[bytes, int, int], value: int) -> Any:
    slots.open(marked(slot))
    buffers = slots.or_else(RowBuffers())
    array = np.frombuffer(buffers.lend(80), np.int64).reshape(2, 5)
    array[:] = value
    field = torch.from_numpy(array)
    return slots.send({"input_ids": field, "max_seqlen": value})


@pytest.fixture
def pool() -> SlotPool:
    return SlotPool(SlotMemory.create(3, 4096))


def test_a_batch_arrives_as_it_was_sent(pool: SlotPool) -> None:
    slots = WorkerSlots(pool.name, pool.memory, gathers=True)
    for value, slot in enumerate((0, 2, 0)):
        data = pickle.dumps(sent(slots, (pool.name, value + 1, slot), value))
        batch = pickle.loads(data)
        assert batch.keys() == {"input_ids", "max_seqlen"}
        assert batch["input_ids"].tolist() == [[value] * 5] * 2
        assert batch["max_seqlen"] == value
        assert len(data) < 300


def test_a_slot_of_another_pool_is_not_written_to(pool: SlotPool) -> None:
    slots = WorkerSlots(pool.name, pool.memory, gathers=True)
    other = SlotPool(SlotMemory.create(3, 4096))
    batch = sent(slots, (other.name, 1, 0), 5)
    assert type(batch) is dict
    assert batch["input_ids"].is_shared()


def test_a_slot_is_written_to_once_for_each_mark(pool: SlotPool) -> None:
    slots = WorkerSlots(pool.name, pool.memory, gathers=True)
    first = pickle.loads(pickle.dumps(sent(slots, (pool.name, 1, 0), 5)))
    again = sent(slots, (pool.name, 1, 0), 6)
    assert type(again) is dict
    assert first["input_ids"].unique().tolist() == [5]
    assert again["input_ids"].unique().tolist() == [6]


# -- a batch is the caller's for good ---------------------------------------------------------


def test_batches_that_are_all_kept_stay_right_when_the_slots_are_used_up(lent: Lent) -> None:
    kept = list(load(rows_of(), num_workers=2))
    require_equal(kept, expected_of())
    assert 0 < len(lent) < len(kept)
    assert len(set(lent)) == len(lent)


def test_a_loop_may_hold_some_batches(lent: Lent) -> None:
    held: deque[Any] = deque(maxlen=2 + 3)
    loader = load(rows_of(accumulation_steps=2))
    for batch in loader:
        held.append(batch)
    assert len(lent) == len(loader)


def test_slots_are_used_again_when_batches_are_let_go(lent: Lent) -> None:
    for batch in load(rows_of()):
        assert batch["input_ids"].shape[1] == SEQ_LEN
    assert len(set(lent)) <= 4 < len(lent)


@pytest.mark.parametrize(
    "part",
    [
        lambda batch: batch["labels"],
        lambda batch: batch["labels"][0, 1:5],
        lambda batch: batch["labels"].numpy()[1:],
        lambda batch: np.asarray(memoryview(batch["labels"].numpy())),
        lambda batch: batch["labels"].T.detach(),
    ],
    ids=["field", "view", "numpy", "memoryview", "detached"],
)
def test_a_part_that_is_kept_is_never_written_over(part: Callable[[Any], Any]) -> None:
    expected = [torch.as_tensor(part(batch)) for batch in expected_of()]
    kept = []
    for number, batch in enumerate(load(rows_of())):
        if number % 2 == 0:
            kept.append((number, part(batch)))
    assert len(kept) > 10
    assert all(torch.equal(torch.as_tensor(value), expected[number]) for number, value in kept)


def test_what_autograd_saved_is_never_written_over() -> None:
    weight = torch.ones(SEQ_LEN, requires_grad=True)
    expected = torch.zeros(SEQ_LEN)
    total: Any = 0
    for batch in load(rows_of()):
        value = batch["input_ids"].float()
        expected += value.sum(0)
        total = total + (weight * value).sum()
    total.backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, expected)


def test_changes_in_place_reach_no_other_batch() -> None:
    expected = expected_of()
    for number, batch in enumerate(load(rows_of())):
        require_equal([copied(batch)], [expected[number]])
        for value in batch.values():
            if isinstance(value, torch.Tensor):
                value.zero_()


def test_a_saved_field_is_saved_alone() -> None:
    batch = next(iter(load(rows_of())))
    file = io.BytesIO()
    torch.save(batch["input_ids"], file)
    file.seek(0)
    loaded = torch.load(file)
    assert torch.equal(loaded, batch["input_ids"])
    assert loaded.untyped_storage().nbytes() == batch["input_ids"].nbytes


def test_a_child_forked_from_the_loop_keeps_its_batch() -> None:
    batches = iter(load(rows_of()))
    batch = next(batches)
    expected = copied(batch)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(not torch.equal(batch["input_ids"], expected["input_ids"]))
    os.close(reading)
    del batch
    assert sum(1 for _ in batches) > 10
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- iterators --------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_epochs_and_loops_that_end_early(lent: Lent, persistent_workers: bool) -> None:
    def epochs(num_workers: int) -> Iterator[dict[str, Any]]:
        rows = rows_of()
        loader = load(rows, num_workers=num_workers, persistent_workers=persistent_workers)
        for count in (3, 5, 100, 2):
            for number, batch in enumerate(loader):
                yield copied(batch)
                rows.commit()
                if number == count:
                    break

    expected = list(epochs(0))
    require_equal(list(epochs(2)), expected)
    assert len(lent) >= len(expected)


def test_a_stale_iterator_and_its_batches_do_no_harm() -> None:
    rows = rows_of()
    loader = load(rows)
    stale = iter(loader)
    first = next(stale)
    batches = list(loader)
    with pytest.raises(dc.StaleIteratorError):
        next(stale)
    expected = expected_of()
    require_equal(batches, expected)
    require_equal([first], expected[:1])


def test_two_loaders_over_one_data_set_use_their_own_slots(lent: Lent) -> None:
    rows, others = rows_of(), rows_of(seed=4)
    pairs = zip(load(rows), load(others, rows.dataset), strict=False)
    batches = [(copied(one), copied(other)) for one, other in pairs]
    require_equal([one for one, _ in batches], expected_of())
    require_equal([other for _, other in batches], expected_of(seed=4))
    assert len(lent) == 2 * len(batches)


@pytest.mark.parametrize("on_skip", ["retry", "defer"])
def test_skipped_batches_come_again(on_skip: str) -> None:
    def loop(num_workers: int) -> list[dict[str, Any]]:
        rows = rows_of(on_skip=on_skip, accumulation_steps=3)
        loader = load(rows, num_workers=num_workers)
        seen, num_updates = [], 0
        for batch in loader:
            seen.append(copied(batch))
            if loader.ends_update:
                num_updates += 1
                if num_updates % 3 == 1:
                    rows.skip()
                else:
                    rows.commit()
        return seen

    require_equal(loop(2), loop(0))


class Failing(RowDataset):
    """Rows of which one cannot be read."""

    def __getitems__(self, rows: Any) -> Any:
        if 4 in rows:
            raise LookupError("row 4")
        return super().__getitems__(rows)


def test_an_error_in_a_worker_is_raised_and_the_next_loop_is_right(
    lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long torch waits for a worker whose iterator an exception ends, slots or not.
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2)
    rows = rows_of()
    corpus = dc.TokenCorpus.open(DOCUMENTS)
    failing = Failing(corpus, seq_len=SEQ_LEN, num_rows=rows.dataset_size)
    with pytest.raises(LookupError, match="row 4"):
        list(load(rows, failing))
    assert len(lent) > 0
    gc.collect()  # the traceback holds torch's iterator, which a forked worker must not find
    require_equal(list(load(rows)), expected_of())


def test_a_batch_that_failed_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2)
    rows = rows_of()
    corpus = dc.TokenCorpus.open(DOCUMENTS)
    failing = Failing(corpus, seq_len=SEQ_LEN, num_rows=rows.dataset_size)
    loader = load(rows, failing, persistent_workers=True)
    for _ in range(20):  # more often than there are slots
        with pytest.raises(LookupError, match="row 4"):
            list(loader)
        gc.collect()
    assert loader._slots is not None
    # The last one that failed, and two that its worker had been given beside it.
    assert len(loader._slots._pool.taken) <= 3


def test_a_batch_too_large_for_its_slot_is_sent_otherwise(
    lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = SlotMemory.create
    monkeypatch.setattr(SlotMemory, "create", lambda num_slots, _: create(num_slots, 1))
    long_rows = {"seq_len": 300, "batch_size": 2}
    documents = DOCUMENTS * 20

    def batches(num_workers: int) -> list[dict[str, Any]]:
        return list(load(make(documents, **long_rows), num_workers=num_workers))

    require_equal(batches(1), batches(0))
    assert len(lent) > 4 >= len(set(lent))


def test_without_such_memory_batches_are_sent_otherwise(
    lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    require_equal(list(load(rows_of())), expected_of())
    assert lent == []


def test_the_users_worker_init_fn_runs_and_stays() -> None:
    def begin(worker_id: int) -> None:
        info: Any = get_worker_info()
        info.dataset.pad_id = 50 + worker_id

    loader = load(rows_of(drop_last=False), worker_init_fn=begin)
    assert list(loader)[-1]["input_ids"][-1, -1] == 50
    assert loader.worker_init_fn is begin


def use_of_memory() -> tuple[int, int]:
    """Count open files and mapped slots."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return len(list(Path("/proc/self/fd").iterdir())), maps.count("memfd:datacursor")


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_epochs_leave_no_files_and_no_memory_behind(persistent_workers: bool) -> None:
    rows = rows_of(batch_size=20)
    loader = load(rows, persistent_workers=persistent_workers)
    kept = next(iter(loader))
    uses = {}
    for epoch in range(20):
        for batch in loader:
            assert len(batch["input_ids"]) > 0
            rows.commit()
        if epoch in {1, 19}:
            uses[epoch] = use_of_memory()
    assert uses[1] == uses[19]
    del loader, kept, batch
    _, num_mappings = use_of_memory()
    assert num_mappings == 0

"""Saved plans: the rows of the plan, from a file that is checked like a hostile one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import laws
import numpy as np
import pytest

import datacursor as dc
from datacursor.errors import ArgumentError, CorpusError
from datacursor.saved_plan import SavedPlan

LENGTHS = np.random.default_rng(0).integers(0, 40, 300).tolist()
PACKINGS: dict[str, dict[str, Any]] = {
    "concat": {"packing": "concat"},
    "best_fit": {"packing": "best_fit", "long_documents": "split", "window_documents": 50},
    "chunk": {"packing": "chunk"},
}
HEADER = 80


def make(packing: str = "best_fit", lengths: Any = LENGTHS) -> dc.PackingPlan:
    return dc.PackingPlan(lengths, seq_len=16, seed=5, **PACKINGS[packing])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "plan.bin"
    make(lengths=[9, 20, 3, 15]).save(path, epoch=1)
    return path


@pytest.mark.parametrize("packing", PACKINGS)
def test_rows_are_those_of_the_plan(packing: str, tmp_path: Path) -> None:
    plan = make(packing)
    plan.save(tmp_path / "plan.bin", epoch=2)
    saved = dc.PackingPlan.open(tmp_path / "plan.bin")
    num_rows = plan.num_rows(2)
    assert len(saved) == num_rows
    assert saved.epoch == 2
    assert saved.plan_digest == plan.digest
    for first, count in [(0, num_rows), (0, 0), (num_rows, 0), (num_rows - 1, 1), (7, 20)]:
        expected, served = plan.rows(2, first, count), saved.rows(2, first, count)
        for ours, theirs in zip(expected, served, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.tobytes() == theirs.tobytes()
    saved.verify()


def test_more_rows_than_are_planned_at_a_time_are_saved(tmp_path: Path) -> None:
    plan = dc.PackingPlan([3] * 50_000, seq_len=4)
    plan.save(tmp_path / "plan.bin")
    saved = dc.PackingPlan.open(tmp_path / "plan.bin")
    assert laws.split_rows(*saved.rows(0, 0, len(plan))) == laws.planned(plan, 0, 0, len(plan))


def test_a_plan_without_rows_is_saved(tmp_path: Path) -> None:
    make(lengths=[0, 0]).save(tmp_path / "plan.bin")
    saved = dc.PackingPlan.open(tmp_path / "plan.bin")
    assert len(saved) == 0
    assert saved.rows(0, 0, 0)[0].shape == (0, 3)


def test_plans_have_digests_of_their_own() -> None:
    plans = [make(packing) for packing in PACKINGS]
    plans += [make(lengths=LENGTHS[:-1]), make(lengths=[*LENGTHS[:-1], LENGTHS[-1] + 1])]
    assert len({plan.digest for plan in plans}) == len(plans)
    assert make().digest == make().digest


def test_only_the_saved_epoch_and_its_rows_are_there(small: Path) -> None:
    saved = SavedPlan(small)
    with pytest.raises(ArgumentError, match=r"epoch must be in \[1, 2\), got epoch=0"):
        saved.rows(0, 0, 1)
    with pytest.raises(ArgumentError, match="got count=9"):
        saved.rows(1, 0, 9)


def test_every_truncation_is_refused(small: Path) -> None:
    data = small.read_bytes()
    for size in range(len(data)):
        small.write_bytes(data[:size])
        with pytest.raises(CorpusError):
            SavedPlan(small)


def test_every_flipped_bit_is_found(small: Path) -> None:
    data = small.read_bytes()
    saved = SavedPlan(small)
    with small.open("r+b", buffering=0) as file:
        for place in range(8 * len(data)):
            offset = place // 8
            file.seek(offset)
            file.write(bytes([data[offset] ^ 1 << place % 8]))
            with pytest.raises(CorpusError):
                # The mapping shows what became of the file behind the header it has read.
                SavedPlan(small) if offset < HEADER else saved.verify()
            file.seek(offset)
            file.write(data[offset : offset + 1])
    saved.verify()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, 1, r"row_offsets\[0\] is 1, expected 0"),
        (1, 99, "row_offsets must rise from 0 to 5"),
        (1, -5, "row_offsets must rise from 0 to 5"),
        (2, 0, "row_offsets must rise from 0 to 5"),
        (3, 2**62, r"row_offsets\[3\] is 4611686018427387904, expected 5"),
        (4, -1, "spans must have 0 <= document"),
        (5, -1, "spans must have 0 <= document"),
        (6, 0, r"0 <= start < stop, got \[\d+, \d+, 0\] at span 0"),
    ],
)
def test_numbers_that_cannot_be_right_are_refused(
    small: Path, place: int, value: int, message: str
) -> None:
    data = bytearray(small.read_bytes())
    first = HEADER + 8 * place
    data[first : first + 8] = value.to_bytes(8, "little", signed=True)
    small.write_bytes(data)
    with pytest.raises(CorpusError, match=message):
        SavedPlan(small).rows(1, 0, 3)


def test_a_file_that_shrinks_while_it_is_used_is_an_error(small: Path) -> None:
    saved = SavedPlan(small)
    with small.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(CorpusError, match="changed while in use"):
        saved.rows(1, 0, 1)


def test_counts_are_no_saved_plan(tmp_path: Path) -> None:
    plan = dc.PackingPlan(LENGTHS, seq_len=16, counts_dir=tmp_path, **PACKINGS["best_fit"])
    plan.num_rows(0)
    [path] = tmp_path.iterdir()
    with pytest.raises(CorpusError, match="kind is row counts, expected spans"):
        SavedPlan(path)


def test_a_save_that_fails_leaves_the_old_file(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = small.read_bytes()
    plan = make()
    monkeypatch.setattr(plan, "_blocks", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        plan.save(small, epoch=1)
    assert [path.read_bytes() for path in small.parent.iterdir()] == [data]


def test_an_endless_order_is_not_saved(tmp_path: Path) -> None:
    order = dc.Mixture([dc.Shuffle(3)], [1.0], stopping="forever")
    plan = dc.PackingPlan([1, 2, 3], seq_len=4, order=order)
    with pytest.raises(ArgumentError, match="whole epochs"):
        plan.save(tmp_path / "plan.bin")

"""`verify`: a fault of each kind is found, and the first bad row named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ledger_runs import NUM_SAMPLES, Run, first_cursor, start, write_run

from datacursor import _core
from datacursor.block_shuffle import BlockShuffle
from datacursor.contributions import SampleContributions
from datacursor.cursor import Cursor
from datacursor.errors import ArgumentError, LedgerError
from datacursor.ledger import files
from datacursor.ledger.history import read
from datacursor.ledger.rows import COMMITTED, OUTCOMES, SKIPPED, START, Rows, chains
from datacursor.ledger.verify import verify
from datacursor.mixture import Mixture
from datacursor.order import Order, Sequential, Shuffle
from datacursor.weighted import Weighted


def forge(directory: Path, change: Callable[[Rows], Rows | None]) -> None:
    """Change the rows of the last attempt, with a true chain and a true name."""
    attempt = read(directory).attempts[-1]
    rows = attempt.rows.copy()
    changed = change(rows)
    rows = rows if changed is None else changed
    for row, chain in zip(rows, chains(rows["ids_digest"][0].tobytes(), rows), strict=True):
        row["chain"] = chain
    old = [file for file in files.data_files(directory) if file.attempt == attempt.number]
    files.remove(directory, old)
    files.write_part(directory, attempt.number, 0, rows)


def set_field(number: int, name: str, value: Any) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[name][number] = value

    return change


def set_range(number: int, first: int, stop: int) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows["first"][number], rows["stop"][number] = first, stop

    return change


def leave_out(number: int) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        rest = np.delete(rows, number)
        rest["update"][number:] -= 1
        return rest

    return change


def renumber_epochs(rows: Rows) -> None:
    rows["epoch"][3:] += 1


def digest_of(epoch: int, first: int, stop: int) -> np.void:
    indices = Shuffle(NUM_SAMPLES, 7).indices(epoch, first, stop - first)
    return np.void(_core.digest_samples(epoch, indices))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Attempts of 3, 2 and 12 effective rows; attempt 2 begins at update 5, position 50."""
    write_run(tmp_path)
    return tmp_path


def test_an_intact_ledger_passes(ledger: Path) -> None:
    verification = verify(ledger)
    assert (verification.history.num_rows, verification.num_recomputed) == (24, 17)
    assert verification.notes == ()


# Attempt 2: row 0 its start, row 5 ends epoch 0 at update 10, row 6 is [0, 10) of epoch 1.
FAULTS: dict[str, tuple[Callable[[Rows], Rows | None], int, str]] = {
    "a gap": (leave_out(3), 3, r"leaves out positions [70, 80) of epoch 0"),
    "a gap at an epoch's start": (leave_out(6), 6, "leaves out positions [0, 10) of epoch 1"),
    "a gap at an epoch's end": (leave_out(5), 5, "leaves out positions [90, 100) of epoch 0"),
    "a repeat": (set_range(3, 65, 80), 3, "repeats positions [65, 70) of epoch 0"),
    "a range past the end": (set_range(5, 90, 101), 5, "ends at position 101 of an epoch that"),
    "a reversed range": (set_range(3, 80, 70), 3, "ends at position 70 before it begins at 80"),
    "a left out epoch": (renumber_epochs, 3, "leaves out positions [70, 100) of epoch 0"),
    "an epoch too far": (set_field(3, "epoch", 5), 3, "is in epoch 5, expected 0"),
    "a repeated update": (set_field(3, "update", 7), 3, "has update 7, expected 8"),
    "an update too far": (set_field(3, "update", 9), 3, "has update 9, expected 8"),
    "other samples": (set_field(3, "ids_digest", b"x" * 16), 3, "ids_digest is 78787878"),
    "an unknown outcome": (set_field(3, "outcome", 9), 3, "has the outcome 9"),
    "a second start": (set_field(3, "outcome", START), 3, "has the outcome 0"),
    "no start": (set_field(0, "outcome", SKIPPED), 0, "is no start at the attempt's cursor"),
    "another start": (set_field(0, "first", 40), 0, "is no start at the attempt's cursor"),
    "a wrong link": (set_field(0, "ids_digest", b"x" * 16), 0, "continues the chain value 7878"),
    "an update that was none": (set_field(3, "outcome", SKIPPED), 3, "has update 8, expected 7"),
}


@pytest.mark.parametrize(("change", "number", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_found_and_its_row_named(
    ledger: Path, change: Callable[[Rows], Rows | None], number: int, message: str
) -> None:
    forge(ledger, change)
    pattern = rf"^attempt 2, row {number} \(update \d+\): .*{re.escape(message)}"
    with pytest.raises(LedgerError, match=pattern):
        verify(ledger)


def test_an_attempt_must_begin_where_the_rows_before_it_end(tmp_path: Path) -> None:
    run = start(tmp_path)
    saved = run.commits(5)
    run.save()
    run = start(tmp_path, saved.replace(tokens_committed=0, position=60))
    run.commit()
    run.save()
    message = r"attempt 1, row 0 \(update 5\): does not .*: position\n  in ledger: 50\n .* 60$"
    with pytest.raises(LedgerError, match=message):
        verify(tmp_path)


def test_rows_lost_before_a_restart_are_missed(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.commits(3)
    run.save()
    run = start(tmp_path, run.commits(2))  # saved some other way: the ledger was not told
    run.commit()
    run.save()
    with pytest.raises(LedgerError, match=r"attempt 1, row 0 .*: updates_committed, position"):
        verify(tmp_path)


def test_other_contents_at_the_same_positions_are_found(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.ledger.note(tokens_digest=b"a" * 16)
    run.commit()
    saved = run.save()
    run.ledger.note(tokens_digest=b"b" * 16)
    run.commit()
    run.save()
    run = start(tmp_path, saved)
    run.ledger.note(tokens_digest=b"b" * 16)
    run.commit()
    run.ledger.note(tokens_digest=b"c" * 16)
    saved = run.commit()
    run.save()
    verify(tmp_path)
    run = start(tmp_path, run.cursor.replace(position=20, updates_committed=2))
    run.ledger.note(tokens_digest=b"d" * 16)
    run.commit()
    run.save()
    message = r"attempt 2, row 1 .* than attempt 1, row 2 \(update 3\): tokens_digest 6464"
    with pytest.raises(LedgerError, match=message):
        verify(tmp_path)


# -- the checkpoint's cursor -----------------------------------------------------------------------


def test_every_saved_cursor_of_the_effective_history_is_met(tmp_path: Path) -> None:
    run = start(tmp_path)
    cursors = [run.cursor, *(run.move(kind) for kind in ["committed", "skipped"] * 12)]
    run.save()
    for cursor in cursors:
        verify(tmp_path, cursor=cursor.replace(attempt=3, replicas=8))


def test_the_cursor_of_a_dead_branch_is_not_met(tmp_path: Path) -> None:
    run = start(tmp_path)
    saved = run.commits(3)
    run.move("skipped")
    dead = run.commits(2)
    run.save()
    run = start(tmp_path, saved)
    run.commits(5)
    run.save()
    message = r"at update 5: position, skipped, .*\n  position in ledger: 50\n .* 60\n"
    with pytest.raises(LedgerError, match=message):
        verify(tmp_path, cursor=dead)


def test_a_cursor_ahead_of_the_ledger_is_not_met(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.commits(3)
    run.save()
    with pytest.raises(LedgerError, match="at update 4: no row that lived leads there"):
        verify(tmp_path, cursor=run.commit())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("position", 42),
        ("tokens_committed", 5),
        ("identity_digest", bytes(16)),
        ("last_digest", b"x" * 16),
        ("skipped", 3),
        ("epoch", 1),
        ("deferred", [(0, 4)]),
    ],
)
def test_each_field_of_the_cursor_is_compared(tmp_path: Path, name: str, value: Any) -> None:
    cursor = first_cursor(packing_id=1, seq_len=8, order_id=3)
    run = start(tmp_path, cursor)
    end = run.commits(4)
    run.save()
    verify(tmp_path, cursor=end)
    with pytest.raises(LedgerError, match=rf"at update 4: .*{name}"):
        verify(tmp_path, cursor=end.replace(**{name: value}))


def test_the_cursor_of_another_run_is_not_met(ledger: Path) -> None:
    cursor = read(ledger).attempts[2].start
    with pytest.raises(LedgerError, match="another run: seed"):
        verify(ledger, cursor=cursor.replace(seed=8))


def test_an_epochs_end_must_be_complete(tmp_path: Path) -> None:
    run = start(tmp_path)
    end = run.commits(9)
    run.save()
    changes = {"epoch": 1, "position": 0, "identity_digest": bytes(16)}
    cursor = end.replace(**changes, last_digest=end.identity_digest)
    with pytest.raises(LedgerError, match=r"leaves out positions \[90, 100\) of epoch 0"):
        verify(tmp_path, cursor=cursor)


# -- what a run may do -----------------------------------------------------------------------------


def end_epoch(cursor: Cursor) -> Cursor:
    """Drop the rest of an epoch, as drop_last does."""
    moved = {"epoch": cursor.epoch + 1, "position": 0, "digest_first": 0}
    return cursor.replace(
        **moved, last_digest=cursor.identity_digest, identity_digest=bytes(16), drop_last=True
    )


@pytest.mark.parametrize(("count", "holds"), [(30, True), (10, False)])
def test_drop_last_may_drop_less_than_a_round(tmp_path: Path, count: int, holds: bool) -> None:
    run = start(tmp_path, first_cursor(base_size=99).replace(drop_last=True))
    while run.cursor.position + count <= 80 + 10 * holds:
        run.commit(count)
    run.save()
    run = start(tmp_path, end_epoch(run.cursor))
    run.commit(count)
    run.save()
    if holds:
        assert verify(tmp_path).notes == ()
    else:
        with pytest.raises(LedgerError, match=r"leaves out positions \[80, 99\) of epoch 0"):
            verify(tmp_path)


def test_a_seek_is_noted(tmp_path: Path) -> None:
    run = start(tmp_path)
    cursor = run.commits(2)
    run.cursor = cursor.replace(position=50, digest_first=50, identity_digest=bytes(16))
    end = run.commits(3)
    run.save()
    assert verify(tmp_path, cursor=end).notes == (
        "attempt 1 was moved by hand, from epoch 0, position 20, to epoch 0, position 50",
    )


def test_a_seek_loses_no_update(tmp_path: Path) -> None:
    run = start(tmp_path)
    cursor = run.commits(2)
    run.save()
    jumped = cursor.replace(position=50, digest_first=50, identity_digest=bytes(16))
    run = start(tmp_path, jumped.replace(updates_committed=4))
    run.commit()
    run.save()
    with pytest.raises(LedgerError, match=r"attempt 1, row 0 .* after update 4, .* update 2"):
        verify(tmp_path)


def test_a_ledger_may_begin_in_the_middle_of_a_run(tmp_path: Path) -> None:
    run = start(tmp_path, first_cursor(updates_committed=7, position=70, digest_first=70))
    end = run.commits(5)
    run.save()
    assert verify(tmp_path, cursor=end).notes == ("the updates up to 7 are not in this ledger",)


def test_a_run_may_begin_again(tmp_path: Path) -> None:
    write_run(tmp_path)
    run = start(tmp_path)
    end = run.commits(4)
    run.save()
    verification = verify(tmp_path, cursor=end)
    assert verification.history.effective["attempt"].tolist() == [3] * 4


def test_deferred_ranges_come_after_the_tail(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.commits(3)
    run.move("deferred", 20)
    run.commits(5)
    run.save()

    def deliver(rows: Rows) -> Rows:
        late = np.repeat(rows[-1:], 2)
        late["outcome"], late["update"] = COMMITTED, [9, 10]
        late["first"], late["stop"] = [30, 40], [40, 50]
        late["ids_digest"] = [digest_of(0, 30, 40), digest_of(0, 40, 50)]
        following = late[-1:].copy()
        following["epoch"], following["update"] = 1, 11
        following["first"], following["stop"] = 0, 10
        following["ids_digest"] = [digest_of(1, 0, 10)]
        return np.concatenate([rows, late, following])

    forge(tmp_path, deliver)
    assert verify(tmp_path).num_recomputed == 11

    def forget(rows: Rows) -> Rows:
        return np.concatenate([rows[:-3], rows[-1:]])

    forge(tmp_path, forget)
    forge(tmp_path, set_field(-1, "update", 9))
    message = r"row 10 \(update 9\): leaves out positions \[30, 50\) of epoch 0"
    with pytest.raises(LedgerError, match=message):
        verify(tmp_path)


def test_the_codes_of_outcomes_are_part_of_the_format() -> None:
    assert OUTCOMES == ("start", "committed", "skipped", "deferred", "user_skipped")
    assert (START, COMMITTED, SKIPPED) == (0, 1, 2)


def test_a_range_the_user_skipped_starts_the_digest_anew(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.commits(2)
    run.move("user_skipped", 30)
    saved = run.save()
    assert saved.digest_first == 50
    run = start(tmp_path, saved)
    end = run.commits(7)
    run.save()
    verification = verify(tmp_path, cursor=end)
    assert (verification.notes, verification.num_recomputed) == ((), 9)


# -- orders ----------------------------------------------------------------------------------------


def weighted(draws: int = NUM_SAMPLES) -> Weighted:
    return Weighted(np.arange(1.0, NUM_SAMPLES + 1), seed=7, num_positions=draws)


def start_with(directory: Path, order: Order) -> Run:
    contributions = SampleContributions(order, order.num_samples, bytes(16), data_unverified=False)
    changes = {"order_id": order.order_id, "base_size": order.num_samples}
    run = start(directory, first_cursor(**changes, plan_digest=contributions.plan_digest))
    run.order = order
    run.ledger._plan = {"order": order.description, "packing": {}}
    return run


@pytest.mark.parametrize(
    "order",
    [
        BlockShuffle(NUM_SAMPLES, block_size=5, window_blocks=4, seed=7),
        Mixture(
            [Shuffle(60, seed=1), BlockShuffle(40, 4, 2, seed=2)],
            weights=[0.7, 0.3],
            seed=7,
            block=10,
            stages=[(40, [0.5, 0.5])],
            stopping="forever",
        ),
    ],
    ids=lambda order: type(order).__name__,
)
def test_an_order_is_rebuilt_from_its_description(tmp_path: Path, order: Order) -> None:
    run = start_with(tmp_path, order)
    end = run.commits(9)
    run.save()
    verification = verify(tmp_path, cursor=end)
    assert (verification.num_recomputed, verification.notes) == (9, ())
    assert read(tmp_path).attempts[0].order == order


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b'{"order": {"order_id": 3}}', b"\xff"])
def test_a_damaged_description_is_not_believed(tmp_path: Path, damage: bytes) -> None:
    order = BlockShuffle(NUM_SAMPLES, block_size=5, window_blocks=4, seed=7)
    run = start_with(tmp_path, order)
    run.commits(4)
    run.save()
    (tmp_path / "_000000.plan.json").write_bytes(damage)
    assert verify(tmp_path).num_recomputed == 0


def test_the_description_of_another_order_is_not_believed(tmp_path: Path) -> None:
    run = start_with(tmp_path, BlockShuffle(NUM_SAMPLES, 5, 4, seed=7))
    other = BlockShuffle(NUM_SAMPLES, 5, 5, seed=7)
    run.ledger._plan = {"order": other.description, "packing": {}}
    run.commits(4)
    run.save()
    assert read(tmp_path).attempts[0].order is None


def test_an_order_that_takes_arrays_must_be_given(tmp_path: Path) -> None:
    run = start_with(tmp_path, weighted())
    run.commits(9)
    run.save()
    verification = verify(tmp_path)
    assert verification.num_recomputed == 0
    assert "weighted-1 takes more than its description" in verification.notes[0]
    verification = verify(tmp_path, order=weighted())
    assert (verification.num_recomputed, verification.notes) == (9, ())
    for other in (Sequential(NUM_SAMPLES, seed=7), weighted(draws=90)):
        with pytest.raises(ArgumentError, match="order must be that of"):
            verify(tmp_path, order=other)


def test_packed_rows_are_checked_without_their_digests(tmp_path: Path) -> None:
    run = start(tmp_path, first_cursor(packing_id=1, seq_len=8))
    end = run.commits(4)
    run.save()
    verification = verify(tmp_path, cursor=end)
    assert verification.num_recomputed == 0
    assert "rows are packed" in verification.notes[0]

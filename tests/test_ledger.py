"""`Ledger`: what it writes down, when, and for which attempt."""

from __future__ import annotations

import hashlib
import math
import os
import struct
import time
from pathlib import Path

import ledger_runs
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
from ledger_runs import first_cursor, start, write_run

from datacursor.cursor import Cursor
from datacursor.errors import ArgumentError, LedgerError
from datacursor.ledger.history import read
from datacursor.ledger.verify import verify
from datacursor.ledger.writer import Ledger


def names(directory: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.suffix == suffix)


def test_a_row_holds_what_was_committed_and_noted(tmp_path: Path) -> None:
    began = time.time_ns()
    run = start(tmp_path)
    run.ledger.note(loss=0.5)
    run.ledger.note(learning_rate=np.float32(0.25), tokens_digest=b"t" * 16)
    run.commit(10)
    run.save()
    (attempt,) = read(tmp_path).attempts
    row = attempt.rows[1]
    values = [row[name].item() for name in ("attempt", "update", "epoch", "first", "stop")]
    assert values == [0, 1, 0, 0, 10]
    assert (row["outcome"], row["micro_batches"], row["num_tokens"]) == (1, 1, 0)
    assert row["ids_digest"].tobytes() == run.cursor.identity_digest
    assert row["tokens_digest"].tobytes() == b"t" * 16
    assert (row["loss"], row["learning_rate"]) == (0.5, 0.25)
    assert began <= row["time"] <= time.time_ns()


def test_a_loss_is_noted_as_it_leaves_the_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    run = start(tmp_path)
    run.ledger.note(loss=torch.full((), 0.5, requires_grad=True) * 1)  # warnings are errors here
    run.commit()
    run.save()
    assert read(tmp_path).effective["loss"].tolist() == [0.5]


def test_a_note_belongs_to_the_next_row_alone(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.ledger.note(loss=0.5, learning_rate=0.1, tokens_digest=b"t" * 16)
    run.commits(2)
    run.save()
    row = read(tmp_path).effective[1]
    assert math.isnan(row["loss"])
    assert math.isnan(row["learning_rate"])
    assert row["tokens_digest"].tobytes() == bytes(16)


def test_the_chain_is_what_the_documentation_says(tmp_path: Path) -> None:
    write_run(tmp_path)
    table = pa.dataset.dataset(str(tmp_path), format="ipc").to_table()
    rows = table.cast(table.schema.set(12, pa.field("time", pa.int64()))).to_pylist()
    assert len(rows) == 24
    links = {bytes(16)}
    for row in sorted(rows, key=lambda row: row["attempt"]):
        if row["outcome"] == 0:
            previous = row["ids_digest"]
            assert previous in links
        *body, chain = row.values()
        packed = struct.pack("<IQQQQBIQ16s16sddq", *body)
        expected = hashlib.blake2b(previous + packed, digest_size=16, key=b"datacursor ledger 1")
        assert chain == expected.digest()
        previous = chain
        links.add(chain)


def test_rows_are_written_when_the_state_is_taken(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.commits(3)
    assert names(tmp_path, ".arrow") == []
    run.save()
    assert len(read(tmp_path).effective) == 3
    run.save()
    assert len(names(tmp_path, ".arrow")) == 1


def test_rows_are_written_every_so_many(tmp_path: Path) -> None:
    run = start(tmp_path, rows_per_part=4)
    run.commits(8)
    assert [name[:19] for name in names(tmp_path, ".arrow")] == [
        "000000-000000000000",
        "000000-000000000004",
    ]
    assert run.ledger.num_rows == 9
    run.ledger.flush()
    assert len(read(tmp_path).effective) == 8


def test_leaving_the_context_writes_the_rest(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger_runs.Run(ledger).commits(2)
    assert len(read(tmp_path).effective) == 2


def test_a_run_that_commits_nothing_leaves_no_trace(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.note(loss=1.0)
        ledger.on_state(first_cursor())
    assert not (tmp_path / "ledger").exists()
    assert (ledger.attempt, ledger.chain, ledger.num_rows) == (None, "", 0)


def test_a_restart_is_a_new_attempt_at_the_restored_cursor(tmp_path: Path) -> None:
    write_run(tmp_path, restarts=(3, 5))
    first, second, third = read(tmp_path).attempts
    assert [attempt.number for attempt in (first, second, third)] == [0, 1, 2]
    assert [attempt.began_at for attempt in (first, second, third)] == [
        (0, 0, 0),
        (3, 0, 30),
        (5, 0, 50),
    ]
    assert (tmp_path / "_000001.cursor").read_bytes() == bytes(second.start)


def test_the_effective_history_has_each_update_once(tmp_path: Path) -> None:
    write_run(tmp_path, restarts=(3, 5))
    history = read(tmp_path)
    assert history.effective["update"].tolist() == list(range(1, 18))
    assert history.effective["attempt"].tolist() == [0] * 3 + [1] * 2 + [2] * 12
    assert [mask.tolist() for mask in history.lived[:2]] == [
        [False, True, True, True, False, False],
        [False, True, True, False, False],
    ]


def test_a_rewind_past_several_attempts_ends_them_all(tmp_path: Path) -> None:
    run = start(tmp_path)
    at_two = run.commits(2)
    run.commits(3)
    saved = run.save()
    run = start(tmp_path, saved)
    run.commits(2)
    run.save()
    run = start(tmp_path, at_two)
    end = run.commits(1)
    run.save()
    history = verify(tmp_path, cursor=end).history
    assert history.effective["attempt"].tolist() == [0, 0, 2]
    assert history.effective["update"].tolist() == [1, 2, 3]


def test_a_skip_after_the_checkpoint_dies_although_it_makes_no_update(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.commit()
    before_skip = run.save()
    run.move("skipped")
    after_skip = run.save()
    run = start(tmp_path, after_skip)
    run.commit()
    run.save()
    assert read(tmp_path).effective["outcome"].tolist() == [1, 2, 1]
    run = start(tmp_path, before_skip)
    end = run.commit()
    run.save()
    assert verify(tmp_path, cursor=end).history.effective["outcome"].tolist() == [1, 1]


def test_a_load_in_the_same_process_is_a_new_attempt(tmp_path: Path) -> None:
    run = start(tmp_path)
    saved = run.commits(2)
    run.commits(3)
    run.cursor = saved
    end = run.commits(1)
    run.save()
    assert run.ledger.attempt == 1
    history = verify(tmp_path, cursor=end).history
    assert [len(attempt.rows) for attempt in history.attempts] == [6, 2]
    assert history.effective["update"].tolist() == [1, 2, 3]


def test_loading_where_the_run_stands_is_no_new_attempt(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.cursor = Cursor.from_bytes(bytes(run.commits(2)))
    run.commits(1)
    assert run.ledger.attempt == 0


def test_an_attempt_that_wrote_nothing_keeps_its_number(tmp_path: Path) -> None:
    run = start(tmp_path)
    saved = run.commits(2)
    run.save()
    start(tmp_path, saved).commit()  # dies with its row unwritten
    (tmp_path / "_000002.cursor").touch()  # dies while it begins
    run = start(tmp_path, saved)
    end = run.commit()
    run.save()
    history = verify(tmp_path, cursor=end).history
    assert [attempt.number for attempt in history.attempts] == [0, 3]
    assert history.idle == (1, 2)


def test_a_process_that_was_overtaken_stops_at_its_next_part(tmp_path: Path) -> None:
    slow = start(tmp_path)
    saved = slow.commits(2)
    slow.save()
    slow.commits(3)
    quick = start(tmp_path, saved)
    quick.commit()
    with pytest.raises(LedgerError, match=r"attempt 1 has begun elsewhere.* attempt 0"):
        slow.save()
    quick.save()
    assert verify(tmp_path, cursor=quick.cursor).history.effective["update"].tolist() == [1, 2, 3]


def test_a_process_that_is_overtaken_while_it_writes_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = start(tmp_path)
    saved = slow.commits(2)
    slow.save()
    slow.commits(3)
    real = os.replace

    def replace_late(path: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", real)
        start(tmp_path, saved).commit()
        real(path, target)

    monkeypatch.setattr(os, "replace", replace_late)
    with pytest.raises(LedgerError, match="attempt 1 has begun elsewhere"):
        slow.save()


def test_rows_an_overtaken_process_still_wrote_are_dead(tmp_path: Path) -> None:
    slow = start(tmp_path)
    saved = slow.commits(2)
    slow.save()
    slow.commits(5)
    quick = start(tmp_path, saved)
    quick.commit()
    claim = tmp_path / "_000001.cursor"
    claim.rename(tmp_path / "elsewhere")  # as if it had not been there yet when slow looked
    slow.save()
    (tmp_path / "elsewhere").rename(claim)
    quick.save()
    history = verify(tmp_path, cursor=quick.cursor).history
    assert [len(attempt.rows) for attempt in history.attempts] == [8, 2]
    assert history.effective["attempt"].tolist() == [0, 0, 1]


def test_two_that_begin_at_once_get_two_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tmp_path).commit()
    monkeypatch.setattr("datacursor.ledger.files.claims", lambda _: listed.pop())
    listed: list[list[int]] = [[0], [], []]  # both looked before attempt 0 was there
    run = start(tmp_path)
    run.commit()
    assert run.ledger.attempt == 1


def test_leftovers_of_a_crash_are_removed_by_the_next_attempt(tmp_path: Path) -> None:
    leftover = tmp_path / ".000000-000000000000-0123456789abcdef.arrow.tmp"
    other = tmp_path / ".notes.tmp"
    leftover.touch()
    other.touch()
    start(tmp_path).commit()
    assert not leftover.exists()
    assert other.exists()


def test_another_run_is_refused_in_the_same_directory(tmp_path: Path) -> None:
    write_run(tmp_path)
    run = start(tmp_path, first_cursor(seed=8))
    with pytest.raises(LedgerError, match=r"another run: seed\n  in ledger: 7\n  in cursor: 8"):
        run.commit()
    assert names(tmp_path, ".cursor") == ["_000000.cursor", "_000001.cursor", "_000002.cursor"]


def test_a_difference_that_a_load_accepted_is_no_other_run(tmp_path: Path) -> None:
    run = start(tmp_path)
    saved = run.commits(2)
    run.save()
    changes = {"seed": 8, "accepted": ("seed",), "digest_first": 20, "identity_digest": bytes(16)}
    run = start(tmp_path, saved.replace(**changes))
    end = run.commits(3)
    run.save()
    verification = verify(tmp_path, cursor=end)
    assert verification.num_recomputed == 5
    assert "attempt 1 was moved by hand" in verification.notes[0]


def test_a_full_disk_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(tmp_path)
    run.commits(2)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            run.save()
    run.commit()
    assert verify(tmp_path, cursor=run.save()).history.num_rows == 4


@pytest.mark.parametrize("num_rows", [0, 2])  # of an attempt before
@pytest.mark.parametrize("step", ["create_durably", "write_durably", "sync_directory"])
def test_a_full_disk_where_an_attempt_begins_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_rows: int, step: str
) -> None:
    run = start(tmp_path)
    run.commits(num_rows)
    run = start(tmp_path, run.save())

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        module = "durable" if step == "sync_directory" else "ledger.files"
        patch.setattr(f"datacursor.{module}.{step}", fail)
        run.ledger.note(loss=0.25)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                run.commit()
    end = run.commit()
    run.save()
    history = verify(tmp_path, cursor=end).history
    assert history.effective["update"].tolist() == list(range(1, num_rows + 4))
    assert history.effective["loss"][num_rows] == 0.25


@pytest.mark.skipif(os.name != "posix", reason="a directory cannot be synced there")
def test_a_part_that_is_there_after_a_failure_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(tmp_path)
    run.commits(2)

    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("datacursor.durable.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            run.save()
    run.commit()
    end = run.save()
    assert len(names(tmp_path, ".arrow")) == 2
    assert verify(tmp_path, cursor=end).history.num_rows == 4


@pytest.mark.parametrize("rank", [0, 1])
def test_only_rank_0_is_observed(tmp_path: Path, rank: int) -> None:
    pytest.importorskip("torch")
    from datacursor.sampler import CursorSampler

    sampler = CursorSampler(100, batch_size=5, num_replicas=2, rank=rank)
    ledger = Ledger(tmp_path)
    ledger.attach(sampler)
    for _ in zip(range(10), sampler, strict=False):
        pass
    sampler.commit()
    ledger.note(loss=float("nan"))
    sampler.state_dict()
    assert sorted(path.name for path in tmp_path.glob("_*")) == (
        ["_000000.cursor", "_000000.plan.json"] if rank == 0 else []
    )
    with pytest.raises(ArgumentError, match="one sampler"):
        ledger.attach(sampler)


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="rows_per_part"):
        Ledger(tmp_path, rows_per_part=0)
    with pytest.raises(ArgumentError, match="tokens_digest must be 16 bytes, got 3"):
        Ledger(tmp_path).note(tokens_digest=b"abc")


def test_the_chain_value_for_a_checkpoint_is_that_of_the_last_row(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.commits(3)
    run.save()
    assert read(tmp_path).effective["chain"][-1].tobytes().hex() == run.ledger.chain

"""Reading a ledger: whatever is damaged, missing or foreign is found."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cursor_cases import flip_bit
from ledger_runs import start, write_run

from datacursor.errors import LedgerError
from datacursor.ledger import files, parts
from datacursor.ledger.compact import compact
from datacursor.ledger.history import History, last_chain, read
from datacursor.ledger.rows import GENESIS, ROW
from datacursor.ledger.verify import verify

NUM_FLIPS = 20_000
GOLDEN = Path(__file__).parent / "vectors" / "ledger"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Three attempts of 24 rows in five parts."""
    write_run(tmp_path)
    return tmp_path


def part(directory: Path, attempt: int, number: int) -> Path:
    return sorted(directory.glob(f"{attempt:06d}-*.arrow"))[number]


def rename_truly(path: Path) -> Path:
    """Give a part the name that its bytes deserve."""
    data = path.read_bytes()
    attempt, row = map(int, path.name.split("-")[:2])
    return path.rename(
        path.with_name(files.DataFile(attempt, row, True, files.digest_of(data)).name)
    )


def same(a: History, b: History) -> bool:
    rows = [np.concatenate([attempt.rows for attempt in h.attempts]).tobytes() for h in (a, b)]
    return rows[0] == rows[1] and a.effective.tobytes() == b.effective.tobytes()


# -- damage ----------------------------------------------------------------------------------------


def test_every_truncation_is_found(ledger: Path) -> None:
    file = files.data_files(ledger)[-1]
    path = ledger / file.name
    data = path.read_bytes()
    for length in reversed(range(len(data))):
        os.truncate(path, length)
        with pytest.raises(LedgerError, match="damaged"):
            files.read_rows(ledger, file)
    with pytest.raises(LedgerError, match=f"{file.name}: damaged"):
        read(ledger)
    path.write_bytes(data)
    read(ledger)


def test_every_single_bit_flip_is_found(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = files.data_files(ledger)
    whole = {file: (ledger / file.name).read_bytes() for file in found}
    ends = np.cumsum([8 * len(data) for data in whole.values()]).tolist()
    shown: dict[str, bytes] = {}
    monkeypatch.setattr(Path, "read_bytes", lambda path: shown[path.name])
    for bit in random.Random(1).sample(range(ends[-1]), NUM_FLIPS):
        number = next(n for n, end in enumerate(ends) if bit < end)
        file = found[number]
        damaged = flip_bit(whole[file], bit - ends[number] + 8 * len(whole[file]))
        shown[file.name] = damaged
        with pytest.raises(LedgerError, match="damaged"):
            files.read_rows(ledger, file)


def test_a_bit_flipped_in_a_row_breaks_the_chain_of_that_row(ledger: Path) -> None:
    path = part(ledger, 1, 1)  # rows 3 and 4 of attempt 1
    rows = parts.decode_arrow(path.read_bytes())
    for bit in range(0, 8 * rows.nbytes, 11):
        damaged = np.frombuffer(flip_bit(rows.tobytes(), bit), ROW)
        if bit // 8 % ROW.itemsize < 4:
            continue  # the number of the attempt: see the next test
        path.write_bytes(parts.encode_arrow(damaged))
        path = rename_truly(path)
        number = 3 + bit // 8 // ROW.itemsize
        with pytest.raises(LedgerError, match=rf"attempt 1, row {number} \(update \S+\): "):
            read(ledger)


def test_a_row_of_another_attempt_is_found(ledger: Path) -> None:
    path = part(ledger, 1, 1)
    rows = parts.decode_arrow(path.read_bytes())
    rows["attempt"][0] = 7
    path.write_bytes(parts.encode_arrow(rows))
    rename_truly(path)
    with pytest.raises(LedgerError, match="holds a row of attempt 7"):
        read(ledger)


def test_every_bit_of_a_claim_counts(ledger: Path) -> None:
    path = ledger / "_000001.cursor"
    record = path.read_bytes()
    for bit in range(0, 8 * len(record), 13):
        path.write_bytes(flip_bit(record, bit))
        with pytest.raises(LedgerError, match="attempt 1, row 0"):
            read(ledger)


def test_another_intact_cursor_is_no_start(ledger: Path) -> None:
    shutil.copy(ledger / "_000002.cursor", ledger / "_000001.cursor")
    with pytest.raises(LedgerError, match=r"attempt 1, row 0 \(update 3\): is no start at"):
        read(ledger)


# -- missing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "number", "message"),
    [
        (0, 0, "attempt 0, row 0: missing; the next that there is stands in .*000000-0+4-"),
        (1, 0, "attempt 1, row 0: missing"),
        (0, 1, r"attempt 1, row 0 \(update 3\): continues the chain value [0-9a-f]{32}, which no"),
        (1, 1, r"attempt 2, row 0 \(update 5\): continues"),
    ],
    ids=["first", "first of a restart", "last", "last of a restart"],
)
def test_a_missing_part_is_found(ledger: Path, attempt: int, number: int, message: str) -> None:
    part(ledger, attempt, number).unlink()
    with pytest.raises(LedgerError, match=message):
        read(ledger)


def test_a_part_missing_in_the_middle_is_found(tmp_path: Path) -> None:
    run = start(tmp_path, rows_per_part=2)
    run.commits(8)
    part(tmp_path, 0, 2).unlink()
    with pytest.raises(LedgerError, match="attempt 0, row 4: missing"):
        read(tmp_path)


def test_a_missing_last_part_is_found_with_the_checkpoint(ledger: Path) -> None:
    end = read(ledger).attempts[2].start
    run = start(ledger, end)
    end = run.commits(13)
    run.save()
    verify(ledger, cursor=end, chain=run.ledger.chain)
    part(ledger, 3, 0).unlink()
    with pytest.raises(LedgerError, match="at update 18: no row that lived leads there"):
        verify(ledger, cursor=end)
    with pytest.raises(LedgerError, match=f"no row that lived has .* {run.ledger.chain}"):
        verify(ledger, chain=run.ledger.chain)


def test_a_missing_claim_is_found(ledger: Path) -> None:
    (ledger / "_000001.cursor").unlink()
    with pytest.raises(LedgerError, match="attempt 1, row 0: the file of its first cursor is lost"):
        read(ledger)


def test_no_directory_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")


def test_an_empty_directory_is_an_empty_ledger(tmp_path: Path) -> None:
    history = read(tmp_path)
    assert (history.attempts, history.idle, len(history.effective)) == ((), (), 0)
    assert last_chain(tmp_path) == GENESIS


# -- foreign ---------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "another name": lambda table: table.rename_columns(["x", *table.schema.names[1:]]),
    "another type": lambda table: table.set_column(1, "update", table["update"].cast(pa.int64())),
    "another order": lambda table: table.select(table.schema.names[::-1]),
    "a column more": lambda table: table.append_column("more", table["update"]),
    "a column less": lambda table: table.drop_columns(["loss"]),
    "nulls allowed": lambda table: table.cast(
        pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    ),
    "another version": lambda table: table.replace_schema_metadata({"datacursor.ledger": "2"}),
    "no version": lambda table: table.replace_schema_metadata(None),
    "no rows": lambda table: table.slice(0, 0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_part_with_another_schema_is_refused(
    ledger: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    path = part(ledger, 2, 0)
    with pa.ipc.open_file(path) as reader:
        table = change(reader.read_all())
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    path = rename_truly(path)
    with pytest.raises(LedgerError, match=rf"{path.name}: not a part of a ledger"):
        read(ledger)


@pytest.mark.parametrize("name", ["data.arrow", "000000-0.arrow", "train.parquet"])
def test_a_foreign_file_is_refused_by_its_name(ledger: Path, name: str) -> None:
    (ledger / name).touch()
    with pytest.raises(LedgerError, match=f"{name}: not a file of a ledger, by its name"):
        read(ledger)


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
def test_other_bytes_under_a_true_name_are_refused(ledger: Path, suffix: str) -> None:
    data = b"not Arrow at all"
    name = files.DataFile(9, 0, suffix == ".arrow", files.digest_of(data)).name
    (ledger / name).write_bytes(data)
    with pytest.raises(LedgerError, match=f"{name}: not an? (Arrow IPC|Parquet) file"):
        read(ledger)


def test_other_files_are_left_alone(ledger: Path) -> None:
    before = read(ledger)
    (ledger / "README.md").write_text("notes")
    (ledger / ".000000-000000000000-0123456789abcdef.arrow.tmp").write_bytes(b"torn")
    assert same(read(ledger), before)


def test_two_files_that_contradict_each_other_are_found(ledger: Path) -> None:
    path = part(ledger, 1, 1)
    rows = parts.decode_arrow(path.read_bytes())
    rows["loss"] = 1.0
    files.write_part(ledger, 1, 3, rows)
    with pytest.raises(LedgerError, match="contradicts another file with the same rows"):
        read(ledger)


# -- compaction ------------------------------------------------------------------------------------


def test_a_compacted_ledger_is_the_same(ledger: Path) -> None:
    before = read(ledger)
    assert compact(ledger) == (5, 24)
    assert [file.is_part for file in files.data_files(ledger)] == [False]
    assert same(read(ledger), before)
    assert pq.read_table(next(ledger.glob("*.parquet"))).num_rows == 24
    assert compact(ledger) == (1, 24)


def test_a_run_goes_on_after_a_compaction(ledger: Path) -> None:
    saved = read(ledger).attempts[2].start
    compact(ledger)
    run = start(ledger, saved)
    run.commits(3)
    run.save()
    compact(ledger)
    end = run.commits(2)
    run.save()
    history = verify(ledger, cursor=end).history
    assert [len(attempt.rows) for attempt in history.attempts] == [6, 5, 13, 6]
    assert compact(ledger) == (2, 30)
    assert same(read(ledger), history)


def test_a_compaction_that_removed_nothing_is_read_and_finished(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", lambda directory, old: None)  # noqa: ARG005  # as it is called
        compact(ledger)
    assert len(files.data_files(ledger)) == 6
    assert same(read(ledger), before)
    assert last_chain(ledger) == before.attempts[-1].rows["chain"][-1].tobytes()
    assert compact(ledger) == (6, 24)
    assert len(files.data_files(ledger)) == 1
    assert same(read(ledger), before)


def test_a_damaged_ledger_is_not_compacted(ledger: Path) -> None:
    path = part(ledger, 1, 1)
    path.write_bytes(path.read_bytes()[:-1])
    before = sorted(ledger.iterdir())
    with pytest.raises(LedgerError, match="damaged"):
        compact(ledger)
    assert sorted(ledger.iterdir()) == before


def test_a_compaction_while_reading_is_noticed(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(ledger)
    real = files.read_rows
    compactions = [compact]

    def read_late(directory: Path, file: files.DataFile) -> object:
        if compactions:
            compactions.pop()(directory)
        return real(directory, file)

    monkeypatch.setattr(files, "read_rows", read_late)
    assert same(read(ledger), before)


# -- golden files ----------------------------------------------------------------------------------


def test_a_ledger_of_the_first_release_is_read() -> None:
    history = read(GOLDEN)
    assert history.effective["update"].tolist() == list(range(1, 18))
    assert [attempt.rows["chain"][-1].tobytes().hex() for attempt in history.attempts] == [
        line.split()[1] for line in (GOLDEN / "chains.txt").read_text("ascii").splitlines()
    ]

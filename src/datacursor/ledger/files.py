"""The directory of a ledger: who writes which file, and what its name says.

    _000002.cursor                               claims attempt 2: the cursor's bytes it began at
    _000002.plan.json                            describes its order and packing
    000002-000000001000-9f3ac1d2e4b5a697.arrow   rows of attempt 2 from its row 1000 on
    000002-000000004000-03b7fe1199c0a2d4.parquet all rows up to row 4000 of attempt 2, compacted

The last part of a name is a digest of the file's bytes: Arrow has no checksum of its own, and a
damaged file must not reach its parser. Names that begin with "_" are left alone by readers of
data sets. The names are part of the persistent format; add, never change.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from datacursor.cursor import Cursor
from datacursor.durable import create_durably, sync_directory, write_durably
from datacursor.errors import CursorFormatError, LedgerError
from datacursor.ledger import parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from datacursor.ledger.identity import Plan
    from datacursor.ledger.rows import Rows

_ARROW, _PARQUET = ".arrow", ".parquet"
_DATA_NAME = re.compile(r"(\d{6,})-(\d{12,})-([0-9a-f]{16})\.(?:arrow|parquet)")
_LEFTOVER_NAME = re.compile(rf"\.(?:{_DATA_NAME.pattern}|_\d+\.plan\.json)\.tmp")
_CLAIM_NAME = re.compile(r"_(\d{6,})\.cursor")


class DataFile(NamedTuple):
    """A file of rows, in the order in which rows are written.

    Attributes:
        attempt: The attempt of its last row.
        row: Of a part, the number of its first row in the attempt; of a compacted file, the
            number after its last row.
        is_part: Whether it is a part and no compacted file.
        digest: 16 hexadecimal digits of the bytes.
    """

    attempt: int
    row: int
    is_part: bool
    digest: str

    @property
    def name(self) -> str:
        """The file's name."""
        suffix = _ARROW if self.is_part else _PARQUET
        return f"{self.attempt:06d}-{self.row:012d}-{self.digest}{suffix}"


def data_files(directory: Path) -> list[DataFile]:
    """Return the files of rows, the one with the last row last.

    Raises:
        LedgerError: There is an Arrow or Parquet file of another name.
        FileNotFoundError: There is no such directory.
    """
    found = []
    for path in directory.iterdir():
        match = _DATA_NAME.fullmatch(path.name)
        if match is not None:
            attempt, row, digest = match.groups()
            found.append(DataFile(int(attempt), int(row), path.suffix == _ARROW, digest))
        elif path.suffix in (_ARROW, _PARQUET):
            raise LedgerError(f"{path}: not a file of a ledger, by its name")
    return sorted(found)


def write_part(directory: Path, attempt: int, row: int, rows: Rows) -> None:
    """Write rows of an attempt, of which the first is its row `row`; durable on return.

    Raises:
        OSError: The file system refuses.
    """
    data = parts.encode_arrow(rows)
    write_durably(directory / DataFile(attempt, row, True, digest_of(data)).name, data)


def write_compacted(directory: Path, attempt: int, row: int, rows: Rows) -> DataFile:
    """Write all rows before row `row` of an attempt; durable on return.

    Raises:
        OSError: The file system refuses.
    """
    data = parts.encode_parquet(rows)
    file = DataFile(attempt, row, False, digest_of(data))
    write_durably(directory / file.name, data)
    return file


def read_rows(directory: Path, file: DataFile) -> Rows:
    """Return the rows of a file whose bytes its name proves.

    Raises:
        LedgerError: Damaged or foreign; names the file.
        FileNotFoundError: It was compacted meanwhile.
    """
    path = directory / file.name
    data = path.read_bytes()
    digest = digest_of(data)
    if digest != file.digest:
        raise LedgerError(f"{path}: damaged: its bytes have the digest {digest}")
    try:
        rows = parts.decode_arrow(data) if file.is_part else parts.decode_parquet(data)
    except LedgerError as error:
        raise LedgerError(f"{path}: {error}") from error
    strangers = rows["attempt"][rows["attempt"] != file.attempt]
    if file.is_part and len(strangers) > 0:
        raise LedgerError(f"{path}: holds a row of attempt {strangers[0]}")
    return rows


def claims(directory: Path) -> list[int]:
    """Return the numbers of all attempts that began, rising.

    Raises:
        FileNotFoundError: There is no such directory.
    """
    matches = (_CLAIM_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(int(match[1]) for match in matches if match is not None)


def claim_next(directory: Path, start: Cursor) -> int:
    """Begin the next attempt at a cursor and return its number; no other process has the same.

    Raises:
        OSError: The file system refuses.
    """
    attempt = max(claims(directory), default=-1) + 1
    try:
        create_durably(_claim(directory, attempt), bytes(start))
    except FileExistsError:  # another process was quicker
        return claim_next(directory, start)
    return attempt


def is_claimed(directory: Path, attempt: int) -> bool:
    """Return whether an attempt has begun."""
    return _claim(directory, attempt).exists()


def read_claim(directory: Path, attempt: int) -> Cursor | None:
    """Return the cursor at which an attempt began; None if a crash left less than a cursor."""
    try:
        return Cursor.from_bytes(_claim(directory, attempt).read_bytes())
    except (CursorFormatError, FileNotFoundError):
        return None


def write_plan(directory: Path, attempt: int, plan: Plan) -> None:
    """Describe the order and the packing of an attempt that has begun.

    Raises:
        OSError: The file system refuses.
    """
    write_durably(_plan(directory, attempt), json.dumps(plan).encode())


def read_plan(directory: Path, attempt: int) -> Plan | None:
    """Return what an attempt's plan says; None if there is none, or a damaged one.

    Its digest is in the attempt's cursor, so it need not be believed.
    """
    try:
        plan = json.loads(_plan(directory, attempt).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return plan if isinstance(plan, dict) else None


def remove(directory: Path, files: Iterable[DataFile]) -> None:
    """Remove files of rows, those that are gone already included."""
    for file in files:
        (directory / file.name).unlink(missing_ok=True)
    sync_directory(directory)


def remove_leftovers(directory: Path) -> None:
    """Remove what crashed writers left half written; a slow one finds out that it is late."""
    for path in directory.iterdir():
        if _LEFTOVER_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)


def digest_of(data: bytes) -> str:
    """Return what a file's name says of its bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _plan(directory: Path, attempt: int) -> Path:
    return directory / f"_{attempt:06d}.plan.json"


def _claim(directory: Path, attempt: int) -> Path:
    return directory / f"_{attempt:06d}.cursor"

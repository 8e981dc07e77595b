"""Many small files of a ledger made one Parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datacursor.ledger import files
from datacursor.ledger.history import read

if TYPE_CHECKING:
    from pathlib import Path


def compact(directory: Path) -> tuple[int, int]:
    """Put all rows that are written into one Parquet file and remove the files that held them.

    The run may go on meanwhile. A crash leaves rows twice at worst, which readers allow for.

    Returns:
        How many files there were, and how many rows the one now holds.

    Raises:
        LedgerError: Damaged or incomplete; nothing has changed.
        FileNotFoundError: There is no such directory.
        OSError: The file system refuses.
    """
    before = files.data_files(directory)
    history = read(directory)
    if len(before) <= 1 or not history.attempts:
        return len(before), history.num_rows
    last = history.attempts[-1]
    rows = np.concatenate([attempt.rows for attempt in history.attempts])
    kept = files.write_compacted(directory, last.number, len(last.rows), rows)
    files.remove(directory, (file for file in before if file != kept))
    return len(before), len(rows)

"""Rows of the windows of an epoch, kept in a file so that they are counted once for all runs."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import numpy as np

from datacursor import plan_file
from datacursor.durable import sync_directory, write_durably
from datacursor.errors import CorpusError
from datacursor.plan_file import HEADER_SIZE, ROW_COUNTS, Header


class RowCounts:
    """Counts of one plan, a file an epoch: 4 bytes a window and 80 more.

    Args:
        directory: Where the files are; made when the first one is written.
        plan_digest: Names the plan; a part of the files' names, and checked inside them.
    """

    def __init__(self, directory: str | os.PathLike[str], plan_digest: bytes) -> None:
        """Read nothing yet."""
        self._directory = Path(directory)
        self._plan_digest = plan_digest

    def path_of(self, epoch: int) -> Path:
        """Return the file of an epoch."""
        return self._directory / f"rows-{self._plan_digest.hex()}-{epoch}.bin"

    def load(self, epoch: int, num_windows: int) -> list[int] | None:
        """Return the rows of every window; None if nobody counted them.

        Raises:
            CorpusError: The file is damaged or belongs to another plan; without it, the rows are
                counted again.
            OSError: It cannot be read.
        """
        path = self.path_of(epoch)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        name = str(path)
        try:
            header = plan_file.read_header(name, data[:HEADER_SIZE], len(data), ROW_COUNTS)
            plan_file.require_plan(name, header, self._plan_digest, epoch)
            plan_file.require_payload(name, header, data[HEADER_SIZE:])
            if header.num_entries != num_windows:
                raise CorpusError(
                    f"{name}: num_entries is {header.num_entries}, expected {num_windows}"
                )
        except CorpusError as error:
            raise CorpusError(f"{error}; remove the file to count again") from error
        rows: list[int] = np.frombuffer(data, dtype="<u4", offset=HEADER_SIZE).tolist()
        return rows

    def save(self, epoch: int, rows: list[int]) -> None:
        """Keep the rows of every window; several processes may do so at once.

        Raises:
            OSError: The file cannot be written.
        """
        payload = np.array(rows, dtype="<u4").tobytes()
        digest = plan_file.digest_of(payload)
        header = Header(ROW_COUNTS, self._plan_digest, epoch, len(rows), 0, digest)
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self.path_of(epoch)
        # All ranks may write at once, and each its own file until it is whole.
        own = path.with_name(f"{path.name}.{uuid4().hex}")
        write_durably(own, header.to_bytes() + payload)
        own.replace(path)
        sync_directory(self._directory)

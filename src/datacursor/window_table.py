"""Packed windows of documents: the ones in use, and how many rows lie before each."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from datacursor import _core
from datacursor.errors import ArgumentError, CorpusError
from datacursor.fork_lock import ForkLock
from datacursor.row_block import Reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.document_stream import Documents, DocumentStream
    from datacursor.row_counts import RowCounts

_MAX_PACKED = 3  # kept: the one before, the one in use, and the next
_MAX_BARREN = 2**20  # documents of an endless order in a row that make no row
_MAX_QUEUED = 1024  # windows to count that wait for a thread, at about 2 kB each


@dataclass(frozen=True, slots=True)
class PackedWindow:
    """All rows of one window, in the order in which they come.

    Attributes:
        spans: (document, start, stop), int64 of shape (m, 3).
        row_offsets: Row r holds spans[row_offsets[r] : row_offsets[r + 1]]; int64.
    """

    spans: NDArray[np.int64]
    row_offsets: NDArray[np.int64]

    @property
    def num_rows(self) -> int:
        """Rows of the window."""
        return len(self.row_offsets) - 1


@dataclass(frozen=True, slots=True)
class _Kept:
    """The windows that one process packed or packs; a fork finds no use in its parent's.

    A future that was open at the fork stays open for ever in the child, as may the lock.
    """

    process: int = field(default_factory=os.getpid)
    lock: Lock = field(default_factory=Lock)
    futures: dict[tuple[int, int], Future[PackedWindow]] = field(default_factory=dict)


class Windows:
    """The windows of every epoch, packed when they are asked for.

    The window after the one asked for is packed ahead by a thread, which runs while the GIL is
    released; but nothing is read ahead where documents must be read to know their lengths.

    Args:
        stream: The documents.
        rule: How a window is packed.
        size: Documents of a window.
        shuffle_rows: Whether the rows of a window are shuffled.
        cost_groups: Rows of about one cost that come together, if they are shuffled; or 0.
    """

    def __init__(
        self,
        stream: DocumentStream,
        rule: _core.BestFitRule,
        size: int,
        *,
        shuffle_rows: bool,
        cost_groups: int,
    ) -> None:
        """Pack nothing yet."""
        self.size = size
        self._stream = stream
        self._rule = rule
        self._shuffle_rows = shuffle_rows
        self._cost_groups = cost_groups
        self._kept = _Kept()

    def num_windows(self, epoch: int) -> int:
        """Return the number of windows of an epoch; at most so many while its end is not known."""
        return -(-self._stream.num_documents(epoch) // self.size)

    def packed(self, epoch: int, window: int) -> PackedWindow:
        """Return a window, packed now unless it was packed ahead; starts to pack the next."""
        if self._kept.process != os.getpid():
            self._kept = _Kept()
        kept = self._kept
        with kept.lock:
            found = self._future(kept, epoch, window)
            if self._stream.has_lengths and window + 1 < self.num_windows(epoch):
                self._future(kept, epoch, window + 1)
        return found.result()

    def num_rows(self, epoch: int, window: int) -> int:
        """Return the rows of a window: those of a packed one, else counted."""
        if not self._stream.has_lengths:  # once read, it is packed as well
            return self.packed(epoch, window).num_rows
        found = self._kept.futures.get((epoch, window))
        if found is not None and self._kept.process == os.getpid():
            return found.result().num_rows
        return self.count(epoch, window)["num_rows"]

    def totals(self, epoch: int) -> Counter[str]:
        """Return the sums of the counts of all windows."""
        totals: Counter[str] = Counter()
        for counts in self.counts(epoch, 0):
            totals.update(counts)
        return totals

    def counts(self, epoch: int, first: int) -> Iterator[dict[str, int]]:
        """Yield what packing each window from `first` on counts, by all cores."""
        windows = range(first, self.num_windows(epoch))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, len(windows), _MAX_QUEUED):
                yield from pool.map(
                    partial(self.count, epoch), windows[start : start + _MAX_QUEUED]
                )

    def count(self, epoch: int, window: int) -> dict[str, int]:
        """Return what packing one window counts."""
        lengths, numbers, _ = self._documents(epoch, window)
        return _core.count_best_fit(
            lengths.index,
            numbers,
            self._rule,
            num_virtual=lengths.num_virtual,
            keep_empty=lengths.keep_empty,
        )

    def require_rows(self, num_barren: int) -> None:
        """Raise if so many windows in a row had no row and the epoch need not end."""
        num_documents = num_barren * self.size
        may_go_on = self._stream.order.is_endless or not self._stream.has_lengths
        if may_go_on and num_documents >= _MAX_BARREN:
            raise ArgumentError(
                f"order must give documents that make rows: {num_documents} documents in a row "
                f"of {self._stream!r}, which need not end, made none"
            )

    def _documents(self, epoch: int, window: int) -> Documents:
        return self._stream.part(epoch, window * self.size, self.size)

    def _future(self, kept: _Kept, epoch: int, window: int) -> Future[PackedWindow]:
        key = (epoch, window)
        if key not in kept.futures:
            # Here and not in the thread, which so touches nothing that a fork could find locked.
            documents = self._documents(epoch, window)
            while len(kept.futures) >= _MAX_PACKED:
                del kept.futures[next(iter(kept.futures))]
            thread = _packing_thread(kept.process)
            kept.futures[key] = thread.submit(self._pack, epoch, window, documents)
        return kept.futures[key]

    def _pack(self, epoch: int, window: int, documents: Documents) -> PackedWindow:
        seed = self._stream.order.seed
        try:
            spans, row_offsets = _core.best_fit(
                documents.lengths.index,
                documents.numbers,
                self._rule,
                num_virtual=documents.lengths.num_virtual,
                keep_empty=documents.lengths.keep_empty,
                key=(seed, epoch, window) if self._shuffle_rows else None,
                cost_groups=self._cost_groups,
            )
        except CorpusError as error:
            if documents.first == 0:
                raise
            raise CorpusError(f"counted from document {documents.first} on: {error}") from error
        if documents.first > 0:
            spans[:, 0] += documents.first
        return PackedWindow(spans, row_offsets)


class WindowTable:
    """Rows of the windows of one epoch, counted as far as needed."""

    def __init__(self, windows: Windows, epoch: int, kept: RowCounts | None = None) -> None:
        """Begin a table for one epoch: empty, or as it was kept."""
        self.epoch = epoch
        self._windows = windows
        self._lock = ForkLock()
        self._kept = kept
        rows = kept.load(epoch, self._num_windows) if kept is not None else None
        # Rows up to the end of every window from the first on.
        self._ends: list[int] = list(accumulate(rows or ()))
        self._counted: dict[int, int] = {}  # rows of windows behind these

    @property
    def _num_windows(self) -> int:
        return self._windows.num_windows(self.epoch)  # fewer once the end of a source is read

    def num_rows(self) -> int:
        """Return the rows of the whole epoch; packs what was not counted, on all cores."""
        with self._lock:
            if len(self._ends) < self._num_windows:
                for counts in self._windows.counts(self.epoch, len(self._ends)):
                    self._append(counts["num_rows"])
                if self._kept is not None:
                    self._kept.save(self.epoch, np.diff(self._ends, prepend=0).tolist())
            return self._ends[-1]

    def reach(self, window: int, row: int, target: int) -> Reach:
        """Return how far the epoch surely goes: to row `target` at least, or to its end.

        Args:
            window: Where the look ahead begins.
            row: The first row of that window.
            target: Row to look as far as.

        Raises:
            ArgumentError: A million documents in a row, of an order without end, make no row.
        """
        if self._ends and len(self._ends) >= self._num_windows:
            return Reach(self._ends[-1], is_end=True)
        num_barren = 0
        while row < target and window < self._num_windows:
            num_rows = self._rows_of(window)
            num_barren = 0 if num_rows else num_barren + 1
            self._windows.require_rows(num_barren)
            row += num_rows
            window += 1
        return Reach(row, is_end=window >= self._num_windows)

    def find(self, row: int) -> tuple[int, int]:
        """Return (window, row in it) of a row > 0; (window + 1, 0) right after a window's end."""
        with self._lock:
            while not self._ends or self._ends[-1] < row:
                self._append(self._rows_of(len(self._ends)))
            window = bisect_left(self._ends, row)
            if self._ends[window] == row:
                return window + 1, 0
            return window, row - (self._ends[window - 1] if window > 0 else 0)

    def first_row(self, window: int) -> int | None:
        """Return the rows before a window if they were counted."""
        if window > len(self._ends):
            return None
        return self._ends[window - 1] if window > 0 else 0

    def _rows_of(self, window: int) -> int:
        if window not in self._counted:
            self._counted[window] = self._windows.num_rows(self.epoch, window)
        return self._counted[window]

    def _append(self, num_rows: int) -> None:
        self._ends.append((self._ends[-1] if self._ends else 0) + num_rows)


@lru_cache(maxsize=1)
def _packing_thread(process: int) -> ThreadPoolExecutor:
    """Return the packing thread of this process; a forked one has none of its parent's."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"datacursor-packing-{process}")

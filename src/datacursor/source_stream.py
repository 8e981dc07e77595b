"""The documents of a `DocumentSource` as a plan takes them: window by window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datacursor import _core
from datacursor.checks import MAX_COUNT
from datacursor.document_stream import Documents, DocumentStream
from datacursor.order import Sequential
from datacursor.skip_table import Lengths

if TYPE_CHECKING:
    from datacursor.source_reader import SourceReader


class SourceStream(DocumentStream):
    """Documents in the order of their source, whose number and lengths are told by reading.

    Args:
        reader: Reads the source.
        seed: Key of all epochs.
        num_virtual: Tokens added to a document: bos and eos.
        keep_empty: Whether an empty document gets them too.
    """

    has_lengths = False

    def __init__(
        self, reader: SourceReader, *, seed: int, num_virtual: int, keep_empty: bool
    ) -> None:
        """Read nothing yet."""
        none = Lengths(_core.LengthIndex([]), num_virtual=num_virtual, keep_empty=keep_empty)
        super().__init__(none, Sequential(MAX_COUNT - 1, seed))
        self._reader = reader

    def num_documents(self, epoch: int) -> int:
        """Return how many documents an epoch has, or at most has while its end was not read."""
        return self._reader.num_documents(epoch)

    def part(self, epoch: int, position: int, count: int) -> Documents:
        """Read a window: `count` is its size and divides `position`."""
        shard = self._reader.window(epoch, position // count).shard
        index = _core.LengthIndex([(shard.begins, shard.ends)])
        lengths = Lengths(index, self.lengths.num_virtual, self.lengths.keep_empty)
        return Documents(lengths, np.arange(index.num_documents, dtype=np.int64), position)

    def __repr__(self) -> str:
        return repr(self._reader.source)

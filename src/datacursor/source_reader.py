"""Windows of a `DocumentSource`: read, checked, and compared with what they were before.

documents   0 1 2 3 | 4 5 6 7 | 8 9          window_documents = 4
window         0         1       2           a short window ends the epoch
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from datacursor.checks import MAX_COUNT
from datacursor.errors import CorpusError
from datacursor.shards import TokenShard, shard_from_sequences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.document_source import DocumentSource

_MAX_KEPT = 2  # windows: a batch reads one, or the end of one and the start of the next


class Reading(NamedTuple):
    """What tells a window from another one: how many documents, and their lengths."""

    num_documents: int
    num_tokens: int
    digest: int

    def __str__(self) -> str:
        return (
            f"{self.num_documents} documents, {self.num_tokens} tokens, lengths {self.digest:016x}"
        )


class SourceWindow(NamedTuple):
    """The documents of one window, in memory."""

    shard: TokenShard
    reading: Reading


class SourceReader:
    """Reads a source window by window; keeps the last two.

    Args:
        source: The documents.
        window_documents: Documents of a window.
    """

    def __init__(self, source: DocumentSource, window_documents: int) -> None:
        """Read nothing yet."""
        self.source = source
        self.window_documents = window_documents
        self._kept: dict[tuple[int, int], SourceWindow] = {}
        self._readings: dict[tuple[int, int], Reading] = {}
        self._ends: dict[int, int] = {}  # documents of an epoch, at most

    @property
    def fingerprint(self) -> bytes | None:
        """What names the source's content, 16 bytes; None if nothing does.

        Raises:
            TypeError: It is neither bytes nor text nor None.
        """
        name: object = self.source.fingerprint
        if name is None:
            return None
        if not isinstance(name, (str, bytes)):
            raise TypeError(
                f"fingerprint of {self.source!r} must be bytes, str or None, "
                f"got {type(name).__name__}"
            )
        data = name.encode() if isinstance(name, str) else name
        return data if len(data) == 16 else hashlib.blake2b(data, digest_size=16).digest()

    def window(
        self, epoch: int, number: int, planned: tuple[int, ...] | None = None
    ) -> SourceWindow:
        """Return a window, read now unless it is kept; empty behind the epoch's end.

        Args:
            epoch: Pass over the data.
            number: Of the window.
            planned: The reading by which its rows were planned; None: as it was read before here.

        Raises:
            CorpusError: The source gave no documents of tokens, or others than before.
            TypeError: It gave no list.
        """
        key = (epoch, number)
        window = self._kept.pop(key, None) or self._read(epoch, number)
        before = planned or self._readings.setdefault(key, window.reading)
        if window.reading != before:
            first = number * self.window_documents
            raise CorpusError(
                f"{self.source!r} read differently a second time: documents from {first} on, of "
                f"epoch {epoch}\n  before: {Reading(*before)}\n  now:    {window.reading}\n"
                "documents(epoch, first, count) must give the same in every process and run"
            )
        self._kept[key] = window
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return window

    def reading(self, epoch: int, number: int) -> Reading:
        """Return how a window read, as it is planned with; reads it if it never was."""
        return self._readings.get((epoch, number)) or self.window(epoch, number).reading

    def num_documents(self, epoch: int) -> int:
        """Return how many documents an epoch has, or at most has while its end was not read."""
        return self._ends.get(epoch, MAX_COUNT - 1)

    def require_tokens(self, shard: TokenShard, first: int, limit: int) -> None:
        """Raise unless all tokens lie in [0, limit).

        Args:
            shard: Documents of a window.
            first: Number of the first of them.
            limit: A power of two.

        Raises:
            CorpusError: Names the document and the token.
        """
        tokens = shard.tokens
        if tokens.size == 0 or (tokens.min() >= 0 and tokens.max() < limit):
            return
        place = int(np.flatnonzero((tokens < 0) | (tokens >= limit))[0])
        document = int(np.searchsorted(shard.ends, place, side="right"))
        raise CorpusError(
            f"token ids must be in [0, 2**{limit.bit_length() - 1}), got {tokens[place]} in "
            f"document {first + document} of {self.source!r} at token "
            f"{place - int(shard.begins[document])}"
        )

    def __getstate__(self) -> dict[str, object]:
        """Leave the tokens here; another process reads its own."""
        return self.__dict__ | {"_kept": {}}

    def _read(self, epoch: int, number: int) -> SourceWindow:
        first = number * self.window_documents
        documents = self._documents(epoch, first, self.window_documents)
        if len(documents) < self.window_documents:
            self._end(epoch, first + len(documents), self.window_documents - len(documents))
        shard, num_null = shard_from_sequences(documents, first)
        if num_null > 0:
            null = first + [document is None for document in documents].index(True)
            raise CorpusError(f"document {null} of {self.source!r} is None; an empty one is []")
        self.require_tokens(shard, first, MAX_COUNT)
        lengths = shard.lengths()
        return SourceWindow(shard, Reading(len(lengths), len(shard.tokens), _digest(lengths)))

    def _documents(self, epoch: int, first: int, count: int) -> list[Any]:
        documents: list[Any] = self.source.documents(epoch, first, count)
        if not isinstance(documents, list):
            raise TypeError(
                f"documents(epoch, first, count) of {self.source!r} must return a list, "
                f"got {type(documents).__name__}"
            )
        if len(documents) > count:
            raise CorpusError(
                f"{self.source!r} gave {len(documents)} documents from {first} on, "
                f"count={count} were asked for"
            )
        return documents

    def _end(self, epoch: int, end: int, missing: int) -> None:
        """Note the epoch's end where a window was short, and make sure that it is one."""
        if self._documents(epoch, end, 1):
            raise CorpusError(
                f"{self.source!r} gave {missing} documents fewer than asked for before document "
                f"{end} of epoch {epoch}, which is there: fewer are the end of the epoch"
            )
        self._ends[epoch] = min(end, self.num_documents(epoch))


def _digest(lengths: NDArray[np.int64]) -> int:
    data = lengths.astype("<i8", copy=False).data
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")

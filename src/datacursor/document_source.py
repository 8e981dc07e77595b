"""Sources of documents whose lengths nobody knows before they are read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class DocumentSource(ABC):
    """Documents of token ids in an order of their own, read in windows as they are packed.

    A subclass defines `documents`, and `fingerprint` if it can. The source is read in the process
    of the sampler, which plans the rows, and again in every worker, which gathers them; so a
    source must be picklable where workers are spawned. Give it to `PackedSampler` with
    packing="best_fit" and window_documents.

    Example:
        >>> class Squares(DocumentSource):
        ...     def documents(self, epoch, first, count):
        ...         stop = min(first + count, 100)  # an epoch has 100 documents
        ...         return [[number] * (number % 7) for number in range(first, stop)]
        >>> Squares().documents(0, 8, 2)
        [[8], [9, 9]]
    """

    @abstractmethod
    def documents(self, epoch: int, first: int, count: int) -> list[ArrayLike]:
        """Return documents [first, first + count) of one epoch, fewer where the epoch ends.

        A pure function: the same arguments give the same documents in every process and run.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            first: Number of the first document; it may lie behind the end.
            count: How many are asked for, at least 1.

        Returns:
            A list of one-dimensional integer arrays or sequences; a document may be empty.
        """

    @property
    def fingerprint(self) -> bytes | str | None:
        """What names the content, so that a resume refuses other data; None if nothing does."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(fingerprint={self.fingerprint!r})"


class IterableSource(DocumentSource):
    """A source made of anything that can be iterated from a given document on.

    Consecutive reads go on with one iterator; any other read opens a new one.

    Args:
        open_at: Called as open_at(epoch, first); returns an iterable of documents from number
            `first` of the epoch on. The same arguments give the same documents.
        fingerprint: What names the content, or None.

    Example:
        >>> source = IterableSource(lambda epoch, first: ([n] for n in range(first, 5)))
        >>> source.documents(0, 0, 2), source.documents(0, 2, 9), source.documents(0, 1, 1)
        ([[0], [1]], [[2], [3], [4]], [[1]])
    """

    def __init__(
        self,
        open_at: Callable[[int, int], Iterable[ArrayLike]],
        *,
        fingerprint: bytes | str | None = None,
    ) -> None:
        if not callable(open_at):
            raise TypeError(
                f"open_at must be called as open_at(epoch, first), got {type(open_at).__name__}"
            )
        self._open_at = open_at
        self._fingerprint = fingerprint
        self._place = (-1, -1, -1)  # process, epoch and document that the iterator gives next
        self._iterator: Iterator[ArrayLike] = iter(())

    def documents(self, epoch: int, first: int, count: int) -> list[ArrayLike]:
        """Go on with the open iterator if it stands at `first`, else open one there."""
        process = os.getpid()  # a fork shares open files with its parent, and their place
        if self._place != (process, epoch, first):
            self._iterator = iter(self._open_at(epoch, first))
        self._place = (-1, -1, -1)  # nowhere if it fails
        documents = list(islice(self._iterator, count))
        self._place = (process, epoch, first + len(documents))
        return documents

    @property
    def fingerprint(self) -> bytes | str | None:
        """As it was given."""
        return self._fingerprint

    def __getstate__(self) -> dict[str, Any]:
        """Leave the iterator to the original."""
        return self.__dict__ | {"_place": (-1, -1, -1), "_iterator": iter(())}

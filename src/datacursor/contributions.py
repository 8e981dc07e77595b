"""What an epoch consists of: samples in an order, or packed rows.

The commit protocol counts contributions and never asks what they are. A
`Contributions` object answers, as pure functions of a cursor: how many there are,
what the next ones are, and what committing them adds to the cursor.
"""

from __future__ import annotations

import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from datacursor import _core
from datacursor.checks import require_bool, require_integer, to_json
from datacursor.errors import CursorMismatchError
from datacursor.row_block import Reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.cursor import Cursor
    from datacursor.order import Order

_MAX_FILL = 8192  # indices computed ahead of the loader: 64 KiB, and 10 us at most
_MAX_DIGESTED = 65536  # indices held at a time when a large commit is digested
_LANE = 2**64
_LANES = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the positions of an epoch are dealt out to ranks and updates.

    From a committed position p, micro-batch m covers positions
    [p + m * round_size, p + (m + 1) * round_size), rank r its r-th batch_size of them:

        position  p                     p + round_size
                  | rank 0 | rank 1 | .. | rank 0 | rank 1 | ..
                  '---- micro-batch 0 ---'---- micro-batch 1 --- ..
                  '------------- one update: accumulation_steps of them -- ..

    Args:
        rank: This process, 0 <= rank < num_replicas.
        num_replicas: Processes that share the data, >= 1.
        batch_size: Contributions in a micro-batch of one rank, >= 1.
        accumulation_steps: Micro-batches in an update, >= 1.
        drop_last: Drop an incomplete last round instead of padding it.

    Raises:
        ArgumentError: A number is out of range.
        TypeError: An argument has the wrong type.
    """

    rank: int
    num_replicas: int
    batch_size: int
    accumulation_steps: int
    drop_last: bool

    def __post_init__(self) -> None:
        """Check every field; the limits keep every product below 2**63."""
        num_replicas = require_integer("num_replicas", self.num_replicas, 1, 2**20)
        limits = {
            "num_replicas": (1, 2**20),
            "rank": (0, num_replicas),
            "batch_size": (1, 2**31),
            "accumulation_steps": (1, 2**31),
        }
        for name, (low, high) in limits.items():
            # As plain ints: a NumPy integer would overflow in the products below.
            number = require_integer(name, getattr(self, name), low, high)
            object.__setattr__(self, name, number)
        require_bool("drop_last", self.drop_last)

    @property
    def round_size(self) -> int:
        """Contributions in one micro-batch of all ranks together."""
        return self.num_replicas * self.batch_size

    @property
    def update_size(self) -> int:
        """Contributions in one full update of all ranks together."""
        return self.round_size * self.accumulation_steps

    def num_micro_batches(self, num_contributions: int) -> int:
        """Return how many micro-batches each rank makes of so many contributions."""
        if self.drop_last:
            return num_contributions // self.round_size
        return -(-num_contributions // self.round_size)

    def first_of_rank(self, position: int, micro_batch: int) -> int:
        """Return the first position of this rank's micro-batch, counted from `position`."""
        return position + micro_batch * self.round_size + self.rank * self.batch_size


def add_digests(a: bytes, b: bytes) -> bytes:
    """Return the sum of two identity digests, lane by lane modulo 2**64."""
    first, second = _LANES.unpack(a)
    other_first, other_second = _LANES.unpack(b)
    return _LANES.pack((first + other_first) % _LANE, (second + other_second) % _LANE)


class Advance(NamedTuple):
    """What committing some contributions adds to a cursor."""

    digest: bytes
    num_tokens: int
    reader: tuple[int, int]


class Contributions(ABC):
    """The contributions of every epoch, as pure functions of the cursor.

    Attributes:
        base_noun: What base_size counts: "samples" or "documents".
        base_size: Number of samples or documents in the data set.
        packing_id: 0 for samples, else the id of the packing plan.
        seq_len: Tokens a row; 0 for samples.
        fingerprint: 16 bytes that name the data.
        data_unverified: The fingerprint says no more than the size does.
        order: The order of samples or documents.
    """

    base_noun: str
    packing_id: int
    seq_len: int

    def __init__(
        self, order: Order, base_size: int, fingerprint: bytes, *, data_unverified: bool
    ) -> None:
        """Keep the order and the identity of the data."""
        self.order = order
        self.base_size = base_size
        self.fingerprint = fingerprint
        self.data_unverified = data_unverified

    @property
    @abstractmethod
    def packing_parameters(self) -> dict[str, int | str | bool | None]:
        """Everything but seq_len that decides how documents become rows."""

    @abstractmethod
    def num_positions(self, cursor: Cursor) -> int:
        """Return the number of contributions in the cursor's epoch."""

    def reach(self, cursor: Cursor, position: int, reader: tuple[int, int], target: int) -> Reach:
        """Return how far the cursor's epoch surely goes: to `target` at least, or to its end.

        Costs no more than a look ahead from the position, whose reader is given.
        """
        return Reach(self.num_positions(cursor), is_end=True)

    @abstractmethod
    def advance(self, cursor: Cursor, count: int) -> Advance:
        """Return what committing the next `count` contributions adds to the cursor."""

    @abstractmethod
    def reader_at(self, cursor: Cursor, position: int) -> tuple[int, int]:
        """Return the reader's place and offset at any position of the cursor's epoch."""

    @abstractmethod
    def issue(
        self, cursor: Cursor, layout: Layout, stop: int | None = None
    ) -> Iterator[Sequence[int]]:
        """Yield the data set indices of one micro-batch of this rank after the other.

        They begin at the cursor's position and end at `stop`; None is the epoch's end.
        """

    @abstractmethod
    def digest_of(self, epoch: int, indices: Sequence[int]) -> bytes:
        """Return the identity digest of indices as `issue` yields them."""

    @abstractmethod
    def is_committed(self, cursor: Cursor, index: int) -> bool:
        """Return whether a sample or document was wholly passed in the cursor's epoch.

        What lies in a deferred range was not.
        """

    @abstractmethod
    def check_reader(self, cursor: Cursor) -> None:
        """Raise if the reader cannot stand at the cursor's position, as far as O(1) tells.

        Raises:
            CursorMismatchError: Position and reader contradict each other.
        """

    def rescale(self, cursor: Cursor) -> Cursor:
        """Return the cursor with this plan's seq_len, at the same token.

        Raises:
            CursorMismatchError: The plan cannot change its seq_len inside an epoch.
        """
        raise CursorMismatchError(
            f"seq_len cannot change inside an epoch: cursor has seq_len={cursor.seq_len} at "
            f"position {cursor.position}, the sampler seq_len={self.seq_len}"
        )

    @cached_property
    def plan_digest(self) -> bytes:
        """BLAKE2b of the order's and the packing's parameters, 16 bytes."""
        parameters = {"order": self.order.parameters, "packing": self.packing_parameters}
        text = to_json(f"parameters of {self.order!r}", parameters)
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


class SampleContributions(Contributions):
    """The samples of a map-style data set in an order."""

    base_noun = "samples"
    packing_id = 0
    seq_len = 0

    @property
    def packing_parameters(self) -> dict[str, int | str | bool | None]:
        """Samples are not packed."""
        return {}

    def num_positions(self, cursor: Cursor) -> int:
        """Return the positions of the order."""
        return self.order.num_positions(cursor.epoch)

    def advance(self, cursor: Cursor, count: int) -> Advance:
        """Return the digest of the next `count` samples; they hold no tokens."""
        digest = bytes(16)
        for done in range(0, count, _MAX_DIGESTED):
            part = min(_MAX_DIGESTED, count - done)
            indices = self.order.indices(cursor.epoch, cursor.position + done, part)
            digest = add_digests(digest, _core.digest_samples(cursor.epoch, indices))
        return Advance(digest, 0, (0, 0))

    def reader_at(self, cursor: Cursor, position: int) -> tuple[int, int]:
        """Samples have no reader."""
        return 0, 0

    def check_reader(self, cursor: Cursor) -> None:
        """Samples have no reader; the cursor itself refuses one."""

    def issue(self, cursor: Cursor, layout: Layout, stop: int | None = None) -> Iterator[list[int]]:
        """Yield lists of sample indices, a few thousand computed at a time."""
        epoch, position = cursor.epoch, cursor.position
        batch_size, round_size = layout.batch_size, layout.round_size
        stop = self.num_positions(cursor) if stop is None else stop
        num_full, rest = divmod(stop - position, round_size)
        ahead = 1  # doubled as the epoch goes on, so that the first batch comes at once
        while num_full > 0:
            ahead = min(ahead, num_full)
            out = np.empty(ahead * batch_size, dtype=np.int64)
            first = layout.first_of_rank(position, 0)
            self.order.fill_blocks(epoch, first, batch_size, round_size, out)
            indices = out.tolist()
            for start in range(0, len(indices), batch_size):
                yield indices[start : start + batch_size]
            position += ahead * round_size
            num_full -= ahead
            ahead = min(2 * ahead, max(1, _MAX_FILL // batch_size))
        if rest > 0 and not layout.drop_last:
            yield self._last_round(epoch, position, stop, layout).tolist()

    def digest_of(self, epoch: int, indices: Sequence[int]) -> bytes:
        """Return the digest of samples."""
        return _core.digest_samples(epoch, np.array(indices, dtype=np.int64))

    def is_committed(self, cursor: Cursor, index: int) -> bool:
        """Return whether a sample's position was passed, in O(1)."""
        position = self.order.position_of(cursor.epoch, index)
        is_deferred = any(first <= position < first + count for first, count in cursor.deferred)
        return position < cursor.position and not is_deferred

    def _last_round(
        self, epoch: int, position: int, stop: int, layout: Layout
    ) -> NDArray[np.int64]:
        ranges = last_round_ranges(position, stop, self.order.num_positions(epoch), layout)
        indices = [self.order.indices(epoch, part.first, part.count) for part in ranges]
        return np.concatenate(indices) if indices else np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class LastRoundRange:
    """Consecutive positions in one rank's share of an epoch's last, incomplete round."""

    first: int
    count: int
    is_padding: bool


def last_round_ranges(
    position: int, stop: int, num_positions: int, layout: Layout
) -> Iterator[LastRoundRange]:
    """Yield this rank's share of the last round before `stop`, which begins at `position`.

    What is left in [position, stop) comes first; then padding, which repeats the epoch of
    `num_positions` from its start:

        positions  position .. stop-1 | 0 1 2 ..
                   real               | padding, up to round_size in all

    One rank alone is not padded; its last batch is short.
    """
    first = layout.first_of_rank(position, 0)
    end = first + layout.batch_size
    if first < stop:
        yield LastRoundRange(first, min(end, stop) - first, is_padding=False)
    if layout.num_replicas == 1:
        return
    first = max(first, stop)
    while first < end:
        start = (first - stop) % num_positions
        count = min(end - first, num_positions - start)
        yield LastRoundRange(start, count, is_padding=True)
        first += count

"""Slow, plain restatement of the definitions: orders, digest, packing, batches, sampler.

The oracle of the tests. It is written from the specification alone, in Python integers, shares no
code with the package, and prefers the obvious form to the fast one. Where the text of a definition
leaves a choice, a comment that begins with "Reading:" names the choice taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, groupby, pairwise
from typing import Any, Literal

MASK64 = 2**64 - 1

# -- Philox4x64-10 (Salmon et al., SC'11) ----------------------------------------------------------

Block = tuple[int, int, int, int]

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def philox4x64_10(counter: Block, key: tuple[int, int]) -> Block:
    """Return the four output words of one block."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(c0 * _MULTIPLIERS[0], 2**64)
        high1, low1 = divmod(c2 * _MULTIPLIERS[1], 2**64)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & MASK64, (k1 + _WEYL[1]) & MASK64
    return c0, c1, c2, c3


# -- Streams of numbers ----------------------------------------------------------------------------

SHUFFLE_ID = 1
KEY_STREAM = 0
OFFSET_STREAM = 0xFFFF


def words(
    seed: int, epoch: int, stream: int, num_samples: int, order_id: int = SHUFFLE_ID
) -> Iterator[int]:
    """Yield the 64-bit words of one stream of an order, without end.

    Reading: the order id in counter word 3 is the id kept in the cursor, 1 for shuffle-1.
    """
    for block in count():
        yield from philox4x64_10((block, stream, num_samples, order_id), (seed, epoch))


def halves(stream: Iterator[int]) -> Iterator[int]:
    """Yield each 64-bit word as two 32-bit numbers, the low half first."""
    for word in stream:
        yield word & 0xFFFFFFFF
        yield word >> 32


def bounded(stream: Iterator[int], bound: int) -> int:
    """Draw a number of [0, bound), each equally likely (Lemire 2019).

    Reading: a rejected word is consumed; the next word of the same stream is tried.
    """
    while True:
        product = next(stream) * bound
        if product % 2**64 >= (2**64 - bound) % bound:
            return product // 2**64


# -- shuffle-1 -------------------------------------------------------------------------------------

TABLE_LIMIT = 4096


@lru_cache(maxsize=8)
def shuffle_table(
    num_samples: int,
    seed: int,
    epoch: int,
    order_id: int = SHUFFLE_ID,
    key_stream: int = KEY_STREAM,
) -> tuple[list[int], list[int]]:
    """Return position -> index of a small shuffle (Fisher-Yates), and its inverse.

    Reading: bounded(i + 1) takes words of stream 0 from word 0 on, one after another over all i.
    """
    stream = words(seed, epoch, key_stream, num_samples, order_id)
    table = list(range(num_samples))
    for i in range(num_samples - 1, 0, -1):
        j = bounded(stream, i + 1)
        table[i], table[j] = table[j], table[i]
    inverse = [0] * num_samples
    for position, index in enumerate(table):
        inverse[index] = position
    return table, inverse


@dataclass(frozen=True)
class Network:
    """The keyed permutation of a large shuffle: a Feistel network on a mixed-radix domain."""

    num_samples: int
    left_size: int
    right_bits: int
    width: int
    multipliers: tuple[int, int]
    shift: int
    round_keys: tuple[int, ...]
    swap: bool
    offset: int

    @classmethod
    @lru_cache(maxsize=8)
    def of(
        cls,
        num_samples: int,
        seed: int,
        epoch: int,
        order_id: int = SHUFFLE_ID,
        key_stream: int = KEY_STREAM,
        offset_stream: int = OFFSET_STREAM,
    ) -> Network:
        """Draw the keys of one epoch.

        Reading: "bounded(n) from word 1 on" counts 64-bit words of stream 0xFFFF, so the upper 63
        bits of word 0 are never used; k_i is the 32-bit number i of stream 0 at both widths.
        """
        right_bits = ((num_samples - 1).bit_length() + 1) // 2
        narrow = num_samples <= 2**31
        keys = halves(words(seed, epoch, key_stream, num_samples, order_id))
        extra = words(seed, epoch, offset_stream, num_samples, order_id)
        swap = next(extra) % 2 == 1
        return cls(
            num_samples=num_samples,
            left_size=-(-num_samples // (1 << right_bits)),
            right_bits=right_bits,
            width=16 if narrow else 32,
            multipliers=(0x88B5, 0xDB2D) if narrow else (0x7FEB352D, 0x846CA68B),
            shift=7 if narrow else 15,
            round_keys=tuple(next(keys) for _ in range(10 if narrow else 8)),
            swap=swap,
            offset=bounded(extra, num_samples),
        )

    def mix(self, x: int, key: int) -> int:
        mask = (1 << self.width) - 1
        x ^= key & mask
        x = x * self.multipliers[0] & mask
        x ^= x >> self.shift
        return x * self.multipliers[1] & mask

    def step(self, i: int, left: int, right: int, sign: int) -> tuple[int, int]:
        """Apply round i (sign +1) or undo it (sign -1)."""
        if i % 2 == 0:
            term = self.mix(left, self.round_keys[i]) >> (self.width - self.right_bits)
            return left, right ^ term
        term = self.mix(right, self.round_keys[i]) * self.left_size >> self.width
        return (left + sign * term) % self.left_size, right

    def encrypt(self, value: int) -> int:
        left, right = divmod(value, 1 << self.right_bits)
        for i in range(len(self.round_keys)):
            left, right = self.step(i, left, right, 1)
        return (left << self.right_bits) + right

    def decrypt(self, value: int) -> int:
        left, right = divmod(value, 1 << self.right_bits)
        for i in reversed(range(len(self.round_keys))):
            left, right = self.step(i, left, right, -1)
        return (left << self.right_bits) + right

    def exchange(self, position: int) -> int:
        return 1 - position if self.swap and position < 2 else position

    def index_at(self, position: int) -> int:
        """Reading: exchange positions 0 and 1 first, rotate second, both once before the walk."""
        value = self.encrypt((self.exchange(position) + self.offset) % self.num_samples)
        while value >= self.num_samples:
            value = self.encrypt(value)
        return value

    def position_of(self, index: int) -> int:
        value = self.decrypt(index)
        while value >= self.num_samples:
            value = self.decrypt(value)
        return self.exchange((value - self.offset) % self.num_samples)


@dataclass(frozen=True)
class Permutation:
    """The permutation of [0, num_samples) that one key names, by table or by network."""

    num_samples: int
    seed: int
    epoch: int
    order_id: int = SHUFFLE_ID
    key_stream: int = KEY_STREAM
    offset_stream: int = OFFSET_STREAM

    def index_at(self, position: int) -> int:
        return self._table()[0][position] if self._small() else self._network().index_at(position)

    def position_of(self, index: int) -> int:
        return self._table()[1][index] if self._small() else self._network().position_of(index)

    def _small(self) -> bool:
        return self.num_samples <= TABLE_LIMIT

    def _table(self) -> tuple[list[int], list[int]]:
        key = (self.seed, self.epoch, self.order_id, self.key_stream)
        return shuffle_table(self.num_samples, *key)

    def _network(self) -> Network:
        key = (self.seed, self.epoch, self.order_id, self.key_stream, self.offset_stream)
        return Network.of(self.num_samples, *key)


@dataclass(frozen=True)
class Shuffle:
    """shuffle-1 with the methods every order has."""

    num_samples: int
    seed: int = 0

    def num_positions(self, epoch: int) -> int:
        return self.num_samples

    def index_at(self, epoch: int, position: int) -> int:
        return Permutation(self.num_samples, self.seed, epoch).index_at(position)

    def position_of(self, epoch: int, index: int) -> int:
        return Permutation(self.num_samples, self.seed, epoch).position_of(index)

    def indices(self, epoch: int, first: int, count: int) -> Sequence[int]:
        return [self.index_at(epoch, position) for position in range(first, first + count)]

    def fill(self, epoch: int, first: int, out: MutableSequence[int]) -> None:
        out[:] = self.indices(epoch, first, len(out))


# -- Identity digest -------------------------------------------------------------------------------

Span = tuple[int, int, int]


def digest(epoch: int, elements: Iterable[Span]) -> tuple[int, int]:
    """Return both lanes of the multiset hash over (element, start, stop); a sample has 0, 0."""
    blocks = [philox4x64_10((epoch, *element), (0, 0)) for element in elements]
    return sum(block[0] for block in blocks) % 2**64, sum(block[1] for block in blocks) % 2**64


# -- Random numbers of a sample --------------------------------------------------------------------


def sample_blocks(seed: int, epoch: int, index: int, stream: str) -> Iterator[Block]:
    """Yield the blocks of one sample: first that of its seed, then those of its generator."""
    name = hashlib.blake2b(stream.encode(), digest_size=8, person=b"datacursor.rng").digest()
    key = (seed, int.from_bytes(name, "little") | 1 << 63)
    for block in count():
        yield philox4x64_10((block & MASK64, block >> 64, index, epoch), key)


# -- Packing: concat -------------------------------------------------------------------------------

Reader = tuple[int, int]


@dataclass(frozen=True)
class Row:
    """The spans of one row, and the reader (place in the order, token offset) it leaves behind."""

    spans: list[Span]
    reader: Reader


def concat(
    lengths: Sequence[int],
    order: Sequence[int],
    seq_len: int,
    *,
    tail: Literal["drop", "pad"],
    num_virtual: int = 0,
    keep_empty: bool = False,
    phase: int = 0,
) -> list[Row]:
    """Join the documents in the given order and cut them every seq_len tokens.

    Offsets count the num_virtual (bos, eos) tokens of each document. An empty document has none of
    them unless keep_empty. With a phase, row k begins at token k * seq_len - phase; row 0 is then a
    fragment, which no run delivers because the epoch was past it when seq_len changed.

    Reading: the reader stands just behind the last token taken. Behind a padded last row it could
    as well stand behind empty documents that end the order; no cursor shows it, the epoch is over.
    """
    sizes = [size + num_virtual if size or keep_empty else 0 for size in lengths]
    tokens = [
        (place, document, offset)
        for place, document in enumerate(order)
        for offset in range(sizes[document])
    ]
    whole, rest = divmod(len(tokens) + phase, seq_len)
    rows = []
    for k in range(whole + (tail == "pad" and rest > 0)):
        taken = tokens[max(0, k * seq_len - phase) : (k + 1) * seq_len - phase]
        spans = []
        for (_, document), group in groupby(taken, key=lambda token: token[:2]):
            offsets = [offset for _, _, offset in group]
            spans.append((document, offsets[0], offsets[-1] + 1))
        place, document, offset = taken[-1]
        at_end = offset + 1 == sizes[document]
        rows.append(Row(spans, (place + 1, 0) if at_end else (place, offset + 1)))
    return rows


# -- Packing: what a batch holds -------------------------------------------------------------------

IGNORE = -100


def batch(
    documents: Sequence[Sequence[int]],
    rows: Sequence[Sequence[Span]],
    seq_len: int,
    *,
    bos: int | None = None,
    eos: int | None = None,
    pad: int = 0,
    labels: Literal["shifted", "hf"] = "shifted",
    positions: Literal["segment", "document"] = "segment",
    align: int = 1,
    longest: int | None = None,
    padding_rows: Sequence[int] = (),
) -> dict[str, Any]:
    """Build every field of one batch from its rows of spans, as nested lists and integers.

    A document ends after its `longest` tokens, bos and eos included: nothing behind is a label.

    Reading: positions go on in align padding. They restart at 0 in the row's padding under both
    settings; max_seqlen counts the padding segment, as the attention kernel walks it too. A row of
    padding_rows (a repeat that fills the last round) keeps its input ids and is otherwise one
    padding segment.
    """
    names = ("input_ids", "labels", "position_ids", "segment_ids", "loss_mask")
    fields: dict[str, Any] = {name: [] for name in names}
    boundaries = [0]
    for number, spans in enumerate(rows):
        cells: list[tuple[int, int, int, int, bool]] = []
        ends = []
        for segment, (document, start, stop) in enumerate(spans):
            text = [token for token in (bos, *documents[document], eos) if token is not None]
            text = text[:longest]
            for place in range(start, stop):
                target = place + 1 if labels == "shifted" else place
                known = target < len(text) if labels == "shifted" else place > start
                label = text[target] if known else IGNORE
                position = place if positions == "document" else place - start
                cells.append((text[place], label, position, segment, known))
            for place in range(stop, stop + -(stop - start) % align):
                position = place if positions == "document" else place - start
                cells.append((pad, IGNORE, position, segment, False))
            ends.append(len(cells))
        cells += [(pad, IGNORE, j, -1, False) for j in range(seq_len - len(cells))]
        if number in padding_rows:
            cells = [(cell[0], IGNORE, j, -1, False) for j, cell in enumerate(cells)]
            ends = []
        boundaries += [number * seq_len + end for end in ends if end < seq_len]
        boundaries.append((number + 1) * seq_len)
        for name, column in zip(names, zip(*cells, strict=True), strict=True):
            fields[name].append(list(column))
    offsets = [sum(len(spans) for spans in rows[:number]) for number in range(len(rows) + 1)]
    return fields | {
        "cu_seqlens": boundaries,
        "max_seqlen": max(stop - start for start, stop in pairwise(boundaries)),
        "num_targets": sum(map(sum, fields["loss_mask"])),
        "spans": [span for spans in rows for span in spans],
        "row_offsets": offsets,
    }


# -- Sampler: layout over ranks and commit arithmetic ----------------------------------------------

Slot = tuple[int, bool]
"""A position of the epoch's order, and whether it stands there only as padding."""


@dataclass(frozen=True)
class Layout:
    """What a sampler does, in positions of the order alone."""

    num_samples: int
    num_replicas: int
    batch_size: int
    accumulation_steps: int = 1
    drop_last: bool = False

    @property
    def round_size(self) -> int:
        return self.num_replicas * self.batch_size

    def num_rounds(self, position: int) -> int:
        """Return the micro-batches each rank still gets in this epoch."""
        whole, rest = divmod(self.num_samples - position, self.round_size)
        return whole + (rest > 0 and not self.drop_last)

    def start(self, epoch: int, position: int) -> tuple[int, int]:
        """Return where iteration begins: in the next epoch when this one has no round left."""
        return (epoch, position) if self.num_rounds(position) else (epoch + 1, 0)

    def rounds(self, position: int) -> list[list[list[Slot]]]:
        """Return the slots of every round left, per rank.

        Reading: padding j, counted from 0 over the whole round, repeats position j mod n. A single
        rank gets a short batch instead.
        """
        result = []
        for _ in range(self.num_rounds(position)):
            stop = min(position + self.round_size, self.num_samples)
            slots = [(p, False) for p in range(position, stop)]
            if self.num_replicas > 1:
                missing = self.round_size - len(slots)
                slots += [(j % self.num_samples, True) for j in range(missing)]
            size = self.batch_size
            result.append([slots[r * size : (r + 1) * size] for r in range(self.num_replicas)])
            position = stop
        return result

    def updates(self, position: int) -> list[tuple[int, int]]:
        """Return the range of positions of every update left; the last may be smaller."""
        num_rounds = self.num_rounds(position)
        starts = range(0, num_rounds, self.accumulation_steps)
        edges = [
            min(position + k * self.round_size, self.num_samples) for k in (*starts, num_rounds)
        ]
        return list(pairwise(edges))

    def commit(self, epoch: int, position: int, micro_batches: int) -> tuple[int, int]:
        """Return the cursor after committing that many micro-batches per rank."""
        epoch, position = self.start(epoch, position)
        assert micro_batches <= self.num_rounds(position)
        stop = min(position + micro_batches * self.round_size, self.num_samples)
        return self.start(epoch, stop)

"""A digest of what a token corpus says, whatever layout says it.

The corpus is taken as one logical stream: its documents one after another, every token widened
to a little-endian int64. Chunks, record batches, list or large_list and the integer width do
not enter, so a corpus that is rewritten keeps its fingerprint.

Part of the persistent format: cursors hold fingerprints. Add a version, never change one.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from datacursor.shards import TokenShard, join_documents

NUM_BYTES = 16
WHOLE_TOKENS = 2**20  # corpora up to this many tokens are hashed whole
NUM_BLOCKS = 64
BLOCK_TOKENS = 1024

Progress: TypeAlias = Callable[[int, int], None]

_VERSION = b"datacursor corpus 1\0"
_READ_TOKENS = 2**20


def fingerprint_shards(
    shards: Sequence[TokenShard],
    *,
    full: bool = False,
    progress: Progress | None = None,
    check: Callable[[], None] = lambda: None,
) -> bytes:
    """Return BLAKE2b-128 over the number of documents, their lengths, and tokens.

    Args:
        shards: The corpus, in order.
        full: Hash every token; otherwise sampled: all tokens up to `WHOLE_TOKENS`, and above
            it the blocks of `sampled_blocks`. Up to that limit both give the same.
        progress: Called with (tokens hashed, tokens to hash) after every read.
        check: Called before every read; raises if memory may no longer be read.
    """
    stream = TokenStream(shards)
    counts = (sum(len(shard.begins) for shard in shards), stream.num_tokens)
    prefix = _VERSION + np.array(counts, dtype="<i8").tobytes()
    digest = hashlib.blake2b(prefix, digest_size=NUM_BYTES)
    for shard in shards:
        check()
        digest.update(shard.lengths().astype("<i8", copy=False).data)
    if full or stream.num_tokens <= WHOLE_TOKENS:
        blocks = _consecutive_blocks(stream.num_tokens)
    else:
        blocks = sampled_blocks(prefix, stream.num_tokens)
    num_tokens = sum(stop - first for first, stop in blocks)
    num_done = 0
    for first, stop in blocks:
        check()
        for tokens in stream.read(first, stop):
            digest.update(tokens.astype("<i8", copy=False).data)
        num_done += stop - first
        if progress is not None:
            progress(num_done, num_tokens)
    return digest.digest()


def sampled_blocks(prefix: bytes, num_tokens: int) -> list[tuple[int, int]]:
    """Return the stretches [first, stop) of the token stream that a sampled fingerprint hashes.

    One block of `BLOCK_TOKENS` lies in each of `NUM_BLOCKS` equal stretches, at a place that
    depends on the counts in ``prefix`` alone.
    """
    blocks = []
    for number in range(NUM_BLOCKS):
        low = number * num_tokens // NUM_BLOCKS
        high = (number + 1) * num_tokens // NUM_BLOCKS
        draw = hashlib.blake2b(prefix + number.to_bytes(8, "little"), digest_size=8).digest()
        first = low + int.from_bytes(draw, "little") % (high - low - BLOCK_TOKENS + 1)
        blocks.append((first, first + BLOCK_TOKENS))
    return blocks


def _consecutive_blocks(num_tokens: int) -> list[tuple[int, int]]:
    return [
        (first, min(first + _READ_TOKENS, num_tokens))
        for first in range(0, num_tokens, _READ_TOKENS)
    ]


class TokenStream:
    """The tokens of all shards as one stream, document after document, read by position.

    Attributes:
        num_tokens: Length of the stream.
    """

    def __init__(self, shards: Sequence[TokenShard]) -> None:
        """Take the shards; costs one pass over the extents."""
        self._shards = shards
        counts = (int(shard.lengths().sum()) for shard in shards)
        self._starts = list(accumulate(counts, initial=0))
        self.num_tokens = self._starts[-1]
        self._stops_of = -1  # the shard that _stops belongs to
        self._stops: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def read(self, first: int, stop: int) -> Iterator[NDArray[np.int64]]:
        """Yield the tokens [first, stop) as int64, in one array a shard.

        Reading forward is cheap; each change of shard costs a pass over its extents.
        """
        number = bisect_right(self._starts, first) - 1
        while first < stop:
            start, shard_stop = self._starts[number], self._starts[number + 1]
            end = min(stop, shard_stop)
            if first < end:
                yield self._read_shard(number, first - start, end - start)
                first = end
            number += 1

    def _read_shard(self, number: int, first: int, stop: int) -> NDArray[np.int64]:
        shard = self._shards[number]
        if self._stops_of != number:
            self._stops = np.cumsum(shard.lengths())
            self._stops_of = number
        low = int(np.searchsorted(self._stops, first, side="right"))
        high = int(np.searchsorted(self._stops, stop, side="left")) + 1
        begins = shard.begins[low:high].astype(np.int64)
        ends = shard.ends[low:high].astype(np.int64)
        begins[0] = ends[0] - (int(self._stops[low]) - first)
        ends[-1] -= int(self._stops[high - 1]) - stop
        return join_documents(shard.tokens, begins, ends).astype(np.int64, copy=False)

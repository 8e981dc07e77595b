"""The network of shuffle-1 in NumPy, with parameters, so that each can be spoilt by itself.

Written from the definition, for whole arrays of positions at once. With the default design it
equals `datacursor.Shuffle` above 4096 samples; a broken order differs from it in its design alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.integer[Any]]

SHUFFLE_ID = 1
ROUND_STREAM = 0
TWEAK_STREAM = 0xFFFF


@dataclass(frozen=True)
class Word:
    """A word size of the mixer, with the multipliers and the shift that belong to it."""

    bits: int
    first: int
    shift: int
    second: int
    num_rounds: int


NARROW = Word(bits=16, first=0x88B5, shift=7, second=0xDB2D, num_rounds=10)
WIDE = Word(bits=32, first=0x7FEB352D, shift=15, second=0x846CA68B, num_rounds=8)

Mixer = Callable[[Words, int, Word], Words]


def multiply_xorshift(x: Words, key: int, word: Word) -> Words:
    """The mixer of shuffle-1."""
    mask = (1 << word.bits) - 1
    x = ((x ^ (key & mask)) * word.first) & mask
    x ^= x >> word.shift
    return (x * word.second) & mask


def affine(x: Words, key: int, word: Word) -> Words:
    """Multiply and add only: no bit of the result depends on a higher bit of x."""
    mask = (1 << word.bits) - 1
    return (x * word.first + (key & mask)) & mask


def separate(seed: int, epoch: int) -> tuple[int, int]:
    """The Philox key of shuffle-1."""
    return seed, epoch


def summed(seed: int, epoch: int) -> tuple[int, int]:
    """The sum that makes epoch 1 of seed 0 and epoch 0 of seed 1 the same order."""
    return (seed + epoch) % 2**64, 0


@dataclass(frozen=True)
class Design:
    """What a network is made of; the defaults are those of shuffle-1.

    Attributes:
        num_rounds: Rounds of the network; None for the number that belongs to the word size.
        mixer: The round function.
        balanced: Both halves are of the same number of bits and joined by exclusive or, and
            positions are neither exchanged nor rotated before.
        philox_key: (seed, epoch) -> Philox key.
    """

    num_rounds: int | None = None
    mixer: Mixer = multiply_xorshift
    balanced: bool = False
    philox_key: Callable[[int, int], tuple[int, int]] = separate


class Network:
    """A keyed permutation of [0, num_samples) by a Feistel network of the given design."""

    def __init__(self, num_samples: int, seed: int, design: Design = Design()) -> None:
        self.num_samples = num_samples
        self._seed = seed
        self._design = design
        self._word = NARROW if num_samples <= 2**31 else WIDE
        self._right_bits = ((num_samples - 1).bit_length() + 1) // 2
        self._num_rows = -(-num_samples // (1 << self._right_bits))
        if design.balanced:
            self._num_rows = 1 << self._right_bits

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        """Write the indices at positions [first, first + len(out)) of one epoch."""
        key = self._design.philox_key(self._seed, epoch)
        positions: Words = np.arange(first, first + len(out), dtype=np.uint64)
        if not self._design.balanced:
            positions = self._rotate(key, positions)
        round_keys = self._round_keys(key)
        values = self._encrypt(round_keys, positions)
        while len(outside := np.flatnonzero(values >= self.num_samples)):
            values[outside] = self._encrypt(round_keys, values[outside])
        out[:] = values

    def _rotate(self, key: tuple[int, int], positions: Words) -> Words:
        words = philox_words(key, TWEAK_STREAM, self.num_samples)
        if next(words) & 1:
            positions = np.where(positions < 2, positions ^ 1, positions)
        room = self.num_samples - bounded(words, self.num_samples)
        return np.where(positions < room, positions + (self.num_samples - room), positions - room)

    def _round_keys(self, key: tuple[int, int]) -> list[int]:
        words = philox_words(key, ROUND_STREAM, self.num_samples)
        num_rounds = self._design.num_rounds or self._word.num_rounds
        keys: list[int] = []
        while len(keys) < num_rounds:
            word = next(words)
            keys += [word & 0xFFFFFFFF, word >> 32]
        return keys[:num_rounds]

    def _encrypt(self, round_keys: list[int], values: Words) -> Words:
        word, right_bits = self._word, self._right_bits
        left, right = values >> right_bits, values & ((1 << right_bits) - 1)
        for i, key in enumerate(round_keys):
            mixed = self._design.mixer(right if i % 2 else left, key, word)
            if i % 2 == 0:
                right = right ^ (mixed >> (word.bits - right_bits))
            elif self._design.balanced:
                left = left ^ (mixed >> (word.bits - right_bits))
            else:
                left = (left + (mixed * self._num_rows >> word.bits)) % self._num_rows
        return left << right_bits | right


def philox_words(key: tuple[int, int], stream: int, num_samples: int) -> Iterator[int]:
    """Yield the words of one stream: blocks of Philox4x64-10 at counters (0.., stream, n, id)."""
    counter = stream << 64 | num_samples << 128 | SHUFFLE_ID << 192
    # NumPy adds 1 to the whole counter before each block.
    generator: Any = np.random.Philox(key=key[0] | key[1] << 64, counter=counter - 1)
    while True:
        yield from generator.random_raw(4).tolist()


def bounded(words: Iterator[int], bound: int) -> int:
    """Draw a number of [0, bound), each equally likely (Lemire 2019)."""
    while True:
        product = next(words) * bound
        if product % 2**64 >= (2**64 - bound) % bound:
            return product // 2**64

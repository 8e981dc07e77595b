"""Random numbers of a sample, as a pure function of (seed, stream, epoch, index).

Augmentation that draws from a worker's stream depends on the number of workers, and nothing saves
that stream. Here every sample has numbers of its own in every epoch, so they are equal for any
number of workers, any prefetch and after any restart, and nothing needs to be saved.

Philox4x64-10 with key (seed, word of the stream), part of the persistent format; add, never
change. A sample owns the 2**128 counters that end in its (index, epoch):

    counter words 0, 1   2, 3
                  0, 0   index, epoch    sample_seed
                  1, 0   index, epoch    first block of sample_generator, and so on upwards

Two samples could overlap only after 2**128 - 1 blocks. The word of a stream is BLAKE2b of its
name with the top bit set, which no order uses as key: its words there are epochs.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from datacursor import _core
from datacursor.checks import MAX_COUNT, MAX_EPOCH, MAX_SEED, require_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

AUGMENT = "augment"

_PERSON = b"datacursor.rng"
_MAX_STREAMS = 128  # kept ready; a program has one or two


def sample_generator(
    seed: int, epoch: int, index: int, stream: str = AUGMENT
) -> np.random.Generator:
    """Return the random numbers of one sample in one epoch, from their beginning.

    Its bits are the same on every platform and release, of numpy too; numpy keeps the right to
    change in a release what `normal` and the other distributions make of them.

    Args:
        seed: 0 <= seed < 2**64; may be the sampler's.
        epoch: Pass over the data, 0 <= epoch < 2**40.
        index: Of the sample in its data set (or of a packed row in its epoch), >= 0.
        stream: Name of what the numbers are for; each name has numbers of its own.

    Raises:
        ArgumentError: seed, epoch or index is out of range.
        TypeError: An argument has the wrong type.

    Example:
        >>> noise = sample_generator(7, epoch=2, index=31).random(2)
        >>> bool((noise == sample_generator(7, epoch=2, index=31).random(2)).all())
        True

    Source:
        Philox: Salmon et al., SC'11, as in `numpy.random.Philox`.
    """
    key, epoch, index = _checked(seed, epoch, index, stream)
    counter = np.array((0, 0, index, epoch), dtype=np.uint64)
    return np.random.Generator(
        np.random.Philox(key, counter=counter)  # type: ignore[arg-type]  # any ISeedSequence
    )


def sample_seed(seed: int, epoch: int, index: int, stream: str = AUGMENT) -> int:
    """Return a seed for one sample in one epoch, for generators that take a number.

    It shares nothing with the numbers of `sample_generator`. Arguments and errors as there.

    Returns:
        A number in [0, 2**63). torch's CPU generators look at its low 32 bits only.
    """
    return sample_words(seed, epoch, index, stream)[0] >> 1


def sample_words(seed: int, epoch: int, index: int, stream: str) -> tuple[int, int, int, int]:
    """Return the 64-bit words whose first one makes `sample_seed`. Arguments as there."""
    key, epoch, index = _checked(seed, epoch, index, stream)
    return _core.philox((0, 0, index, epoch), key.words)


class _Key(ISeedSequence):
    """A key in the form in which numpy takes one without drawing entropy, five times as fast."""

    def __init__(self, seed: int, stream: str) -> None:
        digest = hashlib.blake2b(stream.encode(), digest_size=8, person=_PERSON).digest()
        self.words = (seed, 2**63 | int.from_bytes(digest, "little"))

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        return np.array(self.words, dtype=np.uint64)  # Philox asks for two words of this type


@lru_cache(_MAX_STREAMS)
def _key(seed: int, stream: str) -> _Key:
    return _Key(seed, stream)


def _checked(seed: int, epoch: int, index: int, stream: str) -> tuple[_Key, int, int]:
    seed = require_integer("seed", seed, 0, MAX_SEED)
    epoch = require_integer("epoch", epoch, 0, MAX_EPOCH)
    index = require_integer("index", index, 0, MAX_COUNT)
    if not isinstance(stream, str):
        raise TypeError(f"stream must be a str, got stream={stream!r}")
    return _key(seed, stream), epoch, index

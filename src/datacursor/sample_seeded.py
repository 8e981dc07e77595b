"""`SampleSeeded`: a data set whose augmentation is the same after any restart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from datacursor.checks import MAX_COUNT, MAX_EPOCH, MAX_SEED, require_choice, require_integer
from datacursor.errors import ArgumentError
from datacursor.issuing import IssuedIndex
from datacursor.rng import AUGMENT, sample_generator, sample_words
from datacursor.rows import RowBatch, RowDataset
from datacursor.sampler import CursorSampler

Transform = Callable[[Any, Any], Any]


class SampleSeeded(Dataset[Any]):
    """A data set whose samples draw the same random numbers wherever and whenever they are read.

    What sample i draws in epoch e depends on (seed, stream, e, i) alone: not on the number of
    workers, on prefetch, on other samples or on a restart, so nothing of it has to be saved. The
    sampler writes the epoch on every index that it issues, and a worker reads it there.

    Under `Mixture`, `Weighted` and other orders that repeat a sample within an epoch, by="position"
    lets every repetition draw anew: the position in the epoch takes the place of i.

    There are two ways to draw:

        no transform    python's, numpy's and torch's global CPU streams are seeded before each
                        `dataset[index]` and put back after the batch, so that any data set and
                        transform is right as it is. Generators that it makes itself from entropy
                        are out of reach.
        transform       transform(dataset[index], generator), with a `numpy.random.Generator`;
                        no global stream is touched. Faster.

    Not thread safe, as the global streams are not.

    Args:
        dataset: A map-style data set, or `PackedSampler.dataset`, which is read a batch at a time:
            there, transform(batch, generators) is given one generator for each row.
        sampler: The `CursorSampler` of the loader that reads this data set. From now on its indices
            carry their epochs.
        seed: 0 <= seed < 2**64.
        stream: Name of what the numbers are for, as in `sample_generator`.
        transform: What draws; pickled for workers. None: the data set does.
        by: "index" or "position". A packed row is known by its position in either case.

    Raises:
        ArgumentError: seed is out of range, the sampler is of other data, or packed rows have no
            transform.
        TypeError: An argument has the wrong type.

    Example:
        >>> from datacursor import CursorLoader
        >>> def add_noise(sample, generator):
        ...     return sample + generator.normal()
        >>> sampler = CursorSampler(4, batch_size=2)
        >>> noisy = SampleSeeded(range(4), sampler, transform=add_noise)
        >>> batch = next(iter(CursorLoader(noisy, sampler=sampler)))
        >>> [index] = sampler.indices_of(epoch=0, update=0)[:1]
        >>> float(batch[0]) == noisy.sample(epoch=0, index=int(index))
        True
    """

    def __init__(
        self,
        dataset: Any,
        sampler: CursorSampler,
        seed: int = 0,
        stream: str = AUGMENT,
        *,
        transform: Transform | None = None,
        by: str = "index",
    ) -> None:
        if not isinstance(sampler, CursorSampler):
            raise TypeError(f"sampler must be a CursorSampler, got {type(sampler).__name__}")
        if len(dataset) != sampler.dataset_size:
            raise ArgumentError(
                f"dataset must be the sampler's: len(dataset)={len(dataset)}, "
                f"len(sampler.dataset)={sampler.dataset_size}"
            )
        if not isinstance(stream, str):
            raise TypeError(f"stream must be a str, got stream={stream!r}")
        if not (transform is None or callable(transform)):
            raise TypeError(f"transform must be callable or None, got transform={transform!r}")
        if transform is None and isinstance(dataset, RowDataset):
            raise ArgumentError("packed rows draw nothing themselves: transform must be given")
        self.dataset = dataset
        self.seed = require_integer("seed", seed, 0, MAX_SEED)
        self.stream = stream
        self.transform = transform
        self.by = require_choice("by", by, ("index", "position"))
        sampler._tracker.marks_places = True

    def __len__(self) -> int:
        """Return the length of the data set."""
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        """Return one sample, or a batch of one packed row.

        Raises:
            TypeError: index does not know its epoch.
        """
        [sample] = self.__getitems__([index])
        return sample

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return several samples, or in a list of one the collated batch of packed rows.

        Raises:
            TypeError: An index does not know its epoch.
        """
        places = [self._place_of(index) for index in indices]
        if self.transform is None:
            return self._read_seeded(indices, places)
        generators = [sample_generator(self.seed, *place, self.stream) for place in places]
        samples = self._read(indices)
        if len(samples) == 1 and isinstance(samples[0], RowBatch):
            return [RowBatch(self.transform(samples[0], generators))]
        pairs = zip(samples, generators, strict=True)
        return [self.transform(sample, generator) for sample, generator in pairs]

    def sample(self, epoch: int, index: int, position: int | None = None) -> Any:
        """Return a sample as training sees it in an epoch.

        Args:
            epoch: Pass over the data.
            index: Of the sample, 0 <= index < len.
            position: In the epoch's order; needed by="position".

        Raises:
            ArgumentError: There is no such epoch or sample.
            TypeError: The position is missing, or the data set is of packed rows, which their
                spans make, not their numbers.
        """
        if position is None:
            if self.by == "position":
                raise TypeError('position must be given: by="position"')
            position = 0
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH)
        index = require_integer("index", index, 0, len(self))
        position = require_integer("position", position, 0, MAX_COUNT)
        return self[IssuedIndex(index, epoch, position)]

    def _place_of(self, index: int) -> tuple[int, int]:
        """Return the epoch of an index and the number it draws by."""
        epoch: int | None = getattr(index, "epoch", None)
        if epoch is None:
            raise TypeError(
                f"a sample draws by its epoch, which {type(index).__name__} {index!r} does not "
                "know: read SampleSeeded with a loader of the sampler it was made with, with "
                "nothing like Subset between them; sample(epoch, index) reads one by hand"
            )
        number: int = index if self.by == "index" else getattr(index, "position", index)
        return epoch, number

    def _read(self, indices: Sequence[int]) -> Sequence[Any]:
        read_several = getattr(self.dataset, "__getitems__", None)
        if read_several is not None:
            samples: Sequence[Any] = read_several(indices)
            return samples
        return [self.dataset[index] for index in indices]

    def _read_seeded(self, indices: Sequence[int], places: Sequence[tuple[int, int]]) -> list[Any]:
        samples = []
        with _global_streams_put_back():
            for index, place in zip(indices, places, strict=True):
                _seed_global_streams(sample_words(self.seed, *place, self.stream))
                samples.append(self.dataset[index])
        return samples


# Numpy's global stream is the one that data sets draw from, so NPY002 is beside the point.


@contextmanager
def _global_streams_put_back() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
    default = torch.default_generator.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.default_generator.set_state(default)


def _seed_global_streams(words: tuple[int, int, int, int]) -> None:
    # Words of their own: numpy and torch would make the same stream of the same number.
    torch.default_generator.manual_seed(words[0] >> 1)  # torch's `sample_seed`
    random.seed(words[1])
    np.random.seed(words[2] & 0xFFFF_FFFF)  # noqa: NPY002

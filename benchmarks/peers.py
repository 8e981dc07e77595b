"""What a PyTorch user has without datacursor, each peer by its own best means."""

from __future__ import annotations

import ctypes
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from ways import Place, Saved, Way, listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

# One thread for everybody: torch.randperm gains nothing from more and loses on a busy machine.
torch.set_num_threads(1)

# torchdata 0.11 calls what torch 2.13 deprecates, each time a loader is built.
warnings.filterwarnings("ignore", message=".*set_vital.*", category=UserWarning)


def skip_in_sampler() -> Way:
    """Return the fastest skip that leaves torch's sampler in place."""
    return Way(
        "RandomSampler + islice",
        "draws the epoch's permutation, makes it a list of ints, skips `position` of them",
        _save_generator,
        _resume_sampler,
    )


def slice_permutation() -> Way:
    """Return what remains when the user throws torch's sampler away."""
    return Way(
        "torch.randperm, sliced",
        "draws the epoch's permutation as a tensor and reads one element; no sampler is left",
        _save_generator,
        _resume_permutation,
    )


def skip_in_loader() -> Way:
    """Return torch's own way: build the loader, iterate, skip."""
    return Way(
        "DataLoader, batches skipped",
        "builds loader and RandomSampler, fetches and drops `position / batch_size` batches",
        _save_generator,
        _resume_loader,
    )


def stateful_loader() -> Way:
    """Return torchdata's StatefulDataLoader with its own RandomSampler."""
    return Way(
        "StatefulDataLoader",
        "builds loader and sampler, loads the state; torchdata 0.11 draws the permutation four "
        "times over and steps to `position`",
        _save_stateful,
        _resume_stateful,
        missing="" if find_spec("torchdata") else "torchdata is not installed",
    )


def no_resume() -> Way:
    """Return the floor of every loader: a DataLoader in natural order, from the start."""
    return Way(
        "floor: DataLoader from 0, no shuffle",
        "builds a DataLoader over SequentialSampler and fetches batch 0; nothing is resumed",
        _save_nothing,
        _start_loader,
    )


def torch_permutation(num_samples: int) -> Callable[[], torch.Tensor]:
    """Return torch's shuffle into a new tensor."""
    return partial(torch.randperm, num_samples)


def torch_permutation_into(num_samples: int) -> Callable[[], torch.Tensor]:
    """Return torch's shuffle into a tensor that is there already."""
    out = torch.empty(num_samples, dtype=torch.int64)
    return partial(torch.randperm, num_samples, out=out)


def numpy_permutation(num_samples: int) -> Callable[[], NDArray[np.int64]]:
    """Return numpy's shuffle into a new array."""
    return partial(np.random.default_rng(1).permutation, num_samples)


def shuffled_batches(num_samples: int, count: int) -> dict[str, Callable[[], Any] | str]:
    """Return ways to `count` indices of an order without a table, or why a peer has none."""
    makers = {
        "Grain index_shuffle": _grain_batch,
        "cfm64 permute_batch": _cfm64_batch,
        "celeres-dl get_shuffled_indices": _celeres_batch,
    }
    return {name: _batch_or_reason(make, num_samples, count) for name, make in makers.items()}


def _batch_or_reason(
    make: Callable[[int, int], Callable[[], Any]], num_samples: int, count: int
) -> Callable[[], Any] | str:
    try:
        return make(num_samples, count)
    except ImportError as error:
        return f"not installed ({error})"


def _grain_batch(num_samples: int, count: int) -> Callable[[], list[int]]:
    from grain.experimental import index_shuffle

    last = num_samples - 1
    return lambda: [index_shuffle(position, last, 1, 4) for position in range(count)]


def _cfm64_batch(num_samples: int, count: int) -> Callable[[], NDArray[np.int64]]:
    from cfm64 import FeistelPermutation

    permutation = FeistelPermutation(1, num_samples)
    return partial(permutation.permute_batch, np.arange(count))


def _celeres_batch(num_samples: int, count: int) -> Callable[[], NDArray[np.uint64]]:
    # The package looks for this module elsewhere and falls back to Python, 40 times slower.
    from _cdl_native import get_shuffled_indices

    one_block = num_samples
    return partial(get_shuffled_indices, 1, num_samples, one_block, 0, count)


def memset(out: NDArray[np.int64]) -> Callable[[], object]:
    """Return the C library's memset of an array."""
    return partial(ctypes.memset, out.ctypes.data, 7, out.nbytes)


def random_sampler(num_samples: int) -> Callable[[], RandomSampler]:
    """Return torch's sampler, with a generator of its own."""
    generator = torch.Generator().manual_seed(1)
    return partial(RandomSampler, range(num_samples), generator=generator)


def warm_up() -> None:
    """Import and run once what loaders need anyway, so that it is not counted as theirs."""
    if find_spec("torchdata"):
        _stateful(Place(1000, 0, 10))
    _start_loader(Place(1000, 0, 10), None)


def _save_nothing(place: Place) -> Saved:
    return Saved(None, 0, list(range(place.batch_size)))


def _save_generator(place: Place) -> Saved:
    """Keep the generator's state from before the epoch, and a count."""
    generator = torch.Generator().manual_seed(place.seed)
    state = generator.get_state()
    order = torch.randperm(place.num_samples, generator=generator)
    expected = order[place.position : place.position + place.batch_size].tolist()
    return Saved(state, state.nbytes + 8, expected)


def _random_sampler(place: Place, state: torch.Tensor) -> RandomSampler:
    generator = torch.Generator()
    generator.set_state(state)
    return RandomSampler(range(place.num_samples), generator=generator)


def _resume_sampler(place: Place, state: torch.Tensor) -> list[int]:
    return [next(islice(_random_sampler(place, state), place.position, None))]


def _resume_permutation(place: Place, state: torch.Tensor) -> list[int]:
    generator = torch.Generator()
    generator.set_state(state)
    order = torch.randperm(place.num_samples, generator=generator)
    return [int(order[place.position])]


def _resume_loader(place: Place, state: torch.Tensor) -> list[int]:
    loader: DataLoader[Any] = DataLoader(
        range(place.num_samples),  # type: ignore[arg-type]  # torch takes any sequence
        batch_size=place.batch_size,
        sampler=_random_sampler(place, state),
    )
    batches = iter(loader)
    for _ in range(place.position // place.batch_size):
        next(batches)
    return listed(next(batches))


def _stateful(place: Place) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import RandomSampler as StatefulRandomSampler

    data = range(place.num_samples)
    generator = torch.Generator().manual_seed(place.seed)
    sampler = StatefulRandomSampler(data, generator=generator)
    return StatefulDataLoader(data, batch_size=place.batch_size, sampler=sampler)


def _save_stateful(place: Place) -> Saved:
    loader = _stateful(place)
    batches = iter(loader)
    for _ in range(place.position // place.batch_size):
        next(batches)
    state = loader.state_dict()
    return Saved(state, len(pickle.dumps(state)), listed(next(batches)))


def _resume_stateful(place: Place, state: dict[str, Any]) -> list[int]:
    loader = _stateful(place)
    loader.load_state_dict(state)
    return listed(next(iter(loader)))


def _start_loader(place: Place, _state: None) -> list[int]:
    data = range(place.num_samples)
    loader: DataLoader[Any] = DataLoader(
        data,  # type: ignore[arg-type]  # torch takes any sequence
        batch_size=place.batch_size,
        sampler=SequentialSampler(data),
    )
    return listed(next(iter(loader)))

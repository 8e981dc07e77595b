"""Orders written by a user: what they get wrong is refused wherever they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import datacursor as dc

N = 12


class Natural(dc.Order):
    """Index == position; what is wrong with it, the tests below add."""

    order_id = 0x8000

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        out[:] = np.arange(first, first + len(out))

    def position_of(self, epoch: int, index: int) -> int:
        return index


class Below(Natural):
    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        out[:] = np.arange(first, first + len(out)) - 1


class Beyond(Natural):
    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        out[:] = np.arange(first, first + len(out)) + 1


class Rebinding(Natural):
    """Makes an array of its own and leaves the caller's as it was."""

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        out = np.arange(first, first + len(out))


class Partial(Natural):
    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        super().fill(epoch, first, out[:-1])


class Growing(Natural):
    is_permutation = False

    def num_positions(self, epoch: int) -> int:
        return 4 + epoch


class Short(Growing):
    is_permutation = True


class NumpyParameters(Natural):
    @property
    def parameters(self) -> dict[str, Any]:
        return {"stride": np.int64(3), "is_odd": np.bool_(True), "share": np.float32(0.5)}


class PlainParameters(Natural):
    @property
    def parameters(self) -> dict[str, Any]:
        return {"stride": 3, "is_odd": True, "share": 0.5}


class ArrayParameters(Natural):
    @property
    def parameters(self) -> dict[str, Any]:
        return {"table": np.zeros(2)}


def of_sampler(order: dc.Order) -> object:
    return list(dc.CursorSampler(N, batch_size=4, order=order))


def of_a_rank(order: dc.Order) -> object:
    return [
        list(dc.CursorSampler(N, batch_size=2, num_replicas=3, rank=rank, order=order))
        for rank in range(3)
    ]


def of_mixture(order: dc.Order) -> object:
    return dc.Mixture([order, dc.Shuffle(N)], [1, 1], block=2 * N).indices(0, 0, 2 * N)


def of_concat(order: dc.Order) -> object:
    return dc.PackingPlan([2] * N, seq_len=8, order=order).rows(0, 0, 3)


def of_best_fit(order: dc.Order) -> object:
    options: dict[str, Any] = {"packing": "best_fit", "long_documents": "error"}
    return dc.PackingPlan([2] * N, seq_len=8, order=order, **options).rows(0, 0, 3)


USES = [of_sampler, of_a_rank, of_mixture, of_concat, of_best_fit]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [Below, Beyond, Rebinding, Partial])
def test_numbers_that_are_no_indices_reach_nobody(
    make: type[Natural], use: Callable[[dc.Order], object]
) -> None:
    use(Natural(N))
    with pytest.raises(dc.ArgumentError, match=rf"index in \[0, 12\) .* from {make.__name__}"):
        use(make(N))


def test_a_mixture_refuses_a_number_of_positions_that_changes() -> None:
    mixture = dc.Mixture([Growing(N), dc.Shuffle(N)], [1, 1], block=2)
    assert len(mixture.indices(0, 0, 8)) == 8
    with pytest.raises(dc.ArgumentError, match="got 4 in epoch 0 and 5 in epoch 1 from Growing"):
        mixture.indices(1, 0, 8)


@pytest.mark.parametrize("use", [of_sampler, of_concat, of_best_fit])
def test_a_permutation_of_another_length_is_refused(use: Callable[[dc.Order], object]) -> None:
    with pytest.raises(dc.ArgumentError, match=r"is_permutation = False .*num_positions\(0\)=4"):
        use(Short(N))


def test_numpy_numbers_are_parameters_like_plain_ones() -> None:
    state = dc.CursorSampler(N, batch_size=4, order=NumpyParameters(N)).state_dict()
    dc.CursorSampler(N, batch_size=4, order=PlainParameters(N)).load_state_dict(state)
    assert NumpyParameters(N) == PlainParameters(N)
    assert hash(NumpyParameters(N)) == hash(PlainParameters(N))


def test_parameters_that_are_no_json_values_are_named() -> None:
    with pytest.raises(TypeError, match=r"parameters of ArrayParameters.* JSON values, got array"):
        dc.CursorSampler(N, batch_size=4, order=ArrayParameters(N))

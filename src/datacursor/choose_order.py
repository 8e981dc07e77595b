"""The order a sampler or a plan was asked for, checked against its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datacursor.checks import MAX_COUNT, require_bool, require_integer
from datacursor.errors import ArgumentError
from datacursor.order import Order, Sequential, Shuffle
from datacursor.subset import Subset

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def choose_order(
    order: Order | ArrayLike | None, num_elements: int, *, shuffle: bool, seed: int, noun: str
) -> Order:
    """Return the given order, or the one that shuffle and seed ask for.

    Args:
        order: An order, or all indices in the order in which they come in every epoch.
        num_elements: Elements of the data.
        shuffle: Without an order: whether to shuffle.
        seed: Without an order: its seed.
        noun: What the elements are.

    Raises:
        ArgumentError: There are no elements, the order covers another number of them, it is
            no permutation although it says so, or another seed is asked for than it has.
    """
    require_bool("shuffle", shuffle)
    require_integer(f"num_{noun}", num_elements, 1, MAX_COUNT)
    if order is None:
        return Shuffle(num_elements, seed) if shuffle else Sequential(num_elements, seed)
    if isinstance(order, (list, tuple)) or hasattr(order, "__array__"):
        given = Subset(order, num_samples=num_elements, seed=seed, shuffle=False)
        num_given = given.num_positions(0)
        if num_given != num_elements:
            raise ArgumentError(
                f"order must hold all num_{noun}={num_elements} indices, got {num_given}; "
                "pass a datacursor.Subset to leave some out"
            )
        return given
    return _require_order(order, num_elements, seed, noun)


def _require_order(order: Any, num_elements: int, seed: int, noun: str) -> Order:
    if not isinstance(order, Order):
        raise TypeError(
            f"order must be a datacursor.Order or an array of indices, got {type(order).__name__}"
        )
    fits = order.num_samples == num_elements
    if not order.is_permutation:  # it may leave out the last ones
        fits = order.num_samples <= num_elements
    if not fits:
        raise ArgumentError(
            f"order must cover num_{noun}={num_elements}, got order.num_samples={order.num_samples}"
        )
    if order.is_permutation and order.num_positions(0) != order.num_samples:
        raise ArgumentError(
            f"order must set is_permutation = False where num_positions is not num_samples, got "
            f"num_positions(0)={order.num_positions(0)} from {order!r}"
        )
    if seed not in (0, order.seed):
        raise ArgumentError(f"seed must be left to the order, got seed={seed}, {order!r}")
    return order

"""How documents are packed: the options of every way of packing, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from datacursor.best_fit_plan import BestFitPlan, window_size
from datacursor.checks import optional_integer, require_choice, require_integer
from datacursor.chunk_plan import ChunkPlan
from datacursor.concat_plan import ConcatPlan
from datacursor.errors import ArgumentError
from datacursor.order import Order, Sequential
from datacursor.subset import Subset

if TYPE_CHECKING:
    from datacursor.document_stream import DocumentStream
    from datacursor.row_plan import RowPlan

PACKINGS = ("concat", "best_fit", "chunk")
LONG_DOCUMENTS = ("split", "truncate", "drop", "error")
ITEM_ORDERS = ("decreasing", "arrival")
_BEST_FIT_ONLY = {
    "item_order": None,
    "max_documents": None,
    "align": 1,
    "min_fragment": 1,
    "window_documents": None,
    "cost_groups": None,
}
_INTEGERS = {
    "max_documents": optional_integer,
    "align": require_integer,
    "min_fragment": require_integer,
    "window_documents": optional_integer,
    "cost_groups": optional_integer,
}


@dataclass(frozen=True, kw_only=True)
class PackingOptions:
    """The options of a `PackingPlan`; those of another way of packing are refused.

    Args:
        packing: "concat", "best_fit" or "chunk".
        long_documents: Required for best_fit; the others always split.
        tail: "pad" or "drop"; best_fit always pads.
        item_order: best_fit: "decreasing" or "arrival"; None: "arrival" with max_documents.
        max_documents: best_fit: pieces a row holds at most.
        align: best_fit: a piece takes a multiple of this.
        min_fragment: best_fit: shortest piece of a split document that is kept.
        window_documents: best_fit: documents of a window; None: about 2048 rows' worth.
        cost_groups: best_fit: rows of about one cost that come together.

    Raises:
        ArgumentError: An option is out of range, missing, or not one of this packing.
        TypeError: An option has the wrong type.
    """

    packing: str = "concat"
    long_documents: str | None = None
    tail: str = "pad"
    item_order: str | None = None
    max_documents: int | None = None
    align: int = 1
    min_fragment: int = 1
    window_documents: int | None = None
    cost_groups: int | None = None

    def __post_init__(self) -> None:
        """Check every option."""
        require_choice("packing", self.packing, PACKINGS)
        require_choice("tail", self.tail, ("pad", "drop"))
        for name, check in _INTEGERS.items():
            # As plain ints: they go into the digest of the plan.
            object.__setattr__(self, name, check(name, getattr(self, name), 1, 2**31))
        if self.packing == "best_fit":
            self._check_best_fit()
        else:
            self._check_joined()

    def plan(self, stream: DocumentStream, seq_len: int, *, shuffle: bool) -> RowPlan:
        """Return the plan these options ask for.

        Args:
            stream: The documents.
            seq_len: Tokens a row.
            shuffle: Whether the user asked for shuffling.
        """
        shuffle_rows = shuffle and (_shuffles(stream.order) or not stream.has_lengths)
        if self.packing == "concat":
            return ConcatPlan(stream, seq_len, tail=self.tail)
        if self.packing == "chunk":
            return ChunkPlan(
                stream,
                seq_len,
                tail=self.tail,
                seed=stream.order.seed,
                shuffle_rows=shuffle,
            )
        if self.cost_groups is not None and not shuffle_rows:
            raise ArgumentError(
                "cost_groups needs rows that are shuffled: shuffle=True, and an order that differs "
                f"from epoch to epoch, got cost_groups={self.cost_groups} with {stream.order!r}"
            )
        default_order = "decreasing" if self.max_documents is None else "arrival"
        return BestFitPlan(
            stream,
            seq_len,
            long_documents=str(self.long_documents),
            window_documents=self.window_documents or window_size(stream, seq_len),
            item_order=self.item_order or default_order,
            max_documents=self.max_documents,
            align=self.align,
            min_fragment=self.min_fragment,
            shuffle_rows=shuffle_rows,
            cost_groups=self.cost_groups,
        )

    def _check_best_fit(self) -> None:
        if self.long_documents is None:
            choices = ", ".join(map(repr, LONG_DOCUMENTS))
            raise ArgumentError(
                "long_documents must be chosen with packing='best_fit', what becomes of a document "
                f"longer than a row: one of {choices}"
            )
        require_choice("long_documents", self.long_documents, LONG_DOCUMENTS)
        if self.item_order is not None:
            require_choice("item_order", self.item_order, ITEM_ORDERS)
        if self.tail != "pad":
            raise ArgumentError(
                f"tail must be 'pad' with packing='best_fit': every row may hold padding, "
                f"got tail={self.tail!r}"
            )

    def _check_joined(self) -> None:
        if self.long_documents not in (None, "split"):
            raise ArgumentError(
                f"long_documents must be 'split' with packing={self.packing!r}, "
                f"got long_documents={self.long_documents!r}"
            )
        for name, nothing in _BEST_FIT_ONLY.items():
            if getattr(self, name) != nothing:
                raise ArgumentError(
                    f"{name} needs packing='best_fit', got {name}={getattr(self, name)!r} "
                    f"with packing={self.packing!r}"
                )


def _shuffles(order: Order) -> bool:
    """Return whether an order is another than one given once for all epochs."""
    is_given = isinstance(order, Subset) and not order.shuffle
    return not isinstance(order, Sequential) and not is_given

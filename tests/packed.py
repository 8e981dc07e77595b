"""Small packed corpora for tests: documents, samplers over them, and what a loader delivers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np

import datacursor as dc

IGNORE = -100

Batch = dict[str, Any]


class Listed(dc.Order):
    """The same given order in every epoch."""

    order_id = 0x8002

    def __init__(self, indices: list[int]) -> None:
        super().__init__(len(indices))
        self._listed = np.array(indices)

    def fill(self, epoch: int, first: int, out: Any) -> None:
        out[:] = self._listed[first : first + len(out)]

    def position_of(self, epoch: int, index: int) -> int:
        return int(np.flatnonzero(self._listed == index)[0])


def counted(*lengths: int) -> list[list[int]]:
    """Documents of these lengths that hold 1, 2, 3, .. over all of them."""
    tokens = iter(range(1, sum(lengths) + 1))
    return [list(islice(tokens, length)) for length in lengths]


def make(
    documents: list[list[int]], seq_len: int, batch_size: int = 1, **options: Any
) -> dc.PackedSampler:
    corpus = dc.TokenCorpus.open(documents)
    return dc.PackedSampler(
        corpus, seq_len=seq_len, batch_size=batch_size, **({"shuffle": False} | options)
    )


def deliver(rows: dc.PackedSampler, num_workers: int = 0) -> Iterator[Batch]:
    context = "fork" if num_workers > 0 else None
    return iter(
        dc.CursorLoader(
            rows.dataset, sampler=rows, num_workers=num_workers, multiprocessing_context=context
        )
    )


def field(batches: Iterable[Batch], name: str) -> list[list[int]]:
    """A field of every row, one row a batch."""
    return [batch[name].flatten().tolist() for batch in batches]


def commit_from(
    rows: dc.PackedSampler, state: dict[str, Any] | None, num_updates: int, num_workers: int
) -> tuple[list[list[int]], dict[str, Any]]:
    """Commit some updates from a state; return the spans of each row and the new state."""
    if state is not None:
        rows.load_state_dict(state)
    seen: list[list[int]] = []
    done = 0
    while done < num_updates:
        for batch in deliver(rows, num_workers):
            offsets = pairwise(batch["row_offsets"].tolist())
            seen += [batch["spans"][first:stop].flatten().tolist() for first, stop in offsets]
            rows.commit()
            done += 1
            if done == num_updates:
                break
    return seen, rows.state_dict()

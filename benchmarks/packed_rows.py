"""datacursor's own packing as benchmarks run it: whole epochs of plans and rows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from datacursor import PackingPlan, TokenCorpus
from datacursor._core import TokenTable
from datacursor.row_block import RowBlock
from datacursor.row_buffers import RowBuffers
from datacursor.row_fields import RowFields
from datacursor.row_format import ALL_FIELDS

if TYPE_CHECKING:
    from corpora import TokenFiles
    from numpy.typing import NDArray

FIELDS = {
    "input_ids": np.int64,
    "labels": np.int64,
    "position_ids": np.int64,
    "segment_ids": np.int32,
    "loss_mask": np.bool_,
}
FIELD_SETS = {"ids": ("input_ids",), "all fields": tuple(FIELDS)}


def make_plan(lengths: Any, seq_len: int, packing: str, **options: Any) -> PackingPlan:
    """Return a plan of whole rows; best_fit splits long documents."""
    long_documents = "split" if packing == "best_fit" else None
    tail = "pad" if packing == "best_fit" else "drop"
    return PackingPlan(
        lengths,
        seq_len=seq_len,
        packing=packing,
        long_documents=long_documents,
        tail=tail,
        seed=1,
        **options,
    )


def blocks(plan: PackingPlan, epoch: int, num_rows: int) -> Iterator[RowBlock]:
    """Plan a whole epoch, some rows at a time, as a sampler does: without counting them first."""
    reader, first = (0, 0), 0
    while True:
        stop = plan.reach(epoch, reader, first, first + num_rows).stop
        count = min(num_rows, stop - first)
        if count == 0:
            return
        block = plan.rows_from(epoch, reader, first, count)
        yield block
        reader, first = block.reader, first + count


class PackedEpochs:
    """Epochs of rows, gathered into the same arrays again and again.

    Args:
        files: The corpus.
        seq_len: Tokens a row.
        packing: "concat", "best_fit" or "chunk".
        num_rows: Rows gathered at a time.
    """

    def __init__(self, files: TokenFiles, seq_len: int, packing: str, num_rows: int) -> None:
        """Open the corpus; no epoch is planned yet."""
        self.corpus = TokenCorpus.open(files.index)
        self.plan = make_plan(self.corpus, seq_len, packing)
        self.num_rows = num_rows
        self._table = TokenTable(list(self.corpus.shards))
        self._epoch = 0

    def arrays(self, fields: tuple[str, ...]) -> dict[str, NDArray[Any]]:
        """Return arrays for some fields, their pages touched."""
        shape = (self.num_rows, self.plan.seq_len)
        return {name: np.ones(shape, FIELDS[name]) for name in fields}

    def run(self, out: Mapping[str, NDArray[Any]]) -> None:
        """Plan and gather one more epoch, never the same one twice."""
        self._epoch += 1
        for block in blocks(self.plan, self._epoch, self.num_rows):
            self.gather(block, out)

    def gather_only(self, out: Mapping[str, NDArray[Any]]) -> Callable[[], None]:
        """Return what `run` does, its rows planned before."""
        planned = list(blocks(self.plan, 0, self.num_rows))

        def run() -> None:
            for block in planned:
                self.gather(block, out)

        return run

    def batches(
        self, fields: tuple[str, ...], batch_size: int
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Return batches of one more epoch, in memory that nobody holds, as a `RowDataset` does."""
        self._epoch += 1
        dtypes = {name: np.dtype(FIELDS[name]) for name in fields}
        row_fields = RowFields(dtypes, ALL_FIELDS, self.plan.seq_len)
        buffers = RowBuffers()
        for block in blocks(self.plan, self._epoch, self.num_rows):
            for first in range(0, len(block.row_offsets) - 1, batch_size):
                offsets = block.row_offsets[first : first + batch_size + 1]
                begin, end = offsets[0], offsets[-1]
                part = RowBlock(block.spans[begin:end], offsets - begin, block.reader)
                tensors, arrays = row_fields.empty(len(offsets) - 1, buffers)
                self.gather(part, arrays)
                yield tensors

    def gather(self, block: RowBlock, out: Mapping[str, NDArray[Any]]) -> int:
        """Gather rows; return the number of targets."""
        count = len(block.row_offsets) - 1
        room = len(block.spans) + count + 1
        fields: dict[str, Any] = dict.fromkeys(FIELDS)
        fields |= {name: array[:count] for name, array in out.items()}
        _, _, num_targets = self._table.gather(
            block.spans,
            block.row_offsets,
            bos=None,
            eos=None,
            pad=0,
            shifted=True,
            no_label=-100,
            continued=False,
            align=1,
            longest=None,
            cu_seqlens=np.empty(room, dtype=np.int32) if "segment_ids" in out else None,
            **fields,
        )
        return num_targets

    def check(self) -> None:
        """Raise unless an epoch holds every token once and labels are the next tokens."""
        out = self.arrays(FIELD_SETS["all fields"])
        total = num_tokens = 0
        for block in blocks(self.plan, 0, self.num_rows):
            count = len(block.row_offsets) - 1
            num_targets = self.gather(block, out)
            rows = {name: array[:count] for name, array in out.items()}
            real = rows["segment_ids"] >= 0
            inside = rows["segment_ids"][:, 1:] == rows["segment_ids"][:, :-1]
            inside &= real[:, 1:]
            num_tokens += int(real.sum())
            total += int(rows["input_ids"][real].sum())
            if not (rows["labels"][:, :-1][inside] == rows["input_ids"][:, 1:][inside]).all():
                raise AssertionError(f"{self.plan!r}: a label is not the next token")
            if num_targets != int(rows["loss_mask"].sum()):
                raise AssertionError(f"{self.plan!r}: num_targets differs from loss_mask")
        missing = self.corpus.num_tokens - num_tokens
        whole = sum(int(shard.tokens.sum(dtype=np.int64)) for shard in self.corpus.shards)
        if not 0 <= missing < 2 * self.plan.seq_len or (missing == 0 and total != whole):
            raise AssertionError(f"{self.plan!r}: an epoch misses {missing} tokens")


def copy_epoch(num_rows: int, out: Mapping[str, NDArray[Any]]) -> Any:
    """Return a memcpy of as many bytes as gathering `num_rows` rows into `out` writes."""
    pairs = [(array.copy(), array) for array in out.values()]
    step = len(pairs[0][1])

    def copy() -> None:
        for first in range(0, num_rows, step):
            count = min(step, num_rows - first)
            for source, target in pairs:
                num_bytes = target[:count].nbytes
                ctypes.memmove(target.ctypes.data, source.ctypes.data, num_bytes)

    return copy

"""Loaders that read tokens from disk: ours and others, each as its documentation shows.

All deliver batches of B rows of L tokens in int64 with their next tokens, or with labels that
are not shifted, and all start from files that were prepared before: the peers' own formats are
written from the same tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import packing_peers
import torch
from torch.utils.data import DataLoader, Dataset

from datacursor import CursorLoader, PackedSampler, TokenCorpus

if TYPE_CHECKING:
    from corpora import TokenFiles
    from numpy.typing import NDArray
    from packing_peers import Shape


class Way(ABC):
    """A way from files on disk to the batches of a training loop.

    Attributes:
        name: What it is called in tables.
        gives: What a batch holds.
        keeps_position: Whether its loader has a state_dict.
    """

    name: str
    gives: str
    keeps_position = True

    def prepare(self, files: TokenFiles, shape: Shape) -> Any:
        """Write what the loader reads, and return what `open` takes.

        Raises:
            ImportError: The loader is not installed.
        """
        return files

    @abstractmethod
    def open(self, prepared: Any, shape: Shape, num_workers: int) -> Any:
        """Return a new loader."""

    def ids(self, batch: Any) -> torch.Tensor:
        """Return the token ids of a batch, [B, L] or flat."""
        ids: torch.Tensor = batch["input_ids"]
        return ids

    def save(self, loader: Any) -> Any:
        """Return the state of a loader after the batches it has delivered."""
        return loader.state_dict()


class Ours(Way):
    """datacursor's loader."""

    def __init__(self, packing: str, format: str | None, gives: str) -> None:
        """Take how rows are packed and what a batch holds."""
        self.name = f"CursorLoader, {packing}, {format or 'all fields'}"
        self.gives = gives
        self._packing = packing
        self._format = format

    def open(self, prepared: TokenFiles, shape: Shape, num_workers: int) -> Any:
        """Return a CursorLoader over packed rows."""
        splits = self._packing == "best_fit"
        rows = PackedSampler(
            TokenCorpus.open(prepared.index),
            seq_len=shape.seq_len,
            batch_size=shape.batch_size,
            packing=self._packing,
            long_documents="split" if splits else None,
            tail="pad" if splits else "drop",
            drop_last=True,
            format=self._format,
            seed=1,
        )
        return CursorLoader(rows.dataset, sampler=rows, num_workers=num_workers)

    def ids(self, batch: Any) -> torch.Tensor:
        """Return the token ids, under Megatron's name where it is asked for."""
        ids: torch.Tensor = batch["tokens" if self._format == "megatron" else "input_ids"]
        return ids

    def save(self, loader: Any) -> Any:
        """Commit what was delivered, and return the state."""
        loader.sampler.commit()
        return loader.state_dict()


class Stateful(Way):
    """torchdata's StatefulDataLoader over rows of a memory map."""

    name = "torchdata StatefulDataLoader"
    gives = "input_ids, labels"

    def prepare(self, files: TokenFiles, shape: Shape) -> Path:
        """Return the tokens' path."""
        import torchdata.stateful_dataloader  # noqa: F401  # whether it is there

        return files.tokens_path

    def open(self, prepared: Path, shape: Shape, num_workers: int) -> Any:
        """Return the loader, shuffled."""
        from torchdata.stateful_dataloader import StatefulDataLoader

        return StatefulDataLoader(
            _TokenRows(prepared, shape.seq_len),
            batch_size=shape.batch_size,
            shuffle=True,
            generator=torch.Generator().manual_seed(1),
            drop_last=True,
            num_workers=num_workers,
        )


class _TokenRows(Dataset[dict[str, torch.Tensor]]):
    """Rows of a memory map, cut at multiples of L: what a user of torch writes."""

    def __init__(self, path: Path, seq_len: int) -> None:
        self._tokens: NDArray[np.uint16] = np.memmap(path, dtype=np.uint16, mode="r")
        self._seq_len = seq_len

    def __len__(self) -> int:
        return (len(self._tokens) - 1) // self._seq_len

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        first = row * self._seq_len
        block = torch.from_numpy(self._tokens[first : first + self._seq_len + 1].astype(np.int64))
        return {"input_ids": block[:-1], "labels": block[1:]}


class Megatron(Way):
    """torch's DataLoader over Megatron's GPTDataset, in its shuffled order."""

    name = "Megatron GPTDataset + DataLoader"
    gives = "tokens, labels, loss_mask, position_ids"
    keeps_position = False

    def prepare(self, files: TokenFiles, shape: Shape) -> Any:
        """Return the data set; it writes its tables."""
        return packing_peers.megatron_rows(files, shape.seq_len)

    def open(self, prepared: Any, shape: Shape, num_workers: int) -> Any:
        """Return the loader."""
        return DataLoader(
            prepared, batch_size=shape.batch_size, drop_last=True, num_workers=num_workers
        )

    def ids(self, batch: Any) -> torch.Tensor:
        """Return the tokens."""
        ids: torch.Tensor = batch["tokens"]
        return ids


class LitData(Way):
    """LitData's token loader."""

    name = "LitData TokensLoader"
    gives = "one tensor of L + 1 tokens"

    def prepare(self, files: TokenFiles, shape: Shape) -> Path:
        """Write chunks of 4096 rows of L + 1 tokens, in int64, which it gives as they are."""
        from litdata import TokensLoader, optimize

        folder = files.prefix.parent / "litdata"
        width = shape.seq_len + 1
        chunk = width * min(4096, files.num_tokens // width)
        optimize(
            partial(_tokens_of_chunk, files.tokens_path, chunk),
            inputs=list(range(files.num_tokens // chunk)),
            output_dir=str(folder),
            chunk_size=chunk,
            item_loader=TokensLoader(),
            num_workers=1,
            start_method=torch.multiprocessing.get_start_method(),  # it sets that for all
            verbose=False,
        )
        return folder

    def open(self, prepared: Path, shape: Shape, num_workers: int) -> Any:
        """Return the loader, shuffled."""
        from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

        item_loader = TokensLoader(shape.seq_len + 1)
        rows = StreamingDataset(
            str(prepared), item_loader=item_loader, shuffle=True, drop_last=True
        )
        return StreamingDataLoader(
            rows, batch_size=shape.batch_size, num_workers=num_workers, drop_last=True
        )

    def ids(self, batch: Any) -> torch.Tensor:
        """Return all tokens but the last, which is a label only."""
        ids: torch.Tensor = batch[:, :-1]
        return ids


def _tokens_of_chunk(path: Path, count: int, number: int) -> Iterator[torch.Tensor]:
    tokens = np.fromfile(path, np.uint16, count, offset=2 * number * count)
    yield torch.from_numpy(tokens.astype(np.int64))


class MosaicML(Way):
    """MosaicML Streaming over samples of L + 1 tokens."""

    name = "MosaicML Streaming"
    gives = "one tensor of L + 1 tokens"

    def prepare(self, files: TokenFiles, shape: Shape) -> Path:
        """Write its shards."""
        from streaming import MDSWriter

        folder = files.prefix.parent / "mosaicml"
        width = shape.seq_len + 1
        tokens = files.tokens()
        with MDSWriter(out=str(folder), columns={"tokens": f"ndarray:uint16:{width}"}) as writer:
            for first in range(0, len(tokens) - width + 1, width):
                writer.write({"tokens": np.asarray(tokens[first : first + width])})
        return folder

    def open(self, prepared: Path, shape: Shape, num_workers: int) -> Any:
        """Return the loader, shuffled; its samples become int64 in the data set."""
        from streaming import StreamingDataLoader, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        class Rows(StreamingDataset):  # type: ignore[misc]  # without types
            def __getitem__(self, row: int) -> Any:
                return torch.from_numpy(super().__getitem__(row)["tokens"].astype(np.int64))

        clean_stale_shared_memory()
        rows = Rows(local=str(prepared), shuffle=True, batch_size=shape.batch_size, shuffle_seed=1)
        return StreamingDataLoader(
            rows, batch_size=shape.batch_size, num_workers=num_workers, drop_last=True
        )

    def ids(self, batch: Any) -> torch.Tensor:
        """Return all tokens but the last, which is a label only."""
        ids: torch.Tensor = batch[:, :-1]
        return ids


class TRL(Way):
    """torch's DataLoader over a data set that TRL packed before."""

    name = "TRL wrapped + DataLoader"
    gives = "input_ids, which are its labels"
    keeps_position = False

    def prepare(self, files: TokenFiles, shape: Shape) -> Any:
        """Return the packed rows but the short ones that end each thousand documents."""
        rows = packing_peers.trl_rows(files, shape.seq_len, "wrapped")
        return rows.filter(lambda row: len(row["input_ids"]) == shape.seq_len)

    def open(self, prepared: Any, shape: Shape, num_workers: int) -> Any:
        """Return the loader."""
        return DataLoader(
            prepared.with_format("torch"),
            batch_size=shape.batch_size,
            drop_last=True,
            num_workers=num_workers,
        )


class Ready(Way):
    """torch's DataLoader that copies a ready batch: its limit with two tensors a batch."""

    name = "DataLoader of ready batches"
    gives = "input_ids, labels"
    keeps_position = False

    def open(self, prepared: Any, shape: Shape, num_workers: int) -> Any:
        """Return the loader."""
        return DataLoader(_ReadyBatches(shape), batch_size=None, num_workers=num_workers)


class _ReadyBatches(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, shape: Shape) -> None:
        self._batch = {
            name: torch.ones(shape, dtype=torch.int64) for name in ("input_ids", "labels")
        }

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, _: int) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self._batch.items()}


OURS = (
    Ours("concat", None, "all ten fields"),
    Ours("concat", "megatron", "tokens, labels, loss_mask, position_ids"),
    Ours("concat", "hf", "input_ids, labels, position_ids"),
    Ours("chunk", "hf", "input_ids, labels, position_ids"),
    Ours("best_fit", "hf", "input_ids, labels, position_ids"),
)
PEERS = (Stateful(), Megatron(), LitData(), MosaicML(), TRL())
LIMIT = Ready()

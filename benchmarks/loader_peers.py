"""Loaders that read tokens from disk: ours and others, each as its documentation shows.

All deliver batches of B rows of L tokens in int64 with their next tokens, and all start from
files that were prepared before: the peers' own formats are written from the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import packing_peers
import torch
from packing_peers import Shape
from torch.utils.data import DataLoader, Dataset

from datacursor import CursorLoader, PackedSampler, TokenCorpus

if TYPE_CHECKING:
    from corpora import TokenFiles
    from numpy.typing import NDArray

Batch = Any  # a dict or a tensor, as the loader gives it


@dataclass(frozen=True)
class Way:
    """A loader.

    Attributes:
        name: What it is called in tables.
        gives: Fields of its batch.
        prepare: Writes what it reads; returns what `open` takes. ImportError: not installed.
        open: Returns a loader of (prepared, shape, num_workers).
        ids: The token ids of a batch.
        resume: Returns an open loader that goes on after some batches, of (prepared, shape,
            state, num_workers); None if the loader keeps no position.
        save: Returns the state of a loader in mid-epoch, after `count` batches.
    """

    name: str
    gives: str
    prepare: Callable[[TokenFiles, Shape], Any]
    open: Callable[[Any, Shape, int], Any]
    ids: Callable[[Batch], torch.Tensor]
    save: Callable[[Any], Any] | None = None
    resume: Callable[[Any, Shape, Any, int], Any] | None = None


# -- Ours ------------------------------------------------------------------------------------


def ours(packing: str, format: str | None, gives: str) -> Way:
    """Return datacursor's loader."""
    open_ours = partial(_open_ours, packing, format)
    name = {"megatron": "tokens", None: "input_ids"}.get(format, "input_ids")
    return Way(
        f"CursorLoader, {packing}, {'all fields' if format is None else format}",
        gives,
        lambda files, shape: files,
        open_ours,
        lambda batch: batch[name],
        _save_ours,
        partial(_resume_ours, open_ours),
    )


def _open_ours(
    packing: str, format: str | None, files: TokenFiles, shape: Shape, num_workers: int
) -> Any:
    rows = PackedSampler(
        TokenCorpus.open(files.index),
        seq_len=shape.seq_len,
        batch_size=shape.batch_size,
        packing=packing,
        long_documents="split" if packing == "best_fit" else None,
        tail="pad" if packing == "best_fit" else "drop",
        drop_last=True,
        format=format,
        seed=1,
    )
    return CursorLoader(rows.dataset, sampler=rows, num_workers=num_workers)


def _save_ours(loader: Any) -> Any:
    loader.sampler.commit()
    return loader.state_dict()


def _resume_ours(
    open_ours: Callable[..., Any], files: TokenFiles, shape: Shape, state: Any, num_workers: int
) -> Any:
    loader = open_ours(files, shape, num_workers)
    loader.load_state_dict(state)
    return loader


# -- Others ----------------------------------------------------------------------------------


class TokenRows(Dataset[dict[str, torch.Tensor]]):
    """Rows of a memory map, cut at multiples of L: what a user of torch writes."""

    def __init__(self, path: Path, seq_len: int) -> None:
        """Map the tokens."""
        self._tokens: NDArray[np.uint16] = np.memmap(path, dtype=np.uint16, mode="r")
        self._seq_len = seq_len

    def __len__(self) -> int:
        """Return the number of whole rows that have a next token."""
        return (len(self._tokens) - 1) // self._seq_len

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        """Return a row and its next tokens."""
        first = row * self._seq_len
        block = torch.from_numpy(self._tokens[first : first + self._seq_len + 1].astype(np.int64))
        return {"input_ids": block[:-1], "labels": block[1:]}


def stateful() -> Way:
    """Return torchdata's StatefulDataLoader over rows of a memory map."""
    return Way(
        "torchdata StatefulDataLoader",
        "input_ids, labels",
        _find_torchdata,
        _open_stateful,
        lambda batch: batch["input_ids"],
        lambda loader: loader.state_dict(),
        partial(_resume_with_state, _open_stateful),
    )


def _find_torchdata(files: TokenFiles, shape: Shape) -> Path:
    import torchdata.stateful_dataloader  # noqa: F401  # whether it is there

    return files.prefix.with_suffix(".bin")


def _open_stateful(path: Path, shape: Shape, num_workers: int) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    generator = torch.Generator().manual_seed(1)
    return StatefulDataLoader(
        TokenRows(path, shape.seq_len),
        batch_size=shape.batch_size,
        shuffle=True,
        generator=generator,
        drop_last=True,
        num_workers=num_workers,
    )


def _resume_with_state(
    open_loader: Callable[..., Any], prepared: Any, shape: Shape, state: Any, num_workers: int
) -> Any:
    loader = open_loader(prepared, shape, num_workers)
    loader.load_state_dict(state)
    return loader


def megatron() -> Way:
    """Return torch's DataLoader over Megatron's GPTDataset, in its shuffled order."""
    return Way(
        "Megatron GPTDataset + DataLoader",
        "tokens, labels, loss_mask, position_ids",
        lambda files, shape: packing_peers.megatron_rows(files, shape.seq_len),
        _open_megatron,
        lambda batch: batch["tokens"],
    )


def _open_megatron(rows: Any, shape: Shape, num_workers: int) -> Any:
    return DataLoader(rows, batch_size=shape.batch_size, drop_last=True, num_workers=num_workers)


def litdata() -> Way:
    """Return LitData's token loader: one block of L + 1 tokens a row."""
    return Way(
        "LitData TokensLoader",
        "one tensor of L + 1 tokens",
        _write_litdata,
        _open_litdata,
        lambda batch: batch[:, :-1],
        lambda loader: loader.state_dict(),
        partial(_resume_with_state, _open_litdata),
    )


def _write_litdata(files: TokenFiles, shape: Shape) -> Path:
    from litdata import TokensLoader, optimize

    folder = files.prefix.parent / "litdata"
    if not folder.exists():
        chunk = (shape.seq_len + 1) * min(4096, files.num_tokens // (shape.seq_len + 1))
        optimize(
            partial(_litdata_tokens, files.prefix.with_suffix(".bin"), chunk),
            inputs=list(range(files.num_tokens // chunk)),
            output_dir=str(folder),
            chunk_size=chunk,
            item_loader=TokensLoader(),
            verbose=False,
            num_workers=1,
        )
    return folder


def _litdata_tokens(path: Path, count: int, number: int) -> Iterator[torch.Tensor]:
    tokens = np.fromfile(path, np.uint16, count, offset=2 * number * count)
    yield torch.from_numpy(tokens.astype(np.int64))


def _open_litdata(folder: Path, shape: Shape, num_workers: int) -> Any:
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

    rows = StreamingDataset(
        str(folder), item_loader=TokensLoader(shape.seq_len + 1), shuffle=True, drop_last=True
    )
    return StreamingDataLoader(
        rows, batch_size=shape.batch_size, num_workers=num_workers, drop_last=True
    )


def mosaicml() -> Way:
    """Return MosaicML Streaming over samples of L + 1 tokens."""
    return Way(
        "MosaicML Streaming",
        "one tensor of L + 1 tokens",
        _write_mosaicml,
        _open_mosaicml,
        lambda batch: batch["tokens"][:, :-1],
        lambda loader: loader.state_dict(),
        partial(_resume_with_state, _open_mosaicml),
    )


def _write_mosaicml(files: TokenFiles, shape: Shape) -> Path:
    from streaming import MDSWriter

    folder = files.prefix.parent / "mosaicml"
    if not folder.exists():
        width = shape.seq_len + 1
        tokens = files.tokens()
        with MDSWriter(out=str(folder), columns={"tokens": f"ndarray:uint16:{width}"}) as writer:
            for first in range(0, len(tokens) - width, width):
                writer.write({"tokens": np.asarray(tokens[first : first + width])})
    return folder


def _open_mosaicml(folder: Path, shape: Shape, num_workers: int) -> Any:
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()

    class Rows(StreamingDataset):  # type: ignore[misc]  # untyped
        def __getitem__(self, row: int) -> Any:
            return {"tokens": torch.from_numpy(super().__getitem__(row)["tokens"].astype(np.int64))}

    rows = Rows(local=str(folder), shuffle=True, batch_size=shape.batch_size, shuffle_seed=1)
    return StreamingDataLoader(
        rows, batch_size=shape.batch_size, num_workers=num_workers, drop_last=True
    )


def trl() -> Way:
    """Return torch's DataLoader over a data set that TRL packed before ("wrapped")."""
    return Way(
        "TRL wrapped + DataLoader",
        "input_ids, which are its labels",
        _pack_trl,
        _open_trl,
        lambda batch: batch["input_ids"],
    )


def _pack_trl(files: TokenFiles, shape: Shape) -> Any:
    rows = packing_peers.trl_rows(files, shape.seq_len, "wrapped")
    # Each thousand documents end with a short row.
    return rows.filter(lambda row: len(row["input_ids"]) == shape.seq_len)


def _open_trl(rows: Any, shape: Shape, num_workers: int) -> Any:
    return DataLoader(
        rows.with_format("torch"),
        batch_size=shape.batch_size,
        drop_last=True,
        num_workers=num_workers,
    )


# -- The floor -------------------------------------------------------------------------------


class _SameBatch(Dataset[dict[str, torch.Tensor]]):
    """Ready batches: what is left is torch's loader itself."""

    def __init__(self, shape: Shape) -> None:
        self._batch = {
            name: torch.ones((shape.batch_size, shape.seq_len), dtype=torch.int64)
            for name in ("input_ids", "labels")
        }

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self._batch.items()}


def ready() -> Way:
    """Return torch's DataLoader that copies a ready batch: what no loader of torch passes."""
    return Way(
        "limit: DataLoader of ready batches",
        "input_ids, labels",
        lambda files, shape: _SameBatch(shape),
        lambda rows, shape, num_workers: DataLoader(rows, batch_size=None, num_workers=num_workers),
        lambda batch: batch["input_ids"],
    )


OURS = (
    ours("concat", None, "all ten"),
    ours("concat", "hf", "input_ids, labels, position_ids"),
    ours("concat", "megatron", "tokens, labels, loss_mask, position_ids"),
    ours("best_fit", None, "all ten"),
    ours("chunk", "hf", "input_ids, labels, position_ids"),
)
PEERS = (stateful(), megatron(), litdata(), mosaicml(), trl())
LIMIT = ready()

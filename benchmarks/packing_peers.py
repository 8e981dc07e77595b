"""How others pack: documents in, batches of rows out, in this process and without a loader.

Each peer is used as its documentation shows. A maker raises ImportError where the peer is
not installed. TRL packs all documents before the first batch, Megatron writes its tables;
that is timed where the tables say so.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from corpora import END_OF_TEXT, VOCABULARY

if TYPE_CHECKING:
    from corpora import TokenFiles
    from numpy.typing import NDArray

Batches = Iterator[dict[str, torch.Tensor]]

# Peers warn of what they would use if it were there: JAX, Apex, a GPU.
warnings.filterwarnings("ignore", category=UserWarning)
warnings.filterwarnings("ignore", category=DeprecationWarning)
warnings.filterwarnings("ignore", category=FutureWarning)
logging.getLogger("absl").setLevel(logging.ERROR)


class Shape(NamedTuple):
    """Rows of a batch and tokens of a row."""

    batch_size: int
    seq_len: int


@dataclass(frozen=True)
class Packer:
    """A peer that packs.

    Attributes:
        name: What it is called in tables.
        fields: Ours that it has, too.
        packing: Ours that does the same.
        open: Returns batches of one epoch. Raises ImportError if it is not installed.
    """

    name: str
    fields: tuple[str, ...]
    packing: str
    open: Callable[[TokenFiles, Shape], Batches]

    @property
    def labels_are_shifted(self) -> bool:
        """Whether a label is the token after its own."""
        return "labels" in self.fields and self.open is not trl_bfd


def trl_bfd(files: TokenFiles, shape: Shape) -> Batches:
    """Pack with TRL and collate with its collator: input_ids, labels, position_ids."""
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    collate = DataCollatorForLanguageModeling(
        pad_token_id=0, padding_free=True, return_position_ids=True
    )
    rows = trl_rows(files, shape.seq_len, "bfd_split")
    for first in range(0, len(rows), shape.batch_size):
        yield collate([rows[k] for k in range(first, min(first + shape.batch_size, len(rows)))])


def trl_rows(files: TokenFiles, seq_len: int, strategy: str) -> Any:
    """Return a data set of rows that TRL packed, its documents shuffled first."""
    import datasets
    import pyarrow as pa
    from trl import pack_dataset

    datasets.disable_progress_bars()
    datasets.disable_caching()
    offsets = np.concatenate(([0], np.cumsum(files.lengths)))
    tokens = pa.array(files.tokens().astype(np.int32))
    column = pa.LargeListArray.from_arrays(pa.array(offsets), tokens)
    documents = datasets.Dataset(pa.table({"input_ids": column})).shuffle(seed=1)
    return pack_dataset(documents, seq_len, strategy)


def grain_concat(files: TokenFiles, shape: Shape) -> Batches:
    """Pack with Grain's concat-then-split: ids, segment ids, positions."""
    from grain.experimental import ConcatThenSplitIterDataset

    rows = ConcatThenSplitIterDataset(
        _grain_documents(files), length_struct={"input_ids": shape.seq_len}
    )
    return _grain_batches(rows, shape)


def grain_first_fit(files: TokenFiles, shape: Shape) -> Batches:
    """Pack with Grain's first-fit over 64 bins; documents are cut to the row before."""
    from grain.experimental import FirstFitPackIterDataset

    rows = FirstFitPackIterDataset(
        _grain_documents(files, shape.seq_len),
        length_struct={"input_ids": shape.seq_len},
        num_packing_bins=64,
    )
    return _grain_batches(rows, shape)


def _grain_documents(files: TokenFiles, longest: int | None = None) -> Any:
    import grain

    documents = [document[:longest] for document in files.documents()]
    source = grain.MapDataset.source(documents).seed(1).shuffle()
    return source.map(lambda document: {"input_ids": document}).to_iter_dataset()


def _grain_batches(rows: Any, shape: Shape) -> Batches:
    names = {
        "input_ids": "input_ids",
        "segment_ids": "input_ids_segment_ids",
        "position_ids": "input_ids_positions",
    }
    for batch in rows.batch(shape.batch_size):
        arrays = {ours: batch[theirs] for ours, theirs in names.items()}
        arrays["input_ids"] = arrays["input_ids"].astype(np.int64)
        yield {name: torch.from_numpy(array) for name, array in arrays.items()}


def megatron(files: TokenFiles, shape: Shape) -> Batches:
    """Read rows of Megatron's GPTDataset: tokens and labels; its masks are cached."""
    rows = megatron_rows(files, shape.seq_len)
    for first in range(0, len(rows) - shape.batch_size + 1, shape.batch_size):
        batch = [rows[k] for k in range(first, first + shape.batch_size)]
        yield {
            "input_ids": torch.stack([row["tokens"] for row in batch]),
            "labels": torch.stack([row["labels"] for row in batch]),
        }


def megatron_rows(files: TokenFiles, seq_len: int) -> Any:
    """Return Megatron's data set of one shuffled epoch."""
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    path = str(files.prefix)
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=seq_len,
        blend=([path], None),
        split="1,0,0",
        path_to_cache=f"{path}-cache",
        tokenizer=SimpleNamespace(
            eod=END_OF_TEXT, pad=None, vocab_size=VOCABULARY, unique_identifiers={"class": "none"}
        ),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    documents = np.arange(len(files.lengths), dtype=np.int32)
    index = IndexedDataset(path, multimodal=False, mmap=True)
    return GPTDataset(index, path, documents, None, Split.train, config)


def nanogpt(files: TokenFiles, shape: Shape, *, map_once: bool = False) -> Batches:
    """Cut rows out of the mapped tokens anywhere: x and y.

    nanoGPT maps the file for each batch, as the pages of one map would count as memory in use.
    """
    tokens = files.tokens()
    seq_len = shape.seq_len
    for _ in range(files.num_tokens // (shape.batch_size * seq_len)):
        if not map_once:
            tokens = files.tokens()
        firsts = torch.randint(len(tokens) - seq_len, (shape.batch_size,))
        x = [torch.from_numpy(tokens[k : k + seq_len].astype(np.int64)) for k in firsts]
        y = [torch.from_numpy(tokens[k + 1 : k + 1 + seq_len].astype(np.int64)) for k in firsts]
        yield {"input_ids": torch.stack(x), "labels": torch.stack(y)}


_IDS_AND_LABELS = ("input_ids", "labels")
PACKERS = (
    Packer("TRL bfd_split", ("input_ids", "labels", "position_ids"), "best_fit", trl_bfd),
    Packer(
        "Grain concat-then-split",
        ("input_ids", "position_ids", "segment_ids"),
        "concat",
        grain_concat,
    ),
    Packer(
        "Grain first-fit", ("input_ids", "position_ids", "segment_ids"), "best_fit", grain_first_fit
    ),
    Packer("Megatron GPTDataset", _IDS_AND_LABELS, "concat", megatron),
    Packer("nanoGPT get_batch", _IDS_AND_LABELS, "concat", nanogpt),
    Packer(
        "nanoGPT get_batch, mapped once",
        _IDS_AND_LABELS,
        "concat",
        partial(nanogpt, map_once=True),
    ),
)


def olmo_planner(lengths: NDArray[np.int64], seq_len: int) -> Callable[[], int]:
    """Return OLMo-core's best-fit packer; it counts rows."""
    from olmo_core.data.utils import InstancePacker

    ends = np.cumsum(lengths)
    documents = np.stack((ends - lengths, ends), axis=1).astype(np.uint64)
    return lambda: len(InstancePacker(seq_len).pack_documents(documents)[0])


def axolotl_planner(lengths: NDArray[np.int64], seq_len: int) -> Callable[[], int]:
    """Return axolotl's multipack sampler with its defaults; compiled before it is timed."""
    from axolotl.utils.samplers.multipack import MultipackBatchSampler
    from torch.utils.data import RandomSampler

    def plan(count: int) -> int:
        sampler = MultipackBatchSampler(
            RandomSampler(range(count)),
            batch_size=1,
            batch_max_len=seq_len,
            lengths=lengths[:count],
            bin_size=seq_len,
            num_processes=1,
        )
        return len(sampler.generate_batches())

    plan(10)
    return lambda: plan(len(lengths))


PLANNERS = {"OLMo-core InstancePacker": olmo_planner, "axolotl multipack": axolotl_planner}

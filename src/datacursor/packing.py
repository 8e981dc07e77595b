"""`PackedSampler`: a `CursorSampler` whose contributions are packed rows of tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from datacursor.document_source import DocumentSource
from datacursor.errors import ArgumentError
from datacursor.layout import make_layout
from datacursor.plan import PackingPlan
from datacursor.row_contributions import RowContributions
from datacursor.rows import RowDataset
from datacursor.sampler import CursorSampler
from datacursor.source_plan import SourcePlan
from datacursor.source_rows import SourceContributions, SourceRows
from datacursor.token_column import TokenColumn
from datacursor.tokens import TokenCorpus

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from datacursor.order import Order


class PlannedRows(RowDataset):
    """The rows of a plan, counted when somebody asks for their number."""

    def __init__(self, plan: PackingPlan, corpus: TokenCorpus, **options: Any) -> None:
        """Take the options of a `RowDataset`."""
        super().__init__(corpus, seq_len=plan.seq_len, num_rows=0, **options)
        self._plan = plan

    def __len__(self) -> int:
        """Return the number of rows in epoch 0."""
        return len(self._plan)


class _Kind(NamedTuple):
    """What rows are made by, as far as the kind of documents decides it."""

    plan: Callable[..., PackingPlan]
    dataset: Callable[..., RowDataset]
    contributions: Callable[[Any, bytes | None], RowContributions]


_CORPUS = _Kind(PackingPlan, PlannedRows, RowContributions)
_SOURCE = _Kind(SourcePlan, SourceRows, SourceContributions)


class PackedSampler(CursorSampler):
    """Deals out packed rows of a token corpus and remembers which entered an update.

    A `CursorSampler` whose contributions are rows of `seq_len` tokens. The plan is computed
    while it is read, in every process alike, and resumes at any number of ranks and workers
    and any batch size. Use it with `rows.dataset`:

    Args:
        corpus: The documents: a `TokenCorpus`; or, with packing="best_fit" and window_documents
            given, a `DocumentSource`, read as it is packed. Its rows are not counted, so `len` and
            `remaining` raise TypeError.
        seq_len: Tokens a row, L.
        batch_size: Rows in a micro-batch of one rank.
        packing: "concat", "best_fit" or "chunk"; like long_documents, tail, item_order,
            max_documents, align, min_fragment and window_documents as in `PackingPlan`.
        long_documents: What happens to a document longer than a row; best_fit asks for it.
        num_replicas: As in `CursorSampler`, like rank, shuffle, seed, drop_last,
            accumulation_steps, order and on_skip; shuffle and order concern documents.
        rank: This process.
        shuffle: A new order of documents each epoch.
        seed: Key of all epochs.
        drop_last: Drop an incomplete last round of all ranks.
        accumulation_steps: Micro-batches in an update.
        order: An `Order` over the documents, or documents in the order to read them.
        tail: What becomes of an incomplete last row.
        bos: Token put before every document, or None.
        eos: Token put after every document, or None.
        pad_id: Token in padding; masked by place, so it may equal eos. None: eos, else 0.
        keep_empty: Whether an empty document still has its bos and eos.
        item_order: Order in which best_fit places documents.
        max_documents: Pieces a row of best_fit holds at most.
        align: Multiple to which best_fit pads each piece.
        min_fragment: Shortest piece of a split document that best_fit keeps.
        window_documents: Documents of a window of best_fit.
        cost_groups: Rows of about one cost of attention that best_fit keeps together.
        counts_dir: Directory that keeps how many rows each window of best_fit has, for `len`.
        labels: "shifted": the next token of the same document; "hf": not shifted; None: as the
            format has them, else shifted.
        positions: "segment" restarts position_ids per segment, "document" continues them.
        format: What a batch holds: None for everything, or what one consumer takes: "hf",
            "varlen", "flex" or "megatron".
        flash_attn_kwargs: With "hf", also cu_seq_lens_q and _k, max_length_q and _k.
        ids_dtype: "int64" or "int32", of the token ids alone.
        columns: `TokenColumn` objects by name: further fields, one value a token.
        on_skip: What `skip` does.

    Raises:
        ArgumentError: An argument is out of range, or there is no row to train on.
        TypeError: An argument has the wrong type.

    Attributes:
        dataset: The rows as a map-style data set for `CursorLoader` or `DataLoader`.
        plan: The `PackingPlan`.

    Example:
        >>> from datacursor import CursorLoader
        >>> corpus = TokenCorpus.open([[1, 2, 3], [4, 5], [6, 7, 8, 9, 10]])
        >>> rows = PackedSampler(corpus, seq_len=4, batch_size=2, shuffle=False)
        >>> batch = next(iter(CursorLoader(rows.dataset, sampler=rows)))
        >>> batch["input_ids"].tolist()
        [[1, 2, 3, 4], [5, 6, 7, 8]]
        >>> batch["cu_seqlens"].tolist()
        [0, 3, 4, 5, 8]
    """

    def __init__(
        self,
        corpus: TokenCorpus | DocumentSource,
        *,
        seq_len: int,
        batch_size: int,
        packing: str = "concat",
        long_documents: str | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        accumulation_steps: int = 1,
        order: Order | ArrayLike | None = None,
        tail: str = "pad",
        bos: int | None = None,
        eos: int | None = None,
        pad_id: int | None = None,
        keep_empty: bool = False,
        item_order: str | None = None,
        max_documents: int | None = None,
        align: int = 1,
        min_fragment: int = 1,
        window_documents: int | None = None,
        cost_groups: int | None = None,
        counts_dir: str | os.PathLike[str] | None = None,
        labels: str | None = None,
        positions: str = "segment",
        format: str | None = None,
        flash_attn_kwargs: bool = False,
        ids_dtype: str = "int64",
        columns: Mapping[str, TokenColumn] | None = None,
        on_skip: str = "advance",
    ) -> None:
        if not isinstance(corpus, (TokenCorpus, DocumentSource)):
            raise TypeError(
                f"corpus must be a TokenCorpus, got {type(corpus).__name__}; "
                "use TokenCorpus.open(...), or a DocumentSource"
            )
        kind = _SOURCE if isinstance(corpus, DocumentSource) else _CORPUS
        self.plan = kind.plan(
            corpus,
            seq_len=seq_len,
            packing=packing,
            long_documents=long_documents,
            seed=seed,
            shuffle=shuffle,
            order=order,
            tail=tail,
            bos=bos,
            eos=eos,
            keep_empty=keep_empty,
            item_order=item_order,
            max_documents=max_documents,
            align=align,
            min_fragment=min_fragment,
            window_documents=window_documents,
            cost_groups=cost_groups,
            counts_dir=counts_dir,
        )
        dataset = kind.dataset(
            self.plan,
            corpus,
            bos=bos,
            eos=eos,
            pad_id=pad_id,
            labels=labels,
            positions=positions,
            align=align,
            truncate=long_documents == "truncate",
            max_documents=max_documents,
            format=format,
            flash_attn_kwargs=flash_attn_kwargs,
            ids_dtype=ids_dtype,
            columns=columns,
        )
        layout = make_layout(num_replicas, rank, batch_size, accumulation_steps, drop_last)
        if layout.batch_size * self.plan.seq_len >= 2**31:
            raise ArgumentError(
                "batch_size * seq_len must be below 2**31, the range of cu_seqlens, got "
                f"batch_size={layout.batch_size}, seq_len={self.plan.seq_len}"
            )
        contributions = kind.contributions(self.plan, dataset.fingerprint)
        self._set_up(dataset, contributions, layout, on_skip)

    def indices_of(self, epoch: int, update: int) -> NDArray[np.int64]:
        """Return the numbers of the rows in an update, over all ranks.

        Args:
            epoch: Pass over the data.
            update: Update within the epoch, counted from row 0, under the present layout.

        Returns:
            Row numbers, shape (m,), int64; `spans_of` says what they hold.

        Raises:
            ArgumentError: There is no such epoch or update.
        """
        first, count = self._range_of(epoch, update)
        return np.arange(first, first + count, dtype=np.int64)

    def spans_of(self, epoch: int, update: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the parts of documents in an update, over all ranks.

        Args:
            epoch: Pass over the data.
            update: Update within the epoch, counted from row 0, under the present layout.

        Returns:
            Spans (document, start, stop), shape (m, 3), and row_offsets, shape (rows + 1,);
            both int64.

        Raises:
            ArgumentError: There is no such epoch or update.
        """
        first, count = self._range_of(epoch, update)
        phase = self.cursor.phase if epoch == self.cursor.epoch else 0
        return self.plan.rows(epoch, first, count, phase=phase)

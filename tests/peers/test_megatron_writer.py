"""Data sets written by megatron-core itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_writers import documents_of

from datacursor.tokens import TokenCorpus

DOCUMENTS = [[[1, 2], [3]], [[4]], [[65499]]]  # sequences of each document


@pytest.fixture
def builder_class() -> Any:
    import torch  # noqa: F401  # the builder takes tensors
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    return IndexedDatasetBuilder


@pytest.mark.filterwarnings("ignore")  # of packages that megatron-core can do without
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_sequences_added_one_by_one_and_as_documents(
    dtype: Any, builder_class: Any, tmp_path: Path
) -> None:
    import torch

    builder = builder_class(str(tmp_path / "a.bin"), dtype=dtype)
    for sequence in DOCUMENTS[0]:
        builder.add_item(torch.tensor(sequence))
    builder.end_document()
    for (sequence,) in DOCUMENTS[1:]:
        builder.add_document(torch.tensor(sequence), [len(sequence)])
    builder.finalize(str(tmp_path / "a.idx"))
    corpus = TokenCorpus.open(tmp_path / "a")
    assert documents_of(corpus) == [[1, 2, 3], [4], [65499]]
    assert corpus.dtype == dtype

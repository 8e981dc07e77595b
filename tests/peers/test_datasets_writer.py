"""Data sets written by Hugging Face datasets itself."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest
from corpus_writers import DOCUMENTS, documents_of

from datacursor.conversion import convert
from datacursor.errors import CorpusError
from datacursor.tokens import TokenCorpus


@pytest.fixture
def dataset() -> datasets.Dataset:
    return datasets.Dataset.from_dict({"text": ["x"] * len(DOCUMENTS), "input_ids": DOCUMENTS})


@pytest.mark.parametrize("num_shards", [1, 3])
def test_saved_to_disk(num_shards: int, dataset: datasets.Dataset, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "saved", num_shards=num_shards)
    assert documents_of(TokenCorpus.open(tmp_path / "saved")) == DOCUMENTS


def test_saved_after_a_shuffle_and_a_selection(dataset: datasets.Dataset, tmp_path: Path) -> None:
    other = dataset.select([3, 0]).with_format("numpy", columns=["input_ids"])
    other.save_to_disk(tmp_path / "saved")
    assert documents_of(TokenCorpus.open(tmp_path / "saved")) == [DOCUMENTS[3], DOCUMENTS[0]]


def test_splits_saved_together(dataset: datasets.Dataset, tmp_path: Path) -> None:
    splits = datasets.DatasetDict(train=dataset, test=dataset.select([1]))
    splits.save_to_disk(tmp_path / "both")
    with pytest.raises(CorpusError, match=r"holds several splits, \['train', 'test'\]"):
        TokenCorpus.open(tmp_path / "both")
    assert documents_of(TokenCorpus.open(tmp_path / "both" / "train")) == DOCUMENTS
    assert documents_of(TokenCorpus.open(tmp_path / "both" / "test")) == [DOCUMENTS[1]]


def test_exported_to_parquet(dataset: datasets.Dataset, tmp_path: Path) -> None:
    dataset.to_parquet(tmp_path / "a.parquet")
    assert documents_of(TokenCorpus.open(tmp_path / "a.parquet")) == DOCUMENTS


def test_a_converted_corpus_is_a_data_set(dataset: datasets.Dataset, tmp_path: Path) -> None:
    dataset.to_parquet(tmp_path / "a.parquet")
    convert(tmp_path / "a.parquet", tmp_path / "out")
    assert datasets.load_from_disk(str(tmp_path / "out"))["input_ids"][:] == DOCUMENTS

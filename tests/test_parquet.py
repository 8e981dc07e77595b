"""Parquet files: the token column, row groups, nulls, damage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_writers import DOCUMENTS, documents_of

from datacursor.errors import CorpusError
from datacursor.tokens import TokenCorpus


def write(path: Path, documents: Any = DOCUMENTS, kind: Any = None, **options: Any) -> Path:
    column = pa.array(documents, kind or pa.list_(pa.int32()))
    pq.write_table(pa.table({"text": ["x"] * len(documents), "ids": column}), path, **options)
    return path


@pytest.mark.parametrize("make_list", [pa.list_, pa.large_list])
@pytest.mark.parametrize("values", ["int8", "uint8", "uint16", "int32", "uint32", "int64"])
def test_lists_of_every_width(make_list: Any, values: str, tmp_path: Path) -> None:
    highest = int(np.iinfo(values).max)
    documents = [[1, highest], [], [2, 3]]
    path = write(tmp_path / "a.parquet", documents, make_list(pa.type_for_alias(values)))
    corpus = TokenCorpus.open(path)
    assert documents_of(corpus) == documents
    assert corpus.dtype == np.dtype(values)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_row_groups_become_shards_and_other_columns_are_not_read(
    compression: str, tmp_path: Path
) -> None:
    documents = DOCUMENTS * 5
    path = write(tmp_path / "a.parquet", documents, row_group_size=3, compression=compression)
    corpus = TokenCorpus.open(path, column="ids")
    assert documents_of(corpus) == documents
    assert len(corpus.shards) == 7
    assert corpus.fingerprint == TokenCorpus.open(documents).fingerprint


def test_null_lists_are_counted_and_null_tokens_refused(tmp_path: Path) -> None:
    corpus = TokenCorpus.open(write(tmp_path / "a.parquet", [[1], None, [2]]))
    assert documents_of(corpus) == [[1], [], [2]]
    assert corpus.num_null == 1
    path = write(tmp_path / "b.parquet", [[1], [2], [3, None]], row_group_size=1)
    with pytest.raises(CorpusError, match=r"b\.parquet: column 'ids': row 2: token 1 is null"):
        TokenCorpus.open(path)


def test_files_of_a_directory_share_the_column(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", [[2]])
    write(tmp_path / "a.parquet", [[1]])
    assert documents_of(TokenCorpus.open(tmp_path)) == [[1], [2]]
    pq.write_table(pa.table({"other": [[1]]}), tmp_path / "c.parquet")
    with pytest.raises(CorpusError, match=r"c\.parquet: 0 columns are called 'ids'"):
        TokenCorpus.open(tmp_path)


def test_a_file_without_rows_has_no_documents(tmp_path: Path) -> None:
    assert TokenCorpus.open(write(tmp_path / "a.parquet", [])).num_documents == 0


def test_a_column_whose_name_looks_like_a_path_is_not_mistaken(tmp_path: Path) -> None:
    struct = pa.array([{"ids": 1}], pa.struct([("ids", pa.int32())]))
    pq.write_table(pa.table({"a": struct, "a.ids": [[7]]}), tmp_path / "a.parquet")
    with pytest.raises(CorpusError, match=r"row group 0 has columns \['a', 'a\.ids'\]"):
        TokenCorpus.open(tmp_path / "a.parquet")


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "a.parquet").read_bytes()
    for size in (4, 5, 100, len(data) - 1):
        (tmp_path / "a.parquet").write_bytes(data[:size])
        with pytest.raises(CorpusError, match=r"a\.parquet: (not a whole|damaged) Parquet"):
            TokenCorpus.open(tmp_path / "a.parquet")


def test_what_was_decoded_outlives_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    corpus = TokenCorpus.open(path)
    os.truncate(path, 100)
    assert corpus.shards[0].tokens[:4].tolist() == DOCUMENTS[0]
    with pytest.raises(CorpusError, match=r"a\.parquet changed while in use: \d+ bytes when open"):
        corpus.document(0)

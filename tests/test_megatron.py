"""Megatron's .idx and .bin: documents, sequences, dtypes, names."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from corpus_writers import (
    DOCUMENTS,
    LETTERS,
    documents_of,
    joined,
    megatron_index,
    pack,
    write_megatron,
)

from datacursor.errors import ArgumentError, CorpusError
from datacursor.tokens import TokenCorpus


def as_sequences(documents: list[list[int]]) -> list[list[list[int]]]:
    return [[document] for document in documents]


def test_the_bytes_of_a_small_index_are_read(tmp_path: Path) -> None:
    index = (
        b"MMIDIDX\x00\x00" + bytes([1, 0, 0, 0, 0, 0, 0, 0]) + b"\x08"
        b"\x02\0\0\0\0\0\0\0" + b"\x03\0\0\0\0\0\0\0"
        b"\x02\0\0\0" + b"\x01\0\0\0"
        b"\0\0\0\0\0\0\0\0" + b"\x04\0\0\0\0\0\0\0"
        b"\0\0\0\0\0\0\0\0" + b"\x01\0\0\0\0\0\0\0" + b"\x02\0\0\0\0\0\0\0"
    )
    assert index == megatron_index([2, 1], [0, 1, 2])
    (tmp_path / "a.idx").write_bytes(index)
    (tmp_path / "a.bin").write_bytes(b"\x01\0\xff\xff\x03\0")
    assert documents_of(TokenCorpus.open(tmp_path / "a.idx")) == [[1, 65535], [3]]


def test_a_data_set_opens_by_every_name_that_its_users_give(tmp_path: Path) -> None:
    write_megatron(tmp_path / "corpus.v1_document", as_sequences(DOCUMENTS))
    for name in ("corpus.v1_document", "corpus.v1_document.idx", "corpus.v1_document.bin", "."):
        corpus = TokenCorpus.open(tmp_path / name)
        assert documents_of(corpus) == DOCUMENTS, name
        assert corpus.dtype == np.uint16


@pytest.mark.parametrize("code", LETTERS)
def test_every_integer_dtype_keeps_its_highest_value(code: int, tmp_path: Path) -> None:
    highest = 256 ** struct.calcsize(LETTERS[code]) - 1
    highest //= 1 if LETTERS[code].isupper() else 2
    path = write_megatron(tmp_path / "a", [[[1, highest]], [[]], [[0]]], code)
    assert documents_of(TokenCorpus.open(path)) == [[1, highest], [], [0]]


def test_a_document_is_all_its_sequences(tmp_path: Path) -> None:
    path = write_megatron(tmp_path / "a", [[[1, 2], [3], []], [], [[4, 5]]])
    corpus = TokenCorpus.open(path)
    assert documents_of(corpus) == [[1, 2, 3], [], [4, 5]]
    assert corpus.fingerprint == TokenCorpus.open([[1, 2, 3], [], [4, 5]]).fingerprint


def test_without_document_ends_every_sequence_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.idx").write_bytes(megatron_index([2, 0, 1], [0]))
    (tmp_path / "a.bin").write_bytes(pack("H", [1, 2, 3]))
    assert documents_of(TokenCorpus.open(tmp_path / "a.idx")) == [[1, 2], [], [3]]


def test_tokens_are_viewed_and_offsets_shared(tmp_path: Path) -> None:
    path = write_megatron(tmp_path / "a", as_sequences(DOCUMENTS))
    tokens, begins, ends = TokenCorpus.open(path).shards[0]
    assert not tokens.flags.owndata
    assert not tokens.flags.writeable
    assert np.shares_memory(begins, ends)


def test_shards_of_a_directory_are_joined_in_order_of_name(tmp_path: Path) -> None:
    write_megatron(tmp_path / "b", [[[3]]], 4)
    write_megatron(tmp_path / "a", [[[1]], [[2]]])
    corpus = TokenCorpus.open(tmp_path)
    assert documents_of(corpus) == [[1], [2], [3]]
    assert corpus.dtype == np.int32


def test_a_changed_index_is_noticed_as_well_as_changed_tokens(tmp_path: Path) -> None:
    path = write_megatron(tmp_path / "a", as_sequences(DOCUMENTS))
    corpus = TokenCorpus.open(path)
    data = pickle.dumps(corpus)
    assert documents_of(pickle.loads(data)) == DOCUMENTS
    path.write_bytes(megatron_index([len(joined(DOCUMENTS))], [0, 1]))
    with pytest.raises(CorpusError, match=r"a\.idx is not the file that was pickled"):
        pickle.loads(data)
    with pytest.raises(CorpusError, match=r"a\.idx changed while in use: \d+ bytes when opened"):
        corpus.check_unchanged()


def test_arguments_of_other_formats_are_refused(tmp_path: Path) -> None:
    path = write_megatron(tmp_path / "a", as_sequences(DOCUMENTS))
    with pytest.raises(ArgumentError, match="column='ids' does not apply to format='megatron'"):
        TokenCorpus.open(path, column="ids")
    with pytest.raises(ArgumentError, match="eot=99 does not apply to format='megatron'"):
        TokenCorpus.open(path, eot=99)
    with pytest.raises(ArgumentError, match="dtype='uint16' does not apply to format='megatron'"):
        TokenCorpus.open(path, dtype="uint16")

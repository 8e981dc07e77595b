"""Flat token files: with and without header, documents told apart by a token."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from corpus_writers import (
    DOCUMENTS,
    EOT,
    documents_of,
    joined,
    llmc_header,
    npy_header,
    pack,
    write_flat,
    write_llmc,
    write_npy,
)

from datacursor import flat
from datacursor.errors import ArgumentError, CorpusError
from datacursor.tokens import TokenCorpus


def open_flat(path: Path, eot: int = EOT, dtype: str = "uint16") -> TokenCorpus:
    return TokenCorpus.open(path, format="flat", dtype=dtype, eot=eot)


def test_the_last_document_is_kept_without_marker(tmp_path: Path) -> None:
    """Case 19 of the packing list."""
    corpus = open_flat(write_flat(tmp_path / "train.bin", [5, 6, EOT, 7, 8, EOT, 9, 9]))
    assert documents_of(corpus) == [[5, 6, EOT], [7, 8, EOT], [9, 9]]
    assert corpus.lengths.tolist() == [3, 3, 2]


def test_highest_tokens_keep_their_value(tmp_path: Path) -> None:
    """Case 20 of the packing list."""
    corpus = open_flat(write_flat(tmp_path / "a.bin", [65535, EOT]))
    assert documents_of(corpus) == [[65535, EOT]]
    path = write_flat(tmp_path / "b.bin", [4294967295, EOT], "I")
    assert documents_of(open_flat(path, dtype="uint32")) == [[4294967295, EOT]]
    assert documents_of(open_flat(path, 4294967295, "uint32")) == [[4294967295], [EOT]]


@pytest.mark.parametrize(
    ("tokens", "documents"),
    [
        ([1], [[1]]),
        ([EOT], [[EOT]]),
        ([EOT, EOT, 1], [[EOT], [EOT], [1]]),
        ([1, 2, EOT], [[1, 2, EOT]]),
    ],
)
def test_markers_at_the_edges(
    tokens: list[int], documents: list[list[int]], tmp_path: Path
) -> None:
    assert documents_of(open_flat(write_flat(tmp_path / "a.bin", tokens))) == documents


def test_documents_that_begin_with_the_marker(tmp_path: Path) -> None:
    tokens = [7, EOT, 1, 2, EOT, EOT, 3]
    path = write_flat(tmp_path / "a.bin", tokens)
    corpus = TokenCorpus.open(path, format="flat", dtype="uint16", eot=EOT, eot_at="start")
    assert documents_of(corpus) == [[7], [EOT, 1, 2], [EOT], [EOT, 3]]


def test_llmc_documents_begin_with_the_marker(tmp_path: Path) -> None:
    for magic, dtype in ((20240520, np.uint16), (20240801, np.uint32)):
        path = write_llmc(tmp_path / f"{magic}.bin", [EOT, 1, 2, EOT, 3], magic)
        corpus = TokenCorpus.open(path, eot=EOT)
        assert documents_of(corpus) == [[EOT, 1, 2], [EOT, 3]]
        assert corpus.dtype == dtype
        at_end = TokenCorpus.open(path, eot=EOT, eot_at="end")
        assert documents_of(at_end) == [[EOT], [1, 2, EOT], [3]]


def test_llmc_shards_are_read_in_order_and_not_joined(tmp_path: Path) -> None:
    write_llmc(tmp_path / "train_000002.bin", [2, EOT, 3])
    write_llmc(tmp_path / "train_000001.bin", [EOT, 1])
    assert documents_of(TokenCorpus.open(tmp_path, eot=EOT)) == [[EOT, 1], [2], [EOT, 3]]


@pytest.mark.parametrize("version", [1, 2])
def test_numpy_files_state_their_dtype(version: int, tmp_path: Path) -> None:
    for letter in "HIiq":
        path = write_npy(tmp_path / f"{letter}.npy", joined(DOCUMENTS), letter, version)
        assert np.load(path).tolist() == joined(DOCUMENTS)
        corpus = TokenCorpus.open(path, eot=EOT)
        assert documents_of(corpus) == DOCUMENTS
        assert corpus.dtype == np.dtype(letter)


def test_files_without_tokens_have_no_documents(tmp_path: Path) -> None:
    for path in (write_llmc(tmp_path / "a.bin", []), write_npy(tmp_path / "a.npy", [])):
        corpus = TokenCorpus.open(path, eot=EOT)
        assert (corpus.num_documents, corpus.shards) == (0, ())


def test_signed_numpy_files_may_mark_with_a_negative_token(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "a.npy", [1, -1, 2], "i")
    assert documents_of(TokenCorpus.open(path, eot=-1)) == [[1, -1], [2]]


def test_raw_and_real_numpy_files_are_told_apart(tmp_path: Path) -> None:
    """OLMo calls tokens without a header .npy."""
    raw = write_flat(tmp_path / "part-0-00000.npy", joined(DOCUMENTS), "I")
    assert documents_of(open_flat(raw, dtype="uint32")) == DOCUMENTS
    with pytest.raises(CorpusError, match=r"0\.npy: format not recognised, .* format='flat', dtyp"):
        TokenCorpus.open(raw, eot=EOT)
    real = write_npy(tmp_path / "real.npy", joined(DOCUMENTS))
    with pytest.raises(CorpusError, match=r"real\.npy: starts with a NumPy header; .*'npy'"):
        open_flat(real)


def test_tokens_are_viewed_and_offsets_shared(tmp_path: Path) -> None:
    for path in (write_llmc(tmp_path / "a.bin", [EOT, 1]), write_npy(tmp_path / "a.npy", [1])):
        tokens, begins, ends = TokenCorpus.open(path, eot=EOT).shards[0]
        assert not tokens.flags.owndata
        assert tokens.flags.aligned
        assert len(begins) == 1 or np.shares_memory(begins, ends)


def test_markers_are_found_across_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 6, size=1000).tolist()
    whole = documents_of(open_flat(write_flat(tmp_path / "a.bin", tokens), eot=3))
    assert joined(whole) == tokens
    assert [document.count(3) for document in whole[:-1]] == [1] * (len(whole) - 1)
    assert all(document[-1] == 3 for document in whole[:-1])
    monkeypatch.setattr(flat, "_READ_TOKENS", 7)
    assert documents_of(open_flat(tmp_path / "a.bin", eot=3)) == whole


def test_padding_in_the_place_of_the_marker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(2**21))
    with pytest.raises(CorpusError, match="1048576 of the first 1048576 tokens are eot=0, which"):
        open_flat(path, eot=0)


def test_a_pickled_corpus_opens_with_the_same_arguments(tmp_path: Path) -> None:
    write_flat(tmp_path / "a.bin", [EOT, 1, EOT, 2], "I")
    corpus = TokenCorpus.open(tmp_path, format="flat", dtype="uint32", eot=EOT, eot_at="start")
    assert documents_of(pickle.loads(pickle.dumps(corpus))) == [[EOT, 1], [EOT, 2]]


def test_what_the_file_does_not_say_must_be_given(tmp_path: Path) -> None:
    path = write_flat(tmp_path / "a.bin", [1])
    with pytest.raises(CorpusError, match=r"a\.bin: format not recognised, .* format='flat', dtyp"):
        TokenCorpus.open(path, dtype="uint16", eot=EOT)
    with pytest.raises(ArgumentError, match=r"eot must be given: .* in /.*a\.bin"):
        TokenCorpus.open(path, format="flat", dtype="uint16")
    with pytest.raises(ArgumentError, match=r"dtype must be given, one of 'uint16', 'uint32': /"):
        TokenCorpus.open(path, format="flat", eot=EOT)
    with pytest.raises(ArgumentError, match="dtype must be one of 'uint16', 'uint32', got dtype='"):
        open_flat(path, dtype="int64")
    with pytest.raises(ArgumentError, match=r"eot must be in \[0, 65536\), got eot=65536"):
        open_flat(path, eot=65536)
    with pytest.raises(ArgumentError, match="eot_at must be one of 'end', 'start', got eot_at='m'"):
        TokenCorpus.open(path, format="flat", dtype="uint16", eot=EOT, eot_at="m")
    llmc = write_llmc(tmp_path / "b.bin", [1])
    with pytest.raises(ArgumentError, match="eot must be given"):
        TokenCorpus.open(llmc)
    with pytest.raises(ArgumentError, match=r"dtype='uint16' does not apply to format='llm\.c'"):
        TokenCorpus.open(llmc, dtype="uint16", eot=EOT)
    with pytest.raises(CorpusError, match=r"starts with a header of llm\.c; use format="):
        open_flat(llmc)


def test_headers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    llmc, npy = "llm.c", "npy"
    damaged = {
        (
            llmc,
            llmc_header(20240522, 1, 0),
        ): "magic is 20240522, expected one of 20240520, 20240801",
        (llmc, llmc_header(20240520, 2, 0)): "version is 2, expected 1 with magic 20240520",
        (llmc, llmc_header(20240801, 1, 0)): "version is 1, expected 7 with magic 20240801",
        (llmc, llmc_header(20240520, 1, 3) + b"1234"): "size is 1028 bytes, expected 1030 for 3 t",
        (llmc, llmc_header(20240520, 1, 1) + b"1234"): "size is 1028 bytes, expected 1026 for 1 t",
        (llmc, llmc_header(20240520, 1, -1)): "size is 1024 bytes, expected 1022 for -1 tokens",
        (llmc, llmc_header(20240520, 1, 0)[:1023]): "size is 1023 bytes, expected a header of 1024",
        (npy, npy_header("<u2", "(3,)") + b"1234"): "size is 132 bytes, expected 134 for 3 tokens",
        (npy, npy_header("<u2", "(-3,)")): "size is 128 bytes, expected 122 for -3 tokens",
        (npy, npy_header("<u2", "(2**70,)")): "damaged NumPy header",
        (npy, npy_header("<u2", f"({2**70},)")): f"for {2**70} tokens",
        (npy, npy_header("<u2", "(1, 2)") + b"1234"): r"shape is \(1, 2\), expected one dimension",
        (npy, npy_header("<f4", "(1,)") + b"1234"): "dtype is '<f4', expected little-endian integ",
        (npy, npy_header(">u2", "(1,)") + b"12"): "dtype is '>u2', expected little-endian integers",
        (npy, npy_header("|O", "(1,)") + b"12345678"): r"dtype is '\|O', expected little-endian",
        (npy, npy_header("what", "(1,)")): "damaged NumPy header",
        (npy, b"\x93NUMPY\x03\x00\x00\x00\x00\x00"): r"version is \(3, 0\), expected \(1, 0\)",
        (npy, b"\x93NUMPY\x01"): "damaged NumPy header",
        (npy, b"\x93NUMPY\x01\x00\xff\xff{"): "damaged NumPy header",
        (npy, pack("H", [1, 2, 3])): "damaged NumPy header",
        ("flat", b"123"): r"size is 3 bytes, not a multiple of 2 \(uint16\)",
    }
    for number, ((format, data), message) in enumerate(damaged.items()):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(data)
        dtype = "uint16" if format == "flat" else None
        with pytest.raises(CorpusError, match=rf"/{number}\.bin: .*{message}"):
            TokenCorpus.open(path, format=format, eot=EOT, dtype=dtype)

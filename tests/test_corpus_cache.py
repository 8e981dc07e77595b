"""Corpora opened through a cache: converted once, never stale, never damaged."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_writers import documents_of, write_datatrove

from datacursor import pieces
from datacursor.errors import ArgumentError, CorpusError
from datacursor.tokens import TokenCorpus

DOCUMENTS = [[row % 7] * (row % 5) for row in range(60)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_parquet(tmp_path / "a.parquet", DOCUMENTS)


def write_parquet(path: Path, documents: Any) -> Path:
    column = pa.array(documents, pa.list_(pa.int64()))
    pq.write_table(pa.table({"ids": column}), path, row_group_size=7)
    return path


def folders(cache: Path) -> list[Path]:
    return sorted(cache.iterdir())


def test_parquet_is_decoded_once(source: Path, tmp_path: Path, monkeypatch: Any) -> None:
    phases: list[str] = []

    def note(phase: str, num_done: int, num_bytes: int) -> None:
        phases.append(phase)
        assert 0 < num_done <= num_bytes == source.stat().st_size

    first = TokenCorpus.open(source, cache_dir=tmp_path / "cache", progress=note)
    assert set(phases) == {"write", "verify"}

    def refuse(*_: Any) -> Iterator[Any]:
        raise AssertionError("decoded again")

    monkeypatch.setattr("datacursor.parquet.read_row_groups", refuse)
    second = TokenCorpus.open(source, cache_dir=tmp_path / "cache")
    for corpus in (first, second, pickle.loads(pickle.dumps(second))):
        assert documents_of(corpus) == DOCUMENTS
        assert corpus.fingerprint == TokenCorpus.open(DOCUMENTS).fingerprint
        assert corpus.dtype == "uint16"
        assert not corpus.shards[0].tokens.flags.owndata
    (folder,) = folders(tmp_path / "cache")
    assert folder.name.startswith("a-")


@pytest.mark.parametrize("stem", ["x" * 240, "\u00e9" * 120])
def test_a_long_name_is_cut(stem: str, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / f"{stem}.parquet", DOCUMENTS)
    corpus = TokenCorpus.open(source, cache_dir=tmp_path / "cache")
    assert documents_of(corpus) == DOCUMENTS


def test_formats_that_are_mapped_anyway_are_not_copied(tmp_path: Path) -> None:
    path = write_datatrove(tmp_path / "a.ds", [[1, 2], [3]])
    corpus = TokenCorpus.open(path, cache_dir=tmp_path / "cache")
    assert documents_of(corpus) == [[1, 2], [3]]
    assert not (tmp_path / "cache").exists()


def test_a_changed_source_is_converted_anew(source: Path, tmp_path: Path) -> None:
    TokenCorpus.open(source, cache_dir=tmp_path / "cache")
    before = source.stat()
    changed = [[6 - token for token in document] for document in DOCUMENTS]
    write_parquet(source, changed)
    os.utime(source, ns=(before.st_mtime_ns, before.st_mtime_ns))  # the time alone is not trusted
    corpus = TokenCorpus.open(source, cache_dir=tmp_path / "cache")
    assert documents_of(corpus) == changed
    assert len(folders(tmp_path / "cache")) == 2


def test_another_column_is_another_corpus(tmp_path: Path) -> None:
    table = pa.table({"a": [[1]], "b": [[2]]})
    pq.write_table(table, tmp_path / "a.parquet")
    for column, expected in (("a", [[1]]), ("b", [[2]])):
        corpus = TokenCorpus.open(tmp_path / "a.parquet", column=column, cache_dir=tmp_path / "c")
        assert documents_of(corpus) == expected


@pytest.mark.parametrize("name", ["_origin.json", "state.json", "data-*"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "empty"])
def test_a_damaged_folder_is_made_again(
    name: str, damage: str, source: Path, tmp_path: Path
) -> None:
    TokenCorpus.open(source, cache_dir=tmp_path / "cache")
    (folder,) = folders(tmp_path / "cache")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (path,) = folder.glob(name)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "flip":  # a token, in the data file
        place = data.rfind(b"\x06\x00\x06\x00") if name == "data-*" else len(data) // 2
        assert place > 0
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    corpus = TokenCorpus.open(source, cache_dir=tmp_path / "cache")
    assert documents_of(corpus) == DOCUMENTS
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert folders(tmp_path / "cache") == [folder]


def test_an_interrupted_conversion_is_gone_on_with(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(phase: str, *_: int) -> None:
        if phase == "verify":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TokenCorpus.open(source, cache_dir=tmp_path / "cache", progress=interrupt)
    (partial,) = folders(tmp_path / "cache")
    assert partial.name.endswith(".partial")
    first_documents: list[int] = []
    real = pieces.read_pieces

    def note(files: Any, first: int = 0) -> Any:
        first_documents.append(first)
        return real(files, first)

    monkeypatch.setattr("datacursor.conversion.read_pieces", note)
    corpus = TokenCorpus.open(source, cache_dir=tmp_path / "cache")
    assert documents_of(corpus) == DOCUMENTS
    assert first_documents == [len(DOCUMENTS), 0]  # nothing to write, all to compare


def test_processes_at_once_share_one_conversion(source: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from datacursor.tokens import TokenCorpus;"
        "corpus = TokenCorpus.open(sys.argv[1], cache_dir=sys.argv[2],"
        " progress=lambda phase, *_: print(phase, end=' '));"
        "print(corpus.fingerprint.hex())"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "cache")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [run.communicate(timeout=60)[0].split() for run in runs]
    assert {words[-1] for words in outputs} == {TokenCorpus.open(DOCUMENTS).fingerprint.hex()}
    assert sum("write" in words for words in outputs) == 1
    assert len(folders(tmp_path / "cache")) == 1


def test_a_damaged_source_is_refused_and_leaves_no_folder(source: Path, tmp_path: Path) -> None:
    source.write_bytes(source.read_bytes()[:-9])
    with pytest.raises(CorpusError, match="not a whole Parquet file"):
        TokenCorpus.open(source, cache_dir=tmp_path / "cache", format="parquet")
    assert [p.name for p in folders(tmp_path / "cache") if not p.name.endswith(".partial")] == []


def test_a_corpus_in_memory_needs_no_cache(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"cache_dir='.*' is for files, got list"):
        TokenCorpus.open([[1]], cache_dir=tmp_path)

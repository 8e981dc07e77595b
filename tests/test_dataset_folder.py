"""Hugging Face data sets saved to disk: the manifest decides the files and their order."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from corpus_writers import documents_of, write_state

from datacursor.errors import CorpusError
from datacursor.tokens import TokenCorpus


def write_data(path: Path, documents: Any) -> None:
    table = pa.table({"input_ids": pa.array(documents, pa.list_(pa.int32()))})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ["data-00001-of-00002.arrow", "data-00000-of-00002.arrow"]
    write_state(tmp_path / "set", names)
    for name in [*names, "cache-0123.arrow"]:
        write_data(tmp_path / "set" / name, [[int(name[9]) if name[0] == "d" else 9]])
    return tmp_path / "set"


def test_the_manifest_decides_files_and_order(folder: Path) -> None:
    corpus = TokenCorpus.open(folder)
    assert documents_of(corpus) == [[1], [0]]
    assert documents_of(TokenCorpus.open(folder, format="arrow")) == [[1], [0]]
    assert documents_of(TokenCorpus.open([folder, folder])) == [[1], [0], [1], [0]]
    assert documents_of(pickle.loads(pickle.dumps(corpus))) == [[1], [0]]


def test_splits_are_not_joined(folder: Path) -> None:
    (folder.parent / "dataset_dict.json").write_text('{"splits": ["set", "test"]}')
    with pytest.raises(CorpusError, match=r"several splits, \['set', 'test'\]; open one of their"):
        TokenCorpus.open(folder.parent)


def test_a_missing_data_file_is_named(folder: Path) -> None:
    (folder / "data-00000-of-00002.arrow").unlink()
    with pytest.raises(FileNotFoundError, match=r"data-00000-of-00002\.arrow"):
        TokenCorpus.open(folder)


@pytest.mark.parametrize(
    "name",
    ["../a.arrow", "/etc/passwd", "sub/a", "..", ".", "", "a\\b", "c:a", "a\0", "\ud800"],
)
def test_a_name_never_leaves_the_folder(name: str, tmp_path: Path) -> None:
    write_data(tmp_path / "a.arrow", [[1]])
    folder = write_state(tmp_path / "set", [name])
    with pytest.raises(CorpusError, match=r"state\.json: filename is .*, expected the plain name"):
        TokenCorpus.open(folder)


def test_a_name_is_text(tmp_path: Path) -> None:
    for name in (7, None, ["a"], {"a": 1}):
        folder = write_state(tmp_path / "set", [], _data_files=[{"filename": name}])
        with pytest.raises(CorpusError, match=r"state\.json: filename is .*, expected the plain n"):
            TokenCorpus.open(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged JSON: "),
        ("[" * 100_000, "damaged JSON: "),
        ("\xff", "damaged JSON: "),
        ("[1]", "is a JSON list, expected an object"),
        ("{}", "_data_files is None, expected a list of file names"),
        ('{"_data_files": 3}', "_data_files is 3, expected a list of file names"),
        ('{"_data_files": []}', r"_data_files is \[\], expected a list of file names"),
        (
            '{"_data_files": [{"filename": "a"}, {"filename": "a"}]}',
            "_data_files names 'a' 2 times",
        ),
        (json.dumps({"_indices_data_files": ["i"]}), r"_indices_data_files is \['i'\], expected n"),
    ],
)
def test_a_damaged_manifest_is_refused(text: str, message: str, folder: Path) -> None:
    (folder / "state.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorpusError, match=rf"state\.json: {message}"):
        TokenCorpus.open(folder)


def test_a_manifest_that_is_too_large_is_not_read(folder: Path) -> None:
    with (folder / "state.json").open("ab") as file:
        file.write(bytes(2**24))
    with pytest.raises(
        CorpusError, match=r"state\.json: size is \d+ bytes, expected at most 16777"
    ):
        TokenCorpus.open(folder)

"""Corpora rewritten as folders: the same documents, whatever interrupts the writing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_writers import (
    DOCUMENTS,
    EOT,
    documents_of,
    joined,
    write_datatrove,
    write_flat,
    write_llmc,
    write_megatron,
    write_npy,
)

from datacursor import corpus_writer, pieces
from datacursor.cli import main
from datacursor.conversion import convert
from datacursor.errors import ArgumentError, CorpusError
from datacursor.tokens import TokenCorpus

MANY = [[row % 7] * (row % 5) for row in range(60)]
OPERATIONS = ("fsync", "open", "replace", "rename", "rmdir", "unlink", "write", "mkdir")


def write_parquet(path: Path, documents: Any, values: str = "int32", group: int = 4) -> Path:
    column = pa.array(documents, pa.list_(pa.type_for_alias(values)))
    pq.write_table(pa.table({"ids": column}), path, row_group_size=group)
    return path


def write_ipc(path: Path, documents: Any) -> Path:
    table = pa.table({"ids": pa.array(documents, pa.list_(pa.uint16()))})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of some 10 tokens, files of some 20."""
    for module in (corpus_writer, pieces):
        monkeypatch.setattr(module, "PIECE_TOKENS", 10)
    monkeypatch.setattr(corpus_writer, "FILE_TOKENS", 20)


# --- The same documents --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (lambda d: write_parquet(d / "a.parquet", DOCUMENTS), {}),
        (lambda d: write_ipc(d / "a.arrow", DOCUMENTS), {}),
        (lambda d: write_megatron(d / "a", [[x[:1], x[1:]] for x in DOCUMENTS]), {}),
        (lambda d: write_datatrove(d / "a.ds", DOCUMENTS), {}),
        (lambda d: write_npy(d / "a.npy", joined(DOCUMENTS)), {"eot": EOT}),
        (lambda d: write_llmc(d / "a.bin", joined(DOCUMENTS)), {"eot": EOT, "eot_at": "end"}),
        (
            lambda d: write_flat(d / "a.bin", joined(DOCUMENTS)),
            {"eot": EOT, "dtype": "uint16", "format": "flat"},
        ),
    ],
    ids=["parquet", "arrow", "megatron", "datatrove", "npy", "llm.c", "flat"],
)
@pytest.mark.usefixtures("small_files")
def test_every_format_keeps_documents_and_fingerprint(
    write: Callable[[Path], Path], options: dict[str, Any], tmp_path: Path
) -> None:
    source = write(tmp_path)
    built = convert(source, tmp_path / "out", **options)
    corpus = TokenCorpus.open(tmp_path / "out")
    assert documents_of(corpus) == DOCUMENTS
    assert corpus.fingerprint == TokenCorpus.open(source, **options).fingerprint
    assert built.fingerprint == corpus.fingerprint
    assert (built.num_documents, built.num_tokens) == (4, 11)
    assert built.dtype == corpus.dtype.name == "uint16"


@pytest.mark.usefixtures("small_files")
def test_pieces_of_a_directory_are_joined_into_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        write_parquet(tmp_path / "in" / f"{number}.parquet", MANY)
    convert(tmp_path / "in", tmp_path / "out")
    corpus = TokenCorpus.open(tmp_path / "out")
    assert documents_of(corpus) == MANY * 3
    assert 3 < len(list((tmp_path / "out").glob("data-*"))) <= 360 // 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_tokens_are_mapped_and_not_copied(tmp_path: Path) -> None:
    convert(write_parquet(tmp_path / "a.parquet", MANY), tmp_path / "out")
    (shard,) = TokenCorpus.open(tmp_path / "out").shards
    assert not shard.tokens.flags.owndata
    assert not shard.tokens.flags.writeable
    assert np.shares_memory(shard.begins, shard.ends)


@pytest.mark.usefixtures("small_files")
def test_null_documents_stay_null(tmp_path: Path) -> None:
    documents = [None if row % 3 == 1 else document for row, document in enumerate(MANY)]
    for source in (
        write_parquet(tmp_path / "a.parquet", documents),
        write_ipc(tmp_path / "a.arrow", documents),
    ):
        target = tmp_path / f"out{source.suffix}"
        assert convert(source, target).num_null == 20
        corpus = TokenCorpus.open(target)
        assert corpus.num_null == 20
        assert documents_of(corpus) == [document or [] for document in documents]
        batch = pa.ipc.open_stream(next(target.glob("data-000000-*"))).read_next_batch()
        assert batch.column(0).to_pylist() == documents[: len(batch)]


@pytest.mark.parametrize("documents", [[], [[]], [[], []], [None]])
def test_corpora_without_tokens(documents: Any, tmp_path: Path) -> None:
    convert(write_parquet(tmp_path / "a.parquet", documents), tmp_path / "out")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [[] for _ in documents]


@pytest.mark.parametrize(
    ("values", "tokens", "dtype"),
    [
        ("int64", [0, 65535], "uint16"),
        ("int64", [0, 65536], "uint32"),
        ("int64", [0, 2**32], "int64"),
        ("int32", [-1, 0], "int64"),
        ("uint32", [2**32 - 1], "uint32"),
        ("uint8", [255], "uint8"),
        ("uint64", [2**63 - 1], "int64"),
    ],
)
def test_tokens_take_the_narrowest_dtype(
    values: str, tokens: list[int], dtype: str, tmp_path: Path
) -> None:
    source = write_parquet(tmp_path / "a.parquet", [tokens], values)
    assert convert(source, tmp_path / "out").dtype == dtype
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [tokens]


def test_a_token_past_int64_is_refused(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", [[2**63]], "uint64")
    with pytest.raises(CorpusError, match="token 9223372036854775808 is larger than int64"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("small_files")
def test_a_wider_token_begins_a_wider_file(tmp_path: Path) -> None:
    documents = [[1] * 10, [2] * 10, [3] * 10, [70000], [4] * 9, [5] * 10]
    convert(write_parquet(tmp_path / "a.parquet", documents, group=1), tmp_path / "out")
    corpus = TokenCorpus.open(tmp_path / "out")
    assert documents_of(corpus) == documents
    dtypes = [shard.tokens.dtype.name for shard in corpus.shards]
    assert dtypes == ["uint16"] * 3 + ["uint32"] * 2


# --- Interrupted -----------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone; no `except OSError` sees it."""


def fail_at(monkeypatch: pytest.MonkeyPatch, number: int | None, error: BaseException) -> list[str]:
    """Let one file operation fail, and all that come after a crash; return their names."""
    names: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            names.append(name)
            here = len(names) - 1
            if number is not None and (
                here == number or (here > number and isinstance(error, Crash))
            ):
                raise error
            return real(*args, **options)

        return call

    for name in OPERATIONS:
        monkeypatch.setattr(os, name, watched(name))
    return names


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("error", [Crash(), OSError(28, "No space left on device")], ids=str)
def test_after_a_failure_of_any_file_operation_the_result_is_the_same(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_parquet(tmp_path / "a.parquet", [*MANY[:9], [70000]])
    with monkeypatch.context() as patch:
        operations = fail_at(patch, None, error)
        convert(source, tmp_path / "whole")
    expected = contents(tmp_path / "whole")
    assert len(expected) > 4
    num_failed = 0
    for number in range(len(operations)):
        target = tmp_path / f"out{number}"
        with monkeypatch.context() as patch:
            fail_at(patch, number, error)
            try:
                convert(source, target)
            except (type(error), CorpusError):  # the latter where a file cannot be mapped
                num_failed += 1
        if target.exists():  # only ever whole
            assert contents(target) == expected
        convert(source, target)
        assert contents(target) == expected
        assert not target.with_name(target.name + ".partial").exists()
    assert num_failed > len(operations) // 2


@pytest.mark.skipif(os.name != "posix", reason="a directory cannot be synced there")
@pytest.mark.usefixtures("small_files")
def test_content_is_synced_before_names_and_names_before_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    with monkeypatch.context() as patch:
        operations = fail_at(patch, None, Crash())
        convert(source, tmp_path / "out")
    changes = [name for name in operations if name not in {"open", "unlink", "mkdir"}]
    named = [n for n, name in enumerate(changes) if name in {"replace", "rename"}]
    assert len(named) > 6
    for place in named:
        assert (changes[place - 1], changes[place + 1]) == ("fsync", "fsync")
    assert changes[-2:] == ["rename", "fsync"]


def test_a_full_disk_is_an_error_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    real = os.write

    def full(descriptor: int, data: Any) -> int:
        if (tmp_path / "out.partial" / ".data.tmp").exists():
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*out\.partial"):
            convert(source, tmp_path / "out")
    assert list(contents(tmp_path / "out.partial")) == ["_origin.json"]


KILLED = """
    import os, signal, sys
    from datacursor import corpus_writer, pieces
    from datacursor.conversion import convert

    corpus_writer.PIECE_TOKENS = pieces.PIECE_TOKENS = 10
    corpus_writer.FILE_TOKENS = 20
    left = int(sys.argv[3])

    def kill(phase, num_done, num_bytes):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    convert(sys.argv[1], sys.argv[2], progress=kill)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL there")
@pytest.mark.usefixtures("small_files")
def test_killed_processes_leave_whole_files_to_the_next(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    convert(source, tmp_path / "whole")
    found = []
    for pieces_read in (6, 12):  # the second one goes on where the first was killed
        command = [sys.executable, "-c", textwrap.dedent(KILLED), source, tmp_path / "out"]
        done = subprocess.run([*map(str, command), str(pieces_read)], check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
        assert not (tmp_path / "out").exists()
        found.append(len(list((tmp_path / "out.partial").glob("data-*"))))
    assert 0 < found[0] <= found[1]
    built = convert(source, tmp_path / "out")
    assert built.num_found > 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_processes_at_once_make_one_folder(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    code = (
        "import sys; from datacursor.conversion import convert; print(convert(*sys.argv[1:]).path)"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "out")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    assert [run.communicate(timeout=60)[0] for run in runs] == [f"{command[-1]}\n".encode()] * 3
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == MANY
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "out"]


# --- Refusals --------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_files")
def test_a_source_that_changed_between_attempts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    with monkeypatch.context() as patch:
        fail_at(patch, 40, Crash())
        with pytest.raises(Crash):
            convert(source, tmp_path / "out")
    write_parquet(source, MANY[1:])
    with pytest.raises(CorpusError, match=r"(?s)out\.partial was made of .* file 0\n.*then:.*now:"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_source_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)

    def change(phase: str, *_: int) -> None:
        if phase == "verify":
            os.utime(source, ns=(1, 1))
        else:
            write_parquet(source, MANY)

    with pytest.raises(CorpusError, match="was made of something else: file 0"):
        convert(source, tmp_path / "out", progress=change)
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_compared_again(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    convert(source, tmp_path / "out")
    before = contents(tmp_path / "out")
    assert convert(source, tmp_path / "out").num_found == len(MANY)
    assert contents(tmp_path / "out") == before
    (name,) = (path for path in (tmp_path / "out").glob("data-*"))
    data = bytearray(name.read_bytes())
    place = data.index(np.array([1, 2, 2, 3, 3, 3], np.uint16).tobytes())
    data[place] ^= 1
    name.write_bytes(data)
    with pytest.raises(CorpusError, match="out: tokens of documents 0 to 4 are not those of its"):
        convert(source, tmp_path / "out")


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("damage", ["cut", "flip", "lost"])
def test_damage_of_an_unfinished_folder_is_refused(damage: str, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)

    def interrupt(phase: str, *_: int) -> None:
        if phase == "verify":
            raise Crash

    with pytest.raises(Crash):
        convert(source, tmp_path / "out", progress=interrupt)
    (path,) = (tmp_path / "out.partial").glob("data-000001-*")
    data = bytearray(path.read_bytes())
    if damage == "lost":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-20])
    else:
        place = data.rindex(np.array([3, 3, 3, 3], np.uint16).tobytes())
        data[place] ^= 1
        path.write_bytes(data)
    with pytest.raises(CorpusError, match=r"out\.partial"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_target_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(CorpusError, match="other: exists and is no converted corpus; name another"):
        convert(source, other)
    assert contents(other) == {"mine.txt": b"mine"}
    convert(write_parquet(tmp_path / "b.parquet", MANY), tmp_path / "out")
    with pytest.raises(CorpusError, match=r"(?s)out was made of .*b\.parquet.*now:  a\.parquet"):
        convert(source, tmp_path / "out")
    with pytest.raises(ArgumentError, match="source names no path"):
        convert([], other)
    with pytest.raises(CorpusError, match=r"a\.parquet: exists and is not a directory"):
        convert(source, source)


def test_a_folder_of_somebody_else_is_not_gone_on_with(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    partial = tmp_path / "out.partial"
    partial.mkdir()
    (partial / "mine.txt").write_text("mine")
    with pytest.raises(
        CorpusError, match=r"out\.partial: exists and is no converted corpus; remove"
    ):
        convert(source, tmp_path / "out")
    assert contents(partial) == {"mine.txt": b"mine"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_stands_for_the_folder_that_it_names(is_there: bool, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    if is_there:
        (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    convert(source, tmp_path / "link")
    assert documents_of(TokenCorpus.open(tmp_path / "real")) == MANY
    assert convert(source, tmp_path / "link").num_found == len(MANY)


def test_the_root_is_no_target(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    with pytest.raises(ArgumentError, match="target must be a folder with a name, got target="):
        convert(source, Path(tmp_path.anchor))


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    convert(write_parquet(tmp_path / "a.parquet", MANY), tmp_path / "out")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == MANY


@pytest.mark.usefixtures("small_files")
def test_a_lost_file_is_noticed(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    convert(source, tmp_path / "out")
    next((tmp_path / "out").glob("data-000001-*")).unlink()
    with pytest.raises(FileNotFoundError, match="data-000001"):
        TokenCorpus.open(tmp_path / "out")
    with pytest.raises(CorpusError, match="is data file 2, expected number 1"):
        convert(source, tmp_path / "out")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 2}', "[" * 100_000])
def test_a_damaged_origin_is_refused(text: str, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    convert(source, tmp_path / "out")
    (tmp_path / "out" / "_origin.json").write_text(text)
    with pytest.raises(CorpusError, match="name another target, or remove this one"):
        convert(source, tmp_path / "out")


# --- The command -----------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    words = ["convert", str(source), str(tmp_path / "out"), "--json"]
    assert main(words) == 0
    printed = capsys.readouterr()
    facts = json.loads(printed.out)
    assert facts["documents"] == 60
    assert facts["fingerprint"] == TokenCorpus.open(MANY).fingerprint.hex()
    assert printed.err.splitlines()[-1].startswith("verify: 100 %")
    assert main(words[:-1]) == 0
    assert "found_documents  60" in capsys.readouterr().out
    write_parquet(source, MANY[1:])
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("datacursor: ")

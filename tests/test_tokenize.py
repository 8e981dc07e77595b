"""Corpora from texts: what a document is, what is refused, and what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_writers import documents_of

from datacursor import corpus_writer, texts
from datacursor.cli import main
from datacursor.errors import ArgumentError, CorpusError
from datacursor.text_corpus import tokenize
from datacursor.tokens import TokenCorpus

TEXTS = ["ab", "", "\u00fc\U0001f600", "line\r\nend\n", "c" * 40]
MANY = [chr(97 + row % 26) * (row % 9) for row in range(80)]


def as_documents(values: list[str], eos: int | None = None) -> list[list[int]]:
    end = [] if eos is None else [eos]
    return [[*text.encode(), *end] for text in values]


def write_jsonl(path: Path, values: list[Any], field: str = "text") -> Path:
    lines = [json.dumps({"id": row, field: value}) for row, value in enumerate(values)]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def write_parquet(path: Path, values: Any, kind: Any = None, **options: Any) -> Path:
    table = pa.table({"id": range(len(values)), "text": pa.array(values, kind or pa.string())})
    pq.write_table(table, path, **options)
    return path


def write_texts(folder: Path, values: list[str]) -> Path:
    folder.mkdir()
    for number, value in enumerate(values):
        (folder / f"{number:03d}.txt").write_bytes(value.encode())
    return folder


def write_as(format: str, folder: Path, values: list[str]) -> Path:
    if format == "text":
        return write_texts(folder / "in", values)
    write = write_jsonl if format == "jsonl" else write_parquet
    return write(folder / f"a.{format}", values)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_writer, "PIECE_TOKENS", 20)
    monkeypatch.setattr(corpus_writer, "FILE_TOKENS", 40)
    monkeypatch.setattr(texts, "_BATCH_TEXTS", 3)


@pytest.mark.parametrize("format", ["text", "jsonl", "parquet"])
@pytest.mark.parametrize("eos", [None, 256])
def test_texts_of_every_format(format: str, eos: int | None, tmp_path: Path) -> None:
    source = write_as(format, tmp_path, TEXTS)
    built = tokenize(source, tmp_path / "out", eos=eos)
    corpus = TokenCorpus.open(tmp_path / "out")
    assert documents_of(corpus) == as_documents(TEXTS, eos)
    assert corpus.fingerprint == built.fingerprint
    assert corpus.dtype == "uint16"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, "out"])


@pytest.mark.parametrize(
    ("eos", "dtype"),
    [(None, "uint16"), (65535, "uint16"), (65536, "uint32"), (2**32 - 1, "uint32")],
)
def test_the_vocabulary_decides_the_dtype(eos: int | None, dtype: str, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", ["a"])
    assert tokenize(source, tmp_path / "out", eos=eos).dtype == dtype
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == as_documents(["a"], eos)


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_a_null_is_a_null_document_without_eos(write: Any, tmp_path: Path) -> None:
    source = write(tmp_path / ("a.jsonl" if write is write_jsonl else "a.parquet"), ["a", None, ""])
    assert tokenize(source, tmp_path / "out", eos=7).num_null == 1
    corpus = TokenCorpus.open(tmp_path / "out")
    assert documents_of(corpus) == [[97, 7], [], [7]]
    assert corpus.num_null == 1


def test_blank_lines_are_no_documents_and_the_last_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\n{"text": "a"}\r\n  \n{"text": "b"}')
    tokenize(tmp_path / "a.jsonl", tmp_path / "out")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [[97], [98]]


def test_a_byte_order_mark_before_the_first_line_is_left_out(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a.jsonl").write_bytes(mark + b'{"text": "a"}\n{"text": "b"}\n')
    (tmp_path / "b.jsonl").write_bytes(mark + b'\n{"text": "\xef\xbb\xbfc"}\n')
    (tmp_path / "c.jsonl").write_bytes(mark)
    tokenize([tmp_path / f"{name}.jsonl" for name in "abc"], tmp_path / "out")
    expected = [list(text.encode()) for text in ("a", "b", "\ufeffc")]
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == expected


def test_an_empty_text_file_is_an_empty_document(tmp_path: Path) -> None:
    tokenize(write_texts(tmp_path / "in", ["", "a", ""]), tmp_path / "out")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [[], [97], []]


def test_a_file_of_no_lines_has_no_documents(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert tokenize(tmp_path / "a.jsonl", tmp_path / "out").num_documents == 0
    assert TokenCorpus.open(tmp_path / "out").num_documents == 0


def test_another_column(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", ["a"], "body")
    tokenize(source, tmp_path / "out", column="body")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [[97]]


STRINGS = [pa.string(), pa.large_string(), pa.dictionary(pa.int16(), pa.string())]
if hasattr(pa, "string_view"):
    STRINGS.append(pa.string_view())


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_string_columns_and_row_groups(kind: Any, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY, kind, row_group_size=7)
    tokenize(source, tmp_path / "out")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == as_documents(MANY)


def test_a_directory_is_read_below_and_in_order_of_path(tmp_path: Path) -> None:
    for name, text in (("b/a.py", "3"), ("a.txt", "1"), ("b.md", "2"), (".git/x", "x")):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "in" / "b" / ".hidden").write_text("x")
    tokenize(tmp_path / "in", tmp_path / "out")
    found = documents_of(TokenCorpus.open(tmp_path / "out"))
    expected = [path.read_bytes() for path in sorted((tmp_path / "in").rglob("[ab]*.*"))]
    assert [bytes(document) for document in found] == expected
    assert len(found) == 3


def test_several_formats_need_one_named(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "in", ["x"])
    write_jsonl(folder / "a.jsonl", ["a"])
    with pytest.raises(ArgumentError, match=r"files of several formats \(.*000\.txt.*format="):
        tokenize(folder, tmp_path / "out")
    tokenize(folder, tmp_path / "out", format="jsonl")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [[97]]


def test_the_case_of_a_suffix_does_not_matter(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "A.JSONL", ["a"])
    tokenize(tmp_path / "A.JSONL", tmp_path / "out")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [[97]]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("kind", ["pipe", "broken", "directory", "circle"])
def test_nothing_below_a_directory_is_left_out_in_silence(kind: str, tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "in", ["x"])
    (tmp_path / "elsewhere").mkdir()
    path = folder / "odd"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"broken": "nowhere", "directory": "../elsewhere", "circle": "odd"}[kind])
    with pytest.raises((CorpusError, OSError), match="odd"):
        tokenize(folder, tmp_path / "out")
    path.rename(folder / ".odd")
    tokenize(folder, tmp_path / "out")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == [[ord("x")]]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(CorpusError, match=r"pipe\.jsonl: is a pipe or device, not a regular file"):
        tokenize(tmp_path / "pipe.jsonl", tmp_path / "out")


# --- Damage ----------------------------------------------------------------------------------


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ab\xffc")
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xc3"}\n')
    binary = pa.array([b"a", b"\xff"], pa.binary())
    array = pa.StringArray.from_buffers(2, *binary.buffers()[1:3])
    pq.write_table(pa.table({"text": array}), tmp_path / "c.parquet")
    for name, where, expected in (
        ("a.txt", r"a\.txt: byte 2 is 0xff, not UTF-8", ["ab\ufffdc"]),
        ("b.jsonl", r"b\.jsonl: line 2: byte 10 is 0xc3", ["a", "\ufffd"]),
        ("c.parquet", r"c\.parquet: row 1: byte 0 is 0xff", ["a", "\ufffd"]),
    ):
        with pytest.raises(CorpusError, match=where):
            tokenize(tmp_path / name, tmp_path / "strict")
        assert not (tmp_path / "strict").exists()
        tokenize(tmp_path / name, tmp_path / f"{name}.out", errors="replace")
        found = documents_of(TokenCorpus.open(tmp_path / f"{name}.out"))
        assert found == as_documents(expected)


def test_half_of_a_surrogate_pair(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a\\ud800b"}\n{"text": "\\ud83d\\ude00"}')
    with pytest.raises(CorpusError, match=r"line 1: character 1 is '\\ud800', half of a surr"):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out")
    tokenize(tmp_path / "a.jsonl", tmp_path / "replaced", errors="replace")
    found = documents_of(TokenCorpus.open(tmp_path / "replaced"))
    assert found == as_documents(["a\ufffdb", "\U0001f600"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "a"', "line 2: damaged JSON"),
        (b"[" * 100_000, "line 2: damaged JSON"),
        (b"[1]", "line 2: no field 'text', found list"),
        (b'{"body": "a", "id": 1}', r"line 2: no field 'text', found \['body', 'id'\]"),
        (b'{"text": 7}', "line 2: field 'text' is a int, expected a string"),
        (b'{"text": ["a"]}', "line 2: field 'text' is a list, expected a string"),
        (b"\x00", "line 2: damaged JSON"),
    ],
)
def test_damaged_lines_are_named(line: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\n' + line + b"\n")
    with pytest.raises(CorpusError, match=rf"a\.jsonl: {message}"):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damaged_parquet(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "a.parquet", MANY)
    with pytest.raises(CorpusError, match=r"no column 'id' of strings; columns: id \(int64\), te"):
        tokenize(source, tmp_path / "out", column="id")
    source.write_bytes(source.read_bytes()[:-9])
    with pytest.raises(CorpusError, match=r"a\.parquet: damaged Parquet data"):
        tokenize(source, tmp_path / "out")


# --- Interrupted -----------------------------------------------------------------------------


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("format", ["text", "jsonl", "parquet"])
def test_wherever_it_is_interrupted_the_result_is_the_same(format: str, tmp_path: Path) -> None:
    source = write_as(format, tmp_path, MANY)
    num_calls = 0

    def count(*_: Any) -> None:
        nonlocal num_calls
        num_calls += 1

    tokenize(source, tmp_path / "whole", eos=0, progress=count)
    expected = contents(tmp_path / "whole")
    assert len(expected) > 8
    num_resumed = 0
    for number in range(1, num_calls + 1, 3):
        left = number

        def interrupt(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        target = tmp_path / f"out{number}"
        with pytest.raises(KeyboardInterrupt):
            tokenize(source, target, eos=0, progress=interrupt)
        num_resumed += tokenize(source, target, eos=0).num_found > 0
        assert contents(target) == expected
    assert num_resumed > 3


KILLED = """
    import os, signal, sys
    from datacursor import corpus_writer, texts
    from datacursor.text_corpus import tokenize

    corpus_writer.PIECE_TOKENS, corpus_writer.FILE_TOKENS, texts._BATCH_TEXTS = 20, 40, 3

    def kill(phase, num_done, num_bytes):
        if num_done > num_bytes * float(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)

    tokenize(sys.argv[1], sys.argv[2], progress=kill)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL there")
@pytest.mark.usefixtures("small_files")
def test_killed_processes_leave_whole_files_to_the_next(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", MANY)
    tokenize(source, tmp_path / "whole")
    for share in ("0.4", "0.8"):
        command = [sys.executable, "-c", textwrap.dedent(KILLED)]
        command += [str(source), str(tmp_path / "out"), share]
        done = subprocess.run(command, check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
    assert tokenize(source, tmp_path / "out").num_found > 40
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_other_arguments_are_refused_on_going_on(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", MANY)
    tokenize(source, tmp_path / "out")
    with pytest.raises(CorpusError, match=r"(?s)something else: eos\n  then: None\n  now:  3"):
        tokenize(source, tmp_path / "out", eos=3)
    write_jsonl(source, MANY[1:])
    with pytest.raises(CorpusError, match=r"something else: file 0"):
        tokenize(source, tmp_path / "out")


def test_a_flipped_byte_of_the_result_is_noticed(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", MANY)
    tokenize(source, tmp_path / "out")
    (path,) = (tmp_path / "out").glob("data-*")
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=r"damaged: its bytes have the digest \w+, its name says"):
        tokenize(source, tmp_path / "out")


# --- Arguments and the command ---------------------------------------------------------------


def test_arguments_are_checked(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", ["a"])
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"eos": -1}, r"eos must be in \[0, 2\*\*32\), got eos=-1"),
        ({"errors": "ignore"}, "errors must be one of 'strict', 'replace'"),
        ({"format": "csv"}, "format must be one of"),
        ({"add_special_tokens": True}, "does not apply to tokenizer='bytes'"),
    )
    for options, message in wrong:
        with pytest.raises(ArgumentError, match=message):
            tokenize(source, tmp_path / "out", **options)
    with pytest.raises(FileNotFoundError, match="nothing"):
        tokenize(tmp_path / "nothing", tmp_path / "out")
    with pytest.raises(ArgumentError, match="target must not lie in a source"):
        tokenize(tmp_path, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="empty: no file of texts"):
        tokenize(tmp_path / "empty", tmp_path / "out")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000])
def test_a_file_that_is_no_tokenizer_is_refused(text: str, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", ["a"])
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(CorpusError, match=r"tokenizer\.json: not a tokenizer"):
        tokenize(source, tmp_path / "out", tokenizer=tmp_path / "tokenizer.json")


@pytest.mark.skipif(find_spec("tokenizers") is not None, reason="tokenizers is installed")
def test_without_tokenizers_the_error_says_what_to_install(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", ["a"])
    (tmp_path / "tokenizer.json").write_text('{"model": {}}')
    with pytest.raises(ImportError, match="pip install tokenizers"):
        tokenize(source, tmp_path / "out", tokenizer=tmp_path / "tokenizer.json")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", TEXTS)
    words = ["tokenize", str(source), str(tmp_path / "out"), "--tokenizer", "bytes", "--eos", "256"]
    assert main([*words, "--json"]) == 0
    printed = capsys.readouterr()
    facts = json.loads(printed.out)
    assert facts["documents"] == len(TEXTS)
    assert facts["dtype"] == "uint16"
    assert printed.err.startswith("write: 100 %")
    assert main(words) == 0
    assert os.fspath(tmp_path / "out") in capsys.readouterr().out
    assert main(["tokenize", str(tmp_path / "b"), "out", "--tokenizer", "bytes"]) == 2
    assert capsys.readouterr().err.startswith("datacursor: ")

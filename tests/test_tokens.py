"""TokenCorpus: what it reads, what it refuses, what its fingerprint covers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datacursor.errors import ArgumentError, CorpusError
from datacursor.fingerprint import NUM_BLOCKS, WHOLE_TOKENS, sampled_blocks
from datacursor.tokens import TokenCorpus

pa = pytest.importorskip("pyarrow")

DOCUMENTS = [[1, 2, 3], [4, 5], [], [6, 7, 8, 9, 10]]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
LIST_TYPES = {"list": pa.list_, "large_list": pa.large_list}
if hasattr(pa, "list_view"):
    LIST_TYPES |= {"list_view": pa.list_view, "large_list_view": pa.large_list_view}


def documents_of(corpus: TokenCorpus) -> list[list[int]]:
    return [corpus.document(index).tolist() for index in range(corpus.num_documents)]


def list_array(kind: str = "list", values: str = "uint16", documents: Any = DOCUMENTS) -> Any:
    return pa.array(documents, LIST_TYPES[kind](pa.type_for_alias(values)))


def write(path: Path, table: Any, *, stream: bool = False, **options: Any) -> Path:
    new_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    max_chunksize = options.pop("max_chunksize", None)
    with (
        pa.OSFile(str(path), "wb") as sink,
        new_writer(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer,
    ):
        writer.write_table(table, max_chunksize=max_chunksize)
    return path


def table(documents: Any = DOCUMENTS, name: str = "input_ids", **kinds: str) -> Any:
    return pa.table({name: list_array(documents=documents, **kinds)})


# --- Layouts -------------------------------------------------------------------------------


def test_counts_and_lengths_of_a_list() -> None:
    corpus = TokenCorpus.open(DOCUMENTS)
    assert (corpus.num_documents, corpus.num_tokens, corpus.num_null) == (4, 10, 0)
    assert corpus.lengths.dtype == np.int64
    assert corpus.lengths.tolist() == [3, 2, 0, 5]
    assert documents_of(corpus) == DOCUMENTS


def test_lengths_are_fresh_each_time() -> None:
    corpus = TokenCorpus.open(DOCUMENTS)
    corpus.lengths[:] = 0
    assert corpus.lengths.tolist() == [3, 2, 0, 5]


def test_every_layout_reads_the_same_and_has_one_fingerprint(tmp_path: Path) -> None:
    nested = list_array()
    chunked = pa.chunked_array([nested.slice(0, 1), nested.slice(1, 0), nested.slice(1)])
    layouts: dict[str, Any] = {
        "list": DOCUMENTS,
        "arrays": [np.array(document, dtype=np.int32) for document in DOCUMENTS],
        "mixed widths": [np.array(d, dtype=t) for d, t in zip(DOCUMENTS, INTEGERS, strict=False)],
        "chunked": chunked,
        "sliced": list_array(documents=[[7], *DOCUMENTS, [7, 7]]).slice(1, 4),
        "table": pa.table({"ids": chunked, "text": ["a", "b", "c", "d"]}),
        "batch": pa.RecordBatch.from_arrays([nested], ["ids"]),
        "file": write(tmp_path / "a.arrow", table()),
        "stream": write(tmp_path / "stream.arrow", table(), stream=True),
        "batches": write(tmp_path / "b.arrow", table(), max_chunksize=1),
        "compressed": write(tmp_path / "c.arrow", table(), compression="zstd"),
        "paths": [
            write(tmp_path / "p1.arrow", table(DOCUMENTS[:2], kind="large_list")),
            write(tmp_path / "p2.arrow", table(DOCUMENTS[2:], values="int64"), stream=True),
        ],
    }
    for kind in LIST_TYPES:
        layouts |= {f"{kind} {values}": list_array(kind, values) for values in INTEGERS}
    expected = TokenCorpus.open(DOCUMENTS).fingerprint
    assert len(expected) == 16
    for name, source in layouts.items():
        corpus = TokenCorpus.open(source)
        assert documents_of(corpus) == DOCUMENTS, name
        assert corpus.fingerprint == expected, name


def test_slice_of_an_arrow_list_starts_at_its_row() -> None:
    """Case 18 of the packing list."""
    corpus = TokenCorpus.open(list_array(documents=[[1, 2], [3, 4], [5, 6], [7, 8]]).slice(2))
    assert documents_of(corpus) == [[5, 6], [7, 8]]


def test_fixed_size_lists_and_their_slices() -> None:
    array = pa.array([[1, 2], [3, 4], None, [7, 8]], pa.list_(pa.int32(), 2))
    corpus = TokenCorpus.open(array.slice(1))
    assert documents_of(corpus) == [[3, 4], [], [7, 8]]
    assert corpus.num_null == 1


def test_slice_of_the_values_is_respected() -> None:
    values = pa.array([9, 9, 1, 2, 3], pa.uint16()).slice(2)
    corpus = TokenCorpus.open(pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), values))
    assert documents_of(corpus) == [[1], [2, 3]]


def test_null_list_is_an_empty_document_and_counted() -> None:
    corpus = TokenCorpus.open(list_array(documents=[[1, 2], None, [3]]))
    assert documents_of(corpus) == [[1, 2], [], [3]]
    assert corpus.num_null == 1
    assert TokenCorpus.open([[1, 2], None, [3]]).num_null == 1


def test_null_list_with_an_extent_is_empty_and_keeps_its_place() -> None:
    validity = pa.py_buffer(bytes([0b101]))
    offsets = pa.py_buffer(np.array([0, 2, 4, 5], dtype=np.int32))
    values = pa.array([1, 2, 3, None, 5], pa.uint16())
    array = pa.ListArray.from_buffers(
        pa.list_(pa.uint16()), 3, [validity, offsets], children=[values]
    )
    corpus = TokenCorpus.open(array)
    assert documents_of(corpus) == [[1, 2], [], [5]]
    assert corpus.fingerprint == TokenCorpus.open([[1, 2], [], [5]]).fingerprint


def test_null_token_names_row_and_place(tmp_path: Path) -> None:
    documents = [[1], [2, 3], [4, 5, None]]
    with pytest.raises(CorpusError, match=r"Arrow array: row 2: token 2 is null"):
        TokenCorpus.open(list_array(documents=documents))
    path = write(tmp_path / "a.arrow", table(documents), max_chunksize=1)
    with pytest.raises(CorpusError, match=r"a\.arrow: column 'input_ids': row 2: token 2 is null"):
        TokenCorpus.open(path)


def test_null_token_outside_the_slice_is_nobodys() -> None:
    array = list_array(documents=[[None], [1, 2], [None]])
    assert documents_of(TokenCorpus.open(array.slice(1, 1))) == [[1, 2]]


def test_highest_tokens_of_unsigned_types_keep_their_value(tmp_path: Path) -> None:
    """Case 20 of the packing list."""
    for values, highest in (("uint8", 255), ("uint16", 65535), ("uint32", 4294967295)):
        path = write(tmp_path / values, table([[1, highest]], values=values))
        corpus = TokenCorpus.open(path)
        assert corpus.document(0).tolist() == [1, highest]
        assert corpus.fingerprint == TokenCorpus.open([[1, highest]]).fingerprint
        assert corpus.fingerprint != TokenCorpus.open([[1, -1]]).fingerprint


def test_dtype_is_that_of_the_widest_shard(tmp_path: Path) -> None:
    narrow, wide = (list_array(values=values) for values in ("uint16", "uint32"))
    assert TokenCorpus.open(narrow).dtype == np.uint16
    paths = [
        write(tmp_path / "a.arrow", pa.table({"ids": narrow})),
        write(tmp_path / "b.arrow", pa.table({"ids": wide})),
    ]
    assert TokenCorpus.open(paths).dtype == np.uint32


def test_uncompressed_file_is_viewed_and_not_copied(tmp_path: Path) -> None:
    corpus = TokenCorpus.open(write(tmp_path / "a.arrow", table()))
    (tokens, begins, ends) = corpus.shards[0]
    assert not tokens.flags.owndata
    assert not tokens.flags.writeable
    assert begins.base is ends.base or np.shares_memory(begins, ends)
    source = list_array()
    (tokens, _, _) = TokenCorpus.open(source).shards[0]
    assert tokens.ctypes.data == source.values.buffers()[1].address


def test_document_is_a_copy_and_checks_its_number() -> None:
    corpus = TokenCorpus.open(DOCUMENTS)
    corpus.document(0)[:] = 9
    assert corpus.document(0).tolist() == [1, 2, 3]
    for index in (-1, 4):
        with pytest.raises(ArgumentError, match=rf"index must be in \[0, 4\), got index={index}"):
            corpus.document(index)


def test_empty_corpora_open(tmp_path: Path) -> None:
    sources = [[], list_array(documents=[]), pa.chunked_array([], pa.list_(pa.uint16()))]
    sources += [
        write(tmp_path / "a.arrow", table([])),
        write(tmp_path / "b", table([]), stream=True),
    ]
    for source in sources:
        corpus = TokenCorpus.open(source)
        assert (corpus.num_documents, corpus.num_tokens, corpus.shards) == (0, 0, ())
        assert corpus.lengths.tolist() == []
        assert corpus.fingerprint == TokenCorpus.open([]).fingerprint


def test_corpus_of_empty_documents_differs_from_an_empty_one() -> None:
    corpus = TokenCorpus.open([[], []])
    assert corpus.lengths.tolist() == [0, 0]
    assert corpus.fingerprint != TokenCorpus.open([]).fingerprint


# --- Columns, directories and formats ------------------------------------------------------


def columns(*names: str) -> Any:
    return pa.table({name: list_array(documents=[[len(name)]]) for name in names})


def test_column_choice() -> None:
    assert documents_of(TokenCorpus.open(columns("anything"))) == [[8]]
    assert documents_of(TokenCorpus.open(columns("labels", "tokens"))) == [[6]]
    assert documents_of(TokenCorpus.open(columns("labels", "tokens"), column="labels")) == [[6]]
    for ambiguous in (columns("input_ids", "tokens"), columns("a", "b")):
        with pytest.raises(CorpusError, match="several columns hold lists of integers"):
            TokenCorpus.open(ambiguous)
    with pytest.raises(CorpusError, match=r"0 columns are called 'x'; .*: a \(list<.*b \(list<"):
        TokenCorpus.open(columns("a", "b"), column="x")


def test_column_that_is_no_list_of_integers_is_refused() -> None:
    other = pa.table({"text": ["a"], "scores": [[0.5]]})
    with pytest.raises(CorpusError, match=r"no column holds lists of integers; columns: text \("):
        TokenCorpus.open(other)
    with pytest.raises(CorpusError, match="column 'text' is string, not a list of integers"):
        TokenCorpus.open(other, column="text")


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    both = pa.table({"text": ["abc" * 50] * 4, "input_ids": list_array()})
    path = write(tmp_path / "a.arrow", both, compression="zstd")
    assert documents_of(TokenCorpus.open(path)) == DOCUMENTS


def test_directory_is_read_in_order_of_name(tmp_path: Path) -> None:
    write(tmp_path / "b.ipc", table([[2]]))
    write(tmp_path / "a.arrow", table([[1]]))
    write(tmp_path / "c.feather", table([[3]]), stream=True)
    write(tmp_path / ".hidden.arrow", table([[4]]))
    (tmp_path / "readme.txt").write_text("no data")
    assert documents_of(TokenCorpus.open(tmp_path)) == [[1], [2], [3]]


def test_first_file_decides_the_column(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", table([[1]], name="ids"))
    write(tmp_path / "b.arrow", table([[1]], name="other"))
    with pytest.raises(CorpusError, match=r"b\.arrow: 0 columns are called 'ids'"):
        TokenCorpus.open(tmp_path)


def test_directory_without_arrow_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no file named \*\.arrow, \*\.ipc, \*\.feather"):
        TokenCorpus.open(tmp_path)


def test_format_must_fit_the_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", table())
    assert documents_of(TokenCorpus.open(path, format="arrow")) == DOCUMENTS
    assert documents_of(TokenCorpus.open(DOCUMENTS, format="memory")) == DOCUMENTS
    for source, name in ((DOCUMENTS, "arrow"), (path, "memory"), (DOCUMENTS, "parquet")):
        with pytest.raises(ArgumentError, match="format"):
            TokenCorpus.open(source, format=name)


# --- Refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([[1], [1.5]], "document 1 must hold integers, got dtype float64"),
        ([[1], [True]], "document 1 must hold integers, got dtype bool"),
        ([[1], [[2]]], "document 1 must be one flat sequence"),
        ([[1], [2, [3]]], "document 1 is not a sequence of integers"),
        ([[1], [2, None]], "document 1 must hold integers, got dtype object"),
        ([1, 2], "document 0 must be one flat sequence of integers, got int"),
        ([[1], "text"], "document 1 must be one flat sequence of integers, got str"),
        (np.arange(3), "a flat array of tokens has no documents"),
        (iter([[1]]), "a corpus is a sequence of documents"),
        (7, "a corpus is a sequence of documents"),
        (pa.array([1, 2]), "Arrow array of type int64 is not a list of integers"),
        (pa.array([["a"]]), "is not a list of integers"),
        (pa.array([[]], pa.list_(pa.int32(), 0)), "is not a list of integers"),
        (pa.schema([]), "Schema is not an Arrow array"),
    ],
)
def test_sources_without_token_documents_are_refused(source: Any, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        TokenCorpus.open(source)


def test_missing_file_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        TokenCorpus.open(tmp_path / "nothing.arrow")


def test_files_that_are_not_arrow_are_refused(tmp_path: Path) -> None:
    contents = {
        "empty": (b"", "is empty, 0 bytes"),
        "text": (b"hello, world", "format not recognised, it starts with b'hello, w'; tokens wi"),
        "magic": (b"ARROW1\0\0", "damaged Arrow data"),
    }
    for name, (data, message) in contents.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(CorpusError, match=message) as caught:
            TokenCorpus.open(path)
        assert str(path) in str(caught.value)


def test_other_formats_under_the_name_of_arrow_are_refused(tmp_path: Path) -> None:
    contents = {
        b"hello, world": "not an Arrow IPC file or stream, it starts with b'hello, w'",
        b"PAR1....": "a Parquet file",
        b"FEA1....": "a Feather version 1 file",
    }
    for data, message in contents.items():
        (tmp_path / "x.arrow").write_bytes(data)
        with pytest.raises(CorpusError, match=rf"x\.arrow: .*{message}"):
            TokenCorpus.open(tmp_path / "x.arrow", format="arrow")


def test_directory_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").mkdir()
    with pytest.raises(CorpusError, match=r"x\.arrow: is a directory, not a regular file"):
        TokenCorpus.open(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.arrow")
    with pytest.raises(CorpusError, match="is a pipe or device"):
        TokenCorpus.open(tmp_path / "x.arrow")


def from_offsets(offsets: list[int], num_values: int) -> Any:
    buffer = pa.py_buffer(np.array(offsets, dtype=np.int32))
    values = pa.array(range(num_values), pa.uint16())
    return pa.ListArray.from_buffers(
        pa.list_(pa.uint16()), len(offsets) - 1, [None, buffer], children=[values]
    )


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2, 4], "row 1: offset 3 is past the offset after it, 2"),
        ([0, 9, 4], "row 0: offset 9 is past the last value, there are 4"),
        ([0, -5, 4], "row 0: offset 0 is past the offset after it, -5"),
    ],
)
def test_damaged_offsets_name_row_and_both_values(
    offsets: list[int], message: str, tmp_path: Path
) -> None:
    damaged = from_offsets(offsets, 4)
    with pytest.raises(CorpusError, match=message):
        TokenCorpus.open(damaged)
    path = write(tmp_path / "a.arrow", pa.table({"ids": damaged}))
    with pytest.raises(CorpusError, match=rf"a\.arrow: column 'ids': {message}"):
        TokenCorpus.open(path)


def test_stream_cut_between_messages_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", table(), stream=True)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(CorpusError, match="without an end marker, truncated or never closed"):
        TokenCorpus.open(path)


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


DAMAGE = """
    import sys
    from datacursor.errors import CorpusError
    from datacursor.tokens import TokenCorpus

    path, stride = sys.argv[1], int(sys.argv[2])
    intact = open(path, "rb").read()
    TokenCorpus.open(path)

    def is_refused(data):
        with open(path + ".damaged", "wb") as file:
            file.write(data)
        try:
            TokenCorpus.open(path + ".damaged").compute_fingerprint(full=True)
        except CorpusError:
            return True
        return False

    for size in range(0, len(intact), stride):
        assert is_refused(intact[:size]), f"cut to {size} bytes"
    num_refused = 0
    for place in range(0, len(intact), stride):
        damaged = bytearray(intact)
        damaged[place] ^= (0x01, 0x80, 0xFF)[place % 3]
        num_refused += is_refused(damaged)
    assert num_refused > 0
"""


@pytest.mark.parametrize(
    ("stream", "compression"), [(False, None), (True, None), (False, "zstd"), (True, "lz4")]
)
def test_damaged_files_never_end_the_interpreter(
    stream: bool, compression: str | None, tmp_path: Path
) -> None:
    documents = [[5, 6, 7], None, [8], []] * 3
    path = tmp_path / "a.arrow"
    write(path, table(documents), stream=stream, compression=compression, max_chunksize=6)
    result = run_python(DAMAGE, str(path), "5")
    assert result.returncode == 0, result.stderr


# --- Files that change ---------------------------------------------------------------------


def test_file_truncated_in_use_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", table([list(range(50_000))] * 4, values="int64"))
    program = """
        import os, sys
        from datacursor.errors import CorpusError
        from datacursor.tokens import TokenCorpus

        corpus = TokenCorpus.open(sys.argv[1])
        size = os.path.getsize(sys.argv[1])
        os.truncate(sys.argv[1], 4096)
        reads = (corpus.check_unchanged, corpus.compute_fingerprint, lambda: corpus.document(3))
        for read in reads:
            try:
                read()
            except CorpusError as error:
                sizes = f"{size} bytes when opened, 4096 now"
                assert f"a.arrow changed while in use: {sizes}" in str(error)
            else:
                raise SystemExit("nothing was raised")
    """
    result = run_python(program, str(path))
    assert result.returncode == 0, result.stderr


def test_of_many_files_only_those_of_the_documents_are_checked(tmp_path: Path) -> None:
    files: tuple[tuple[str, list[list[int]]], ...]
    files = (("a", [[1], [2]]), ("b", []), ("c", [[3]]), ("d", []), ("e", [[4]]))
    for name, documents in files:
        write(tmp_path / f"{name}.arrow", table(documents))
    corpus = TokenCorpus.open(tmp_path)
    with (tmp_path / "c.arrow").open("ab") as file:
        file.write(b"more")
    corpus.check_unchanged(np.array([0, 1]))
    assert corpus.document(1).tolist() == [2]
    for touched in (np.array([2]), np.array([3, 0, 2, 2]), None):
        with pytest.raises(CorpusError, match=r"c\.arrow changed while in use"):
            corpus.check_unchanged(touched)


# --- Fingerprint ---------------------------------------------------------------------------


def test_fingerprint_is_the_documented_digest() -> None:
    import hashlib
    import struct

    digest = hashlib.blake2b(b"datacursor corpus 1\0", digest_size=16)
    digest.update(struct.pack("<2q", 4, 10))
    digest.update(struct.pack("<4q", 3, 2, 0, 5))
    digest.update(struct.pack("<10q", *range(1, 11)))
    assert TokenCorpus.open(DOCUMENTS).fingerprint == digest.digest()


@pytest.mark.parametrize(
    "changed",
    [
        [[1, 2, 3], [4, 5], [], [6, 7, 8, 9, 11]],
        [[1, 2], [3, 4, 5], [], [6, 7, 8, 9, 10]],
        [[1, 2, 3], [4, 5], [6, 7, 8, 9, 10]],
        [[4, 5], [1, 2, 3], [], [6, 7, 8, 9, 10]],
    ],
    ids=["one token", "one boundary", "an empty document", "the order"],
)
def test_other_content_has_another_fingerprint(changed: list[list[int]]) -> None:
    assert TokenCorpus.open(changed).fingerprint != TokenCorpus.open(DOCUMENTS).fingerprint


@pytest.fixture(scope="module")
def large() -> Any:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 600, size=6000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = rng.integers(0, 65536, size=offsets[-1]).astype(np.uint16)
    assert len(values) > WHOLE_TOKENS
    return offsets, values


def large_list(offsets: Any, values: Any) -> Any:
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))


def test_large_layouts_have_one_fingerprint(large: Any) -> None:
    offsets, values = large
    array = large_list(offsets, values)
    layouts = [
        array,
        pa.chunked_array([array.slice(first, 77) for first in range(0, 6000, 77)]),
        large_list(offsets, values.astype(np.int64)),
        array.cast(pa.list_(pa.uint32())),
        np.split(values, offsets[1:-1]),
    ]
    if hasattr(pa, "large_list_view"):
        # Documents stored back to front, so that no two neighbours touch.
        places = pa.array(np.arange(6000)[::-1].copy())
        backwards = array.take(places)
        begins = backwards.offsets.to_numpy()[:-1][::-1].copy()
        layouts.append(
            pa.LargeListViewArray.from_arrays(
                pa.array(begins), pa.array(np.diff(offsets)), backwards.values
            )
        )
    corpora = [TokenCorpus.open(layout) for layout in layouts]
    assert len({corpus.fingerprint for corpus in corpora}) == 1
    assert len({corpus.compute_fingerprint(full=True) for corpus in corpora}) == 1
    assert corpora[0].fingerprint != corpora[0].compute_fingerprint(full=True)


def test_sampled_fingerprint_covers_its_blocks_and_full_covers_everything(large: Any) -> None:
    offsets, values = large
    original = TokenCorpus.open(large_list(offsets, values))
    prefix = b"datacursor corpus 1\0" + np.array([6000, len(values)], dtype="<i8").tobytes()
    blocks = sampled_blocks(prefix, len(values))
    assert len(blocks) == NUM_BLOCKS
    assert all(a[1] <= b[0] for a, b in pairwise(blocks))
    inside = {place for first, stop in (blocks[0], blocks[-1]) for place in (first, stop - 1)}
    outside = {blocks[5][0] - 1, blocks[5][1]}
    for place in inside | outside:
        changed = values.copy()
        changed[place] ^= 1
        corpus = TokenCorpus.open(large_list(offsets, changed))
        assert (corpus.fingerprint != original.fingerprint) == (place in inside)
        assert corpus.compute_fingerprint(full=True) != original.compute_fingerprint(full=True)


def test_progress_ends_at_the_whole(large: Any) -> None:
    calls: list[tuple[int, int]] = []
    corpus = TokenCorpus.open(large_list(*large))
    corpus.compute_fingerprint(full=True, progress=lambda *done: calls.append(done))
    assert calls == [(WHOLE_TOKENS, corpus.num_tokens), (corpus.num_tokens, corpus.num_tokens)]


# --- Pickling ------------------------------------------------------------------------------


def test_memory_corpus_pickles_by_its_own_tokens() -> None:
    array = list_array(documents=[list(range(10_000)), [1, 2], None, [3]]).slice(1)
    corpus = TokenCorpus.open(array)
    data = pickle.dumps(corpus)
    assert len(data) < 2000
    copy = pickle.loads(data)
    assert documents_of(copy) == [[1, 2], [], [3]]
    assert (copy.num_null, copy.fingerprint) == (1, corpus.fingerprint)


def test_file_corpus_pickles_by_its_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.arrow", pa.table({"a": list_array(), "b": list_array(documents=[[7]] * 4)}))
    monkeypatch.chdir(tmp_path)
    corpus = TokenCorpus.open("a.arrow", column="b")
    monkeypatch.chdir("/")
    data = pickle.dumps(corpus)
    assert len(data) < 1000
    assert documents_of(pickle.loads(data)) == [[7]] * 4


def test_pickled_corpus_refuses_a_changed_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", table())
    data = pickle.dumps(TokenCorpus.open(path))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)
    write(path, table([[1, 2, 3], [4, 5], [], [6, 7, 8, 9, 11]]))
    with pytest.raises(CorpusError, match=r"a\.arrow is not the file that was pickled\n  then: "):
        pickle.loads(data)


# --- Imports -------------------------------------------------------------------------------


def test_lists_need_neither_pyarrow_nor_torch(tmp_path: Path) -> None:
    program = """
        import sys
        sys.modules["pyarrow"] = sys.modules["torch"] = None
        from datacursor.tokens import TokenCorpus
        assert len(TokenCorpus.open([[1, 2], [3]]).fingerprint) == 16
        try:
            TokenCorpus.open(sys.argv[1])
        except ImportError as error:
            assert "pyarrow" in str(error)
    """
    result = run_python(program, str(write(tmp_path / "a.arrow", table())))
    assert result.returncode == 0, result.stderr

"""Remote corpora: downloaded once, whole, and never outside their folder."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_writers import (
    DOCUMENTS,
    EOT,
    documents_of,
    joined,
    write_datatrove,
    write_megatron,
    write_npy,
    write_state,
)
from pyarrow import fs as pafs

from datacursor.conversion import convert
from datacursor.errors import ArgumentError, CorpusError
from datacursor.remote import ArrowStore, FsspecStore, RemoteFile, download, is_url
from datacursor.tokens import TokenCorpus

SEQUENCES = [[document] for document in DOCUMENTS]


class FakeStore:
    """A store that counts what is read and can be told to lie."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.before: RemoteFile | None = None  # said until something is read
        self.reads: list[str] = []

    def stat(self, path: str) -> RemoteFile:
        if path == "root":
            return RemoteFile(path, None, "")
        if path not in self.files:
            raise FileNotFoundError(path)
        if self.before is not None and not self.reads:
            return self.before
        return RemoteFile(path, len(self.files[path]), "1")

    def listed(self, path: str) -> Sequence[str]:
        return list(self.files)

    def open(self, path: str) -> Any:
        self.reads.append(path)
        return io.BytesIO(self.files[path])


@pytest.fixture
def memory() -> Iterator[Any]:
    fsspec = pytest.importorskip("fsspec")
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.rm("/", recursive=True)


def upload(filesystem: Any, folder: Path, at: str) -> None:
    for path in folder.iterdir():
        if path.is_file():
            filesystem.pipe(f"{at}/{path.name}", path.read_bytes())


def test_what_is_a_url() -> None:
    urls = ["s3://b/k", "memory://a", "file:///a", "hf://datasets/a"]
    assert all(map(is_url, urls))
    assert not any(map(is_url, ["a.arrow", "/a/b", "C:\\a", "c://a", "://a", "a/b://c"]))


def test_a_directory_is_downloaded_once(memory: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_megatron(tmp_path / "in" / "b", SEQUENCES[2:])
    write_megatron(tmp_path / "in" / "a", SEQUENCES[:2])
    (tmp_path / "in" / "README.md").write_text("not data")
    upload(memory, tmp_path / "in", "/corpus")
    done: list[tuple[str, int, int]] = []
    for _ in range(2):
        corpus = TokenCorpus.open(
            "memory://corpus", cache_dir=tmp_path / "cache", progress=lambda *d: done.append(d)
        )
        assert documents_of(corpus) == DOCUMENTS
    (folder,) = (tmp_path / "cache").iterdir()
    assert sorted(p.name for p in folder.iterdir()) == ["a.bin", "a.idx", "b.bin", "b.idx"]
    assert len(done) == 4  # all of the first opening
    assert done[3][1] == done[3][2] > done[0][1] > 0


@pytest.mark.parametrize("name", ["a.idx", "a.bin", "d.ds", "n.npy", "p.parquet"])
def test_a_file_comes_with_its_companion(name: str, memory: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    options = {"eot": EOT} if name == "n.npy" else {}
    write_megatron(tmp_path / "in" / "a", SEQUENCES)
    write_datatrove(tmp_path / "in" / "d.ds", DOCUMENTS)
    write_npy(tmp_path / "in" / "n.npy", joined(DOCUMENTS))
    pq.write_table(pa.table({"ids": DOCUMENTS}), tmp_path / "in" / "p.parquet")
    upload(memory, tmp_path / "in", "/corpus")
    url = f"memory://corpus/{name}"
    corpus = TokenCorpus.open(url, cache_dir=tmp_path / "cache", **options)  # type: ignore[arg-type]
    assert documents_of(corpus) == DOCUMENTS
    assert corpus.fingerprint == TokenCorpus.open(DOCUMENTS).fingerprint


def test_a_hugging_face_folder(memory: Any, tmp_path: Path) -> None:
    table = pa.table({"input_ids": DOCUMENTS})
    folder = write_state(tmp_path / "in", ["z.arrow", "a.arrow"])
    for name, part in (("z.arrow", table.slice(0, 3)), ("a.arrow", table.slice(3))):
        with (
            pa.OSFile(str(folder / name), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as writer,
        ):
            writer.write_table(part)
    upload(memory, folder, "/set")
    corpus = TokenCorpus.open("memory://set", cache_dir=tmp_path / "cache")
    assert documents_of(corpus) == DOCUMENTS


def test_a_changed_file_is_downloaded_again(memory: Any, tmp_path: Path) -> None:
    for documents in (DOCUMENTS, DOCUMENTS[::-1]):
        path = write_npy(tmp_path / "n.npy", joined(documents))
        memory.pipe("/n.npy", path.read_bytes())
        corpus = TokenCorpus.open("memory://n.npy", cache_dir=tmp_path / "cache", eot=EOT)
        assert documents_of(corpus) == documents


def test_a_file_url_is_a_local_path(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "a b.npy", joined(DOCUMENTS))
    corpus = TokenCorpus.open(path.as_uri(), eot=EOT)
    assert documents_of(corpus) == DOCUMENTS
    assert not corpus.shards[0].tokens.flags.owndata


def test_a_url_is_converted(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/n.npy", write_npy(tmp_path / "n.npy", joined(DOCUMENTS)).read_bytes())
    convert("memory://n.npy", tmp_path / "out", eot=EOT, cache_dir=tmp_path / "cache")
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == DOCUMENTS


def test_file_systems_of_arrow(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_megatron(tmp_path / "in" / "a", SEQUENCES)
    (tmp_path / "in" / "nested").mkdir()
    root = (tmp_path / "in").as_posix()
    local = download(ArrowStore(pafs.LocalFileSystem()), root, "x://in", tmp_path / "cache")
    assert documents_of(TokenCorpus.open(local)) == DOCUMENTS
    mock = pafs._MockFileSystem()
    mock.create_dir("in")
    for name in ("a.idx", "a.bin"):
        with mock.open_output_stream(f"in/{name}") as stream:
            stream.write((tmp_path / "in" / name).read_bytes())
    local = download(ArrowStore(mock), "in/a.idx", "x://in/a.idx", tmp_path / "cache")
    assert documents_of(TokenCorpus.open(local)) == DOCUMENTS
    with pytest.raises(FileNotFoundError, match="there is no in/b"):
        download(ArrowStore(mock), "in/b", "x://in/b", tmp_path / "cache")


# --- Refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "root/../evil.arrow",
        "root/a/b.arrow",
        "evil.arrow",
        "/etc/evil.arrow",
        "root/x\\..\\evil.arrow",
        "root/C:evil.arrow",
        "root/a\n.arrow",
        "other/evil.arrow",
    ],
)
def test_names_never_leave_the_folder(path: str, tmp_path: Path) -> None:
    store = FakeStore({path: b"data"})
    with pytest.raises(CorpusError, match=r"x://root: lists '.*', (which is not|expected the pl)"):
        download(store, "root", "x://root", tmp_path / "deep" / "cache")
    assert store.reads == []
    assert not (tmp_path / "deep").exists()


def test_a_file_of_unknown_size_is_refused(tmp_path: Path) -> None:
    class Sizeless:
        def invalidate_cache(self, path: str) -> None:
            pass

        def info(self, path: str) -> dict[str, Any]:
            return {"name": path, "type": "file", "size": None}

    with pytest.raises(CorpusError, match=r"https://a/b\.npy: its size is not known"):
        download(FsspecStore(Sizeless()), "https://a/b.npy", "https://a/b.npy", tmp_path)


def test_a_companion_lies_beside_its_file_in_a_url(tmp_path: Path) -> None:
    root = "https://a/b/c.idx"
    store = FakeStore({root: b"index", "https://a/b/c.bin": b"tokens"})
    path = download(store, root, root, tmp_path)
    assert path.read_bytes() == b"index"
    assert path.with_suffix(".bin").read_bytes() == b"tokens"


def test_a_file_that_ends_early_is_not_taken_for_whole(tmp_path: Path) -> None:
    store = FakeStore({"root/a.arrow": b"whole data"})
    store.before = RemoteFile("root/a.arrow", 11, "1")
    with pytest.raises(CorpusError, match=r"(?s)a\.arrow is not what .*11 bytes.*10 bytes"):
        download(store, "root", "x://root", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    store = FakeStore({"root/a.arrow": b"data"})
    store.before = RemoteFile("root/a.arrow", 4, "0")
    with pytest.raises(CorpusError, match=r"(?s)version '0'.*version '1'"):
        download(store, "root", "x://root", tmp_path)


def test_after_a_failure_whole_files_are_kept(tmp_path: Path) -> None:
    store = FakeStore({"root/a.arrow": b"first", "root/b.arrow": b"second"})
    real = store.open

    def fail(path: str) -> Any:
        if path.endswith("b.arrow"):
            raise ConnectionResetError("reset")
        return real(path)

    store.open = fail  # type: ignore[method-assign]
    with pytest.raises(ConnectionResetError):
        download(store, "root", "x://root", tmp_path)
    store.open = real  # type: ignore[method-assign]
    folder = download(store, "root", "x://root", tmp_path)
    assert store.reads == ["root/a.arrow", "root/b.arrow"]
    assert (folder / "b.arrow").read_bytes() == b"second"
    (folder / "a.arrow").write_bytes(b"fir")  # cut by hand
    download(store, "root", "x://root", tmp_path)
    assert (folder / "a.arrow").read_bytes() == b"first"


def test_an_object_that_stands_for_the_directory_is_stepped_over(tmp_path: Path) -> None:
    store = FakeStore({"root/a.arrow": b"data"})
    store.listed = lambda path: ["root/", "root/a.arrow", path]  # type: ignore[method-assign]
    folder = download(store, "root", "x://root", tmp_path)
    assert [path.name for path in folder.iterdir()] == ["a.arrow"]


def test_a_directory_without_data_is_refused(tmp_path: Path) -> None:
    store = FakeStore({"root/README.md": b"", "root/.hidden.arrow": b""})
    with pytest.raises(CorpusError, match=r"x://root: no file named \*\.arrow"):
        download(store, "root", "x://root", tmp_path)


def test_what_cannot_be_read_is_said(memory: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cache_dir must be given, to keep what is downl"):
        TokenCorpus.open("memory://a.arrow")
    with pytest.raises(ImportError, match="nothing://a: nothing installed reads such URLs"):
        TokenCorpus.open("nothing://a", cache_dir=tmp_path)
    with pytest.raises(FileNotFoundError):
        TokenCorpus.open("memory://nothing.arrow", cache_dir=tmp_path)
    memory.pipe("/set/state.json", json.dumps({"_data_files": ["../../a"]}).encode())
    with pytest.raises(CorpusError, match="expected the plain name of a file"):
        TokenCorpus.open("memory://set", cache_dir=tmp_path)

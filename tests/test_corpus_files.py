"""What all formats share: one fingerprint, one way to name files, one packed row."""

from __future__ import annotations

import pickle
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
    write_state,
)

from datacursor.errors import ArgumentError, CorpusError
from datacursor.fingerprint import WHOLE_TOKENS
from datacursor.tokens import FORMATS, TokenCorpus

Options = dict[str, Any]


def write_arrow(path: Path, documents: Any, *, stream: bool = False) -> Path:
    table = pa.table({"input_ids": pa.array(documents, pa.list_(pa.int32()))})
    new_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, new_writer(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def write_all(folder: Path, documents: Any = DOCUMENTS) -> dict[str, tuple[Path, Options]]:
    """Write the documents in every format; returns path and arguments, by format."""
    tokens = joined(documents)
    split = len(documents) // 2
    pq.write_table(
        pa.table({"input_ids": pa.array(documents, pa.list_(pa.int32()))}), folder / "a.parquet"
    )
    saved = write_state(folder / "saved", ["data-0.arrow", "data-1.arrow"])
    write_arrow(saved / "data-0.arrow", documents[:split], stream=True)
    write_arrow(saved / "data-1.arrow", documents[split:], stream=True)
    sequences = [[document[:1], document[1:]] for document in documents]
    end = {"eot": EOT, "eot_at": "end"}
    flat = {"format": "flat", "eot": EOT}
    return {
        "arrow": (write_arrow(folder / "a.arrow", documents), {}),
        "parquet": (folder / "a.parquet", {}),
        "data set folder": (saved, {}),
        "megatron": (write_megatron(folder / "a", [[d] for d in documents]), {}),
        "megatron sequences": (write_megatron(folder / "s", sequences, code=4), {}),
        "datatrove": (write_datatrove(folder / "a.ds", documents), {}),
        "datatrove u32": (write_datatrove(folder / "b.ds", documents, "I"), {}),
        "llm.c": (write_llmc(folder / "l.bin", tokens), end),
        "llm.c u32": (write_llmc(folder / "m.bin", tokens, 20240801), end),
        "npy": (write_npy(folder / "a.npy", tokens, "q"), end),
        "flat": (write_flat(folder / "f.bin", tokens), flat | {"dtype": "uint16"}),
        "flat u32": (write_flat(folder / "g.npy", tokens, "I"), flat | {"dtype": "uint32"}),
    }


def test_every_format_says_the_same_and_has_one_fingerprint(tmp_path: Path) -> None:
    expected = TokenCorpus.open(DOCUMENTS)
    written = write_all(tmp_path)
    assert set(FORMATS) - {"memory"} <= set(written)
    for name, (path, options) in written.items():
        corpus = TokenCorpus.open(path, **options)
        assert documents_of(corpus) == DOCUMENTS, name
        assert corpus.fingerprint == expected.fingerprint, name
        copy = pickle.loads(pickle.dumps(corpus))
        assert (documents_of(copy), copy.fingerprint) == (DOCUMENTS, corpus.fingerprint), name


def test_the_sampled_fingerprint_of_large_corpora_is_one_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 2000, size=1200)
    documents = [[*rng.integers(0, 99, size=n).tolist(), EOT] for n in lengths.tolist()]
    assert sum(map(len, documents)) > WHOLE_TOKENS
    fingerprints = {
        TokenCorpus.open(path, **options).fingerprint
        for path, options in write_all(tmp_path, documents).values()
    }
    assert fingerprints == {TokenCorpus.open(documents).fingerprint}


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from datacursor.loader import CursorLoader
    from datacursor.packing import PackedSampler

    def first_batch(corpus: TokenCorpus) -> tuple[Any, ...]:
        sampler = PackedSampler(corpus, seq_len=3, batch_size=4, packing="concat", seed=5)
        batch = next(iter(CursorLoader(sampler.dataset, sampler=sampler)))
        return tuple(batch[name].tolist() for name in ("input_ids", "labels", "spans"))

    expected = first_batch(TokenCorpus.open(DOCUMENTS))
    for name, (path, options) in write_all(tmp_path).items():
        assert first_batch(TokenCorpus.open(path, **options)) == expected, name


def test_lists_of_paths_keep_their_order(tmp_path: Path) -> None:
    written = write_all(tmp_path)
    for name, (path, options) in written.items():
        corpus = TokenCorpus.open([path, path], **options)
        assert documents_of(corpus) == DOCUMENTS * 2, name


def test_the_first_file_decides_the_format(tmp_path: Path) -> None:
    written = write_all(tmp_path)
    arrow, parquet = written["arrow"][0], written["parquet"][0]
    with pytest.raises(CorpusError, match=r"a\.parquet: not an Arrow IPC file or stream, a Parqu"):
        TokenCorpus.open([arrow, parquet])
    with pytest.raises(CorpusError, match=r"a\.arrow: not a whole Parquet file"):
        TokenCorpus.open([parquet, arrow])


def test_a_directory_of_several_formats_needs_one_named(tmp_path: Path) -> None:
    write_arrow(tmp_path / "a.arrow", [[1]])
    write_datatrove(tmp_path / "b.ds", [[2]])
    write_megatron(tmp_path / "c", [[[3]]])
    with pytest.raises(CorpusError, match=r"several formats \(a\.arrow, c\.idx, b\.ds\); name one"):
        TokenCorpus.open(tmp_path)
    assert documents_of(TokenCorpus.open(tmp_path, format="datatrove")) == [[2]]
    assert documents_of(TokenCorpus.open(tmp_path, format="megatron")) == [[3]]
    with pytest.raises(CorpusError, match=r"no file named \*\.parquet$"):
        TokenCorpus.open(tmp_path, format="parquet")


def test_data_in_memory_takes_no_arguments_of_files() -> None:
    with pytest.raises(ArgumentError, match="dtype, eot and eot_at are for files, got list"):
        TokenCorpus.open(DOCUMENTS, eot=EOT)
    with pytest.raises(ArgumentError, match="format='megatron' needs a path, got list"):
        TokenCorpus.open(DOCUMENTS, format="megatron")


def test_relative_paths_survive_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_megatron(tmp_path / "a", [[[1]]])
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(TokenCorpus.open("a"))
    monkeypatch.chdir("/")
    assert documents_of(pickle.loads(data)) == [[1]]

"""Files that lie about themselves: each lie one error, with file, field and both values."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from corpus_writers import (
    DOCUMENTS,
    EOT,
    joined,
    llmc_header,
    megatron_index,
    npy_header,
    pack,
    write_datatrove,
    write_flat,
    write_llmc,
    write_megatron,
    write_npy,
    write_state,
)

from datacursor.errors import CorpusError
from datacursor.tokens import TokenCorpus

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="pipes, links and holes are those of POSIX"
)

TERABYTE = 2**40
FLAT: dict[str, Any] = {"format": "flat", "dtype": "uint16", "eot": EOT}


def refuse(path: Path, message: str, **options: Any) -> None:
    with pytest.raises(CorpusError, match=message):
        TokenCorpus.open(path, **options)


# --- Megatron ------------------------------------------------------------------------------

LENGTHS, INDICES = [2, 1], [0, 1, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"magic": b"TNTIDX\0\0\0"}, r"magic is b'TNTIDX\\x00\\x00\\x00', expected b'MMIDIDX"),
        ({"version": 2}, "version is 2, expected 1"),
        ({"version": 2**64 - 1}, "version is 18446744073709551615, expected 1"),
        ({"code": 0}, "dtype code 0 is unknown, expected one of 1, 2, 3, 4, 5, 8"),
        ({"code": 6}, "dtype code 6 is a float, not an integer, expected one of"),
        ({"counts": (3, 3)}, "size is 82 bytes, expected 94 for 3 sequences and 3 document ind"),
        ({"counts": (2, 2**64 - 1)}, f"expected {58 + 8 * (2**64 - 1)} for 2 sequences"),
        ({"counts": (2**61, 3)}, f"expected {58 + 12 * 2**61} for {2**61} sequences"),
        ({"lengths": [3, -1]}, "sequence 1: length -1 is negative"),
        ({"lengths": [2**31 - 1, 1]}, "sequence 1: pointer is byte 4, expected 4294967294"),
        ({"pointers": [0, -4]}, "sequence 1: pointer is byte -4, expected 4"),
        ({"pointers": [2, 4]}, "sequence 0: pointer is byte 2, expected 0"),
        ({"pointers": [4, 0]}, "sequence 0: pointer is byte 4, expected 0"),
        ({"pointers": [0, 2**63 - 1]}, f"pointer is byte {2**63 - 1}, expected 4"),
        ({"indices": [0, 2, 1]}, "document index 1 is 2, past the one after it, 1"),
        ({"indices": [1, 1, 2]}, "document index 0 is 1, expected 0"),
        ({"indices": [0, -1, 2]}, "document index 0 is 0, past the one after it, -1"),
        ({"indices": [0, 1, 3]}, "last document index is 3, expected the number of sequences, 2"),
        ({"indices": [0, 0]}, "last document index is 0, expected the number of sequences, 2"),
        ({"indices": []}, "document index 0 is missing, expected 0"),
    ],
)
def test_every_field_of_an_index_is_checked(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    if "lengths" in changed:
        changed = {"pointers": [0, 4]} | changed
    lengths, indices = changed.pop("lengths", LENGTHS), changed.pop("indices", INDICES)
    (tmp_path / "a.idx").write_bytes(megatron_index(lengths, indices, **changed))
    (tmp_path / "a.bin").write_bytes(pack("H", [1, 2, 3]))
    refuse(tmp_path / "a.idx", rf"a\.idx: .*{message}", format="megatron")


def test_tokens_and_index_must_be_of_one_size(tmp_path: Path) -> None:
    index = write_megatron(tmp_path / "a", [[[1, 2]], [[3]]])
    for size in (1, 4, 5, 7, 8, 100):
        index.with_suffix(".bin").write_bytes(bytes(size))
        refuse(index, rf"a\.bin: size is {size} bytes, expected 6 for the sequences of /.*a\.idx")


def test_a_multimodal_index_is_named(tmp_path: Path) -> None:
    index = write_megatron(tmp_path / "a", [[[1, 2]], [[3]]])
    index.write_bytes(index.read_bytes() + bytes(2))
    refuse(index, r"size is 84 bytes, expected 82 .* \(sequence modes: a multimodal data set\)")


# --- datatrove -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (pack("Q", [2, 1, 3]), r"a\.ds\.index: document 0: end 2 is past the end after it, 1"),
        (pack("Q", [1, 2]), r"a\.ds: size is 6 bytes, expected 4 or 8 for the 2 tokens of /"),
        (pack("Q", [1, 2**64 - 1]), rf"expected {2**65 - 2} or {2**66 - 4} for the {2**64 - 1} t"),
        (pack("Q", [2**63, 3]), rf"document 0: end {2**63} is past the end after it, 3"),
        (pack("Q", [0]), r"a\.ds: size is 6 bytes, expected 0 or 0 for the 0 tokens of /"),
        (pack("Q", [1, 3])[:-1], r"a\.ds\.index: size is 15 bytes, not a multiple of 8"),
        (b"", r"a\.ds\.index: is empty, 0 bytes"),
    ],
)
def test_every_end_is_checked(index: bytes, message: str, tmp_path: Path) -> None:
    path = write_datatrove(tmp_path / "a.ds", [[1], [2, 3]])
    (tmp_path / "a.ds.index").write_bytes(index)
    refuse(path, message)


# --- Every format --------------------------------------------------------------------------


def targets(folder: Path) -> dict[str, tuple[Path, Path, dict[str, Any]]]:
    """By name: what to open, what to replace, and the arguments."""
    index = write_megatron(folder / "a", [[document] for document in DOCUMENTS])
    tokens = write_datatrove(folder / "a.ds", DOCUMENTS)
    llmc = write_llmc(folder / "l.bin", joined(DOCUMENTS))
    npy = write_npy(folder / "n.npy", joined(DOCUMENTS))
    flat = write_flat(folder / "f.bin", joined(DOCUMENTS))
    saved = write_state(folder / "set", ["data-0.arrow"])
    (folder / "p.parquet").write_bytes(b"PAR1PAR1")
    return {
        "a.idx": (index, index, {}),
        "a.bin": (index, index.with_suffix(".bin"), {}),
        "a.ds": (tokens, tokens, {}),
        "a.ds.index": (tokens, folder / "a.ds.index", {}),
        "l.bin": (llmc, llmc, {"format": "llm.c", "eot": EOT}),
        "n.npy": (npy, npy, {"format": "npy", "eot": EOT}),
        "f.bin": (flat, flat, FLAT),
        "p.parquet": (folder / "p.parquet", folder / "p.parquet", {}),
        "state.json": (saved, saved / "state.json", {}),
    }


NAMES = ["a.idx", "a.bin", "a.ds", "a.ds.index", "l.bin", "n.npy", "f.bin", "p.parquet"]
NAMES += ["state.json"]


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_file_is_refused(name: str, tmp_path: Path) -> None:
    target, replaced, options = targets(tmp_path)[name]
    replaced.write_bytes(b"")
    refuse(target, rf"{name}: is empty, 0 bytes", **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_sparse_terabyte_is_refused_at_once(name: str, tmp_path: Path) -> None:
    target, replaced, options = targets(tmp_path)[name]
    os.truncate(replaced, TERABYTE)
    message = rf"{name}: bytes \d+ to {TERABYTE} of {TERABYTE} were never written"
    refuse(target, message, **options)


def test_a_small_hole_is_data(tmp_path: Path) -> None:
    path = write_flat(tmp_path / "f.bin", [1, EOT])
    os.truncate(path, 2**20)
    assert TokenCorpus.open(path, **FLAT).lengths.tolist() == [2, 2**19 - 2]


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_in_the_place_of_a_file_is_refused(name: str, tmp_path: Path) -> None:
    target, replaced, options = targets(tmp_path)[name]
    replaced.unlink()
    replaced.mkdir()
    message = rf"{name}: is a directory, not a regular file"
    if target == replaced:  # a directory of shards may have any name
        message = r"no file named \*\."
    refuse(target, message, **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_is_refused_without_waiting(name: str, tmp_path: Path) -> None:
    target, replaced, options = targets(tmp_path)[name]
    replaced.unlink()
    os.mkfifo(replaced)
    refuse(target, rf"{name}: is a pipe or device", **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_loop_of_links_is_refused(name: str, tmp_path: Path) -> None:
    target, replaced, options = targets(tmp_path)[name]
    replaced.unlink()
    replaced.symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(replaced)
    refuse(target, rf"{name}: cannot be mapped: Too many levels of symbolic links", **options)


def test_a_loop_of_links_in_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.ds").symlink_to(tmp_path / "b.ds")
    write_datatrove(tmp_path / "a.ds", DOCUMENTS)
    refuse(tmp_path, r"b\.ds: cannot be mapped: Too many levels of symbolic links")


def test_a_device_is_refused_without_reading(tmp_path: Path) -> None:
    (tmp_path / "a.bin").symlink_to("/dev/zero")
    refuse(tmp_path / "a.bin", r"a\.bin: is a pipe or device", **FLAT)


def test_an_index_in_the_place_of_its_tokens_is_refused(tmp_path: Path) -> None:
    index = write_megatron(tmp_path / "a", [[[1, 2]]])
    index.with_suffix(".bin").unlink()
    index.with_suffix(".bin").symlink_to(index)
    refuse(index, r"a\.bin: size is 62 bytes, expected 4")


def test_counts_decide_no_allocation(tmp_path: Path) -> None:
    """Each of these would be more memory than any machine has."""
    huge = 2**31 - 1
    lies = {
        "l.bin": (llmc_header(20240801, 7, huge), {"eot": EOT}),
        "n.npy": (npy_header("<u2", f"({2**62},)"), {"eot": EOT}),
        "a.idx": (megatron_index([], [], counts=(2**60, 2**60)), {}),
    }
    for name, (data, options) in lies.items():
        (tmp_path / name).write_bytes(data)
        refuse(tmp_path / name, rf"{name}: size is {len(data)} bytes, expected \d+ for", **options)

"""Damage anywhere in a token file: an error or other tokens, never a crash, a hang or a signal.

Each format is attacked in a process of its own, with little memory and a time limit: at every byte
of the first 128 and the last 32, and at every 11th between them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_writers import (
    DOCUMENTS,
    EOT,
    joined,
    write_datatrove,
    write_flat,
    write_llmc,
    write_megatron,
    write_npy,
    write_state,
)

PRELUDE = """
    import json, os, sys
    from datacursor.errors import CorpusError
    from datacursor.tokens import TokenCorpus

    target, damaged, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    if sys.platform == "linux":
        import resource

        limit = 2**32  # of address space: libraries are large, files are small
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""

DAMAGE = """
    accepted, may_cut = options.pop("accepted", []), options.pop("may_cut", False)
    allowed = (CorpusError, *(getattr(__builtins__, name) for name in accepted))
    with open(damaged, "rb") as file:
        intact = file.read()
    TokenCorpus.open(target, **options).compute_fingerprint(full=True)

    def is_refused(data):
        with open(damaged, "wb") as file:
            file.write(data)
        try:
            TokenCorpus.open(target, **options).compute_fingerprint(full=True)
        except allowed as error:
            assert os.path.dirname(damaged) in str(error), error
            return True
        return False

    end = len(intact)
    places = sorted({*range(min(128, end)), *range(128, end, 11), *range(max(0, end - 32), end)})
    for size in places:
        assert is_refused(intact[:size]) or (may_cut and size % 2 == 0), f"cut to {size} bytes"
    for junk in (b"\\0", b"junk", bytes(8)):
        assert is_refused(intact + junk) or (may_cut and len(junk) % 2 == 0), junk
    num_refused = 0
    for place in places:
        for mask in (0x01, 0x80, 0xFF):
            changed = bytearray(intact)
            changed[place] ^= mask
            num_refused += is_refused(bytes(changed))
    print(num_refused)
"""

TRUNCATE = """
    corpus = TokenCorpus.open(target, **options)
    size = os.path.getsize(damaged)
    os.truncate(damaged, 2)
    reads = [corpus.check_unchanged, corpus.compute_fingerprint]
    if target == damaged:
        reads.append(lambda: corpus.document(0))
    for read in reads:
        try:
            read()
        except CorpusError as error:
            assert f"{damaged} changed while in use: {size} bytes when opened, 2 now" in str(error)
        else:
            raise SystemExit("nothing was raised")
"""


def attack(program: str, target: Path, damaged: Path, options: dict[str, Any]) -> str:
    source = textwrap.dedent(PRELUDE) + textwrap.dedent(program)
    command = [sys.executable, "-c", source, str(target), str(damaged), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_target(name: str, folder: Path) -> tuple[Path, Path, dict[str, Any]]:
    """Write one corpus; returns what to open, what to damage, and the arguments."""
    tokens = joined(DOCUMENTS)
    if name in {"a.idx", "a.bin"}:
        sequences = [[document[:1], document[1:]] for document in DOCUMENTS]
        index = write_megatron(folder / "a", sequences)
        return (folder / name, folder / name, {}) if name == "a.bin" else (index, index, {})
    if name in {"a.ds", "a.ds.index"}:
        return write_datatrove(folder / "a.ds", DOCUMENTS), folder / name, {}
    if name == "l.bin":
        path = write_llmc(folder / name, tokens)
        return path, path, {"eot": EOT, "format": "llm.c"}
    if name == "n.npy":
        path = write_npy(folder / name, tokens)
        return path, path, {"eot": EOT, "format": "npy"}
    if name == "f.bin":
        path = write_flat(folder / name, tokens)
        return path, path, {"eot": EOT, "format": "flat", "dtype": "uint16"}
    table = pa.table({"input_ids": pa.array(DOCUMENTS, pa.list_(pa.int32()))})
    if name == "p.parquet":
        pq.write_table(table, folder / name, write_statistics=False, store_schema=False)
        return folder / name, folder / name, {"format": "parquet"}
    saved = write_state(folder / "set", ["data-0.arrow"])
    with (
        pa.OSFile(str(saved / "data-0.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    return saved, saved / "state.json", {}


@pytest.mark.parametrize(
    "name",
    ["a.idx", "a.bin", "a.ds", "a.ds.index", "l.bin", "n.npy", "f.bin", "p.parquet", "state.json"],
)
def test_cuts_are_refused_and_flipped_bytes_survived(name: str, tmp_path: Path) -> None:
    target, damaged, options = write_target(name, tmp_path)
    tests = options.copy()
    if name == "f.bin":  # a shorter file of tokens is a file of tokens
        tests["may_cut"] = True
    if name == "state.json":  # another name, of a file that is not there
        tests["accepted"] = ["FileNotFoundError"]
    num_refused = int(attack(DAMAGE, target, damaged, tests))
    assert num_refused > 0 or name in {"a.bin", "a.ds", "f.bin"}


@pytest.mark.parametrize(
    "name", ["a.idx", "a.bin", "a.ds", "a.ds.index", "l.bin", "n.npy", "f.bin"]
)
def test_a_file_truncated_in_use_is_an_error(name: str, tmp_path: Path) -> None:
    target, damaged, options = write_target(name, tmp_path)
    if name == "a.idx":  # tokens of the documents lie in the other file
        target = target.with_suffix(".bin")
    attack(TRUNCATE, target, damaged, options)

"""Token files of other projects, written byte by byte from their documentation."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datacursor.tokens import TokenCorpus

Documents = list[list[int]]

EOT = 99
# Each ends with its end-of-text token, so that every format can hold them.
DOCUMENTS = [[1, 2, 3, EOT], [EOT], [4, 5, EOT], [65535, 0, EOT]]
LETTERS = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}  # Megatron's code: struct's letter


def documents_of(corpus: TokenCorpus) -> Documents:
    return [corpus.document(index).tolist() for index in range(corpus.num_documents)]


def pack(letter: str, values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}{letter}", *values)


def joined(documents: Documents) -> list[int]:
    return [token for document in documents for token in document]


def megatron_index(
    lengths: Sequence[int],
    document_indices: Sequence[int],
    *,
    code: int = 8,
    pointers: Sequence[int] | None = None,
    magic: bytes = b"MMIDIDX\0\0",
    version: int = 1,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """An .idx; every field can be given another value."""
    size = struct.calcsize(LETTERS.get(code, "H"))
    if pointers is None:
        pointers = [size * sum(lengths[:row]) for row in range(len(lengths))]
    counts = counts or (len(lengths), len(document_indices))
    head = magic + struct.pack("<QB", version, code) + struct.pack("<QQ", *counts)
    arrays = pack("i", lengths) + pack("q", pointers) + pack("q", document_indices)
    return head + arrays


def write_megatron(prefix: Path, documents: list[Documents], code: int = 8) -> Path:
    """Write .idx and .bin; a document is a list of sequences."""
    sequences = [sequence for document in documents for sequence in document]
    indices = [0]
    for document in documents:
        indices.append(indices[-1] + len(document))
    index = prefix.with_name(prefix.name + ".idx")
    index.write_bytes(megatron_index([len(s) for s in sequences], indices, code=code))
    index.with_suffix(".bin").write_bytes(pack(LETTERS[code], joined(sequences)))
    return index


def write_flat(path: Path, tokens: Sequence[int], letter: str = "H") -> Path:
    path.write_bytes(pack(letter, tokens))
    return path


def llmc_header(magic: int, version: int, num_tokens: int) -> bytes:
    return pack("i", [magic, version, num_tokens] + [0] * 253)


def write_llmc(path: Path, tokens: Sequence[int], magic: int = 20240520) -> Path:
    version, letter = {20240520: (1, "H"), 20240801: (7, "I")}[magic]
    path.write_bytes(llmc_header(magic, version, len(tokens)) + pack(letter, tokens))
    return path


def npy_header(descr: str, shape: str, version: int = 1) -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}"
    head = 8 + (2 if version == 1 else 4)
    text = text.ljust(-(-(head + len(text) + 1) // 64) * 64 - head - 1) + "\n"
    return (
        b"\x93NUMPY" + struct.pack("<BB" + "HI"[version - 1], version, 0, len(text)) + text.encode()
    )


def write_npy(path: Path, tokens: Sequence[int], letter: str = "H", version: int = 1) -> Path:
    descr = {"H": "<u2", "I": "<u4", "i": "<i4", "q": "<i8"}[letter]
    path.write_bytes(npy_header(descr, f"({len(tokens)},)", version) + pack(letter, tokens))
    return path


def write_datatrove(path: Path, documents: Documents, letter: str = "H") -> Path:
    path.write_bytes(pack(letter, joined(documents)))
    ends = [sum(map(len, documents[: row + 1])) for row in range(len(documents))]
    path.with_name(path.name + ".index").write_bytes(pack("Q", ends))
    return path


def write_state(folder: Path, names: Sequence[str], **changed: object) -> Path:
    """Write the manifest of a Hugging Face data set, as save_to_disk does."""
    folder.mkdir(exist_ok=True)
    state: dict[str, object] = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "0123456789abcdef",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state | changed))
    (folder / "dataset_info.json").write_text("{}")
    return folder

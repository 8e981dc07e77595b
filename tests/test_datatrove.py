"""datatrove's .ds and .ds.index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus_writers import DOCUMENTS, documents_of, write_datatrove

from datacursor.tokens import TokenCorpus


@pytest.mark.parametrize(("letter", "highest"), [("H", 65535), ("I", 4294967295)])
def test_the_size_tells_the_width(letter: str, highest: int, tmp_path: Path) -> None:
    documents = [[1, highest], [], [2, 3, 4], []]
    corpus = TokenCorpus.open(write_datatrove(tmp_path / "a.ds", documents, letter))
    assert documents_of(corpus) == documents
    assert corpus.dtype == np.dtype(letter)


def test_a_folder_is_read_in_order_of_name_without_its_other_files(tmp_path: Path) -> None:
    for rank in (1, 0):
        write_datatrove(tmp_path / f"{rank:05d}_shuffled.ds", [[rank], *DOCUMENTS])
        (tmp_path / f"{rank:05d}_shuffled.ds.metadata").write_text("gpt2|2\n3\n3 T")
        (tmp_path / f"{rank:05d}_shuffled.ds.loss").write_bytes(b"\1")
    assert documents_of(TokenCorpus.open(tmp_path)) == [[0], *DOCUMENTS, [1], *DOCUMENTS]


def test_tokens_are_viewed_whatever_they_begin_with(tmp_path: Path) -> None:
    """Tokens may look like the magic of another format."""
    corpus = TokenCorpus.open(write_datatrove(tmp_path / "a.ds", [[65535, 65535], [1]]))
    assert documents_of(corpus) == [[65535, 65535], [1]]
    tokens, begins, ends = corpus.shards[0]
    assert not tokens.flags.owndata
    assert np.shares_memory(begins, ends)


def test_a_missing_index_is_named(tmp_path: Path) -> None:
    write_datatrove(tmp_path / "a.ds", DOCUMENTS)
    (tmp_path / "a.ds.index").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.ds\.index"):
        TokenCorpus.open(tmp_path)

"""Files written by datatrove itself, in its own format and in Megatron's."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_writers import DOCUMENTS, documents_of
from datatrove.pipeline.tokens.megatron_tokenizer import MegatronTokenizedFile
from datatrove.pipeline.tokens.tokenizer import TokenizedFile

from datacursor.tokens import TokenCorpus


@pytest.mark.parametrize("token_size", [2, 4])
def test_tokenized_files(token_size: int, tmp_path: Path) -> None:
    file = TokenizedFile(str(tmp_path), "00000_unshuffled.ds", token_size=token_size)
    for document in DOCUMENTS:
        file.write(document, None)
    file.close()
    file.write_final_metadata()
    corpus = TokenCorpus.open(tmp_path)
    assert documents_of(corpus) == DOCUMENTS
    assert corpus.dtype.itemsize == token_size


@pytest.mark.parametrize("token_size", [2, 4])
def test_files_for_megatron(token_size: int, tmp_path: Path) -> None:
    file = MegatronTokenizedFile(str(tmp_path), "00000_tokens", token_size=token_size)
    for document in DOCUMENTS:
        file.write(document)
    file.close()
    assert documents_of(TokenCorpus.open(tmp_path)) == DOCUMENTS

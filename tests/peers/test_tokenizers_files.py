"""Tokenizers made and saved by Hugging Face tokenizers itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corpus_writers import documents_of
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from datacursor.errors import ArgumentError
from datacursor.text_corpus import tokenize
from datacursor.tokens import TokenCorpus

TEXTS = ["the cat sat", "", "on the mat the the"]
WORDS = {"[UNK]": 0, "the": 1, "cat": 2, "sat": 3, "on": 4, "mat": 70000}
IDS = [[1, 2, 3], [], [4, 1, 70000, 1, 1]]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    made = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["<s>"])
    start = made.token_to_id("<s>")
    made.post_processor = processors.TemplateProcessing("<s> $0", special_tokens=[("<s>", start)])
    made.enable_truncation(2)
    made.enable_padding()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def test_nothing_is_added_truncated_or_padded(
    tokenizer: Path, source: Path, tmp_path: Path
) -> None:
    built = tokenize(source, tmp_path / "out", tokenizer=tokenizer)
    assert built.dtype == "uint32"
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == IDS


def test_special_tokens_and_eos_where_asked_for(
    tokenizer: Path, source: Path, tmp_path: Path
) -> None:
    tokenize(source, tmp_path / "out", tokenizer=tokenizer, add_special_tokens=True, eos=5)
    start = Tokenizer.from_file(str(tokenizer)).token_to_id("<s>")
    expected = [[start, *ids, 5] for ids in IDS]
    assert documents_of(TokenCorpus.open(tmp_path / "out")) == expected


def test_a_small_vocabulary_takes_two_bytes(source: Path, tmp_path: Path) -> None:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 65535}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "t.json"))
    assert tokenize(source, tmp_path / "out", tokenizer=tmp_path / "t.json").dtype == "uint16"
    with pytest.raises(ArgumentError, match="eos must be in"):
        tokenize(source, tmp_path / "out", tokenizer=tmp_path / "t.json", eos=2**32)

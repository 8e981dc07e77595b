"""Kept row counts and estimates: the same numbers without packing, and damaged files refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import datacursor as dc
from datacursor import _core
from datacursor.errors import ArgumentError, CorpusError
from datacursor.row_counts import RowCounts

LENGTHS = np.random.default_rng(0).integers(0, 40, 300).tolist()


def make(lengths: Any = LENGTHS, **options: Any) -> dc.PackingPlan:
    defaults: dict[str, Any] = {
        "seq_len": 16,
        "packing": "best_fit",
        "long_documents": "split",
        "window_documents": 50,
        "seed": 5,
    }
    return dc.PackingPlan(lengths, **(defaults | options))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The file of epoch 1 of the plan above."""
    make(counts_dir=tmp_path / "counts").num_rows(1)
    [path] = (tmp_path / "counts").iterdir()
    return path


def refuse_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=AssertionError("a window was counted"))
    monkeypatch.setattr(_core, "count_best_fit", refuse)


def test_kept_counts_are_counted_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make()
    num_rows = plan.num_rows(1)
    readers = [plan.reader_of(1, row) for row in range(num_rows)]
    refuse_to_count(monkeypatch)
    again = make(counts_dir=kept.parent)
    assert again.num_rows(1) == num_rows
    assert [again.reader_of(1, row) for row in range(num_rows)] == readers
    with pytest.raises(AssertionError, match="a window was counted"):
        again.num_rows(2)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 6},
        {"seq_len": 15},
        {"window_documents": 51},
        {"long_documents": "drop"},
        {"max_documents": 3},
        {"bos": 1},
        {"lengths": [*LENGTHS[:-1], LENGTHS[-1] + 1]},
        {"order": dc.BlockShuffle(300, 10, 2, seed=5)},
        {"shuffle": False},
    ],
    ids=str,
)
def test_every_plan_keeps_its_own_counts(kept: Path, options: dict[str, Any]) -> None:
    plan = make(counts_dir=kept.parent, **options)
    assert plan.num_rows(1) == make(**options).num_rows(1)
    assert len(list(kept.parent.iterdir())) == 2


def test_the_ids_of_added_tokens_do_not_matter(kept: Path) -> None:
    for bos in (1, 2):
        make(counts_dir=kept.parent, bos=bos).num_rows(1)
    assert len(list(kept.parent.iterdir())) == 2


def test_many_may_write_one_file(kept: Path) -> None:
    data = kept.read_bytes()
    kept.unlink()
    with ThreadPoolExecutor(8) as pool:
        plans = [make(counts_dir=kept.parent) for _ in range(8)]
        list(pool.map(lambda plan: plan.num_rows(1), plans))
    assert [path.read_bytes() for path in kept.parent.iterdir()] == [data]


def load(kept: Path) -> list[int] | None:
    digest = bytes.fromhex(kept.name.split("-")[1])
    return RowCounts(kept.parent, digest).load(1, 6)


def test_every_truncation_is_refused(kept: Path) -> None:
    data = kept.read_bytes()
    assert sum(load(kept) or []) == make().num_rows(1)
    for size in range(len(data)):
        kept.write_bytes(data[:size])
        with pytest.raises(CorpusError, match="remove the file to count again"):
            load(kept)


def test_every_flipped_bit_is_refused(kept: Path) -> None:
    data = kept.read_bytes()
    with kept.open("r+b", buffering=0) as file:
        for place in range(8 * len(data)):
            offset = place // 8
            file.seek(offset)
            file.write(bytes([data[offset] ^ 1 << place % 8]))
            with pytest.raises(CorpusError, match="remove the file to count again"):
                load(kept)
            file.seek(offset)
            file.write(data[offset : offset + 1])


def test_counts_of_another_plan_under_this_name_are_refused(kept: Path) -> None:
    make(counts_dir=kept.parent, seed=6).num_rows(1)
    [other] = set(kept.parent.iterdir()) - {kept}
    other.replace(kept)
    with pytest.raises(CorpusError, match=r"plan_digest is [0-9a-f]{32}, expected [0-9a-f]{32}"):
        make(counts_dir=kept.parent).num_rows(1)


def test_counts_of_another_epoch_under_this_name_are_refused(kept: Path) -> None:
    kept.replace(kept.with_name(kept.name.replace("-1.bin", "-2.bin")))
    with pytest.raises(CorpusError, match="epoch is 1, expected 2"):
        make(counts_dir=kept.parent).num_rows(2)


@pytest.mark.parametrize("packing", ["concat", "chunk"])
def test_only_best_fit_counts(packing: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="counts_dir needs packing='best_fit'"):
        dc.PackingPlan([1], seq_len=4, packing=packing, counts_dir=tmp_path)


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, 0.999),
        ({"long_documents": "truncate"}, 0.999),
        ({"long_documents": "drop"}, 0.99),
        ({"min_fragment": 200}, 0.99),
        ({"align": 64}, 0.99),
        ({"max_documents": 2}, 0.9),
        ({"bos": 1, "eos": 2}, 0.999),
    ],
    ids=str,
)
def test_an_estimate_is_close_and_never_high(options: dict[str, Any], share: float) -> None:
    lengths = np.random.default_rng(1).lognormal(5, 1.2, 20_000).astype(np.int64)
    plan = make(lengths, seq_len=1024, window_documents=None, **options)
    for epoch in (0, 3):
        num_rows = plan.num_rows(epoch)
        assert share * num_rows <= plan.len_estimate(epoch) <= num_rows


def test_an_estimate_packs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_count(monkeypatch)
    assert make().len_estimate() == -(-sum(LENGTHS) // 16)


def test_an_estimate_of_many_documents_looks_at_a_part_of_them() -> None:
    lengths = np.tile(np.array([3, 5, 8]), 2**20)
    assert make(lengths, seq_len=16).len_estimate() == pytest.approx(2**20, rel=1e-3)


@pytest.mark.parametrize("packing", ["concat", "chunk"])
def test_an_estimate_is_exact_where_rows_are_known(packing: str) -> None:
    plan = dc.PackingPlan(LENGTHS, seq_len=7, packing=packing)
    assert plan.len_estimate(3) == plan.num_rows(3)

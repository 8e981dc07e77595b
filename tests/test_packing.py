"""`PackedSampler` and its batches: small corpora with right values, and exact resume."""

from __future__ import annotations

import copy
import pickle
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from packed import IGNORE, Batch, Listed, commit_from, counted, deliver, field, make
from runs import fresh

import datacursor as dc
from datacursor import _core

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


CASES: dict[str, tuple[dict[str, Any], dict[str, list[list[int]]]]] = {
    "1 cut and drop the tail": (
        {"documents": counted(3, 2, 5), "seq_len": 4, "tail": "drop"},
        {
            "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8]],
            "labels": [[2, 3, IGNORE, 5], [IGNORE, 7, 8, 9]],
            "position_ids": [[0, 1, 2, 0], [0, 0, 1, 2]],
            "segment_ids": [[0, 0, 0, 1], [0, 1, 1, 1]],
            "cu_seqlens": [[0, 3, 4], [0, 1, 4]],
            "spans": [[0, 0, 3, 1, 0, 1], [1, 1, 2, 2, 0, 3]],
        },
    ),
    "2 pad the tail": (
        {"documents": counted(3, 2, 5), "seq_len": 4},
        {
            "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 0, 0]],
            "labels": [[2, 3, IGNORE, 5], [IGNORE, 7, 8, 9], [10, IGNORE, IGNORE, IGNORE]],
            "segment_ids": [[0, 0, 0, 1], [0, 1, 1, 1], [0, 0, -1, -1]],
            "loss_mask": [[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]],
            "cu_seqlens": [[0, 3, 4], [0, 1, 4], [0, 2, 4]],
        },
    ),
    "4 empty documents are stepped over": (
        {"documents": [[1], [], [2, 3], [], [4]], "seq_len": 4},
        {
            "input_ids": [[1, 2, 3, 4]],
            "labels": [[IGNORE, 3, IGNORE, IGNORE]],
            "cu_seqlens": [[0, 1, 3, 4]],
        },
    ),
    "5 a document longer than a row": (
        {"documents": [list(range(1, 12)), [21]], "seq_len": 4},
        {
            "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 21]],
            "labels": [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, IGNORE, IGNORE]],
        },
    ),
    "6 positions of the document": (
        {"documents": counted(3, 2, 5), "seq_len": 4, "tail": "drop", "positions": "document"},
        {"position_ids": [[0, 1, 2, 0], [1, 0, 1, 2]]},
    ),
    "7 eos that is also the padding": (
        {"documents": counted(2, 1, 3), "seq_len": 4, "eos": 99, "pad_id": 99},
        {
            "input_ids": [[1, 2, 99, 3], [99, 4, 5, 6], [99, 99, 99, 99]],
            "labels": [[2, 99, IGNORE, 99], [IGNORE, 5, 6, 99], [IGNORE] * 4],
            "segment_ids": [[0, 0, 0, 1], [0, 1, 1, 1], [0, -1, -1, -1]],
        },
    ),
    "17 an order of documents": (
        {"documents": counted(3, 2, 5), "seq_len": 4, "order": Listed([2, 0, 1])},
        {"input_ids": [[6, 7, 8, 9], [10, 1, 2, 3], [4, 5, 0, 0]]},
    ),
    "D20": (
        {"documents": counted(5, 3, 0, 7, 1), "seq_len": 4},
        {
            "cu_seqlens": [[0, 4], [0, 1, 4], [0, 4], [0, 3, 4]],
            "max_seqlen": [[4], [3], [4], [3]],
        },
    ),
    "D22": (
        {"documents": counted(13, 11), "seq_len": 10},
        {"cu_seqlens": [[0, 10], [0, 3, 10], [0, 4, 10]]},
    ),
    "D23": (
        {"documents": counted(3, 2), "seq_len": 5},
        {"position_ids": [[0, 1, 2, 0, 1]], "num_targets": [[3]]},
    ),
    "D23 with padding": (
        {"documents": counted(3, 2), "seq_len": 8},
        {
            "num_targets": [[3]],
            "loss_mask": [[1, 1, 0, 1, 0, 0, 0, 0]],
            "segment_ids": [[0, 0, 0, 1, 1, -1, -1, -1]],
            "cu_seqlens": [[0, 3, 5, 8]],
        },
    ),
    "labels unshifted": (
        {"documents": counted(3, 2, 5), "seq_len": 4, "tail": "drop", "labels": "hf"},
        {"labels": [[IGNORE, 2, 3, IGNORE], [IGNORE, IGNORE, 7, 8]]},
    ),
}


@WORKERS
@pytest.mark.parametrize("name", CASES)
def test_rows_of_a_small_corpus(name: str, num_workers: int) -> None:
    arguments, expected = CASES[name]
    batches = list(deliver(make(**arguments), num_workers))
    for key, values in expected.items():
        if isinstance(batches[0][key], int):
            assert [[batch[key]] for batch in batches] == values, key
        else:
            assert field(batches, key) == values, key


def test_fields_have_the_promised_types() -> None:
    batch = next(deliver(make(counted(3, 2, 5), 4, batch_size=2)))
    types = {key: value.dtype for key, value in batch.items() if isinstance(value, torch.Tensor)}
    assert types == {
        "input_ids": torch.int64,
        "labels": torch.int64,
        "position_ids": torch.int64,
        "segment_ids": torch.int32,
        "loss_mask": torch.bool,
        "cu_seqlens": torch.int32,
        "spans": torch.int64,
        "row_offsets": torch.int64,
    }
    assert type(batch["max_seqlen"]) is type(batch["num_targets"]) is int


def test_row_starts_are_always_boundaries() -> None:
    batch = next(deliver(make([[1, 2, 3, 4], [5], [6, 7, 8]], 4, batch_size=2)))
    assert batch["cu_seqlens"].tolist() == [0, 4, 5, 8]


@pytest.mark.parametrize(
    ("lengths", "seq_len", "order", "readers"),
    [
        ((4, 4), 4, None, [(1, 0)]),
        ((3, 2, 5), 4, Listed([2, 0, 1]), [(0, 4), (2, 0)]),
        ((6, 6, 6, 6), 8, None, [(1, 2), (2, 4)]),
        ((5, 3, 0, 7, 1), 4, None, [(0, 4), (2, 0), (3, 4)]),
    ],
)
def test_the_cursor_names_the_document_and_the_token(
    lengths: tuple[int, ...], seq_len: int, order: Any, readers: list[tuple[int, int]]
) -> None:
    rows = make(counted(*lengths), seq_len, order=order)
    seen = []
    for _ in islice(deliver(rows), len(readers)):
        rows.commit()
        seen.append((rows.cursor.reader_position, rows.cursor.reader_offset))
    assert seen == readers
    assert rows.cursor.tokens_committed == len(readers) * seq_len


def test_an_epoch_ends_at_the_start_of_the_next() -> None:
    rows = make(counted(3, 2, 5), 4)
    for _ in deliver(rows):
        rows.commit()
    assert (rows.cursor.epoch, rows.cursor.position) == (1, 0)
    assert (rows.cursor.reader_position, rows.cursor.reader_offset) == (0, 0)
    assert rows.cursor.tokens_committed == 10


def lengths_and_corpus(seed: int = 0) -> dc.TokenCorpus:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 30, 200)
    return dc.TokenCorpus.open([generator.integers(1, 1000, length) for length in lengths])


def make_shuffled(seq_len: int = 16, batch_size: int = 2, **options: Any) -> dc.PackedSampler:
    return dc.PackedSampler(
        lengths_and_corpus(), seq_len=seq_len, batch_size=batch_size, **({"seed": 3} | options)
    )


def train(
    state: dict[str, Any] | None, num_updates: int, num_workers: int = 0, **options: Any
) -> tuple[list[list[int]], dict[str, Any]]:
    """Commit some updates from a state; return the spans of each row and the new state."""
    return commit_from(make_shuffled(**options), state, num_updates, num_workers)


@WORKERS
def test_resume_in_a_later_epoch_twice_and_at_another_layout(num_workers: int) -> None:
    whole, _ = train(None, 2 * len(make_shuffled()) // 2 + 40)
    num_rows = len(make_shuffled())
    first, state = fresh(train, None, num_rows // 2 + 20, num_workers)
    second, state = fresh(train, state, 7, num_workers, batch_size=5)
    third, _ = fresh(train, state, 9, num_workers, batch_size=1)
    seen = first + second + third
    assert seen == whole[: len(seen)]
    assert len(first) > num_rows


@pytest.mark.parametrize("num_replicas", [1, 2, 4])
def test_every_layout_deals_out_the_same_rows(num_replicas: int) -> None:
    plan = make_shuffled().plan
    spans, offsets = plan.rows(0, 0, len(plan))
    expected = [spans[a:b].tolist() for a, b in pairwise(offsets)]
    seen: dict[int, list[list[int]]] = {}
    for rank in range(num_replicas):
        for row in make_shuffled(batch_size=3, num_replicas=num_replicas, rank=rank):
            if not row.is_padding:  # type: ignore[attr-defined]
                assert int(row) not in seen
                seen[int(row)] = row.spans.tolist()  # type: ignore[attr-defined]
    assert [seen[row] for row in sorted(seen)] == expected


def test_every_token_comes_once_and_every_token_but_the_first_is_a_target() -> None:
    corpus = lengths_and_corpus()
    tokens: list[int] = []
    targets: list[int] = []
    for batch in deliver(make_shuffled(batch_size=4)):
        real = batch["segment_ids"] >= 0
        tokens += batch["input_ids"][real].tolist()
        targets += batch["labels"][batch["loss_mask"]].tolist()
    documents = [corpus.document(i).tolist() for i in range(corpus.num_documents)]
    assert sorted(tokens) == sorted(chain.from_iterable(documents))
    assert sorted(targets) == sorted(chain.from_iterable(document[1:] for document in documents))


def test_padding_rows_carry_no_target() -> None:
    real = padding = 0
    for rank in range(3):
        rows = make(counted(3, 2, 5), 4, batch_size=2, num_replicas=3, rank=rank)
        loader: dc.CursorLoader[Batch] = dc.CursorLoader(rows.dataset, sampler=rows)
        for batch in loader:
            is_padding = (batch["segment_ids"] == -1).all(dim=1)
            assert torch.equal(is_padding, loader.padding_mask)
            assert not batch["loss_mask"][is_padding].any()
            assert (batch["labels"][is_padding] == IGNORE).all()
            padding += int(is_padding.sum())
            real += loader.num_real
            rows.commit()
        assert (rows.cursor.epoch, rows.cursor.tokens_committed) == (1, 10)
    assert (real, padding) == (3, 3)


@pytest.mark.parametrize(("old", "new"), [(4, 8), (8, 4), (6, 7), (7, 3), (5, 29)])
@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_another_seq_len_goes_on_at_the_same_token(old: int, new: int, tail: str) -> None:
    saved = make_shuffled(old, 3, tail=tail)
    saved.set_epoch(1)
    tokens: list[int] = []

    def run(rows: dc.PackedSampler, count: int | None) -> None:
        epoch = rows.cursor.epoch
        for batch in islice(deliver(rows), count):
            tokens.extend(batch["input_ids"][batch["segment_ids"] >= 0].tolist())
            rows.commit()
            if rows.cursor.epoch != epoch:
                return

    run(saved, 11)
    resumed = make_shuffled(new, 3, tail=tail)
    with pytest.raises(dc.CursorMismatchError, match="seq_len") as error:
        resumed.load_state_dict(saved.state_dict())
    assert all(str(value) in str(error.value) for value in (old, new))
    resumed.load_state_dict(saved.state_dict(), allow_changed={"seq_len"})
    assert resumed.cursor.accepted == ("seq_len",)
    assert resumed.cursor.position == -(-11 * 3 * old // new)
    run(resumed, 5)

    again = make_shuffled(new, 3, tail=tail)
    again.load_state_dict(pickle.loads(pickle.dumps(resumed.state_dict())))
    assert again.cursor == resumed.cursor
    run(again, None)
    assert (again.cursor.epoch, again.cursor.position, again.cursor.phase) == (2, 0, 0)

    corpus, order = lengths_and_corpus(), again.plan.order
    documents = [corpus.document(int(i)).tolist() for i in order.indices(1, 0, 200)]
    stream = list(chain.from_iterable(documents))
    left = (len(stream) - 11 * 3 * old) % new if tail == "drop" else 0
    assert tokens == stream[: len(stream) - left]


def test_after_another_seq_len_every_way_to_a_row_is_the_same() -> None:
    saved = make(counted(5, 3, 0, 7, 1, 6, 2), 4)
    list(islice(deliver(saved), 2))
    saved.commit(2)
    rows = make(counted(5, 3, 0, 7, 1, 6, 2), 5)
    rows.load_cursor(saved.cursor, {"seq_len"})
    next(deliver(rows))
    rows.commit()
    assert (rows.cursor.position, rows.cursor.phase) == (3, 2)
    expected = next(deliver(rows))
    assert rows.spans_of(0, 3)[0].tolist() == expected["spans"].tolist()
    rows.seek(0, 3)
    assert (rows.cursor.position, rows.cursor.phase) == (3, 2)
    assert next(deliver(rows))["spans"].tolist() == expected["spans"].tolist()
    rows.seek(0, 0)
    assert rows.cursor.phase == 0
    assert next(deliver(rows))["input_ids"].tolist() == [[1, 2, 3, 4, 5]]


@pytest.mark.parametrize(("old", "new"), [(4, 1), (1, 4)])
def test_fewer_or_more_documents_are_accepted_by_name(old: int, new: int) -> None:
    saved = make([[1]] * old, 1)
    list(islice(deliver(saved), old - 1))
    if old > 1:
        saved.commit(old - 1)
    rows = make([[1, 2, 3, 4, 5, 6]] * new, 1)
    rows.load_cursor(saved.cursor, {"fingerprint", "num_documents"})
    assert rows.cursor.position == old - 1
    assert next(deliver(rows))["spans"].tolist() == [[0, old - 1, old]]


@pytest.mark.parametrize(
    "changes",
    [
        {"position": 0},
        {"reader_position": 0, "reader_offset": 0},
        {"reader_offset": 6},
        {"position": 0, "reader_position": 0, "reader_offset": 0, "phase": 3},
        {"reader_position": 3, "reader_offset": 1},
    ],
)
def test_a_cursor_that_contradicts_itself_is_refused(changes: dict[str, int]) -> None:
    rows = make(counted(3, 2, 5), 4)
    list(islice(deliver(rows), 2))
    rows.commit(2)
    bent = rows.cursor.replace(**changes)
    with pytest.raises(dc.CursorMismatchError, match="contradicts itself"):
        make(counted(3, 2, 5), 4).load_cursor(bent)


def test_samples_and_rows_do_not_stand_for_each_other() -> None:
    rows, samples = make(counted(3, 2, 5), 4), dc.CursorSampler(3, batch_size=1)
    for sampler, other in ((rows, samples), (samples, rows)):
        with pytest.raises(dc.CursorMismatchError, match="use a sampler of the cursor's kind"):
            sampler.load_cursor(other.cursor)


def test_samplers_and_plans_can_be_copied() -> None:
    rows = make_shuffled()
    list(islice(deliver(rows), 3))
    rows.commit(2)
    for twin in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        assert twin.cursor == rows.cursor
        assert next(deliver(twin))["spans"].tolist() == next(deliver(rows))["spans"].tolist()


def test_a_batch_too_large_for_its_boundaries_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_size=2, seq_len=1073741824"):
        make(counted(3), 2**30, batch_size=2)


def test_seek_reaches_any_row() -> None:
    rows = make_shuffled()
    expected, _ = train(None, 60)
    for row in (0, 1, 57, 100):
        rows.seek(0, row)
        batch = next(deliver(rows))
        first_row = batch["spans"][: int(batch["row_offsets"][1])]
        assert first_row.flatten().tolist() == expected[row]


def test_what_was_in_an_update() -> None:
    rows = make_shuffled(batch_size=3, accumulation_steps=2)
    assert rows.indices_of(0, 2).tolist() == list(range(12, 18))
    spans, offsets = rows.spans_of(0, 2)
    assert len(offsets) == 7
    assert spans[: offsets[1]].flatten().tolist() == train(None, 7)[0][12]


def test_committed_tells_which_documents_are_done() -> None:
    rows = make(counted(6, 6, 6, 6), 8)
    list(islice(deliver(rows), 2))
    rows.commit(2)
    assert [rows.committed(document) for document in range(4)] == [True, True, False, False]


def test_other_documents_are_refused() -> None:
    saved = make(counted(3, 2, 5), 4).state_dict()
    longer = make(counted(3, 3, 5), 4)
    with pytest.raises(dc.CursorMismatchError, match="fingerprint"):
        longer.load_state_dict(saved)
    other_tail = make(counted(3, 2, 5), 4, tail="drop")
    with pytest.raises(dc.CursorMismatchError, match="plan") as error:
        other_tail.load_state_dict(saved)
    assert "'tail': 'drop'" in str(error.value)


def test_wide_tokens_arrive_as_they_are() -> None:
    for dtype, token in ((np.uint16, 65535), (np.uint32, 4294967295)):
        corpus = dc.TokenCorpus.open([np.array([token, 1], dtype=dtype)])
        rows = dc.PackedSampler(corpus, seq_len=2, batch_size=1)
        batch = next(deliver(rows))
        assert batch["input_ids"].tolist() == [[token, 1]]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_plain_loader_collates_rows_by_itself(context: str) -> None:
    rows = make_shuffled()
    expected = [batch["input_ids"] for batch in deliver(make_shuffled())]
    loader = torch.utils.data.DataLoader(
        rows.dataset, batch_size=2, sampler=rows, num_workers=2, multiprocessing_context=context
    )
    batches = list(loader)
    assert all(type(batch) is dict for batch in batches)
    assert torch.equal(torch.cat([batch["input_ids"] for batch in batches]), torch.cat(expected))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seq_len": 0}, ValueError, "seq_len=0"),
        ({"seq_len": 2**31}, ValueError, "seq_len=2147483648"),
        ({"seq_len": 4.0}, TypeError, "seq_len=4.0"),
        ({"batch_size": 0}, ValueError, "batch_size=0"),
        ({"packing": "magic"}, ValueError, "packing='magic'"),
        ({"long_documents": "drop"}, ValueError, "long_documents='drop'"),
        ({"tail": "keep"}, ValueError, "tail='keep'"),
        ({"labels": "both"}, ValueError, "labels"),
        ({"positions": "both"}, ValueError, "positions"),
        ({"eos": -1}, ValueError, "eos=-1"),
        ({"bos": "x"}, TypeError, "bos='x'"),
        ({"pad_id": -5}, ValueError, "pad_id=-5"),
        ({"keep_empty": 1}, TypeError, "keep_empty=1"),
        ({"order": dc.Shuffle(4)}, ValueError, "num_documents=3, got order.num_samples=4"),
        ({"documents": []}, ValueError, "num_documents=0"),
        ({"documents": [[], []]}, ValueError, "num_rows=0"),
        ({"documents": counted(5, 6), "seq_len": 40, "tail": "drop"}, ValueError, "num_rows=0"),
        ({"batch_size": 4, "drop_last": True}, ValueError, "num_rows=3 .* = 1 . 4 = 4"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"documents": counted(3, 2, 5), "seq_len": 4}
    with pytest.raises(error, match=message):
        make(**(arguments | options))


def test_a_list_is_not_yet_a_corpus() -> None:
    with pytest.raises(TypeError, match=r"TokenCorpus.open"):
        dc.PackedSampler([[1, 2]], seq_len=2, batch_size=1)  # type: ignore[arg-type]


@WORKERS
@pytest.mark.parametrize(("num_replicas", "batch_size"), [(1, 2), (1, 3), (2, 1)])
def test_deferred_rows_come_after_the_tail_in_any_layout(
    num_workers: int, num_replicas: int, batch_size: int
) -> None:
    rows = make_shuffled(on_skip="defer")
    rows.seek(1, 0)
    num_rows = rows.plan.num_rows(1)
    last = -(-num_rows // 2) - 1
    for number, _ in enumerate(islice(deliver(rows), last + 1)):
        if number in (1, 4, last):
            rows.skip()
        else:
            rows.commit()
    deferred = [2, 3, 8, 9, *range(2 * last, num_rows)]
    assert (rows.cursor.position, len(rows.cursor.deferred)) == (num_rows, 3)

    delivered = []
    for rank in range(num_replicas):
        resumed = make_shuffled(batch_size=batch_size, num_replicas=num_replicas, rank=rank)
        resumed.load_state_dict(rows.state_dict())
        loader: dc.CursorLoader[Any] = dc.CursorLoader(
            resumed.dataset, sampler=resumed, num_workers=num_workers
        )
        for batch in loader:
            offsets = batch["row_offsets"].tolist()[: loader.num_real + 1]
            delivered += [batch["spans"][a:b].tolist() for a, b in pairwise(offsets)]
            resumed.commit()
        assert (resumed.cursor.epoch, resumed.cursor.position) == (2, 0)
        assert resumed.cursor.tokens_committed == rows.plan.stats(1).num_tokens
        spans, _ = rows.plan.rows(1, 0, num_rows)
        assert resumed.cursor.last_digest == _core.digest_spans(1, spans)
    expected = [rows.plan.rows(1, row, 1)[0].tolist() for row in deferred]
    assert sorted(delivered) == sorted(expected)


def test_documents_in_deferred_rows_are_not_committed() -> None:
    rows = make_shuffled(on_skip="defer")
    for number, _ in enumerate(islice(deliver(rows), 9)):
        if number in (0, 4):
            rows.skip()
        else:
            rows.commit()
    done = {row for row in range(18) if row not in (0, 1, 8, 9)}
    touched: dict[int, set[int]] = {}
    for row in range(rows.plan.num_rows(0)):
        for document in rows.plan.rows(0, row, 1)[0][:, 0].tolist():
            touched.setdefault(document, set()).add(row)
    found = {document for document in touched if rows.committed(document)}
    assert found == {document for document, places in touched.items() if places <= done}


def test_left_out_rows_and_an_epochs_end_keep_the_reader_right() -> None:
    rows = make_shuffled(on_skip="defer")
    next(deliver(rows))
    rows.skip()
    rows.skip_range(2, rows.plan.num_rows(0))
    assert rows.cursor.position == rows.plan.num_rows(0)
    resumed = make_shuffled()
    resumed.load_cursor(rows.cursor)
    assert resumed.remaining() == 1
    next(deliver(resumed))
    resumed.commit()
    assert (resumed.cursor.epoch, resumed.cursor.position) == (1, 0)


@pytest.mark.parametrize("rank", [0, 1])
def test_what_a_rank_was_issued_is_counted_by_its_spans(rank: int) -> None:
    rows = make_shuffled(num_replicas=2, rank=rank)
    for _ in deliver(rows):
        rows.commit()
    num_rows = rows.plan.num_rows(0)
    mine = [row for row in range(num_rows) if row // 2 % 2 == rank]
    spans = np.concatenate([rows.plan.rows(0, row, 1)[0] for row in mine])
    whole, issued = rows._tracker.moving.tally
    assert issued == _core.digest_spans(0, spans)
    assert whole == _core.digest_spans(0, rows.plan.rows(0, 0, num_rows)[0])

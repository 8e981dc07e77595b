"""Packing of documents that are read in windows: nobody knows their number or lengths before."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import laws
import numpy as np
import packed
import pytest
import reference_packing_plans as reference
from torch.utils.data import DataLoader

import datacursor as dc
from datacursor import window_table
from datacursor.errors import ArgumentError, CorpusError, CursorMismatchError

SEQ_LEN = 16
WINDOW = 20
Documents = list[list[int]]


def documents_of(*lengths: int) -> Documents:
    """Documents that say in every token which one they are and where."""
    return [[100 * number + place for place in range(size)] for number, size in enumerate(lengths)]


RANDOM = np.random.default_rng(1).integers(0, 40, 90).tolist()
NOTHING = [0] * WINDOW
STREAMS = {
    "ends inside a window": documents_of(*RANDOM),
    "ends with a window": documents_of(*RANDOM[:80]),
    "ends after one document": documents_of(*RANDOM[:81]),
    "less than a window": documents_of(*RANDOM[:7]),
    "with windows without rows": documents_of(*RANDOM[:20], *NOTHING, *RANDOM[20:50], *NOTHING),
    "begins with a window without rows": documents_of(*NOTHING, *RANDOM[:25]),
}


class Listed(dc.DocumentSource):
    """Documents from memory that notes what it is asked for."""

    def __init__(self, documents: Documents, fingerprint: bytes | str | None = None) -> None:
        self.listed = documents
        self.asked: list[tuple[int, int, int]] = []
        self._fingerprint = fingerprint

    def documents(self, epoch: int, first: int, count: int) -> list[Any]:
        self.asked.append((epoch, first, count))
        return list(self.listed[first : first + count])

    @property
    def fingerprint(self) -> bytes | str | None:
        return self._fingerprint


def make(source: Any = STREAMS["ends inside a window"], **options: Any) -> dc.PackedSampler:
    defaults: dict[str, Any] = {
        "packing": "best_fit",
        "long_documents": "split",
        "window_documents": WINDOW,
        "seed": 3,
        "batch_size": 2,
    }
    source = Listed(source) if isinstance(source, list) else source
    return dc.PackedSampler(source, seq_len=SEQ_LEN, **(defaults | options))


def expected_rows(documents: Documents, epoch: int, **rule: Any) -> laws.Rows:
    sizes = [len(document) for document in documents]
    windows = reference.best_fit(
        sizes, range(len(sizes)), reference.Rule(SEQ_LEN, **rule), WINDOW, (3, epoch)
    )
    return [[list(span) for span in row] for row in chain.from_iterable(windows)]


def flat(rows: laws.Rows) -> list[list[int]]:
    """The numbers of every row's spans in one list, as `packed.commit_from` has them."""
    return [list(chain.from_iterable(row)) for row in rows]


def issued(sampler: dc.PackedSampler) -> laws.Rows:
    return [row.spans.tolist() for row in sampler]  # type: ignore[attr-defined]


def run(sampler: dc.PackedSampler, num_updates: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """Commit batch after batch; return spans and tokens of each, and the states between them."""
    batches: list[Any] = []
    states = [sampler.state_dict()]
    while len(batches) < num_updates:
        for batch in packed.deliver(sampler):
            batches.append((batch["spans"].tolist(), batch["input_ids"].tolist()))
            sampler.commit()
            states.append(sampler.state_dict())
            if len(batches) == num_updates:
                break
    return batches, states


# -- Rows ------------------------------------------------------------------------------------------

POLICIES: dict[str, dict[str, Any]] = {
    "split": {"long_documents": "split"},
    "truncate": {"long_documents": "truncate"},
    "drop": {"long_documents": "drop"},
    "fragments": {"long_documents": "split", "min_fragment": 6},
    "arrival": {"long_documents": "split", "item_order": "arrival", "max_documents": 2},
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_window_is_packed_as_the_reference_packs_it(stream: str, policy: str) -> None:
    options = POLICIES[policy]
    for epoch in (0, 1):
        sampler = make(STREAMS[stream], **options)
        sampler.set_epoch(epoch)
        assert issued(sampler) == expected_rows(STREAMS[stream], epoch, **options)


def test_a_corpus_in_its_natural_order_gives_the_same_rows_if_none_are_shuffled() -> None:
    documents = STREAMS["ends inside a window"]
    options: dict[str, Any] = {"shuffle": False, "bos": 7, "eos": 8, "keep_empty": True}
    read = make(documents, **options)
    known = packed.make(
        documents,
        SEQ_LEN,
        packing="best_fit",
        long_documents="split",
        window_documents=WINDOW,
        seed=3,
        batch_size=2,
        **options,
    )
    for one, other in zip(packed.deliver(read), packed.deliver(known), strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert np.array_equal(one[name], other[name]), name


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_plain_loader_delivers_every_token_once(stream: str, num_workers: int) -> None:
    sampler = make(STREAMS[stream])
    loader: DataLoader[Any] = DataLoader(
        sampler.dataset,
        batch_size=2,
        sampler=sampler,
        num_workers=num_workers,
        multiprocessing_context="fork" if num_workers else None,
    )
    found = [token for batch in loader for token in batch["input_ids"][batch["segment_ids"] >= 0]]
    assert sorted(map(int, found)) == sorted(chain.from_iterable(STREAMS[stream]))


def test_epochs_may_differ() -> None:
    def numbers(epoch: int, first: int) -> Iterator[list[int]]:
        return ([epoch] for _ in range(first, 10 * (epoch + 1)))

    sampler = make(dc.IterableSource(numbers), batch_size=1)
    batches = [batch["input_ids"] for _ in range(3) for batch in _committed(sampler)]
    counts = [sum(int((ids == epoch).sum()) for ids in batches) for epoch in (1, 2)]
    assert counts == [20, 30]


def _committed(sampler: dc.PackedSampler) -> Iterator[dict[str, Any]]:
    for batch in packed.deliver(sampler):
        yield batch
        sampler.commit()


# -- Resume ----------------------------------------------------------------------------------------

LAYOUTS: dict[str, dict[str, Any]] = {
    "alone": {},
    "alone, drop_last": {"drop_last": True},
    "three": {"num_replicas": 3, "rank": 1},
    "three, drop_last": {"num_replicas": 3, "rank": 1, "drop_last": True},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stream", STREAMS)
def test_a_fresh_object_goes_on_from_every_state(stream: str, layout: str) -> None:
    options = LAYOUTS[layout] | {"batch_size": 1}
    num_rows = len(expected_rows(STREAMS[stream], 0))
    num_updates = 2 * num_rows // (3 if "three" in layout else 1) + 3
    batches, states = run(make(STREAMS[stream], **options), num_updates)
    for step in range(0, num_updates, 1 if num_updates < 30 else 7):
        fresh = make(STREAMS[stream], **options)
        fresh.load_state_dict(states[step])
        assert run(fresh, min(4, num_updates - step))[0] == batches[step : step + 4]


@pytest.mark.parametrize("stream", ["ends inside a window", "ends with a window"])
def test_a_run_stopped_after_every_update_delivers_the_same(stream: str) -> None:
    laws.restore_after_every_step(partial(make, STREAMS[stream], batch_size=5), 40)


def test_a_resume_at_other_ranks_and_workers_delivers_the_rest_once() -> None:
    documents = STREAMS["with windows without rows"]
    seen, state = packed.commit_from(make(documents), None, 7, num_workers=2)
    whole = flat(expected_rows(documents, 0))
    assert seen == whole[:14]
    ranks = [make(documents, num_replicas=2, rank=rank, batch_size=3) for rank in (0, 1)]
    for rank in ranks:
        rank.load_state_dict(state)
    shares = [
        [list(batch) for batch in laws.epoch_batches(rank)]  # rows keep their spans
        for rank in ranks
    ]
    union = [row for turn in zip(*shares, strict=True) for batch in turn for row in batch]
    rest = [row.spans.flatten().tolist() for row in union if not row.is_padding]
    assert rest == whole[14:]


def test_a_resume_reads_one_window() -> None:
    documents = documents_of(*RANDOM * 3)
    sampler = make(documents)
    state = run(sampler, 40)[1][-1]
    window = sampler.cursor.reader_position
    assert 0 < window < 10
    assert sampler.cursor.reader_offset > 0
    source = Listed(documents)
    fresh = make(source)
    assert source.asked == [(0, 0, WINDOW)]  # is there anything to train on?
    fresh.load_state_dict(state)
    next(packed.deliver(fresh))
    assert source.asked[1:] == [(0, window * WINDOW, WINDOW)]


def test_one_process_reads_a_window_once() -> None:
    source = Listed(documents_of(*RANDOM * 3))
    sampler = make(source, window_documents=100)
    run(sampler, 30)
    assert source.asked == [(0, first, 100) for first in range(0, source.asked[-1][1] + 1, 100)]


def test_deferred_rows_come_at_the_end() -> None:
    sampler = make(on_skip="defer", batch_size=4)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(sampler.dataset, sampler=sampler)
    seen = []
    for number, batch in enumerate(loader):
        if number == 1:
            sampler.skip()
        else:
            seen += flat(_rows(batch))
            sampler.commit()
        if number == 5:
            state = sampler.state_dict()
            break
    fresh = make(on_skip="defer", batch_size=4)
    seen += packed.commit_from(fresh, state, fresh_updates(seen), num_workers=0)[0]
    assert fresh.cursor.epoch == 1
    whole = flat(expected_rows(STREAMS["ends inside a window"], 0))
    assert seen == whole[:4] + whole[8:] + whole[4:8]


def _rows(batch: dict[str, Any]) -> laws.Rows:
    offsets = batch["row_offsets"].tolist()
    spans = batch["spans"].tolist()
    return [spans[first:stop] for first, stop in pairwise(offsets)]


def fresh_updates(seen: list[Any]) -> int:
    """Updates of 4 rows that are left when `seen` were committed."""
    num_rows = len(expected_rows(STREAMS["ends inside a window"], 0))
    return -(-(num_rows - 4 - len(seen)) // 4) + 1


def test_a_seek_reads_as_far_as_it_goes() -> None:
    whole = expected_rows(STREAMS["ends inside a window"], 1)
    sampler = make(batch_size=1)
    for position in (0, 1, len(whole) // 2, len(whole) - 1):
        sampler.seek(1, position)
        assert issued(sampler) == whole[position:]
    assert sampler.spans_of(1, 5)[0].tolist() == whole[5]
    sampler.seek(1, len(whole))
    assert (sampler.cursor.epoch, sampler.cursor.position) == (2, 0)
    with pytest.raises(ArgumentError, match=rf"position must be in \[0, {len(whole) + 1}\)"):
        sampler.seek(1, len(whole) + 1)


def test_a_plan_pickles() -> None:
    plan = make().plan
    copy = pickle.loads(pickle.dumps(plan))
    assert copy.rows(1, 3, 9)[0].tolist() == plan.rows(1, 3, 9)[0].tolist()


def test_the_digest_of_a_plan_tells_sources_and_windows_apart() -> None:
    plans = [
        make(Listed([[1]], name), window_documents=size).plan
        for name, size in [("one", 20), ("two", 20), ("one", 30), (None, 20)]
    ]
    assert len({plan.digest for plan in plans}) == 4
    assert plans[0].digest == make(Listed([[1]], "one")).plan.digest


# -- What a source is not --------------------------------------------------------------------------


def test_rows_are_not_counted() -> None:
    sampler = make()
    loader: dc.CursorLoader[Any] = dc.CursorLoader(sampler.dataset, sampler=sampler)
    for ask in (
        lambda: len(sampler),
        lambda: len(loader),
        sampler.remaining,
        lambda: len(sampler.dataset),  # type: ignore[arg-type]  # a Dataset, as the sampler says
        lambda: sampler.plan.stats(0),
        lambda: sampler.plan.save("never", 0),
        sampler.plan.len_estimate,
    ):
        with pytest.raises(TypeError, match="no known number"):
            ask()
    assert len(list(sampler)) == len(expected_rows(STREAMS["ends inside a window"], 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"packing": "concat", "long_documents": None}, "packing must be 'best_fit'"),
        ({"packing": "chunk", "long_documents": None}, "packing must be 'best_fit'"),
        ({"window_documents": None}, "window_documents must be given"),
        ({"window_documents": 0}, r"window_documents must be in \[1, "),
        ({"order": dc.Shuffle(3)}, "order must be None"),
        ({"counts_dir": "rows"}, "counts_dir must be None"),
        ({"columns": {"weight": dc.TokenColumn([1.0])}}, "columns must be None"),
        ({"long_documents": None}, "long_documents must be chosen"),
    ],
)
def test_options_that_need_all_lengths_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(**options)


def test_a_cursor_of_another_source_is_refused() -> None:
    documents = STREAMS["ends inside a window"]
    state = run(make(Listed(documents, "first")), 3)[1][-1]
    with pytest.raises(CursorMismatchError, match="fingerprint"):
        make(Listed(documents, "second")).load_state_dict(state)
    with pytest.raises(CursorMismatchError, match="unverified"):
        make(Listed(documents)).load_state_dict(state)
    same = make(Listed(documents, b"first"))
    same.load_state_dict(state)
    assert not same.cursor.data_unverified
    assert make().cursor.data_unverified
    with pytest.raises(TypeError, match=r"fingerprint of .* must be bytes, str or None, got int"):
        make(Listed(documents, 5))  # type: ignore[arg-type]  # what it is about


# -- Hostile sources -------------------------------------------------------------------------------


def test_no_documents_are_nothing_to_train_on() -> None:
    with pytest.raises(ArgumentError, match="nothing to train on"):
        make([])


def test_an_endless_source_without_rows_is_refused_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window_table, "_MAX_BARREN", 100)
    source = dc.IterableSource(lambda _epoch, _first: iter(list, None))
    with pytest.raises(ArgumentError, match=r"100 documents in a row of .* made none"):
        make(source)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (None, TypeError, "must return a list, got NoneType"),
        (((1, 2),), TypeError, "must return a list, got tuple"),
        (iter([[1]]), TypeError, "must return a list, got list_iterator"),
        ([[1]] * (WINDOW + 1), CorpusError, "gave 21 documents from 40 on, count=20"),
        ([[1], None], CorpusError, "document 41 of .* is None"),
        ([[1], "text"], CorpusError, "document 41 "),
        ([[1], [0.5]], CorpusError, "document 41 must hold integers, got dtype float64"),
        ([[1], [[2]]], CorpusError, "document 41 must be one flat sequence"),
        ([[1], [], [5, -2]], CorpusError, r"got -2 in document 42 of .* at token 1"),
        (
            [np.array([1, 2**63], dtype=np.uint64)],
            CorpusError,
            r"\[0, 2\*\*63\), got 9223372036854775808 in document 40",
        ),
    ],
)
def test_what_is_no_window_of_documents_is_refused(
    given: Any, error: type[Exception], message: str
) -> None:
    class Hostile(Listed):
        def documents(self, epoch: int, first: int, count: int) -> list[Any]:
            found: list[Any] = given
            return found if first == 2 * WINDOW else super().documents(epoch, first, count)

    with pytest.raises(error, match=message):
        list(make(Hostile(documents_of(*[9] * 2 * WINDOW))))


def test_a_short_window_that_is_not_the_last_is_refused() -> None:
    class Short(Listed):
        def documents(self, epoch: int, first: int, count: int) -> list[Any]:
            return super().documents(epoch, first, min(count, 15))

    with pytest.raises(CorpusError, match=r"gave 5 documents fewer than asked for before .* 15 "):
        make(Short(STREAMS["ends inside a window"]))


def test_a_large_token_is_named_by_its_document_in_the_stream() -> None:
    documents = documents_of(*[16] * 30)
    documents[25][3] = 2**31
    sampler = make(documents, ids_dtype="int32")
    with pytest.raises(CorpusError, match=r"got 2147483648 in document 25 of .* at token 3"):
        run(sampler, 15)


def test_a_long_document_is_refused_if_asked_for() -> None:
    documents = documents_of(*[16] * 25, 17)
    with pytest.raises(CorpusError, match="from document 20 on: document 5 has 17 tokens"):
        list(make(documents, long_documents="error"))


class Wavering(Listed):
    """Loses a token of one document once it was read some times."""

    def __init__(self, documents: Documents, num_right: int) -> None:
        super().__init__(documents)
        self.num_right = num_right

    def documents(self, epoch: int, first: int, count: int) -> list[Any]:
        found = super().documents(epoch, first, count)
        if first == 0 and count == WINDOW:
            self.num_right -= 1
            if self.num_right < 0:
                found[1] = found[1][:-1]
        return found


BEFORE_AND_NOW = (
    r"documents from 0 on, of epoch 0\n"
    r"  before: 20 documents, 320 tokens, lengths [0-9a-f]{16}\n"
    r"  now:    20 documents, 319 tokens, lengths [0-9a-f]{16}\n"
)


def test_a_window_that_reads_differently_in_a_worker_is_refused() -> None:
    sampler = make(Wavering(documents_of(*[16] * 200), num_right=1))
    dataset = pickle.loads(pickle.dumps(sampler.dataset))  # as a spawned worker has it
    rows = list(sampler)[:2]
    with pytest.raises(CorpusError, match=BEFORE_AND_NOW):
        dataset.__getitems__(pickle.loads(pickle.dumps(rows)))


def test_a_window_that_reads_differently_in_the_sampler_is_refused() -> None:
    sampler = make(Wavering(documents_of(*[16] * 200), num_right=1))
    list(sampler)
    sampler.seek(0, 3)
    with pytest.raises(CorpusError, match=BEFORE_AND_NOW):
        list(sampler)


# -- Iterables -------------------------------------------------------------------------------------


def test_consecutive_reads_go_on_with_one_iterator() -> None:
    opened = []

    def open_at(epoch: int, first: int) -> Iterator[list[int]]:
        opened.append((epoch, first))
        return iter(STREAMS["ends inside a window"][first:])

    source = dc.IterableSource(open_at, fingerprint="numbers")
    assert source.fingerprint == "numbers"
    sampler = make(source, window_documents=50, batch_size=1)
    state = run(sampler, 3)[1][-1]
    assert opened == [(0, 0)]
    fresh = make(source, window_documents=50, batch_size=1)
    fresh.load_state_dict(state)
    assert issued(fresh) == issued(sampler)


def test_an_iterator_that_fails_is_opened_again() -> None:
    class Failing:
        num_left = 3

        def __call__(self, epoch: int, first: int) -> Iterator[list[int]]:
            for number in range(first, 10):
                self.num_left -= 1
                if self.num_left == 0:
                    raise OSError("connection lost")
                yield [number]

    source = dc.IterableSource(Failing())
    with pytest.raises(OSError, match="connection lost"):
        source.documents(0, 0, 4)
    assert source.documents(0, 0, 4) == [[0], [1], [2], [3]]


def test_a_source_is_opened_by_a_callable() -> None:
    with pytest.raises(TypeError, match=r"open_at must be called as .* got list"):
        dc.IterableSource([[1]])  # type: ignore[arg-type]  # what it is about


def test_a_forked_worker_does_not_move_the_file_of_its_parent(tmp_path: Path) -> None:
    documents = documents_of(*[4] * 200)
    path = tmp_path / "documents.txt"
    path.write_text("".join(" ".join(map(str, document)) + "\n" for document in documents))

    def open_at(_epoch: int, first: int) -> Iterator[list[int]]:
        with path.open("rb", buffering=0) as file:  # a fork shares its place
            for line in islice(file, first, None):
                yield [int(word) for word in line.split()]

    sampler = make(dc.IterableSource(open_at), batch_size=1)
    batches = packed.deliver(sampler, num_workers=2)
    found = [int(token) for batch in batches for token in batch["input_ids"].flatten()]
    assert sorted(found) == sorted(chain.from_iterable(documents))

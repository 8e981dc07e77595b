"""The reference's packing and batches against the cases worked out in the specification."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from reference import IGNORE, Row, Span, batch, concat


def documents_of(lengths: list[int]) -> list[list[int]]:
    """Return documents that hold 1, 2, 3, ... in order."""
    tokens = iter(range(1, sum(lengths) + 1))
    return [list(islice(tokens, length)) for length in lengths]


def concat_all(lengths: list[int], seq_len: int, **options: Any) -> list[Row]:
    options.setdefault("tail", "drop")
    return concat(lengths, range(len(lengths)), seq_len, **options)


def batch_of(lengths: list[int], rows: list[Row], seq_len: int, **options: Any) -> dict[str, Any]:
    return batch(documents_of(lengths), [row.spans for row in rows], seq_len, **options)


def boundaries_of(lengths: list[int], rows: list[Row], seq_len: int) -> list[list[int]]:
    """Return the boundaries inside each row, and check the longest segment."""
    result = []
    for row in rows:
        fields = batch_of(lengths, [row], seq_len)
        edges = fields["cu_seqlens"]
        assert fields["max_seqlen"] == max(np.diff(edges))
        result.append(edges)
    return result


def tokens_of(rows: list[Row]) -> list[tuple[int, int]]:
    """Return (document, place) of every token of the rows, in order."""
    return [
        (document, place)
        for row in rows
        for document, start, stop in row.spans
        for place in range(start, stop)
    ]


def test_case_1_documents_are_joined_and_cut() -> None:
    rows = concat_all([3, 2, 5], 4)
    fields = batch_of([3, 2, 5], rows, 4)
    assert fields["input_ids"] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert fields["labels"] == [[2, 3, IGNORE, 5], [IGNORE, 7, 8, 9]]
    assert fields["position_ids"] == [[0, 1, 2, 0], [0, 0, 1, 2]]
    assert fields["segment_ids"] == [[0, 0, 0, 1], [0, 1, 1, 1]]
    assert fields["loss_mask"] == [[True, True, False, True], [False, True, True, True]]
    assert boundaries_of([3, 2, 5], rows, 4) == [[0, 3, 4], [0, 1, 4]]
    assert [row.spans for row in rows] == [[(0, 0, 3), (1, 0, 1)], [(1, 1, 2), (2, 0, 3)]]
    assert fields["spans"] == [(0, 0, 3), (1, 0, 1), (1, 1, 2), (2, 0, 3)]
    assert fields["row_offsets"] == [0, 2, 4]
    assert fields["num_targets"] == 6


def test_case_2_last_row_is_padded() -> None:
    rows = concat_all([3, 2, 5], 4, tail="pad")
    fields = batch_of([3, 2, 5], rows, 4)
    assert fields["input_ids"][2] == [9, 10, 0, 0]
    assert fields["labels"][2] == [10, IGNORE, IGNORE, IGNORE]
    assert fields["segment_ids"][2] == [0, 0, -1, -1]
    assert fields["position_ids"][2] == [0, 1, 0, 1]
    assert fields["loss_mask"][2] == [True, False, False, False]
    assert boundaries_of([3, 2, 5], rows, 4)[2] == [0, 2, 4]


def test_case_3_reader_moves_to_the_next_document_at_a_document_end() -> None:
    assert [row.reader for row in concat_all([4, 4], 4)] == [(1, 0), (2, 0)]


def test_case_4_empty_document_is_stepped_over() -> None:
    rows = concat_all([1, 0, 2, 1], 4)
    fields = batch_of([1, 0, 2, 1], rows, 4)
    assert fields["input_ids"] == [[1, 2, 3, 4]]
    assert fields["labels"] == [[IGNORE, 3, IGNORE, IGNORE]]
    assert fields["cu_seqlens"] == [0, 1, 3, 4]


def test_case_5_label_is_found_in_the_next_row() -> None:
    documents = [list(range(1, 12)), [21]]
    fields = batch(documents, [row.spans for row in concat_all([11, 1], 4)], 4)
    assert fields["input_ids"] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 21]]
    assert fields["labels"] == [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, IGNORE, IGNORE]]


def test_case_6_document_positions_continue_in_the_next_row() -> None:
    fields = batch_of([3, 2, 5], concat_all([3, 2, 5], 4), 4, positions="document")
    assert fields["position_ids"] == [[0, 1, 2, 0], [1, 0, 1, 2]]


def test_case_7_padding_is_masked_by_position_when_it_equals_eos() -> None:
    rows = concat_all([2, 1, 3], 4, tail="pad", num_virtual=1)
    fields = batch_of([2, 1, 3], rows, 4, eos=99, pad=99)
    assert fields["input_ids"] == [[1, 2, 99, 3], [99, 4, 5, 6], [99, 99, 99, 99]]
    assert fields["labels"] == [[2, 99, IGNORE, 99], [IGNORE, 5, 6, 99], [IGNORE] * 4]
    assert fields["segment_ids"][2] == [0, -1, -1, -1]


def test_case_13_too_few_tokens_make_no_row() -> None:
    assert concat_all([5, 6], 12) == []


def test_case_17_rows_follow_the_order_and_readers_count_its_places() -> None:
    rows = concat([3, 2, 5], [2, 0, 1], 4, tail="drop")
    fields = batch_of([3, 2, 5], rows, 4)
    assert fields["input_ids"] == [[6, 7, 8, 9], [10, 1, 2, 3]]
    assert [row.reader for row in rows] == [(0, 4), (2, 0)]


def test_case_21_rows_of_another_seq_len_go_on_at_the_same_token() -> None:
    lengths = [5, 3, 0, 7, 9]
    short = concat_all(lengths, 4, tail="pad")
    long = concat_all(lengths, 8, tail="pad", phase=4)  # 12 tokens read: row 2 begins at 2 * 8 - 4
    assert tokens_of(long[2:]) == tokens_of(short[3:])
    assert long[1].reader == short[2].reader


def test_case_23_boundaries_of_a_batch_include_every_row_start() -> None:
    rows: list[list[Span]] = [[(0, 0, 4)], [(1, 0, 1), (2, 0, 3)]]
    fields = batch(documents_of([4, 1, 3]), rows, 4)
    assert fields["cu_seqlens"] == [0, 4, 5, 8]
    assert fields["max_seqlen"] == 4


def test_d20_concatenate_and_cut() -> None:
    lengths = [5, 3, 0, 7, 1]
    rows = concat_all(lengths, 4)
    assert boundaries_of(lengths, rows, 4) == [[0, 4], [0, 1, 4], [0, 4], [0, 3, 4]]
    assert [batch_of(lengths, [row], 4)["max_seqlen"] for row in rows] == [4, 3, 4, 3]
    assert len(tokens_of(rows)) == 16


def test_d21_resume_after_the_first_row() -> None:
    rows = concat_all([6, 6, 6, 6], 8)
    assert [row.spans for row in rows] == [
        [(0, 0, 6), (1, 0, 2)],
        [(1, 2, 6), (2, 0, 4)],
        [(2, 4, 6), (3, 0, 6)],
    ]
    assert rows[0].reader == (1, 2)


def test_d22_long_documents_are_split() -> None:
    lengths = [13, 11]
    rows = concat_all(lengths, 10, tail="pad")
    assert boundaries_of(lengths, rows, 10) == [[0, 10], [0, 3, 10], [0, 4, 10]]
    assert len(tokens_of(rows)) == 24


def test_d23_targets_and_positions() -> None:
    fields = batch_of([3, 2], concat_all([3, 2], 5), 5)
    assert fields["position_ids"] == [[0, 1, 2, 0, 1]]
    assert fields["num_targets"] == 3
    padded = batch_of([3, 2], concat_all([3, 2], 8, tail="pad"), 8)
    assert padded["num_targets"] == 3
    assert padded["loss_mask"][0][5:] == [False] * 3
    assert padded["segment_ids"][0][5:] == [-1] * 3
    assert padded["cu_seqlens"] == [0, 3, 5, 8]


def test_unshifted_labels_skip_the_first_token_of_each_segment() -> None:
    fields = batch_of([3, 2, 5], concat_all([3, 2, 5], 4, tail="pad"), 4, labels="hf")
    assert fields["labels"] == [
        [IGNORE, 2, 3, IGNORE],
        [IGNORE, IGNORE, 7, 8],
        [IGNORE, 10, IGNORE, IGNORE],
    ]
    assert fields["num_targets"] == 5


def test_bos_and_eos_are_tokens_of_their_document() -> None:
    rows = concat_all([2, 0], 3, tail="pad", num_virtual=2, keep_empty=True)
    fields = batch_of([2, 0], rows, 3, bos=70, eos=80)
    assert fields["input_ids"] == [[70, 1, 2], [80, 70, 80]]
    assert fields["labels"] == [[1, 2, 80], [IGNORE, 80, IGNORE]]


def test_padding_row_keeps_its_ids_and_is_one_padding_segment() -> None:
    rows = concat_all([3, 2, 5], 4)
    fields = batch_of([3, 2, 5], [rows[1], rows[0]], 4, padding_rows=[1])
    assert fields["input_ids"] == [[5, 6, 7, 8], [1, 2, 3, 4]]
    assert fields["labels"][1] == [IGNORE] * 4
    assert fields["segment_ids"][1] == [-1] * 4
    assert fields["cu_seqlens"] == [0, 1, 4, 8]
    assert fields["num_targets"] == 3


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    seq_len=st.integers(1, 12),
    eos=st.sampled_from([None, 99]),
    keep_empty=st.booleans(),
)
def test_every_token_comes_once_and_is_a_target_once_unless_first(
    lengths: list[int], seq_len: int, eos: int | None, keep_empty: bool
) -> None:
    num_virtual = int(eos is not None)
    rows = concat_all(lengths, seq_len, tail="pad", num_virtual=num_virtual, keep_empty=keep_empty)
    sizes = [size + num_virtual if size or keep_empty else 0 for size in lengths]
    assert tokens_of(rows) == [(d, place) for d, size in enumerate(sizes) for place in range(size)]
    if rows:
        num_targets = batch_of(lengths, rows, seq_len, eos=eos)["num_targets"]
        assert num_targets == sum(max(size - 1, 0) for size in sizes)

"""Best-fit decreasing over all documents at once: the packing that windows are measured by.

Written apart from the product, by counting: only the number of rows is asked for, so equal
lengths are placed together and rows with equal room are one count.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def num_rows(lengths: NDArray[np.int64], seq_len: int) -> int:
    """Return the rows that best-fit decreasing fills when long documents are split.

    Args:
        lengths: Tokens of each document.
        seq_len: Tokens a row.
    """
    num_whole = int((lengths // seq_len).sum())
    rests, counts = np.unique(lengths % seq_len, return_counts=True)
    return num_whole + _num_rows_of_pieces(seq_len, rests.tolist(), counts.tolist())


def _num_rows_of_pieces(seq_len: int, sizes: Iterable[int], counts: Iterable[int]) -> int:
    """Pack pieces shorter than a row; sizes rise."""
    num_rows = 0
    rows_by_room: Counter[int] = Counter()
    rooms: list[int] = []  # those of rows_by_room, rising
    for size, count in reversed(list(zip(sizes, counts, strict=True))):
        if size == 0:
            continue
        while count > 0:
            place = bisect_left(rooms, size)
            # The smallest room that holds the size: it takes as many pieces as fit, since
            # what is left of it is smaller than any other room.
            is_new = place == len(rooms)
            room = seq_len if is_new else rooms[place]
            most = room // size
            rows = -(-count // most) if is_new else min(rows_by_room[room], -(-count // most))
            num_rows += rows if is_new else 0
            last = min(most, count - (rows - 1) * most)
            if not is_new:
                rows_by_room[room] -= rows
                if rows_by_room[room] == 0:
                    del rooms[place]
            for left, number in ((room - most * size, rows - 1), (room - last * size, 1)):
                if left > 0 and number > 0:
                    if rows_by_room[left] == 0:
                        insort(rooms, left)
                    rows_by_room[left] += number
            count -= (rows - 1) * most + last
    return num_rows


def num_rows_one_by_one(lengths: Iterable[int], seq_len: int) -> int:
    """Return the same for few documents, by placing one piece after another."""
    pieces: list[int] = []
    for length in lengths:
        pieces += [seq_len] * (length // seq_len) + [length % seq_len] * (length % seq_len > 0)
    rooms: list[int] = []
    num_rows = 0
    for piece in sorted(pieces, reverse=True):
        place = bisect_left(rooms, piece)
        room = seq_len if place == len(rooms) else rooms.pop(place)
        num_rows += room == seq_len
        insort(rooms, room - piece)
    return num_rows

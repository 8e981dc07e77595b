from typing import Any, type_check_only

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

__version__: str

def kernel_name() -> str: ...
def kernel_names() -> list[str]: ...
def philox(
    counter: tuple[int, int, int, int], key: tuple[int, int]
) -> tuple[int, int, int, int]: ...
def digest_samples(epoch: int, indices: NDArray[np.int64]) -> bytes: ...
def digest_spans(epoch: int, spans: NDArray[np.int64]) -> bytes: ...

@type_check_only
class _PybindType(type): ...  # the metaclass pybind11 gives every class

class Order(metaclass=_PybindType):
    # No constructor: only the derived classes have one.
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    @property
    def num_samples(self) -> int: ...
    @property
    def num_positions(self) -> int: ...
    def index_at(self, epoch: int, position: int) -> int: ...
    def position_of(self, epoch: int, index: int) -> int: ...
    def fill(
        self, epoch: int, first: int, out: NDArray[np.int64], num_threads: int = 1
    ) -> None: ...
    def fill_blocks(
        self, epoch: int, first: int, block: int, stride: int, out: NDArray[np.int64]
    ) -> None: ...

class Shuffle(Order):
    def __init__(self, num_samples: int, seed: int) -> None: ...

class Sequential(Order):
    def __init__(self, num_samples: int) -> None: ...

class PythonOrder(Order):
    def __init__(self, num_samples: int, num_positions: int, order: object) -> None: ...

class BlockShuffle(Order):
    def __init__(
        self, num_samples: int, block_size: int, window_blocks: int, seed: int
    ) -> None: ...

class Mixture(Order):
    def __init__(
        self,
        orders: list[Order],
        stages: list[tuple[int, list[int]]],
        block: int,
        stopping: str,
        seed: int,
    ) -> None: ...
    def draw_at(self, epoch: int, position: int) -> tuple[int, int]: ...
    def count_draws(self, epoch: int, position: int, counts: NDArray[np.int64]) -> None: ...

class Weighted(Order):
    def __init__(self, weights: NDArray[np.float64], num_positions: int, seed: int) -> None: ...

class Subset(Order):
    def __init__(
        self, indices: NDArray[np.int64], num_samples: int, seed: int, shuffle: bool
    ) -> None: ...

def encode_cursor(fields: dict[str, Any]) -> bytes: ...
def decode_cursor(buffer: Buffer) -> dict[str, Any]: ...
def amend_cursor(buffer: Buffer, changes: dict[str, Any]) -> bytes: ...
def crc32c(buffer: Buffer) -> int: ...

class LengthIndex(metaclass=_PybindType):
    def __init__(self, shards: list[tuple[NDArray[Any] | None, NDArray[Any]]]) -> None: ...
    @property
    def num_documents(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def num_empty(self) -> int: ...
    @property
    def longest(self) -> int: ...
    def lengths(self, first: int, count: int) -> NDArray[np.int64]: ...

def concat(
    index: LengthIndex,
    documents: NDArray[np.int64],
    *,
    seq_len: int,
    num_virtual: int,
    keep_empty: bool,
    offset: int,
    filled: int,
    spans: NDArray[np.int64],
    row_ends: NDArray[np.int64],
) -> tuple[int, int, int, int, int]: ...
def count_tokens(
    index: LengthIndex,
    documents: NDArray[np.int64],
    *,
    num_virtual: int,
    keep_empty: bool,
    stride: int,
    before: int,
    totals: NDArray[np.int64],
) -> None: ...
def cut_rows(
    index: LengthIndex,
    totals: NDArray[np.int64],
    stride: int,
    rows: NDArray[np.int64],
    *,
    first_token: int,
    seq_len: int,
    num_virtual: int,
    keep_empty: bool,
    spans: NDArray[np.int64],
    row_ends: NDArray[np.int64],
) -> int: ...

class BestFitRule(metaclass=_PybindType):
    def __init__(
        self,
        *,
        seq_len: int,
        long_documents: str,
        decreasing: bool,
        max_documents: int,
        align: int,
        min_fragment: int,
    ) -> None: ...

def count_best_fit(
    index: LengthIndex,
    documents: NDArray[np.int64],
    rule: BestFitRule,
    *,
    num_virtual: int,
    keep_empty: bool,
) -> dict[str, int]: ...
def best_fit(
    index: LengthIndex,
    documents: NDArray[np.int64],
    rule: BestFitRule,
    *,
    num_virtual: int,
    keep_empty: bool,
    key: tuple[int, int, int] | None,
    cost_groups: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def chunk_cut(seed: int, epoch: int, seq_len: int) -> int: ...
def fill_chunk_rows(
    seed: int, epoch: int, num_rows: int, first: int, out: NDArray[np.int64]
) -> None: ...
def locate_token(
    index: LengthIndex,
    documents: NDArray[np.int64],
    *,
    num_virtual: int,
    keep_empty: bool,
    target: int,
) -> tuple[int, int]: ...

class TokenTable(metaclass=_PybindType):
    def __init__(
        self, shards: list[tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any]]]
    ) -> None: ...
    @property
    def num_documents(self) -> int: ...
    def gather(
        self,
        spans: NDArray[np.int64],
        row_offsets: NDArray[np.int64],
        *,
        bos: int | None,
        eos: int | None,
        pad: int,
        shifted: bool,
        no_label: int,
        continued: bool,
        align: int,
        longest: int | None,
        input_ids: NDArray[np.int64] | NDArray[np.int32],
        labels: NDArray[np.int64] | None,
        position_ids: NDArray[np.int64] | None,
        segment_ids: NDArray[np.int32] | None,
        loss_mask: NDArray[np.bool_] | NDArray[np.float32] | None,
        cu_seqlens: NDArray[np.int32] | None,
    ) -> tuple[int, int, int]: ...

class ColumnTable(metaclass=_PybindType):
    def __init__(
        self, shards: list[tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any]]]
    ) -> None: ...
    @property
    def num_documents(self) -> int: ...
    def gather(
        self,
        spans: NDArray[np.int64],
        row_offsets: NDArray[np.int64],
        *,
        bos: bool,
        eos: bool,
        shifted: bool,
        align: int,
        longest: int | None,
        fill: int,
        out: NDArray[np.unsignedinteger[Any]],
    ) -> None: ...

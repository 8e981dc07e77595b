"""`BlockShuffle`: a shuffle that stays within a few blocks of the data at a time."""

from __future__ import annotations

from datacursor import _core
from datacursor.checks import MAX_COUNT, require_integer
from datacursor.order import BLOCK_SHUFFLE_ID, CoreOrder


class BlockShuffle(CoreOrder):
    """Shuffled blocks, then shuffled samples inside windows of blocks.

    For data that is read in blocks: Parquet row groups, remote shards. Consecutive
    positions stay within `window_blocks` blocks, wherever those lie in the data. The
    larger the window, the better the mixing; a window over all blocks is a full shuffle.
    A short last block stays behind the others, in the last window.

    Args:
        num_samples: Number of indices, 1 <= num_samples < 2**63.
        block_size: Samples in a block, >= 1.
        window_blocks: Blocks in a window, >= 1.
        seed: Key of all epochs, 0 <= seed < 2**64.

    Raises:
        ArgumentError: An argument is out of range, or there are more than 2**55 windows.
        TypeError: An argument is not an integer.

    Example:
        >>> order = BlockShuffle(12, block_size=3, window_blocks=2, seed=1)
        >>> {index // 3 for index in order.indices(0, 0, 6).tolist()}  # two blocks of four
        {0, 2}
        >>> order.position_of(0, order.index_at(0, 7))
        7

    Source:
        Windows of whole shards, as loaders of remote data shuffle them; here in O(1) at any
        position. The definition is in block_shuffle.hpp.
    """

    order_id = BLOCK_SHUFFLE_ID

    def __init__(
        self, num_samples: int, block_size: int, window_blocks: int, seed: int = 0
    ) -> None:
        self.block_size = require_integer("block_size", block_size, 1, MAX_COUNT)
        self.window_blocks = require_integer("window_blocks", window_blocks, 1, MAX_COUNT)
        super().__init__(num_samples, seed)

    @property
    def parameters(self) -> dict[str, int]:
        """Block and window."""
        return {"block_size": self.block_size, "window_blocks": self.window_blocks}

    def _make_core(self) -> _core.Order:
        return _core.BlockShuffle(self.num_samples, self.block_size, self.window_blocks, self.seed)

"""Whether all ranks stand at one cursor and dealt out every contribution once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from datacursor.contributions import Layout
from datacursor.errors import ArgumentError, DivergenceError
from datacursor.moving import MovingCursor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_LANE = 2**64


def require_agreement(moving: MovingCursor, layout: Layout, group: ProcessGroup | None) -> None:
    """Raise on every rank of the group alike unless all agree; forget what they agreed on.

    Two all-reduces: the minimum and maximum of a hash of the cursor, and the sum of what each
    rank was issued, which must be what all committed by the order.

    Raises:
        DivergenceError: They do not; names the ranks and their values.
        ArgumentError: The group is no multiple of num_replicas.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    size = dist.get_world_size(group)
    if size % layout.num_replicas != 0:
        raise ArgumentError(
            f"group must have a multiple of num_replicas={layout.num_replicas} ranks, got {size}"
        )
    whole, ours = moving.tally
    # A hash and its complement: the minimum of both is the minimum and the maximum.
    digest = hashlib.blake2b(bytes(moving.value) + whole, digest_size=8).digest()
    mark = int.from_bytes(digest, "little", signed=True)
    extremes = _all_reduce([mark, ~mark], dist.ReduceOp.MIN, group)
    sums = _all_reduce(_lanes(ours), dist.ReduceOp.SUM, group)
    copies = size // layout.num_replicas
    expected = [lane * copies % _LANE for lane in _lanes(whole)]
    if extremes[0] != ~extremes[1] or [lane % _LANE for lane in sums] != expected:
        raise DivergenceError(_report(moving, layout, group))
    moving.tally = (bytes(16), bytes(16))


def _lanes(digest: bytes) -> list[int]:
    return [int.from_bytes(digest[i : i + 8], "little", signed=True) for i in (0, 8)]


def _all_reduce(
    numbers: list[int], operation: dist.ReduceOp.RedOpType, group: ProcessGroup | None
) -> list[int]:
    is_nccl = dist.get_backend(group) == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if is_nccl else torch.device("cpu")
    tensor = torch.tensor(numbers, dtype=torch.int64, device=device)
    dist.all_reduce(tensor, operation, group=group)
    reduced: list[int] = tensor.tolist()
    return reduced


def _report(moving: MovingCursor, layout: Layout, group: ProcessGroup | None) -> str:
    """Gather everything from all ranks and say what differs, the same on each."""
    ours = (str(moving.value), moving.value.token(), layout.rank, *moving.tally)
    gathered: list[tuple[str, str, int, bytes, bytes]] = [ours] * dist.get_world_size(group)
    dist.all_gather_object(gathered, ours, group=group)
    if len({token for _, token, *_ in gathered}) > 1:
        lines = ["ranks stand at different cursors"]
        lines += [
            f"  rank {n}: {text}\n    {token}" for n, (text, token, *_) in enumerate(gathered)
        ]
    else:
        lines = ["ranks were issued something else than they committed together"]
        lines += [
            f"  rank {n}: sampler rank {rank}, issued {issued.hex()}, all should {whole.hex()}"
            for n, (_, _, rank, whole, issued) in enumerate(gathered)
        ]
        lines.append("is a rank used twice, or was something else committed than was issued?")
    return "\n".join(lines)

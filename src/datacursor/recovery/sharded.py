"""Checkpoints of a run whose state is spread over ranks, through torch.distributed.checkpoint.

    step-00001200/
        manifest.json
        .metadata, __0_0.distcp, __1_0.distcp    tensors: shards, and once what all ranks have alike
        rank-00000.pt, rank-00001.pt             everything else, of each rank

Tensors that are plain and not equal on all ranks, as random states are, stay with their rank; so
nothing is taken for a copy that is none. The directory comes to be as other checkpoints do: every
rank syncs and digests what it wrote, and rank 0 writes the manifest and renames.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor import DTensor

from datacursor.checks import MAX_COUNT, optional_integer, require_integer
from datacursor.durable import sync_directory
from datacursor.errors import CheckpointError
from datacursor.recovery.checkpoint import (
    PathLike,
    Saveable,
    cursor_in,
    manifest_of,
    require_equal,
    require_loadable,
)
from datacursor.recovery.digest import digest_tree
from datacursor.recovery.hashed_file import FileRecord, hash_file, open_regular, write_hashed
from datacursor.recovery.manifest import Manifest, write_manifest
from datacursor.recovery.ranks import Ranks
from datacursor.recovery.run_directory import new_checkpoint, remove_older, saving, step_directory
from datacursor.recovery.tensor_tree import TreePath, map_leaves, replace_leaves, tensors_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from datacursor.cursor import Cursor

# Part of the persistent format; add, never change.
_REST_PREFIX = "rank-"
_REST, _PATHS = "rest", "paths"

_METADATA_NAME = ".metadata"  # torch's


def save(
    state: Saveable,
    run_dir: PathLike,
    step: int,
    *,
    keep: int | None = None,
    on_durable: Callable[[Cursor], object] | None = None,
    group: ProcessGroup | None = None,
) -> Path:
    """Save a state that is spread over ranks; all ranks of the group call this together.

    As `datacursor.recovery.save`, also in what becomes of a step that is there already.

    Args:
        state: What to save. DTensors are written by the ranks that hold them.
        run_dir: Directory of the run, on a file system that all ranks share.
        step: Number of the checkpoint, in updates, 0 <= step < 2**63.
        keep: How many checkpoints to keep, this one included; None keeps all.
        on_durable: Called, on the ranks that give it, with the cursor that was saved.
        group: The ranks; None is all.

    Returns:
        The directory of the checkpoint.

    Raises:
        CheckpointError: It failed on some rank, so that there is no checkpoint, or the step is
            there and holds another state.
        OSError: The file system refuses on this rank. There is no checkpoint then.
    """
    ranks = Ranks(group)
    run_dir = Path(run_dir)
    step = require_integer("step", step, 0, MAX_COUNT)
    keep = optional_integer("keep", keep, 1, MAX_COUNT)
    saved = state.state_dict()
    cursor = None if on_durable is None else cursor_in(saved)
    with ExitStack() as held:
        ranks.on_first(lambda: held.enter_context(saving(run_dir)))
        if ranks.on_first(step_directory(run_dir, step).exists):
            _confirm(state, run_dir, step, saved, ranks)
        else:
            _write(run_dir, step, saved, ranks)
        if on_durable is not None and cursor is not None:
            on_durable(cursor)
        if keep is not None:
            ranks.on_first(lambda: remove_older(run_dir, step, keep))
    return step_directory(run_dir, step)


def load(
    run_dir: PathLike,
    step: int | None = None,
    *,
    like: Saveable,
    group: ProcessGroup | None = None,
) -> dict[str, Any]:
    """Return a saved state, spread as the state of this run is; all ranks call this together.

    The number of ranks may be another than when it was saved, or one without torch.distributed.
    Which tensors there are is the checkpoint's word, not that of `like`: a new optimizer has no
    state yet. What a rank had for itself, as its random state, is there for as many ranks as
    there were; rank r of more gets that of r modulo their number.

    Args:
        run_dir: Directory of the run.
        step: Which checkpoint; None is the latest.
        like: The state of this run. Tensors that it has as DTensors come in its layout, and state
            of optimizers in the layout of the parameter of that name; all else comes whole.
        group: The ranks; None is all.

    Raises:
        CheckpointError: There is none, it is damaged or incomplete, or this failed on some rank.

    Warning:
        torch.distributed.checkpoint reads its metadata with pickle. The manifest proves that
        nothing was damaged, not who wrote it: load only what you trust.
    """
    ranks = Ranks(group)
    step = ranks.on_first(lambda: manifest_of(Path(run_dir), step).step)
    manifest = ranks.everywhere(lambda: _verified(Path(run_dir), step, ranks))
    rest, paths = ranks.everywhere(lambda: _read_rest(manifest, ranks.rank))
    present = tensors_of(like.state_dict())
    tensors = ranks.everywhere(lambda: _templates(manifest.directory, paths, present))
    _failing_together(
        lambda: state_dict_loader.load(
            {_key(path): tensor for path, tensor in tensors.items()},
            storage_reader=FileSystemReader(manifest.directory),
            process_group=group,
        )
    )
    state: dict[str, Any] = replace_leaves(rest, tensors)
    return state


def _write(run_dir: Path, step: int, saved: Mapping[str, Any], ranks: Ranks) -> None:
    tensors = _shared_tensors(saved, ranks)
    with ExitStack() as making:
        directory = ranks.on_first(lambda: making.enter_context(new_checkpoint(run_dir, step)))
        _failing_together(
            lambda: state_dict_saver.save(
                {_key(path): tensor for path, tensor in tensors.items()},
                storage_writer=FileSystemWriter(directory),
                planner=DefaultSavePlanner(dedup_save_to_lowest_rank=True),
                process_group=ranks.group,
            )
        )
        parts = ranks.gather(lambda: _write_rest(directory, saved, [*tensors], ranks.rank))
        files = {name: record for part in parts for name, record in part.items()}
        ranks.on_first(lambda: write_manifest(directory, step, files))
        ranks.on_first(making.close)


def _confirm(
    state: Saveable, run_dir: Path, step: int, saved: Mapping[str, Any], ranks: Ranks
) -> None:
    """Make a checkpoint that exists durable if it holds this state."""
    on_disk = load(run_dir, step, like=state, group=ranks.group)
    directory = step_directory(run_dir, step)
    ranks.everywhere(lambda: require_equal(directory, _local(on_disk), _local(saved)))
    ranks.on_first(lambda: sync_directory(run_dir))


def _local(tree: object) -> object:
    return map_leaves(tree, lambda _, leaf: leaf.to_local() if isinstance(leaf, DTensor) else leaf)


def _failing_together(action: Callable[[], object]) -> None:
    """Call what fails on all ranks if it fails on one.

    Raises:
        CheckpointError: It failed; names the ranks.
    """
    try:
        with warnings.catch_warnings():
            # It says so where there is one process, and this is what such a caller means.
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            action()
    except CheckpointException as error:
        failures = (f"rank {rank} failed: {one!r}" for rank, (one, _) in error.failures.items())
        raise CheckpointError("\n".join(failures)) from error


def _shared_tensors(saved: Mapping[str, Any], ranks: Ranks) -> dict[TreePath, torch.Tensor]:
    """Return the tensors that are spread over ranks, or have the same bytes on all of them."""
    tensors = tensors_of(saved)
    plain = {path: one for path, one in tensors.items() if not isinstance(one, DTensor)}
    digests = ranks.gather(lambda: {path: digest_tree(one)[""] for path, one in plain.items()})
    return {
        path: one
        for path, one in tensors.items()
        if path not in plain or all(each.get(path) == digests[0].get(path) for each in digests)
    }


def _write_rest(
    directory: Path, saved: Mapping[str, Any], paths: list[TreePath], rank: int
) -> dict[str, FileRecord]:
    """Write what of this rank is not in the shared tensors; return the records of its files."""
    rest = replace_leaves(saved, dict.fromkeys(paths))
    path = directory / _rest_name(rank)
    record = write_hashed(path, lambda file: torch.save({_REST: rest, _PATHS: paths}, file))
    require_loadable(path)
    shards = sorted(directory.glob(f"__{rank}_*.distcp"))
    if rank == 0:
        shards.append(directory / _METADATA_NAME)
    return {path.name: record, **{shard.name: _record_of(shard) for shard in shards}}


def _record_of(path: Path) -> FileRecord:
    with open_regular(path) as file:
        return hash_file(file)


def _verified(run_dir: Path, step: int, ranks: Ranks) -> Manifest:
    """Return a manifest after this rank has verified its share of the files."""
    manifest = manifest_of(run_dir, step)
    if _METADATA_NAME not in manifest.files:
        raise CheckpointError(
            f"{manifest.directory}: has no {_METADATA_NAME}; it was saved by recovery.save"
        )
    for name in sorted(manifest.files)[ranks.rank :: ranks.size]:
        with manifest.open_verified(name):
            pass
    return manifest


def _read_rest(manifest: Manifest, rank: int) -> tuple[dict[str, Any], list[TreePath]]:
    num_ranks = sum(name.startswith(_REST_PREFIX) for name in manifest.files)
    with manifest.open_verified(_rest_name(rank % max(1, num_ranks))) as file:
        values = torch.load(file, map_location="cpu", weights_only=True)
    return values[_REST], values[_PATHS]


def _templates(
    directory: Path, paths: list[TreePath], present: Mapping[TreePath, torch.Tensor]
) -> dict[TreePath, torch.Tensor]:
    """Return uninitialised tensors to load into, all that the checkpoint has at these paths.

    Raises:
        CheckpointError: It has none for one of the paths.
    """
    stored = FileSystemReader(directory).read_metadata().state_dict_metadata
    owners = {path[-1]: one for path, one in present.items() if path[0] == "model"}
    templates = {}
    for path in paths:
        found = stored.get(_key(path))
        if not isinstance(found, TensorStorageMetadata):
            raise CheckpointError(f"{directory}: has no tensor {_key(path)!r}")
        owner = next((owners[name] for name in path if name in owners), None)
        model = present.get(path, owner)
        dtype = found.properties.dtype
        if isinstance(model, DTensor) and model.shape == found.size:
            templates[path] = torch.empty_like(model, dtype=dtype, requires_grad=False)
        else:
            templates[path] = torch.empty(found.size, dtype=dtype)
    return templates


def _key(path: TreePath) -> str:
    return "/".join(map(str, path))


def _rest_name(rank: int) -> str:
    return f"{_REST_PREFIX}{rank:05d}.pt"

"""Checkpoints of a model that is spread over two ranks, loaded by two ranks and by one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from datacursor.errors import CheckpointError
from datacursor.recovery import checkpoint, sharded
from datacursor.recovery.digest import digest_tree
from datacursor.recovery.run_directory import saved_steps, step_directory
from datacursor.recovery.state import TrainingState
from datacursor.recovery.tensor_tree import map_leaves
from datacursor.sampler import CursorSampler

STEP = 3
NUM_LATER = 2


def build(seed: int, *, is_sharded: bool) -> TrainingState:
    """A model that divides badly by two, with a buffer, under AdamW and a scheduler."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Dropout(0.3), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3)
    )
    if is_sharded:
        for layer in (model[0], model[3]):
            fully_shard(layer)
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return TrainingState(
        model=model,
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2),
        sampler=CursorSampler(1000, batch_size=4, seed=5),
    )


def train(state: TrainingState, num_updates: int) -> list[dict[str, str]]:
    """Train, and return the digests of the whole state of this rank after each update.

    The cursor is left out, which counts the attempts of a run; inputs depend on it.
    """
    digests = []
    indices = iter(state.sampler)
    for _ in range(num_updates):
        batch = [next(indices) for _ in range(4)]
        inputs = torch.tensor(batch, dtype=torch.float32)[:, None] / 1000 + torch.rand(4, 6)
        state.model(inputs).square().mean().backward()
        state.optimizers["optimizer"].step()
        state.optimizers["optimizer"].zero_grad()
        state.schedulers["scheduler"].step()
        state.sampler.commit()
        digests.append(digest_tree(local(state.state_dict() | {"sampler": None})))
    return digests


def local(tree: object) -> object:
    return map_leaves(tree, lambda _, leaf: leaf.to_local() if isinstance(leaf, DTensor) else leaf)


def whole(tree: object) -> dict[str, str]:
    """Digests of a state with its shards put together; all ranks must call this."""
    return digest_tree(
        map_leaves(tree, lambda _, leaf: leaf.full_tensor() if isinstance(leaf, DTensor) else leaf)
    )


def save_and_restore(rank: int, root: Path) -> dict[str, Any]:
    """What two ranks do with one checkpoint, and what comes of it."""
    run_dir = root / "run"
    state = build(0, is_sharded=True)
    torch.manual_seed(100 + rank)  # dropout differs between ranks
    train(state, STEP)
    told: list[Any] = []
    sharded.save(state, run_dir, STEP, on_durable=told.append)
    sharded.save(state, run_dir, STEP)  # the same once more
    found: dict[str, Any] = {
        "told": told == [state.sampler.cursor],
        "whole": whole(state.state_dict()),
        "later": train(state, NUM_LATER),
    }
    found["other state"] = refusal(lambda: sharded.save(state, run_dir, STEP))
    fresh = build(1, is_sharded=True)
    found["empty"] = len(fresh.optimizers["optimizer"].state)
    report = fresh.load_state_dict(sharded.load(run_dir, like=fresh))
    found["claim"] = report.claim
    found["restored"] = train(fresh, NUM_LATER)
    sharded.save(fresh, root / "kept", 1)
    sharded.save(fresh, root / "kept", 2, keep=1)
    found["kept"] = saved_steps(root / "kept")
    found["failed"] = fail_on_rank_1(rank, fresh, root)
    return found


def refusal(action: Any) -> str:
    try:
        action()
    except (CheckpointError, OSError) as error:
        return str(error)
    return ""


def fail_on_rank_1(rank: int, state: TrainingState, root: Path) -> list[str]:
    """Save while rank 1 cannot write; return the error and what is left in the directory."""
    run_dir = root / "failed"
    with pytest.MonkeyPatch.context() as patch:
        if rank == 1:
            patch.setattr(sharded, "write_hashed", no_space)
        message = refusal(lambda: sharded.save(state, run_dir, 1))
    dist.barrier()  # rank 0 tidies up after the others know
    return [message, *sorted(path.name for path in run_dir.iterdir())]


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sharded")


@pytest.fixture(scope="module")
def ranks(root: Path) -> list[dict[str, Any]]:
    return run_ranks(Play(root), 2, root / "store")


class Play:
    """A function of the rank that knows where to write."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, rank: int) -> dict[str, Any]:
        torch.set_num_threads(1)
        return save_and_restore(rank, self.root)


def test_two_ranks_go_on_bitwise_with_a_new_optimizer(ranks: list[dict[str, Any]]) -> None:
    for found in ranks:
        assert found["empty"] == 0
        assert found["claim"] == "bitwise"
        assert found["restored"] == found["later"]
    assert ranks[0]["later"] != ranks[1]["later"], "ranks must have something of their own"


def test_the_cursor_is_told_on_every_rank(ranks: list[dict[str, Any]]) -> None:
    assert all(found["told"] for found in ranks)


def test_another_state_of_the_same_step_is_refused(ranks: list[dict[str, Any]]) -> None:
    for found in ranks:
        assert "exists and holds another state" in found["other state"]


def test_older_ones_are_removed(ranks: list[dict[str, Any]]) -> None:
    assert all(found["kept"] == [2] for found in ranks)


def test_a_failure_of_one_rank_fails_all_and_leaves_nothing(ranks: list[dict[str, Any]]) -> None:
    first, second = (found["failed"] for found in ranks)
    assert first == ["rank 1 failed: OSError: [Errno 28] No space left on device", ".lock"]
    assert second == ["[Errno 28] No space left on device", ".lock"]


@pytest.fixture
def run_dir(root: Path, tmp_path: Path, ranks: list[dict[str, Any]]) -> Path:
    """A copy of what two ranks saved."""
    assert len(ranks) == 2
    shutil.copytree(root / "run", tmp_path / "run")
    return tmp_path / "run"


def test_one_process_loads_what_two_saved(run_dir: Path, ranks: list[dict[str, Any]]) -> None:
    state = build(1, is_sharded=False)
    saved = sharded.load(run_dir, like=state)
    assert digest_tree(saved) == ranks[0]["whole"]
    report = state.load_state_dict(saved)
    assert report.claim != "bitwise"
    assert "replicas" in [one.name for one in report.environment_differences]
    restored = digest_tree(state.state_dict())
    moments = [name for name in ranks[0]["whole"] if name.startswith("optimizer/optimizer/state/")]
    assert len(moments) == 6 * 3  # exp_avg, exp_avg_sq and step of six parameters
    for name in [*moments, "model/0.weight", "model/2.running_mean", "sampler/datacursor"]:
        assert restored[name] == ranks[0]["whole"][name], name


def test_one_process_saves_and_loads_without_ranks(tmp_path: Path) -> None:
    state = build(0, is_sharded=False)
    train(state, 1)
    path = sharded.save(state, tmp_path, 1)
    assert {each.name for each in path.iterdir()} == {
        ".metadata",
        "__0_0.distcp",
        "manifest.json",
        "rank-00000.pt",
    }
    fresh = build(1, is_sharded=False)
    fresh.load_state_dict(sharded.load(tmp_path, like=fresh))
    assert digest_tree(fresh.state_dict()) == digest_tree(state.state_dict())


def test_a_tensor_that_is_missing_is_named(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = FileSystemReader.read_metadata
    lost = "optimizer/optimizer/state/0.weight/exp_avg"

    def read_metadata(reader: Any) -> Any:
        metadata = real(reader)
        del metadata.state_dict_metadata[lost]
        return metadata

    monkeypatch.setattr(FileSystemReader, "read_metadata", read_metadata)
    with pytest.raises(CheckpointError, match=f"has no tensor '{lost}'"):
        sharded.load(run_dir, like=build(1, is_sharded=False))


def test_damage_to_any_file_is_refused(run_dir: Path) -> None:
    state = build(1, is_sharded=False)
    directory = step_directory(run_dir, STEP)
    files = sorted(directory.iterdir())
    assert [path.name for path in files] == [
        ".metadata",
        "__0_0.distcp",
        "__1_0.distcp",
        "manifest.json",
        "rank-00000.pt",
        "rank-00001.pt",
    ]
    for path in files:
        intact = path.read_bytes()
        middle = len(intact) // 2
        for damaged in (
            intact[:middle] + bytes([intact[middle] ^ 1]) + intact[middle + 1 :],
            intact[:-1],
            b"",
        ):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=directory.name):
                sharded.load(run_dir, like=state)
        path.unlink()
        with pytest.raises(CheckpointError, match=f"{path.name}: missing"):
            sharded.load(run_dir, like=state)
        path.write_bytes(intact)


def test_either_kind_of_checkpoint_refuses_to_be_read_as_the_other(
    run_dir: Path, tmp_path: Path
) -> None:
    state = build(1, is_sharded=False)
    with pytest.raises(CheckpointError, match=r"state\.pt: the manifest has no such file"):
        checkpoint.load(run_dir)
    checkpoint.save(state, tmp_path / "other", 1)
    with pytest.raises(CheckpointError, match=r"has no \.metadata; it was saved by recovery\.save"):
        sharded.load(tmp_path / "other", like=state)


def test_shards_are_written_once(run_dir: Path) -> None:
    """What is equal on all ranks is not repeated in the file of each."""
    for rank in (0, 1):
        rest = torch.load(step_directory(run_dir, STEP) / f"rank-0000{rank}.pt")
        left = digest_tree(rest["rest"])
        assert left["model/0.weight"] == left["sampler/datacursor"] == digest_tree(None)[""]
        assert left["model/2.running_mean"] != digest_tree(None)[""], "differs between ranks"

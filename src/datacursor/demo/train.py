"""The training program of the demo: one process of one attempt.

It knows nothing of kills. It continues from the state in its directory if there is one,
trains to the end, saves every few updates, and logs what it does.
"""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from datacursor import _core
from datacursor.demo.corpus import DOCUMENT_START, VOCABULARY_SIZE
from datacursor.demo.model import PackedModel
from datacursor.demo.parameters import hash_parameters
from datacursor.demo.records import Delivery, LogWriter, Row, Saved, Start, Update, split_rows
from datacursor.demo.settings import CHECKPOINTS_NAME, CORPUS_NAME, Attempt, Settings, log_name
from datacursor.loader import CursorLoader
from datacursor.packing import PackedSampler
from datacursor.recovery.checkpoint import latest, load, save
from datacursor.recovery.loop import LoopConvention, LoopState
from datacursor.recovery.state import TrainingState
from datacursor.tokens import TokenCorpus

_TIMEOUT = timedelta(seconds=60)  # for one replica to wait for another


def make_rows(settings: Settings, attempt: Attempt, directory: Path) -> PackedSampler:
    """Return the sampler of packed rows over the corpus in a demo's directory."""
    return PackedSampler(
        TokenCorpus.open(directory / CORPUS_NAME),
        seq_len=settings.seq_len,
        batch_size=attempt.batch_size(settings),
        accumulation_steps=settings.accumulation_steps,
        packing="concat",
        bos=DOCUMENT_START,
        seed=settings.seed,
    )


class Window:
    """The micro-batches of one update, gathered one by one."""

    def __init__(self, model: PackedModel, rows: PackedSampler) -> None:
        self.epoch = rows.epoch
        self.num_missing = min(rows.accumulation_steps, rows.remaining())
        self.totals = torch.zeros(2, dtype=torch.float64)  # sum of losses, number of targets
        self.rows: list[Row] = []
        self._model = model
        self._kept = model.draw_kept()

    def add(self, batch: dict[str, Any], num_real: int) -> None:
        """Add a micro-batch to the gradients; its first `num_real` rows are no padding."""
        loss = self._model(batch, self._kept)
        loss.backward()
        self.totals += torch.tensor([loss.item(), batch["num_targets"]])
        rows = split_rows(batch["spans"].tolist(), batch["row_offsets"].tolist())
        self.rows += rows[:num_real]
        self.num_missing -= 1

    def digest(self) -> str:
        """Return the identity digest of the rows, in hexadecimal."""
        spans = [span for row in self.rows for span in row]
        return _core.digest_spans(self.epoch, np.array(spans, np.int64).reshape(-1, 3)).hex()


class Trainer:
    """Model, optimizer and data of one process: how they move on and what is saved."""

    def __init__(self, settings: Settings, rows: PackedSampler, num_workers: int) -> None:
        torch.manual_seed(settings.seed)
        self.model = PackedModel(
            vocabulary_size=VOCABULARY_SIZE,
            seq_len=settings.seq_len,
            width=settings.width,
            num_layers=settings.num_layers,
            num_heads=settings.num_heads,
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.learning_rate)
        self.rows = rows
        self.loader: CursorLoader[dict[str, Any]] = CursorLoader(
            rows.dataset,
            sampler=rows,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
        )
        self.loop = LoopState(LoopConvention(accumulation=settings.accumulation_steps))
        # All that the next update depends on; it continues with any number of replicas and workers.
        self.state = TrainingState(
            model=self.model, optimizer=self.optimizer, sampler=rows, loop=self.loop
        )

    def apply(self, window: Window) -> float:
        """Make an update of a full window, over all replicas, and commit its rows.

        Returns:
            The mean loss over all targets.
        """
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if dist.is_initialized():
            for tensor in (window.totals, *gradients):
                dist.all_reduce(tensor)
        loss_sum, num_targets = window.totals.tolist()
        for gradient in gradients:
            gradient /= num_targets
        self.optimizer.step()
        self.optimizer.zero_grad()
        num_rows = _num_delivered(self.rows)
        self.rows.commit()
        self.loop.record(applied=True, samples=num_rows)
        return float(loss_sum / num_targets)


def train(
    trainer: Trainer, settings: Settings, attempt: int, log: LogWriter, checkpoints: Path
) -> None:
    """Train to the end of the last epoch; rank 0 saves every few updates."""
    while trainer.rows.epoch < settings.epochs:
        window = None
        for batch in trainer.loader:
            if window is None:
                window = Window(trainer.model, trainer.rows)
            log.write(_describe_delivery(trainer))
            window.add(batch, trainer.loader.num_real)
            if window.num_missing > 0:
                continue
            loss = trainer.apply(window)
            log.write(_describe_update(trainer, window, attempt, loss))
            window = None
            is_end = trainer.rows.epoch == settings.epochs
            update = trainer.loop.attempted
            is_due = is_end or update % settings.checkpoint_every == 0
            if is_due and trainer.rows.rank == 0:
                save(trainer.state, checkpoints, update, keep=2)
                log.write(Saved(update))


def _describe_start(trainer: Trainer) -> Start:
    return Start(
        update=trainer.loop.attempted,
        parameters=hash_parameters(trainer.model),
        cursor=trainer.rows.cursor.token(),
    )


def _describe_delivery(trainer: Trainer) -> Delivery:
    rows = trainer.rows
    cursor = rows.cursor
    return Delivery(
        update=trainer.loop.attempted + 1,
        epoch=cursor.epoch,
        committed=cursor.position,
        delivered=cursor.position + _num_delivered(rows),
        issued=cursor.position + rows.uncommitted.issued,
    )


def _num_delivered(rows: PackedSampler) -> int:
    """Return the rows of all replicas that were delivered and not committed."""
    delivered = rows.uncommitted.delivered
    assert delivered is not None, "a CursorLoader counts deliveries"
    return delivered


def _describe_update(trainer: Trainer, window: Window, attempt: int, loss: float) -> Update:
    return Update(
        attempt=attempt,
        update=trainer.loop.attempted,
        epoch=window.epoch,
        rows=tuple(window.rows),
        digest=window.digest(),
        loss=loss.hex(),
        parameters=hash_parameters(trainer.model),
        cursor=trainer.rows.cursor.token(),
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m datacursor.demo.train")
    parser.add_argument("directory", type=Path, help="the demo's directory")
    parser.add_argument("run", help="name of the run, a directory in it")
    for name in ("attempt", "replicas", "workers", "rank"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def main() -> None:
    """Run one process of an attempt."""
    options = _parse_arguments()
    settings = Settings.read(options.directory)
    attempt = Attempt(options.attempt, options.replicas, options.workers)
    run = options.directory / options.run
    torch.set_num_threads(1)  # another number sums in another order
    if attempt.replicas > 1:
        _meet_replicas(run / f"attempt-{attempt.number}.store", attempt.replicas, options.rank)
    trainer = Trainer(settings, make_rows(settings, attempt, options.directory), attempt.workers)
    checkpoints = run / CHECKPOINTS_NAME
    if latest(checkpoints) is not None:
        trainer.state.load_state_dict(load(checkpoints))
    with LogWriter(run / log_name(attempt.number, options.rank), sys.stdout) as log:
        log.write(_describe_start(trainer))
        train(trainer, settings, attempt.number, log, checkpoints)
    if attempt.replicas > 1:
        dist.destroy_process_group()


def _meet_replicas(path: Path, replicas: int, rank: int) -> None:
    store = dist.FileStore(str(path), replicas)  # type: ignore[attr-defined]  # not in its __all__
    dist.init_process_group("gloo", store=store, rank=rank, world_size=replicas, timeout=_TIMEOUT)


if __name__ == "__main__":
    main()

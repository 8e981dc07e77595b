"""What a demo run consists of, in one file that the training processes read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS_NAME = "datacursor-demo.json"  # also marks a directory as a demo's
CORPUS_NAME = "corpus.arrow"
CHECKPOINTS_NAME = "checkpoints"  # directory of a run's checkpoints, in that of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The model, the data and the updates; equal in all runs that are compared.

    Attributes:
        corpus_bytes: Size of the corpus, in bytes, at most.
        seq_len: Tokens a row.
        rows_per_update: Rows in an update, over all replicas and micro-batches.
        accumulation_steps: Micro-batches in an update.
        epochs: Passes over the corpus.
        checkpoint_every: Updates from one checkpoint to the next.
        width: Model width, a multiple of num_heads.
        num_layers: Transformer blocks.
        num_heads: Attention heads.
        learning_rate: Learning rate of AdamW.
        seed: Key of the data order and of the initial parameters.
    """

    corpus_bytes: int = 150_000
    seq_len: int = 256
    rows_per_update: int = 8
    accumulation_steps: int = 2
    epochs: int = 3
    checkpoint_every: int = 12
    width: int = 64
    num_layers: int = 2
    num_heads: int = 4
    learning_rate: float = 3e-3
    seed: int = 7

    @classmethod
    def read(cls, directory: Path) -> Settings:
        """Return the settings of the demo in a directory."""
        return cls(**json.loads((directory / SETTINGS_NAME).read_text(encoding="utf-8")))

    def write(self, directory: Path) -> None:
        """Write the settings for the training processes of the demo in a directory."""
        text = json.dumps(asdict(self), indent=2)
        (directory / SETTINGS_NAME).write_text(text + "\n", encoding="utf-8")


QUICK = Settings(
    corpus_bytes=30_000,
    seq_len=128,
    checkpoint_every=6,
    width=32,
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of the training program: all its processes, until it ends or is killed.

    Attributes:
        number: 0, then the number of the restart.
        replicas: Processes that share the data.
        workers: Loader workers of each.
    """

    number: int
    replicas: int
    workers: int

    def batch_size(self, settings: Settings) -> int:
        """Return the rows in a micro-batch of one replica; updates hold the same rows always."""
        return settings.rows_per_update // (self.replicas * settings.accumulation_steps)

    def __str__(self) -> str:
        """Return the layout in words."""
        each = " each" if self.replicas > 1 else ""
        return f"{count(self.replicas, 'replica')}, {count(self.workers, 'worker')}{each}"


def count(number: int, noun: str) -> str:
    """Return a number and its noun, in the singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def log_name(attempt: int, rank: int) -> str:
    """Return the name of a process's log in the directory of its run."""
    return f"attempt-{attempt}.rank-{rank}.jsonl"

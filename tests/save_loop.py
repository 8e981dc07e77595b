"""Kill a process that saves over and over, and look at what it leaves.

    python save_loop.py DIRECTORY NUM_KILLS

The savers are forked from this process, which has everything imported. Each goes on after the
latest checkpoint; this process kills it after a random number of saves and then some random work.
A kill loses nothing that the system has been given, so nothing is synced here: all the time goes
into what a kill can interrupt. What a loss of power does is another test's.
"""

from __future__ import annotations

import os
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from killing import kill

from datacursor.recovery.checkpoint import latest, load, save
from datacursor.recovery.run_directory import saved_steps

KEEP = 2
STARTED, SAVED = b"s", b"d"


class State:
    """A training state that knows which step it is of."""

    def __init__(self, step: int) -> None:
        self.step = step

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "weights": torch.full((100_000,), float(self.step))}


def save_until_killed(run_dir: Path, pipe: int) -> None:
    """Save step after step; write a byte into the pipe before and after each."""
    step = latest(run_dir) or 0
    while True:
        step += 1
        state = State(step)
        os.write(pipe, STARTED)
        save(state, run_dir, step, keep=KEEP)
        os.write(pipe, SAVED)


def kill_one(run_dir: Path, chance: random.Random) -> int:
    """Fork a saver, kill it at a random moment, and return how many of its saves returned."""
    done = kill(
        partial(save_until_killed, run_dir),
        after_bytes=chance.randrange(1, 6),
        and_turns=chance.randrange(60_000),
    )
    return done.count(SAVED)


def is_intact(run_dir: Path, step: int) -> bool:
    state = load(run_dir, step)
    return bool(state["step"] == step and (state["weights"] == float(step)).all())


def _no_sync(fd: Any) -> None:
    pass


def main(run_dir: Path, num_kills: int) -> int:
    """Kill, count, print; return the exit status."""
    torch.set_num_threads(1)  # a forked process has no others
    os.fsync = _no_sync
    chance = random.Random(3)
    counts = dict.fromkeys(("corrupt", "lost", "interrupted"), 0)
    expected = 0
    for _ in range(num_kills):
        expected += kill_one(run_dir, chance)
        steps = saved_steps(run_dir)
        counts["corrupt"] += sum(not is_intact(run_dir, step) for step in steps)
        counts["lost"] += expected > 0 and expected not in steps
        counts["interrupted"] += any(run_dir.glob(".step-*"))
        expected = max(steps, default=0)  # the last one may be whole though its saver was killed
    print(f"kills {num_kills}\nsaves {expected}")
    print("\n".join(f"{name} {count}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))

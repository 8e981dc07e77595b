"""Kill a training loop over and over and add up what is left of it.

    python kill_loop.py DIRECTORY NUM_KILLS

The loops are forked from this process, which has everything imported. Each continues from the
state in DIRECTORY, in a layout of its own, logs every update and saves every few of them with a
rename; this process kills it after some log lines, or while it starts or saves. A state names
how long the log was, so what a run did after its last save is cut off, as its weights are.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import NamedTuple

from killing import kill

import datacursor as dc

SIZE = 2000
SEED = 7
LAYOUTS = ((1, 1), (3, 1), (7, 2), (2, 3), (16, 1))  # batch size, accumulation steps


class Update(NamedTuple):
    """One line of the log."""

    epoch: int
    items: tuple[int, ...]


def train(directory: Path, seed: int, pipe: int) -> None:
    """Train until killed; write a byte into the pipe after each step of the loop."""
    chance = random.Random(seed)
    batch_size, accumulation_steps = chance.choice(LAYOUTS)
    sampler = dc.CursorSampler(
        SIZE,
        batch_size=batch_size,
        accumulation_steps=accumulation_steps,
        seed=SEED,
        on_skip=chance.choice(("retry", "defer")),
    )
    loader: dc.CursorLoader[int] = dc.CursorLoader(range(SIZE), sampler=sampler)
    log = (directory / "log").open("ab")
    cursor, log_size = load(directory) or (sampler.cursor, 0)
    sampler.load_cursor(cursor)
    log.truncate(log_size)
    log.seek(log_size)
    while True:
        window: list[int] = []
        for batch in loader:
            window += batch.tolist()
            if not loader.ends_update:
                continue
            epoch = sampler.epoch
            if chance.random() < 0.05:
                sampler.skip()
            else:
                log.write(f"{epoch} {' '.join(map(str, window))}\n".encode())
                log.flush()
                os.write(pipe, b".")
                sampler.commit()
            window.clear()
            if chance.random() < 0.3:
                save(sampler, log.tell(), directory)
                os.write(pipe, b"s")


def save(sampler: dc.CursorSampler, log_size: int, directory: Path) -> None:
    """Replace the state at once: a kill leaves the old one or the new one."""
    fresh = directory / "state.new"
    fresh.write_bytes(bytes(sampler.cursor) + log_size.to_bytes(8, "little"))
    fresh.replace(directory / "state")


def load(directory: Path) -> tuple[dc.Cursor, int] | None:
    if not (directory / "state").exists():
        return None
    state = (directory / "state").read_bytes()
    return dc.Cursor.from_bytes(state[:-8]), int.from_bytes(state[-8:], "little")


def kill_one(directory: Path, seed: int) -> int:
    """Fork a loop, kill it at a random moment, and return how many updates it made."""
    chance = random.Random(-seed)
    done = kill(
        partial(train, directory, seed),
        after_bytes=chance.choice((0, 1, 2, 5, 10, 20)),
        and_turns=chance.randrange(5_000),
    )
    return done.count(b".")


def effective_history(directory: Path, log_size: int) -> list[Update]:
    """Return the updates up to the last save."""
    lines = (directory / "log").read_bytes()[:log_size].splitlines()
    numbers = [tuple(map(int, line.split())) for line in lines]
    return [Update(epoch, tuple(items)) for epoch, *items in numbers]


def main(directory: Path, num_kills: int) -> int:
    """Kill, count, print; return the exit status."""
    # Imports torch, which every loop would otherwise do anew.
    next(iter(dc.CursorLoader(range(1), sampler=dc.CursorSampler(1, batch_size=1))))
    num_updates = sum(kill_one(directory, seed) for seed in range(1, num_kills + 1))
    state = load(directory)
    if state is None:
        raise RuntimeError("no loop lived long enough to save")
    cursor, log_size = state
    history = effective_history(directory, log_size)
    sampler = dc.CursorSampler(SIZE, batch_size=1, seed=SEED)
    sampler.load_cursor(cursor)
    lost = doubled = 0
    for epoch in range(cursor.epoch + 1):
        counts = Counter(
            item for update in history if update.epoch == epoch for item in update.items
        )
        expected: Collection[int] = range(SIZE)
        if epoch == cursor.epoch:
            expected = [item for item in range(SIZE) if sampler.committed(item)]
        lost += len(set(expected) - counts.keys())
        doubled += counts.total() - len(set(expected) & counts.keys())
    print(f"kills {num_kills}\nlost {lost}\ndoubled {doubled}")
    print(f"epochs {cursor.epoch}\nrewound {num_updates - len(history)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))

"""What do commits cost, and does a training loop feel them?

    commit  one commit, by size of the update: time a call and time a contribution
    moves   what else stands in a loop: skip, state_dict, load, a step with attach
    loop    what commits add to a loop of a millisecond a step

The cursor is checked against the digest of what the order says before anything is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import median
from typing import Any

import measure
import report
import torch
from measure import Timing
from report import Claim

from datacursor import CursorLoader, CursorSampler, Shuffle, _core

NUM_SAMPLES = 10**9
STEP_SECONDS = 1e-3
CALL_LIMIT_US = 5.0  # a commit
CONTRIBUTION_LIMIT_NS = 30.0  # and each contribution in it


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        sizes: Contributions in an update.
        num_commits: Commits in a turn.
        num_steps: Steps of a loop in a turn.
        rounds: Turns each contestant gets.
        max_share: How much commits may add to a loop; a busy machine blurs a short run.
    """

    sizes: tuple[int, ...]
    num_commits: int
    num_steps: int
    rounds: int
    max_share: float


FULL = Scale((1, 32, 256, 4096), 2000, 400, 15, 0.01)
CHECK = Scale((1, 256), 300, 100, 5, 0.03)


def issued(size: int, num_updates: int, **options: Any) -> CursorSampler:
    """Return a sampler that has issued some updates, none of them committed."""
    sampler = CursorSampler(NUM_SAMPLES, batch_size=size, seed=1, **options)
    iterator = iter(sampler)
    for _ in islice(iterator, size * num_updates):
        pass
    return sampler


def require_answer(size: int) -> None:
    """Raise unless commits move the cursor and its digest as the order says."""
    sampler = issued(size, 5)
    for _ in range(5):
        sampler.commit()
    indices = Shuffle(NUM_SAMPLES, 1).indices(0, 0, 5 * size)
    found = (sampler.cursor.position, sampler.cursor.identity_digest)
    if found != (5 * size, _core.digest_samples(0, indices)):
        raise AssertionError(f"after 5 commits of {size} the cursor is {sampler.cursor}")


def commit_all(sampler: CursorSampler, num_commits: int) -> float:
    """Return the seconds of some commits and of the cursor after them."""
    start = time.perf_counter()
    for _ in range(num_commits):
        sampler.commit()
    _ = sampler.cursor
    return time.perf_counter() - start


def commits(scale: Scale) -> dict[int, float]:
    """Time commits of every size; return the best seconds of one, its share of the digest in it."""
    best = dict.fromkeys(scale.sizes, float("inf"))
    for size in scale.sizes:
        require_answer(size)
    for _ in range(scale.rounds):
        for size in scale.sizes:
            num_commits = max(10, min(scale.num_commits, 200_000 // size))
            seconds = commit_all(issued(size, num_commits), num_commits)
            best[size] = min(best[size], seconds / num_commits)
    rows = [
        (
            f"{size:,}",
            report.seconds(seconds),
            report.seconds(seconds / size),
            report.ratio(seconds / allowed(size)),
        )
        for size, seconds in best.items()
    ]
    report.table(
        "One commit and its part of the digest, best turn",
        ("contributions", "a commit", "a contribution", "x allowed"),
        rows,
    )
    return best


def allowed(size: int) -> float:
    """Return the seconds a commit may take."""
    return CALL_LIMIT_US * 1e-6 + size * CONTRIBUTION_LIMIT_NS * 1e-9


# -- Moves -----------------------------------------------------------------------------------


class Moves:
    """One sampler, and what a loop does with it."""

    def __init__(self) -> None:
        self.sampler = CursorSampler(NUM_SAMPLES, batch_size=32, seed=1)
        self.state = self.sampler.state_dict()
        self.bare, self.optimizer = (
            torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]) for _ in range(2)
        )
        self.iterator = iter(self.sampler)
        self.sampler.attach(self.optimizer)

    def save(self) -> None:
        """Take a state."""
        self.sampler.state_dict()

    def load(self) -> None:
        """Load a state and begin to iterate."""
        self.sampler.load_state_dict(self.state)
        self.iterator = iter(self.sampler)

    def draw(self) -> None:
        """Draw a batch's indices, as a loader does."""
        for _ in islice(self.iterator, 32):
            pass

    def skip(self) -> None:
        """Draw a batch and skip it."""
        self.draw()
        self.sampler.skip()

    def step(self) -> None:
        """Draw a batch and take the step that commits it."""
        self.draw()
        self.optimizer.step()

    def step_alone(self) -> None:
        """Draw a batch and take a step that commits nothing."""
        self.draw()
        self.bare.step()


def moves(scale: Scale) -> dict[str, Timing]:
    """Time what else happens in a loop."""
    loop = Moves()
    actions: dict[str, Callable[[], object]] = {
        "draw 32 indices": loop.draw,
        "... and optimizer.step()": loop.step_alone,
        "... attached": loop.step,
        "draw 32 indices and skip()": loop.skip,
        "state_dict()": loop.save,
        "load_state_dict(), iter()": loop.load,
    }
    timings = measure.interleave(actions, rounds=scale.rounds)
    rows = [
        (name, report.seconds(timing.best), report.seconds(timing.median))
        for name, timing in timings.items()
    ]
    report.table("A sampler in a loop, batch size 32", ("what", "best", "median"), rows)
    return timings


# -- Loop ------------------------------------------------------------------------------------


def loop(scale: Scale) -> tuple[float, float]:
    """Return the seconds of a commit, the median, and of a state at the end of a loop.

    The work between commits leaves their code and data cold, as training does.
    """
    sampler = CursorSampler(NUM_SAMPLES, batch_size=32, seed=1)
    loader: CursorLoader[int] = CursorLoader(range(NUM_SAMPLES), sampler=sampler)
    commits = []
    for _ in islice(loader, scale.num_steps):
        stop = time.perf_counter() + STEP_SECONDS
        while time.perf_counter() < stop:
            pass
        commits.append(clocked(sampler.commit))
    return median(commits), clocked(sampler.state_dict)


def clocked(action: Callable[[], object]) -> float:
    """Return the seconds of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def loops(scale: Scale) -> float:
    """Print and return what commits and one state add to a loop, as a share of its steps."""
    turns = [loop(scale) for _ in range(scale.rounds)]
    commit, state = (min(turn[k] for turn in turns) for k in (0, 1))
    share = (commit + state / scale.num_steps) / STEP_SECONDS
    report.table(
        f"{scale.num_steps} steps of 1 ms, batches of 32, CursorLoader, best turn",
        ("commit, median of a turn", "state after all", "share of the steps"),
        [(report.seconds(commit), report.seconds(state), f"{share:.2%}")],
    )
    return share


def claims_of(scale: Scale, best: dict[int, float], share: float) -> list[Claim]:
    """Return what the figures must show."""
    claims = [
        report.at_most(f"commit of {size:,}, part of what is allowed", seconds / allowed(size), 1)
        for size, seconds in best.items()
    ]
    claims.append(
        report.at_most("what commits add to a loop, as a share of it", share, scale.max_share)
    )
    return claims


def main() -> int:
    """Measure and print; return the exit status."""
    options = report.arguments(__doc__)
    scale = CHECK if options.check else FULL
    report.print_machine()
    best = commits(scale)
    timings = moves(scale)
    share = loops(scale)
    figures = {
        "scale": asdict(scale),
        "commits": {str(size): seconds for size, seconds in best.items()},
        "moves": {name: timing._asdict() for name, timing in timings.items()},
        "share": share,
    }
    return report.conclude(claims_of(scale, best, share), figures, options.json)


if __name__ == "__main__":
    sys.exit(main())

"""The harness on training programs that restart well, badly or not at all."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch
from forked import forked, load_example, train

from datacursor.recovery.state import TrainingState, register_load_post_hook
from datacursor.verify.compare import BITWISE, CLOSE, SAMPLES, Tolerance
from datacursor.verify.damage import DAMAGES
from datacursor.verify.harness import Harness, Kill, Question
from datacursor.verify.selftest import judge_with_faults
from datacursor.verify.verdict import difference_lines, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from datacursor.verify.verdict import Restart

    Forget: TypeAlias = Callable[[TrainingState], None]

STEPS = 10
KILL = Kill(7)
TOLERANCE = Tolerance(1e-3, 1e-5)


def make_harness(
    directory: Path,
    function: Any = train,
    words: tuple[Any, ...] = (),
    *,
    kills: tuple[int, ...] = (5,),
    claim: str = BITWISE,
    resume_words: tuple[Any, ...] | None = None,
    kill_during_save: bool = False,
) -> Harness:
    program = forked(function, *words)
    successor = program if resume_words is None else forked(function, *resume_words)
    question = Question(STEPS, kills, claim, TOLERANCE, kill_during_save)
    return Harness(program, successor, question, directory, print)


# -- programs that restart well ------------------------------------------------------------


def test_a_program_that_restores_everything_is_equal(tmp_path: Path) -> None:
    verdict = make_harness(tmp_path, kill_during_save=True).judge()
    assert verdict.exit_status == 0, lines_of(verdict)
    assert lines_of(verdict)[0].startswith("EQUAL (bitwise): ")
    assert [restart.kill for restart in verdict.restarts] == [5, 6, 6, 6]
    assert [restart.resumed.first for restart in verdict.restarts] == [5, 5, 5, 7]


def test_every_planted_fault_is_caught_and_named(tmp_path: Path) -> None:
    verdict = judge_with_faults(make_harness(tmp_path, kills=(7,)))
    assert verdict.exit_status == 0, lines_of(verdict)
    assert [fault.name for fault in verdict.faults] == list(DAMAGES)
    assert all(fault.is_possible and fault.is_caught for fault in verdict.faults)


def test_another_number_of_workers_is_equal_too(tmp_path: Path) -> None:
    assert make_harness(tmp_path, words=(2,), resume_words=(0,)).judge().exit_status == 0


def test_another_number_of_threads_is_close_and_says_why(tmp_path: Path) -> None:
    verdict = make_harness(tmp_path, words=(0, 1), resume_words=(0, 2)).judge()
    assert verdict.exit_status == 0
    assert verdict.claim == CLOSE
    lines = lines_of(verdict)
    assert lines[0].startswith("EQUAL (close, rtol 0.001, atol 1e-05): ")
    assert "the claim is close, not bitwise: the environment differs" in lines
    assert "  intra_op_threads: 1 uninterrupted, 2 restarted" in lines


# -- programs that do not ------------------------------------------------------------------


def forget_moments(state: TrainingState) -> None:
    state.optimizers["optimizer"].state.clear()


def forget_schedule(state: TrainingState) -> None:
    [scheduler] = state.schedulers.values()
    scheduler.last_epoch = 0


def forget_scale(state: TrainingState) -> None:
    state.scaler.load_state_dict(state.scaler.state_dict() | {"scale": 1.0})


def forget_tracker(state: TrainingState) -> None:
    state.scaler.load_state_dict(state.scaler.state_dict() | {"_growth_tracker": 0})


def forget_random_state(state: TrainingState) -> None:
    torch.manual_seed(load_example().SEED + state.sampler.epoch)


def forget_position(state: TrainingState) -> None:
    state.sampler.seek(state.sampler.cursor.epoch, 0)


FORGOTTEN: dict[Forget, str] = {
    forget_moments: "optimizer step of '1.weight'",
    forget_schedule: "lr of group 0",
    forget_scale: "scale",
    forget_tracker: "growth tracker",
    forget_random_state: "RNG torch",
    forget_position: "cursor",
}


def nudge_moment(state: TrainingState) -> None:
    """Move one element by two units in the last place."""
    moment = state.optimizers["optimizer"].state[state.model.get_parameter("6.bias")]["exp_avg"]
    moment[2:3].view(torch.int32).add_(2)


def train_and_forget(run_dir: Path, forget: Forget) -> None:
    """Train as the example does, but for what is lost at a restart."""
    register_load_post_hook(forget)
    train(run_dir)


class KilledRun:
    """A run that was killed once, and is resumed in copies of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        harness = make_harness(directory)
        self.whole = harness.run_uninterrupted(1)
        self.killed = harness.run_killed(KILL, "killed")

    def resume(self, forget: Forget, claim: str = BITWISE) -> Restart:
        harness = make_harness(self.directory, train_and_forget, (forget,), claim=claim)
        name = f"{forget.__name__}-{claim}"
        shutil.copytree(harness.run_dir("killed"), harness.run_dir(name))
        return harness.judge_restart(self.whole, self.killed, harness.resume(name), KILL)


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory: pytest.TempPathFactory) -> KilledRun:
    return KilledRun(tmp_path_factory.mktemp("killed"))


@pytest.mark.parametrize("forget", FORGOTTEN)
def test_what_is_not_restored_is_named(killed_run: KilledRun, forget: Forget) -> None:
    restart = killed_run.resume(forget)
    assert restart.difference is not None
    assert restart.difference.update == restart.resumed.first == KILL.update
    assert restart.difference.subject == FORGOTTEN[forget]
    assert restart.versus == "killed"


def test_a_difference_is_shown_to_the_bit(killed_run: KilledRun) -> None:
    difference = killed_run.resume(nudge_moment).difference
    assert difference is not None
    first, expected, found = difference_lines(difference, ("uninterrupted", "restarted"))
    assert first == "update 7: optimizer exp_avg of '6.bias' [2]"
    values = [int(line.split(": ")[1], 16) for line in (expected, found)]
    assert 0 < abs(values[0] - values[1]) < 64


def test_a_lost_moment_is_within_no_tolerance(killed_run: KilledRun) -> None:
    difference = killed_run.resume(forget_moments, CLOSE).difference
    assert difference is not None
    assert difference.aspect == "model"


def test_a_bit_is_within_the_tolerance(killed_run: KilledRun) -> None:
    assert killed_run.resume(nudge_moment, CLOSE).difference is None


def test_samples_are_equal_whatever_became_of_the_weights(killed_run: KilledRun) -> None:
    assert killed_run.resume(forget_moments, SAMPLES).difference is None


def train_anew(run_dir: Path) -> None:
    """Train from the beginning, whatever was saved."""
    attempt = len(list(run_dir.iterdir()))
    train(run_dir / str(attempt))


def test_a_program_that_begins_again_is_a_rerun_and_not_judged(tmp_path: Path) -> None:
    verdict = make_harness(tmp_path, train_anew).judge()
    assert verdict.exit_status == 2
    headline, *rest = lines_of(verdict)
    assert headline.startswith("NOT JUDGED (bitwise): nothing was resumed")
    assert rest == ["  killed at update 5: a rerun, not a restart: it began again at update 1"]


def train_with_entropy(run_dir: Path) -> None:
    module = load_example()
    make_model = module.make_model

    def make_another() -> Any:
        torch.seed()
        return make_model()

    module.make_model = make_another
    train(run_dir)


def test_a_program_that_does_not_reproduce_itself_is_not_judged(tmp_path: Path) -> None:
    verdict = make_harness(tmp_path, train_with_entropy).judge()
    assert verdict.exit_status == 2
    lines = lines_of(verdict)
    assert lines[0] == "NOT JUDGED (bitwise): not reproducible, update 1: RNG torch"
    assert lines[1] == "two uninterrupted runs differ at update 1: RNG torch"


def test_a_program_that_ends_before_the_kill_is_not_judged(tmp_path: Path) -> None:
    verdict = make_harness(tmp_path, kills=(40,)).judge()
    assert verdict.exit_status == 2
    assert "ended after update 10, before the last kill" in lines_of(verdict)[0]


def test_a_program_that_saves_nothing_cannot_be_killed_in_a_save(tmp_path: Path) -> None:
    verdict = make_harness(tmp_path, train_without_saves, kill_during_save=True).judge()
    assert verdict.exit_status == 2
    assert "nothing to kill a save of" in lines_of(verdict)[0]


def train_without_saves(run_dir: Path) -> None:
    load_example().SAVE_EVERY = 10**9
    train(run_dir)

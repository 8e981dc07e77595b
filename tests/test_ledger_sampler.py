"""A ledger beside real samplers and loaders: every move becomes a row, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import datacursor as dc
from datacursor.ledger.history import read
from datacursor.ledger.verify import Verification, verify

NUM_SAMPLES = 100


def make(**options: Any) -> dc.CursorSampler:
    defaults: dict[str, Any] = {"batch_size": 4, "seed": 7, "accumulation_steps": 2}
    return dc.CursorSampler(NUM_SAMPLES, **{**defaults, **options})


def train(sampler: dc.CursorSampler, num_tries: int, *, skip_every: int = 0) -> None:
    """Try updates; every so many of them change nothing."""
    loader: dc.CursorLoader[int] = dc.CursorLoader(sampler.dataset, sampler=sampler)
    done = 0
    while done < num_tries:
        for _ in loader:
            if not loader.ends_update:
                continue
            done += 1
            if skip_every and done % skip_every == 0:
                sampler.skip()
            else:
                sampler.commit()
            if done == num_tries:
                return


def attempt(
    directory: Path, state: Any, num_tries: int, *, skip_every: int = 0, **options: Any
) -> Any:
    """Run one attempt that dies three updates after its checkpoint; return the checkpoint."""
    sampler = make(**options)
    with dc.Ledger(directory) as ledger:
        ledger.attach(sampler)
        if state is not None:
            sampler.load_state_dict(state)
        train(sampler, num_tries, skip_every=skip_every)
        saved = sampler.state_dict()
        train(sampler, 3)
    return saved


def finish(directory: Path, state: Any, **options: Any) -> Verification:
    """Run the last attempt; verify against its checkpoint."""
    sampler = make(**options)
    with dc.Ledger(directory) as ledger:
        ledger.attach(sampler)
        sampler.load_state_dict(state)
        train(sampler, 20)
        sampler.state_dict()
    return verify(directory, cursor=sampler.cursor, chain=ledger.chain)


@pytest.mark.parametrize("on_skip", ["advance", "retry", "defer"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_restarts_leave_one_effective_history(
    tmp_path: Path, on_skip: str, drop_last: bool
) -> None:
    state = None
    for num_tries in (5, 11, 9):
        options: dict[str, Any] = {"on_skip": on_skip, "drop_last": drop_last}
        state = attempt(tmp_path, state, num_tries, skip_every=4, **options)
    verification = finish(tmp_path, state, on_skip=on_skip, drop_last=drop_last)
    assert verification.notes == ()
    rows = verification.history.effective
    commits = rows[rows["outcome"] == 1]
    assert commits["update"].tolist() == list(range(1, len(commits) + 1))
    assert verification.num_recomputed == len(commits)
    assert len(verification.history.attempts) == 4
    assert (rows["outcome"] == {"advance": 2, "retry": 0, "defer": 3}[on_skip]).sum() == (
        0 if on_skip == "retry" else 5
    )


def test_the_layout_may_change_between_attempts(tmp_path: Path) -> None:
    state = attempt(tmp_path, None, 5, drop_last=True)
    state = attempt(tmp_path, state, 4, drop_last=True, num_replicas=3, rank=0, batch_size=5)
    assert finish(tmp_path, state, drop_last=True, batch_size=8).notes == ()


@pytest.mark.parametrize(("num_tries", "skip_every"), [(32, 0), (33, 30)])
def test_a_restart_drops_a_rest_that_is_less_than_its_round(
    tmp_path: Path, num_tries: int, skip_every: int
) -> None:
    options: dict[str, Any] = {"accumulation_steps": 1, "drop_last": True, "on_skip": "defer"}
    sampler = make(batch_size=3, **options)
    with dc.Ledger(tmp_path) as ledger:
        ledger.attach(sampler)
        train(sampler, num_tries, skip_every=skip_every)
        state = sampler.state_dict()
    assert sampler.epoch == 0
    assert finish(tmp_path, state, batch_size=5, **options).notes == ()


@pytest.mark.parametrize(("on_skip", "accumulation_steps"), [("advance", 2), ("defer", 1)])
def test_what_became_of_a_deferred_range_after_the_checkpoint_dies(
    tmp_path: Path, on_skip: str, accumulation_steps: int
) -> None:
    def restart(state: Any = None, **options: Any) -> tuple[dc.CursorSampler, dc.CursorLoader[int]]:
        sampler = make(**options)
        dc.Ledger(tmp_path).attach(sampler)
        if state is not None:
            sampler.load_state_dict(state)
        return sampler, dc.CursorLoader(sampler.dataset, sampler=sampler)

    sampler, loader = restart(on_skip="defer")
    train(sampler, 13, skip_every=5)  # the whole epoch; two updates are deferred
    state = sampler.state_dict()
    assert sampler.cursor.deferred == ((32, 8), (72, 8))
    options = {"on_skip": on_skip, "accumulation_steps": accumulation_steps}
    sampler, loader = restart(state, **options)
    train(sampler, 1, skip_every=1)
    sampler.state_dict()
    sampler, loader = restart(state, **options)
    for _ in loader:
        if loader.ends_update:
            sampler.commit()
    sampler.state_dict()
    assert (sampler.epoch, sampler.cursor.position) == (1, 0)
    verification = verify(tmp_path, cursor=sampler.cursor)
    assert verification.history.effective["attempt"].tolist()[13:] == [2] * (
        2 if accumulation_steps == 2 else 4
    )


def test_ranges_that_the_user_skips_are_rows(tmp_path: Path) -> None:
    sampler = make()
    with dc.Ledger(tmp_path) as ledger:
        ledger.attach(sampler)
        train(sampler, 3)
        sampler.skip_range(24, 31, "known to be bad")
        train(sampler, 30)
        sampler.skip_range(sampler.cursor.position, NUM_SAMPLES, "enough")
        sampler.state_dict()
    verification = verify(tmp_path, cursor=sampler.cursor)
    assert verification.notes == ()
    rows = verification.history.effective
    assert rows[rows["outcome"] == 4][["first", "stop"]].tolist()[0] == (24, 31)


def test_a_seek_is_a_new_attempt_and_is_noted(tmp_path: Path) -> None:
    sampler = make()
    with dc.Ledger(tmp_path) as ledger:
        ledger.attach(sampler)
        train(sampler, 3)
        sampler.seek(2, 40)
        train(sampler, 3)
        sampler.state_dict()
    verification = verify(tmp_path, cursor=sampler.cursor)
    assert verification.notes == (
        "attempt 1 was moved by hand, from epoch 0, position 24, to epoch 2, position 40",
    )


def test_packed_rows_are_recorded_with_their_tokens(tmp_path: Path) -> None:
    corpus = dc.TokenCorpus.open([[1] * (3 + n % 11) for n in range(60)])

    def make_rows() -> dc.PackedSampler:
        return dc.PackedSampler(corpus, seq_len=8, batch_size=3, packing="concat", seed=7)

    state = None
    for num_tries in (4, 21):
        rows = make_rows()
        with dc.Ledger(tmp_path) as ledger:
            ledger.attach(rows)
            if state is not None:
                rows.load_state_dict(state)
            train(rows, num_tries)
            state = rows.state_dict()
    verification = verify(tmp_path, cursor=rows.cursor)
    assert verification.history.effective["num_tokens"].sum() == rows.cursor.tokens_committed
    assert "rows are packed" in verification.notes[0]


def test_a_ledger_changes_nothing_of_a_run(tmp_path: Path) -> None:
    alone, recorded = make(), make()
    with dc.Ledger(tmp_path, rows_per_part=2) as ledger:
        ledger.attach(recorded)
        for sampler in (alone, recorded):
            train(sampler, 17, skip_every=5)
    assert bytes(alone.cursor) == bytes(recorded.cursor)


def test_a_note_stays_with_its_update_when_a_device_decides_late(tmp_path: Path) -> None:
    sampler = make(accumulation_steps=1)
    with dc.Ledger(tmp_path) as ledger:
        ledger.attach(sampler)
        loader: dc.CursorLoader[int] = dc.CursorLoader(sampler.dataset, sampler=sampler)
        for loss, _ in zip((1.0, 2.0, 3.0), loader, strict=False):
            ledger.note(loss=loss)
            sampler._tracker.decide_later(1, lambda: True)
        sampler.state_dict()
    assert read(tmp_path).effective["loss"].tolist() == [1.0, 2.0, 3.0]


def test_an_order_given_to_the_sampler_is_rebuilt(tmp_path: Path) -> None:
    order = dc.BlockShuffle(NUM_SAMPLES, block_size=5, window_blocks=3, seed=7)
    sampler = make(order=order, seed=0)
    with dc.Ledger(tmp_path) as ledger:
        ledger.attach(sampler)
        train(sampler, 15)
        sampler.state_dict()
    verification = verify(tmp_path, cursor=sampler.cursor)
    assert (verification.num_recomputed, verification.notes) == (15, ())


def test_the_end_of_a_with_block_ends_the_record(tmp_path: Path) -> None:
    sampler = make()
    with dc.Ledger(tmp_path) as ledger:
        ledger.attach(sampler)
        train(sampler, 2)
    train(sampler, 3)
    ledger.flush()
    assert len(read(tmp_path).effective) == 2
    with dc.Ledger(tmp_path) as again:
        again.attach(sampler)
        with pytest.raises(dc.ArgumentError, match="one sampler"):
            again.attach(sampler)

"""The commit protocol without torch: what moves a cursor, and what may be committed."""

from __future__ import annotations

import pytest

from datacursor import _core
from datacursor.commits import CommitTracker
from datacursor.contributions import Layout, SampleContributions, add_digests
from datacursor.cursor import Cursor
from datacursor.errors import (
    ArgumentError,
    CommitError,
    CursorMismatchError,
    MidUpdateError,
    StaleIteratorError,
)
from datacursor.order import Shuffle
from datacursor.outcome import Outcome
from datacursor.session import Session

SEED = 7


def make(
    n: int = 24,
    batch_size: int = 2,
    num_replicas: int = 1,
    accumulation_steps: int = 1,
    *,
    drop_last: bool = False,
    on_skip: str = "advance",
) -> CommitTracker:
    layout = Layout(0, num_replicas, batch_size, accumulation_steps, drop_last)
    contributions = SampleContributions(Shuffle(n, SEED), n, bytes(16), data_unverified=True)
    return CommitTracker(contributions, layout, on_skip)


def issue(tracker: CommitTracker, micro_batches: int) -> None:
    """Draw micro-batches from a new session, as a loader does."""
    session = tracker.begin()
    batches = tracker.contributions.issue(session.start, tracker.layout)
    for _ in range(micro_batches):
        session.record(next(batches))


def deliver(tracker: CommitTracker, micro_batches: int) -> Session:
    """Draw and hand over micro-batches from a new session, as a CursorLoader does."""
    session = tracker.begin_counted()
    batches = tracker.contributions.issue(session.start, tracker.layout)
    for _ in range(micro_batches):
        session.record(next(batches))
    session.delivered = session.issued
    return session


def place(tracker: CommitTracker) -> tuple[int, int]:
    return tracker.cursor.epoch, tracker.cursor.position


def digest(epoch: int, first: int, stop: int, n: int = 24) -> bytes:
    return _core.digest_samples(epoch, Shuffle(n, SEED).indices(epoch, first, stop - first))


def test_issuing_moves_nothing() -> None:
    tracker = make()
    before = tracker.cursor
    issue(tracker, 5)
    assert tracker.cursor is before


def test_a_commit_moves_over_one_update_by_default() -> None:
    tracker = make(accumulation_steps=3)
    issue(tracker, 12)
    tracker.commit()
    assert place(tracker) == (0, 6)
    assert tracker.cursor.updates_committed == 1


def test_the_last_update_of_an_epoch_may_be_smaller() -> None:
    tracker = make(n=10, accumulation_steps=3)
    issue(tracker, 5)
    tracker.commit()
    tracker.commit()
    assert place(tracker) == (1, 0)


@pytest.mark.parametrize(("issued", "committed", "asked"), [(0, 0, 1), (3, 0, 4), (3, 3, 1)])
def test_only_what_was_issued_can_be_committed(issued: int, committed: int, asked: int) -> None:
    tracker = make()
    issue(tracker, issued)
    if committed:
        tracker.commit(committed)
    before = tracker.cursor
    with pytest.raises(CommitError, match=f"cannot commit {asked} .* {issued - committed} issued"):
        tracker.commit(asked)
    assert tracker.cursor is before


def test_without_an_iterator_there_is_nothing_to_commit() -> None:
    with pytest.raises(CommitError, match="no batch was issued"):
        make().commit()


def test_what_was_issued_before_a_load_cannot_be_committed_after_it() -> None:
    tracker = make()
    issue(tracker, 3)
    tracker.load(tracker.cursor)
    with pytest.raises(CommitError, match="no batch was issued"):
        tracker.commit()


@pytest.mark.parametrize("micro_batches", [0, -1, 1.0, True, "1"])
def test_a_number_to_commit_is_a_positive_integer(micro_batches: object) -> None:
    tracker = make()
    issue(tracker, 3)
    with pytest.raises((ArgumentError, TypeError), match="micro_batches"):
        tracker.commit(micro_batches)  # type: ignore[arg-type]


def test_counted_deliveries_are_what_none_means() -> None:
    tracker = make()
    issue(tracker, 8)
    session = tracker.session
    assert session is not None
    session.delivered = 3
    tracker.commit()
    assert place(tracker) == (0, 6)
    with pytest.raises(CommitError, match="0 delivered"):
        tracker.commit()


def test_an_older_session_is_stale() -> None:
    tracker = make()
    first = tracker.begin()
    tracker.begin().require_live()
    with pytest.raises(StaleIteratorError, match="iterated again"):
        first.require_live()


def test_the_identity_digest_is_of_what_was_committed() -> None:
    tracker = make()
    issue(tracker, 12)
    tracker.commit(2)
    tracker.commit(3)
    assert tracker.cursor.identity_digest == digest(0, 0, 10)
    tracker.commit(7)
    assert tracker.cursor.identity_digest == bytes(16)
    assert tracker.cursor.last_digest == digest(0, 0, 24)


def test_the_identity_digest_does_not_depend_on_the_layout() -> None:
    digests = set()
    for batch_size, num_replicas in [(1, 1), (3, 2), (2, 6), (12, 1)]:
        tracker = make(batch_size=batch_size, num_replicas=num_replicas)
        issue(tracker, 12 // (batch_size * num_replicas))
        for _ in range(12 // (batch_size * num_replicas)):
            tracker.commit()
        digests.add(tracker.cursor.identity_digest)
    assert digests == {digest(0, 0, 12)}


def test_digests_add_up_lane_by_lane() -> None:
    top = (2**64 - 1).to_bytes(8, "little")
    one = (1).to_bytes(8, "little")
    assert add_digests(top + one, one + one) == bytes(8) + (2).to_bytes(8, "little")


def test_attempt_and_replicas_change_at_the_first_commit_after_a_load() -> None:
    tracker = make(num_replicas=2)
    issue(tracker, 2)
    tracker.commit()
    saved = tracker.cursor
    assert (saved.attempt, saved.replicas) == (0, 2)

    resumed = make(num_replicas=3)
    resumed.load(saved)
    assert resumed.cursor == saved
    issue(resumed, 2)
    assert resumed.cursor == saved
    resumed.commit()
    assert (resumed.cursor.attempt, resumed.cursor.replicas) == (1, 3)
    resumed.commit()
    assert resumed.cursor.attempt == 1


def test_a_dropped_rest_is_kept_in_the_state_and_passed_by_the_next_session() -> None:
    tracker = make(n=10, batch_size=3)
    issue(tracker, 3)
    tracker.commit(3)
    assert place(tracker) == (0, 9)

    other = make(n=10, batch_size=2, drop_last=True)
    other.load(tracker.cursor, {"drop_last"})
    assert place(other) == (0, 9)
    assert other.remaining() == 5
    issue(other, 1)
    other.commit()
    assert place(other) == (1, 2)
    assert other.cursor.last_digest == bytes(16), "an accepted difference counts anew"


def test_seek_counts_the_digest_from_there() -> None:
    tracker = make()
    tracker.seek(3, 10)
    assert place(tracker) == (3, 10)
    assert tracker.cursor.digest_first == 10
    issue(tracker, 2)
    tracker.commit(2)
    assert tracker.cursor.identity_digest == digest(3, 10, 14)


def test_seek_to_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    tracker = make()
    tracker.seek(3, 24)
    assert place(tracker) == (4, 0)
    assert tracker.cursor.digest_first == 0


@pytest.mark.parametrize(("epoch", "position"), [(-1, 0), (2**40, 0), (0, -1), (0, 25), (0.0, 0)])
def test_seek_refuses_places_that_do_not_exist(epoch: int, position: int) -> None:
    tracker = make()
    before = tracker.cursor
    with pytest.raises((ArgumentError, TypeError), match=r"epoch|position"):
        tracker.seek(epoch, position)
    assert tracker.cursor is before


def test_set_epoch_moves_only_a_fresh_tracker() -> None:
    tracker = make()
    assert tracker.set_epoch(5)
    assert place(tracker) == (5, 0)
    issue(tracker, 1)
    tracker.commit()
    assert tracker.set_epoch(5)
    assert not tracker.set_epoch(0)
    assert place(tracker) == (5, 2)


def test_every_difference_is_itemised_with_both_values() -> None:
    tracker = make()
    contributions = SampleContributions(Shuffle(25, 8), 25, bytes(16), data_unverified=True)
    other = CommitTracker(contributions, Layout(0, 1, 2, 1, drop_last=True))
    with pytest.raises(CursorMismatchError) as error:
        other.load(tracker.cursor)
    assert str(error.value) == (
        "cursor does not match sampler: num_samples, seed, drop_last\n"
        "  num_samples in cursor:  24\n"
        "  num_samples in sampler: 25\n"
        "  seed in cursor:  7\n"
        "  seed in sampler: 8\n"
        "  drop_last in cursor:  False\n"
        "  drop_last in sampler: True\n"
        "pass allow_changed={'num_samples', 'seed', 'drop_last'} to accept"
    )
    with pytest.raises(CursorMismatchError, match="match sampler: num_samples, drop_last"):
        other.load(tracker.cursor, {"seed"})


def test_fewer_samples_than_the_position_end_the_epoch() -> None:
    tracker = make()
    issue(tracker, 10)
    tracker.commit(10)
    smaller = make(n=20)
    smaller.load(tracker.cursor, {"num_samples"})
    assert place(smaller) == (1, 0)
    assert smaller.cursor.accepted == ("num_samples",)


def test_an_accepted_difference_counts_the_digest_from_there() -> None:
    tracker = make()
    issue(tracker, 5)
    tracker.commit(5)
    larger = make(n=30)
    larger.load(tracker.cursor, {"num_samples"})
    assert (place(larger), larger.cursor.digest_first) == ((0, 10), 10)
    assert larger.cursor.identity_digest == bytes(16)
    issue(larger, 2)
    larger.commit(2)
    assert larger.cursor.identity_digest == digest(0, 10, 14, n=30)


@pytest.mark.parametrize(
    ("allow_changed", "error"),
    [({"speed"}, ArgumentError), ("seed", TypeError), ({3}, ArgumentError)],
)
def test_unknown_names_to_accept_are_refused(allow_changed: set[str], error: type) -> None:
    tracker = make()
    with pytest.raises(error, match="allow_changed"):
        tracker.load(tracker.cursor, allow_changed)


@pytest.mark.parametrize("cursor", [None, b"", make().cursor.token()])
def test_only_a_cursor_is_loaded(cursor: Cursor) -> None:
    with pytest.raises(TypeError, match="cursor must be a"):
        make().load(cursor)


# -- skipped updates


def test_a_skipped_update_is_passed_and_stays_out_of_the_digest() -> None:
    tracker = make()
    deliver(tracker, 3)
    tracker.commit(1)
    tracker.skip("overflow", 1)
    tracker.commit(1)
    cursor = tracker.cursor
    assert (cursor.position, cursor.skipped, cursor.updates_committed) == (6, 2, 2)
    indices = Shuffle(24, SEED).indices(0, 0, 6)[[0, 1, 4, 5]]
    assert cursor.identity_digest == _core.digest_samples(0, indices)


def test_skipped_contributions_are_counted_per_epoch() -> None:
    tracker = make()
    deliver(tracker, 12)
    tracker.skip("overflow", 12)
    assert (place(tracker), tracker.cursor.skipped) == ((1, 0), 0)
    assert tracker.cursor.last_digest == bytes(16)


def test_an_unknown_way_to_skip_is_refused() -> None:
    with pytest.raises(ArgumentError, match="on_skip must be one of 'advance', 'retry', 'defer'"):
        make(on_skip="again")


def test_a_deferred_range_keeps_the_epoch_open_behind_its_tail() -> None:
    tracker = make(on_skip="defer")
    session = deliver(tracker, 12)
    tracker.commit(3)
    tracker.skip("overflow", 2)
    tracker.commit(7)
    assert (place(tracker), tracker.cursor.deferred) == ((0, 24), ((6, 4),))
    assert (tracker.remaining(), session.num_up_to(1000)) == (2, 14)
    session.delivered = 14
    tracker.commit(2)
    assert place(tracker) == (1, 0)
    assert tracker.cursor.last_digest == digest(0, 0, 24)


def test_a_25th_deferred_range_is_refused_and_changes_nothing() -> None:
    tracker = make(n=60, on_skip="defer")
    deliver(tracker, 30)
    for _ in range(24):
        tracker.skip("overflow", 1)
    before = tracker.cursor
    with pytest.raises(CommitError, match=r"positions \[48, 50\): 24 ranges are deferred already"):
        tracker.skip("overflow", 1)
    assert tracker.cursor == before
    tracker.commit(6)
    assert (place(tracker), tracker.remaining()) == ((0, 60), 24)


def test_a_range_may_be_deferred_again() -> None:
    tracker = make(n=8, on_skip="defer")
    session = deliver(tracker, 4)
    tracker.skip("overflow", 2)
    tracker.commit(2)
    session.delivered = 6
    tracker.skip("overflow", 1)
    assert [first for first, _ in tracker.cursor.deferred] == [0, 2]
    tracker.commit(1)
    assert tracker.cursor.deferred == ((0, 2),)
    session.delivered = 7
    tracker.commit()
    assert (place(tracker), tracker.cursor.last_digest) == ((1, 0), digest(0, 0, 8, n=8))


def test_a_rest_of_a_deferred_range_is_dropped_as_the_rest_of_an_epoch_is() -> None:
    tracker = make(n=12, drop_last=True, on_skip="defer")
    deliver(tracker, 6)
    tracker.skip("overflow", 2)
    tracker.commit(4)
    wider = make(n=12, batch_size=3, drop_last=True)
    wider.load(tracker.cursor)
    assert wider.remaining() == 1
    session = wider.begin_counted()
    session.delivered = 1
    wider.commit()
    assert place(wider) == (1, 0)


@pytest.mark.parametrize("on_skip", ["retry", "defer"])
def test_trying_in_vain_for_ever_is_refused(on_skip: str) -> None:
    tracker = make(n=2, on_skip=on_skip)
    session = deliver(tracker, 1)
    for _ in range(100 if on_skip == "retry" else 101):
        tracker.skip()
        session.delivered = session.num_up_to(1000)
    with pytest.raises(CommitError, match="100 updates in a row changed nothing"):
        tracker.skip()


def test_what_is_given_again_can_be_committed_only_when_it_was_delivered_again() -> None:
    tracker = make(on_skip="retry")
    session = deliver(tracker, 2)
    with pytest.raises(CommitError, match="cannot give 1 of 2 delivered micro-batches again"):
        tracker.skip("overflow", 1)
    tracker.skip()
    with pytest.raises(CommitError, match="0 delivered"):
        tracker.commit()
    session.delivered = 2
    tracker.commit()
    assert (place(tracker), tracker.cursor.skipped) == ((0, 4), 0)


def test_deferred_ranges_are_not_committed() -> None:
    tracker = make(on_skip="defer")
    deliver(tracker, 4)
    tracker.skip("overflow", 2)
    tracker.commit(1)
    order = Shuffle(24, SEED)
    passed = [
        position
        for position in range(24)
        if tracker.contributions.is_committed(tracker.cursor, order.index_at(0, position))
    ]
    assert passed == [4, 5]


@pytest.mark.parametrize(
    ("change", "accepted"),
    [({"n": 25}, "num_samples"), ({"n": 23}, "num_samples")],
)
def test_deferred_ranges_refuse_another_epoch(change: dict[str, int], accepted: str) -> None:
    tracker = make(on_skip="defer")
    deliver(tracker, 1)
    tracker.skip()
    with pytest.raises(CursorMismatchError, match=r"deferred ranges .* num_samples would give"):
        make(**change).load(tracker.cursor, {accepted})  # type: ignore[arg-type]


def test_deferred_ranges_survive_an_accepted_drop_last() -> None:
    tracker = make(on_skip="defer")
    deliver(tracker, 12)
    tracker.skip("overflow", 1)
    tracker.commit(11)
    other = make(drop_last=True)
    other.load(tracker.cursor, {"drop_last"})
    assert (place(other), other.cursor.deferred, other.remaining()) == ((0, 24), ((0, 2),), 1)


def test_seek_leaves_deferred_ranges_out() -> None:
    tracker = make(on_skip="defer")
    deliver(tracker, 1)
    tracker.skip()
    tracker.seek(0, 10)
    assert tracker.cursor.deferred == ()


# -- ranges the user leaves out


def test_a_range_is_left_out_and_the_digest_counts_from_its_end() -> None:
    tracker = make()
    deliver(tracker, 2)
    tracker.commit()
    tracker.skip_range(4, 9)
    cursor = tracker.cursor
    assert (cursor.position, cursor.skipped, cursor.digest_first) == (9, 5, 9)
    assert cursor.identity_digest == bytes(16)
    with pytest.raises(CommitError, match="no batch was issued"):
        tracker.commit()
    tracker.skip_range(9, 24)
    assert place(tracker) == (1, 0)


@pytest.mark.parametrize(
    ("first", "stop", "message"),
    [
        (5, 9, "first must be the cursor's position=4, got first=5"),
        (3, 9, "first must be the cursor's position=4, got first=3"),
        (4, 4, r"stop must be in \[5, 25\)"),
        (4, 25, r"stop must be in \[5, 25\)"),
    ],
)
def test_only_what_comes_next_is_left_out(first: int, stop: int, message: str) -> None:
    tracker = make()
    deliver(tracker, 2)
    tracker.commit()
    before = tracker.cursor
    with pytest.raises(ArgumentError, match=message):
        tracker.skip_range(first, stop)
    assert tracker.cursor is before


# -- open updates whose gradients are saved


def test_an_open_update_goes_on_behind_its_pending_micro_batches() -> None:
    tracker = make(accumulation_steps=3)
    deliver(tracker, 5)
    tracker.commit(3)
    saved = tracker.pending_cursor()
    assert (saved.position, saved.pending, saved.window_batch_size) == (6, 2, 2)
    assert tracker.moving.saved().pending == 0

    resumed = make(accumulation_steps=3)
    resumed.load(saved)
    assert resumed.moving.saved() == saved.replace(pending=0, window_batch_size=0)
    session = resumed.begin_counted()
    assert (session.num_open, session.ends_update(1, 0), session.ends_update(2, 0)) == (
        2,
        False,
        True,
    )
    with pytest.raises(CommitError, match="2 were pending"):
        resumed.commit(1)
    session.delivered = 3
    assert resumed.pending_cursor().pending == 3
    resumed.commit()
    assert (place(resumed), resumed.cursor.pending) == ((0, 12), 0)
    assert resumed.cursor.identity_digest == digest(0, 0, 12)


@pytest.mark.parametrize(("num_replicas", "batch_size"), [(2, 1), (1, 1), (1, 4), (2, 2)])
def test_an_open_update_needs_the_same_ranks_and_batch_size(
    num_replicas: int, batch_size: int
) -> None:
    tracker = make(accumulation_steps=3)
    deliver(tracker, 2)
    other = make(batch_size=batch_size, num_replicas=num_replicas, accumulation_steps=3)
    before = other.cursor
    values = rf"in cursor:  1, 2\n  in sampler: {num_replicas}, {batch_size}"
    with pytest.raises(MidUpdateError, match=rf"pending=2 .*\n  {values}"):
        other.load(tracker.pending_cursor())
    assert other.cursor is before


def test_an_open_update_without_its_batch_size_is_refused() -> None:
    tracker = make()
    with pytest.raises(MidUpdateError, match="in cursor:  1, 0"):
        tracker.load(tracker.cursor.replace(pending=2))


def test_an_open_update_longer_than_the_epoch_is_refused() -> None:
    tracker = make()
    with pytest.raises(CursorMismatchError, match=r"pending=13 .* 12 are left"):
        tracker.load(tracker.cursor.replace(pending=13, window_batch_size=2))


def test_an_open_update_refuses_accepted_differences() -> None:
    tracker = make()
    deliver(tracker, 1)
    with pytest.raises(MidUpdateError, match=r"pending=1 .* num_samples cannot change"):
        make(n=25).load(tracker.pending_cursor(), {"num_samples"})


def test_without_counted_deliveries_no_open_update_is_known() -> None:
    tracker = make()
    assert tracker.pending_cursor() == tracker.cursor
    issue(tracker, 2)
    with pytest.raises(CommitError, match="known only with a CursorLoader"):
        tracker.pending_cursor()


# -- observers


class Recorder:
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.saved: list[Cursor] = []

    def on_outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def on_state(self, cursor: Cursor) -> None:
        self.saved.append(cursor)


def test_observers_are_told_of_every_move_and_save() -> None:
    tracker = make(on_skip="defer")
    recorder = Recorder()
    tracker.moving.add_observer(recorder)
    deliver(tracker, 4)
    tracker.commit(2)
    tracker.skip("overflow", 1)
    saved = tracker.moving.saved()
    tracker.skip_range(6, 8, "bad data")
    kinds = [(outcome.kind, outcome.first, outcome.stop) for outcome in recorder.outcomes]
    assert kinds == [("committed", 0, 4), ("deferred", 4, 6), ("user_skipped", 6, 8)]
    assert [outcome.reason for outcome in recorder.outcomes] == ["", "overflow", "bad data"]
    assert [outcome.micro_batches for outcome in recorder.outcomes] == [2, 1, 0]
    assert [outcome.digest for outcome in recorder.outcomes] == [
        digest(0, 0, 4),
        digest(0, 4, 6),
        digest(0, 6, 8),
    ]
    for earlier, later in zip(recorder.outcomes, recorder.outcomes[1:], strict=False):
        assert earlier.after == later.before
    assert recorder.outcomes[-1].after == tracker.cursor
    assert recorder.saved == [saved]


def test_an_observer_is_added_and_removed_once() -> None:
    tracker = make()
    recorder = Recorder()
    tracker.moving.add_observer(recorder)
    with pytest.raises(ArgumentError, match="added already"):
        tracker.moving.add_observer(recorder)
    tracker.moving.remove_observer(recorder)
    with pytest.raises(ArgumentError, match="not added"):
        tracker.moving.remove_observer(recorder)
    with pytest.raises(TypeError, match=r"must have a method on_outcome\(\), got <"):
        tracker.moving.add_observer(object())  # type: ignore[arg-type]
    deliver(tracker, 1)
    tracker.commit()
    tracker.moving.saved()
    assert (recorder.outcomes, recorder.saved) == ([], [])


def test_commits_of_any_size_add_up_to_one_cursor() -> None:
    cursors = set()
    for counts in ([1] * 11, [11], [3, 5, 3]):
        tracker = make()
        deliver(tracker, 12)
        for count in counts:
            tracker.commit(count)
        cursors.add(tracker.cursor.replace(updates_committed=0))
    assert len(cursors) == 1


@pytest.mark.parametrize("kind", ["committed", "deferred"])
def test_an_observer_that_raises_leaves_cursor_and_session_level(kind: str) -> None:
    class Full(Recorder):
        def on_outcome(self, outcome: Outcome) -> None:
            raise OSError("disk full")

    tracker = make(on_skip="defer")
    session = deliver(tracker, 12)
    observer = Full()
    tracker.moving.add_observer(observer)
    with pytest.raises(OSError, match="disk full"):
        tracker.commit(2) if kind == "committed" else tracker.skip("overflow", 2)
    tracker.moving.remove_observer(observer)
    tracker.commit(10)
    if kind == "deferred":
        assert tracker.cursor.deferred == ((0, 4),)
        session.delivered = 14
        tracker.commit(2)
    assert (place(tracker), tracker.cursor.last_digest) == ((1, 0), digest(0, 0, 24))


def test_an_observer_that_raises_makes_iterators_stale_where_positions_are_passed() -> None:
    class Full(Recorder):
        def on_outcome(self, outcome: Outcome) -> None:
            raise OSError("disk full")

    tracker = make()
    session = deliver(tracker, 2)
    tracker.moving.add_observer(Full())
    with pytest.raises(OSError, match="disk full"):
        tracker.skip_range(0, 6)
    with pytest.raises(StaleIteratorError, match="passed by skip_range"):
        session.require_live()
    with pytest.raises(CommitError, match="nothing to commit"):
        tracker.commit()


@pytest.mark.parametrize("method", ["commit", "skip", "skip_range"])
def test_an_observer_finds_the_sampler_where_it_is_told_it_is(method: str) -> None:
    class Asking(Recorder):
        def on_outcome(self, outcome: Outcome) -> None:
            super().on_outcome(outcome)
            assert tracker.cursor == outcome.after
            assert tracker.remaining() == 12 - outcome.stop // 2
            assert tracker.uncommitted().issued == (2 if method != "skip_range" else 0)

    tracker = make()
    recorder = Asking()
    tracker.moving.add_observer(recorder)
    deliver(tracker, 2)
    tracker.skip_range(0, 2) if method == "skip_range" else getattr(tracker, method)(
        micro_batches=1
    )
    assert [outcome.stop for outcome in recorder.outcomes] == [2]


def test_a_save_by_an_observer_comes_after_the_move_for_all() -> None:
    class Saving(Recorder):
        def on_outcome(self, outcome: Outcome) -> None:
            tracker.moving.saved()

    class Listing(Recorder):
        def on_state(self, cursor: Cursor) -> None:
            assert [outcome.after for outcome in self.outcomes] == [cursor]
            super().on_state(cursor)

    tracker, recorder = make(), Listing()
    tracker.moving.add_observer(Saving())
    tracker.moving.add_observer(recorder)
    deliver(tracker, 1)
    tracker.commit()
    assert recorder.saved == [tracker.cursor]


def test_the_other_observers_are_told_although_one_raises() -> None:
    class Broken(Recorder):
        def on_outcome(self, outcome: Outcome) -> None:
            raise RuntimeError("no more")

    tracker, broken, recorder = make(), Broken(), Recorder()
    tracker.moving.add_observer(broken)
    tracker.moving.add_observer(recorder)
    deliver(tracker, 2)
    with pytest.raises(RuntimeError, match="no more"):
        tracker.commit(1)
    tracker.moving.remove_observer(broken)
    tracker.commit(1)
    assert [outcome.first for outcome in recorder.outcomes] == [0, 2]


def test_an_interrupted_wait_for_a_verdict_is_waited_for_again() -> None:
    interrupts = [KeyboardInterrupt()]

    def is_applied() -> bool:
        if interrupts:
            raise interrupts.pop()
        return True

    tracker = make()
    deliver(tracker, 1)
    tracker.decide_later(1, is_applied)
    with pytest.raises(KeyboardInterrupt):
        _ = tracker.cursor
    assert place(tracker) == (0, 2)


def test_commits_are_counted_again_after_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = make()
    deliver(tracker, 12)
    tracker.commit(2)
    tracker.commit(3)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tracker.contributions, "advance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            _ = tracker.cursor
    assert (place(tracker), tracker.cursor.updates_committed) == ((0, 10), 2)
    assert tracker.cursor.identity_digest == digest(0, 0, 10)

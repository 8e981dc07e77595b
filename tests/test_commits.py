"""The commit protocol without torch: what moves a cursor, and what may be committed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from datacursor import _core
from datacursor.commits import CommitTracker
from datacursor.contributions import Layout, SampleContributions, add_digests
from datacursor.cursor import Cursor
from datacursor.errors import ArgumentError, CommitError, CursorMismatchError, StaleIteratorError
from datacursor.order import Shuffle

SEED = 7


def make(
    n: int = 24,
    batch_size: int = 2,
    num_replicas: int = 1,
    accumulation_steps: int = 1,
    *,
    drop_last: bool = False,
) -> CommitTracker:
    layout = Layout(0, num_replicas, batch_size, accumulation_steps, drop_last)
    contributions = SampleContributions(Shuffle(n, SEED), n, bytes(16), data_unverified=True)
    return CommitTracker(contributions, layout)


def issue(tracker: CommitTracker, micro_batches: int) -> None:
    """Draw micro-batches from a new session, as a loader does."""
    session = tracker.begin()
    batches = tracker.contributions.issue(session.start, tracker.layout)
    for _ in range(micro_batches):
        next(batches)
        session.issued += 1


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


def test_an_open_update_and_deferred_ranges_are_refused() -> None:
    tracker = make()
    with pytest.raises(CursorMismatchError, match="pending=2"):
        tracker.load(tracker.cursor.replace(pending=2))
    with pytest.raises(CursorMismatchError, match="deferred"):
        tracker.load(tracker.cursor.replace(position=4, deferred=[(0, 2)]))


class Training(RuleBasedStateMachine):
    """Random training against a model that keeps the list of every committed sample."""

    @initialize(n=st.integers(1, 40), drop_last=st.booleans(), data=st.data())
    def start(self, n: int, drop_last: bool, data: st.DataObject) -> None:
        self.n, self.drop_last = n, drop_last
        self.layout = self.draw_layout(data)
        self.tracker = self.make()
        self.epoch = self.position = self.open = 0
        self.committed: list[int] = []  # of this epoch, by position

    def draw_layout(self, data: st.DataObject) -> Layout:
        largest = self.n if self.drop_last else 2 * self.n
        round_size = data.draw(st.integers(1, largest))
        num_replicas = data.draw(st.sampled_from([r for r in (1, 2, 3) if round_size % r == 0]))
        steps = data.draw(st.integers(1, 4))
        return Layout(0, num_replicas, round_size // num_replicas, steps, self.drop_last)

    def make(self) -> CommitTracker:
        order = Shuffle(self.n, SEED)
        contributions = SampleContributions(order, self.n, bytes(16), data_unverified=True)
        return CommitTracker(contributions, self.layout)

    @rule(micro_batches=st.integers(0, 9))
    def issue(self, micro_batches: int) -> None:
        count = min(micro_batches, self.tracker.remaining())
        issue(self.tracker, count)
        self.open = count

    @precondition(lambda self: self.open > 0)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, self.open))
        self.tracker.commit(count)
        self.open -= count
        if self.drop_last and self.n - self.position < self.layout.round_size:
            self.end_epoch()  # the rest that an earlier layout left
        stop = min(self.position + count * self.layout.round_size, self.n)
        self.committed += range(self.position, stop)
        self.position = stop
        left = self.n - stop
        if left == 0 or (self.drop_last and left < self.layout.round_size):
            self.end_epoch()

    @rule(data=st.data())
    def crash_and_resume(self, data: st.DataObject) -> None:
        saved = bytes(self.tracker.cursor)
        self.layout = self.draw_layout(data)
        self.tracker = self.make()
        self.tracker.load(Cursor.from_bytes(saved))
        assert bytes(self.tracker.cursor) == saved
        self.open = 0

    @rule(epoch=st.integers(0, 3))
    def set_epoch_noise(self, epoch: int) -> None:
        if not self.tracker.is_fresh:
            self.tracker.set_epoch(epoch)

    def end_epoch(self) -> None:
        self.epoch, self.position, self.committed = self.epoch + 1, 0, []

    @invariant()
    def the_cursor_names_the_next_uncommitted_sample(self) -> None:
        cursor = self.tracker.cursor
        assert (cursor.epoch, cursor.position) == (self.epoch, self.position)
        assert self.committed == list(range(self.position))
        indices = Shuffle(self.n, SEED).indices(self.epoch, 0, self.position)
        assert cursor.identity_digest == _core.digest_samples(self.epoch, np.sort(indices))


Training.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
# Its random loops leave epochs unfinished as a loader that does not fit would.
TestTraining = pytest.mark.filterwarnings(r"ignore:epoch \d+ was issued")(Training.TestCase)

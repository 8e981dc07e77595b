"""The commit protocol against a model in plain Python that lists every contribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from datacursor import _core, moves
from datacursor.commits import MAX_DEFERRED, ON_SKIP, CommitTracker
from datacursor.contributions import Layout, SampleContributions
from datacursor.cursor import Cursor
from datacursor.errors import CommitError, MidUpdateError
from datacursor.order import Shuffle
from datacursor.outcome import Outcome
from datacursor.session import Session

SEED = 7
NOTHING = bytes(16)

# Micro-batches as (stretch, positions); a stretch is named by the position it begins at, whether
# it was deferred, and its number.
Queue = list[tuple[tuple[int, bool, int], list[int]]]


class Model:
    """What a run has done: positions by name, no arithmetic on cursors.

    Attributes:
        queue: Micro-batches of all ranks still to be committed.
    """

    def __init__(self, n: int, layout: Layout) -> None:
        self.n, self.layout = n, layout
        self.epoch = self.position = self.skipped = self.updates = 0
        self.counted: list[int] = []  # positions in the identity digest
        self.last_digest = NOTHING
        self.deferred: list[tuple[int, int]] = []  # (first, stop)
        self.queue: Queue = []

    def start(self) -> None:
        self.queue = self.rest() or Model(self.n, self.layout).rest()

    def settle(self) -> None:
        """Leave a rest that an earlier layout left and that makes no micro-batch now."""
        if not self.rest():
            self.end_epoch()

    def can_jump(self) -> bool:
        return self.position < self.n or not self.rest()

    def next_epoch(self) -> int:
        """Return the epoch that the next micro-batch belongs to."""
        return self.epoch + (not self.rest())

    def rest(self) -> Queue:
        size = self.layout.round_size
        queue: Queue = []
        stretches = [(self.position, self.n, False), *((a, b, True) for a, b in self.deferred)]
        for number, (first, stop, is_deferred) in enumerate(stretches):
            for place in range(first, stop, size):
                positions = list(range(place, min(place + size, stop)))
                if len(positions) == size or not self.layout.drop_last:
                    queue.append(((first, is_deferred, number), positions))
        return queue

    def end_epoch(self) -> None:
        self.last_digest = self.digest()
        self.epoch, self.position, self.skipped = self.epoch + 1, 0, 0
        self.counted, self.deferred = [], []

    def digest(self) -> bytes:
        indices = Shuffle(self.n, SEED).indices(self.epoch, 0, self.n)
        return _core.digest_samples(self.epoch, np.sort(indices[self.counted]))

    def num_together(self) -> int:
        """Micro-batches at the queue's front that one update may hold."""
        names = [name for name, _ in self.queue]
        return next((k for k, name in enumerate(names) if name != names[0]), len(names))

    def take(self, count: int, kind: str) -> tuple[int, int]:
        self.settle()
        taken, self.queue = self.queue[:count], self.queue[count:]
        (_, is_deferred, _), _ = taken[0]
        positions = [position for _, part in taken for position in part]
        first, stop = positions[0], positions[-1] + 1
        if is_deferred:
            [whole] = [pair for pair in self.deferred if pair[0] <= first < pair[1]]
            self.deferred.remove(whole)
            self.deferred += [(stop, whole[1])] if stop < whole[1] else []
        else:
            self.position = stop
        if kind == "committed":
            self.counted += positions
            self.updates += 1
        elif kind == "skipped":
            self.skipped += len(positions)
        else:
            self.deferred.append((first, stop))
            name = (first, True, self.queue[-1][0][2] + 1 if self.queue else 0)
            self.queue += [(name, part) for _, part in taken]
        self.deferred.sort()
        self.settle()
        return first, stop


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def on_outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def on_state(self, cursor: Cursor) -> None:
        assert cursor.pending == 0


class Training(RuleBasedStateMachine):
    """Issues, deliveries, commits, skips, saves and crashes in any order."""

    @initialize(n=st.integers(1, 40), drop_last=st.booleans(), data=st.data())
    def start(self, n: int, drop_last: bool, data: st.DataObject) -> None:
        self.n, self.drop_last = n, drop_last
        self.model = Model(n, self.draw_layout(data))
        self.open = self.pending = 0
        self.make(data)

    def draw_layout(self, data: st.DataObject) -> Layout:
        largest = self.n if self.drop_last else 2 * self.n
        round_size = data.draw(st.integers(1, largest) | st.just(1))
        num_replicas = data.draw(st.sampled_from([r for r in (1, 2, 3) if round_size % r == 0]))
        steps = data.draw(st.integers(1, 4))
        return Layout(0, num_replicas, round_size // num_replicas, steps, self.drop_last)

    def make(self, data: st.DataObject) -> None:
        self.on_skip = data.draw(st.sampled_from(ON_SKIP))
        order = Shuffle(self.n, SEED)
        contributions = SampleContributions(order, self.n, NOTHING, data_unverified=True)
        self.tracker = CommitTracker(contributions, self.model.layout, self.on_skip)
        self.session: Session | None = None
        self.recorder = Recorder() if data.draw(st.booleans()) else None
        if self.recorder is not None:
            self.tracker.moving.add_observer(self.recorder)

    # -- what a loader does

    @rule(is_counted=st.booleans())
    def iterate(self, is_counted: bool) -> None:
        self.session = self.tracker.begin_counted() if is_counted else self.tracker.begin()
        self.batches = self.draw(self.session)
        self.model.start()
        self.open = self.pending

    def draw(self, session: Session) -> Iterator[Sequence[int]]:
        contributions, layout = self.tracker.contributions, self.tracker.layout
        while True:
            num_behind = session.num_behind
            part = session.next_stretch()
            if part is None:
                return
            cursor = moves.stand_at(session.start, contributions, part.first)
            batches = contributions.issue(cursor, layout, part.stop)
            for batch in islice(batches, num_behind, None):
                session.record(batch)
                yield batch

    @precondition(lambda self: self.session is not None)
    @rule(ahead=st.integers(1, 4))
    def deliver(self, ahead: int) -> None:
        session = self.session
        assert session is not None
        for number in range(self.open, min(self.open + ahead, len(self.model.queue))):
            taken = session.committed + number
            while session.issued <= taken:
                batch = next(self.batches)
                self.check_batch(batch, session.issued - 1 - session.committed)
            if session.delivered is not None:
                session.delivered = taken + 1
            self.open = number + 1

    def check_batch(self, batch: Sequence[int], number: int) -> None:
        _, positions = self.model.queue[number]
        real = positions[: self.model.layout.batch_size]
        order = Shuffle(self.n, SEED).indices(self.model.next_epoch(), 0, self.n)
        assert batch[: len(real)] == order[real].tolist()

    # -- what a training loop does

    @rule(num_updates=st.integers(1, 4), data=st.data())
    def train(self, num_updates: int, data: st.DataObject) -> None:
        """Go on as a loop does, so that epochs are finished often."""
        for _ in range(num_updates):
            if self.session is None or not self.model.queue:
                self.iterate(is_counted=True)
            if self.open == 0:
                self.deliver(data.draw(st.integers(1, self.model.layout.accumulation_steps)))
            if data.draw(st.booleans()):
                self.commit(data)
            else:
                self.skip(data)

    @precondition(lambda self: self.open > 0)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        count = self.draw_count(data)
        self.tracker.commit(count)
        self.pass_over(count, "committed")

    @precondition(lambda self: self.open > 0)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        session = self.session
        assert session is not None
        count = self.draw_count(data)
        if self.on_skip != "advance" and session.delivered is None:
            with pytest.raises(CommitError, match="needs a CursorLoader"):
                self.tracker.skip("overflow", count)
        elif self.on_skip == "retry" and (self.pending > 0 or count < self.open):
            with pytest.raises(CommitError, match="cannot give"):
                self.tracker.skip("overflow", count)
        elif self.on_skip == "retry":
            self.tracker.skip("overflow", count)
            assert session.delivered == session.committed
            self.open = 0
        elif self.on_skip == "defer" and self.is_full(count):
            with pytest.raises(CommitError, match="24 ranges are deferred already"):
                self.tracker.skip("overflow", count)
        else:
            self.tracker.skip("overflow", count)
            self.pass_over(count, "deferred" if self.on_skip == "defer" else "skipped")

    def draw_count(self, data: st.DataObject) -> int:
        most = min(self.open, self.model.num_together())
        return data.draw(st.integers(max(1, self.pending), most))

    def is_full(self, count: int) -> bool:
        positions = [position for _, part in self.model.queue[:count] for position in part]
        is_whole = (positions[0], positions[-1] + 1) in self.model.deferred
        return len(self.model.deferred) == MAX_DEFERRED and not is_whole

    def pass_over(self, count: int, kind: str) -> None:
        epoch = self.model.next_epoch()
        first, stop = self.model.take(count, kind)
        self.open, self.pending = self.open - count, 0
        if self.recorder is not None:
            outcome = self.recorder.outcomes[-1]
            assert (outcome.kind, outcome.first, outcome.stop) == (kind, first, stop)
            assert (outcome.before.epoch, outcome.micro_batches) == (epoch, count)
            assert outcome.after == self.tracker.cursor
            indices = Shuffle(self.n, SEED).indices(epoch, first, stop - first)
            assert outcome.digest == _core.digest_samples(epoch, indices)

    @precondition(lambda self: self.open > self.model.num_together() > 0)
    @rule()
    def commit_across_two_stretches(self) -> None:
        with pytest.raises(CommitError, match="as one update"):
            self.tracker.commit(self.model.num_together() + 1)

    @rule(excess=st.integers(1, 3))
    def commit_too_much(self, excess: int) -> None:
        with pytest.raises(CommitError):
            self.tracker.commit(self.open + excess)

    @precondition(lambda self: self.pending == 0 and self.model.can_jump())
    @rule(data=st.data())
    def skip_range(self, data: st.DataObject) -> None:
        model = self.model
        model.settle()
        stop = data.draw(st.integers(model.position + 1, min(model.position + 3, model.n)))
        self.tracker.skip_range(model.position, stop)
        model.skipped += stop - model.position
        model.position, model.counted = stop, []
        model.settle()
        self.drop_session()

    @rule(epoch=st.integers(0, 3))
    def set_epoch_noise(self, epoch: int) -> None:
        if not self.tracker.moving.is_fresh:
            self.tracker.set_epoch(epoch)

    # -- crashes

    @rule(data=st.data())
    def crash_and_resume(self, data: st.DataObject) -> None:
        saved = bytes(self.tracker.moving.saved())
        self.model.layout = self.draw_layout(data)
        self.pending = 0
        self.resume(saved, data)

    @precondition(lambda self: self.has_window())
    @rule(data=st.data())
    def crash_and_resume_with_gradients(self, data: st.DataObject) -> None:
        following, _ = (self.model.rest() or self.model.queue)[0]
        if self.model.queue[0][0][1] and self.model.queue[0][1][0] != following[0]:
            with pytest.raises(MidUpdateError):
                self.tracker.pending_cursor()
            return
        saved = bytes(self.tracker.pending_cursor())
        self.pending = self.open
        self.resume(saved, data)

    def has_window(self) -> bool:
        is_counted = self.session is not None and self.session.delivered is not None
        return is_counted and 0 < self.open <= self.model.num_together()

    def resume(self, saved: bytes, data: st.DataObject) -> None:
        self.make(data)
        self.tracker.load(Cursor.from_bytes(saved))
        assert bytes(self.tracker.cursor) == saved
        self.drop_session()

    def drop_session(self) -> None:
        self.session = None
        self.open = 0

    # -- what must hold

    @rule()
    def look(self) -> None:
        cursor, model = self.tracker.cursor, self.model
        assert (cursor.epoch, cursor.position) == (model.epoch, model.position)
        assert cursor.deferred == tuple((first, stop - first) for first, stop in model.deferred)
        assert (cursor.skipped, cursor.pending) == (model.skipped, self.pending)
        assert cursor.updates_committed == model.updates
        assert cursor.identity_digest == model.digest()
        assert cursor.last_digest == model.last_digest
        assert self.tracker.remaining() == len(model.rest() or Model(self.n, model.layout).rest())

    def teardown(self) -> None:
        self.look()


Training.TestCase.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
# Its random loops leave epochs unfinished as a loader that does not fit would.
TestTraining = pytest.mark.filterwarnings(r"ignore:epoch \d+ was")(Training.TestCase)

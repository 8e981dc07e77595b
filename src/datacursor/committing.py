"""What a sampler says and does about its position: commits, skips, loads, saves."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from datacursor.agreement import require_agreement
from datacursor.commits import CommitTracker
from datacursor.cursor import Cursor
from datacursor.errors import CommitError
from datacursor.outcome import CommitObserver
from datacursor.session import Uncommitted
from datacursor.state import cursor_of, state_of
from datacursor.updates import Attachment

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

# Micro-batches without any commit that look like a forgotten commit. Those only issued may
# wait in a loader's queues, so they must be more.
_MANY_DELIVERED = 100
_MANY_ISSUED = 1000


class Committing:
    """The commit protocol of a sampler, without the samples."""

    _tracker: CommitTracker
    _attachment: Attachment | None = None
    _has_warned = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave the optimizer to the original: a copy is attached to nothing."""
        return self.__dict__ | {"_attachment": None}

    # -- position --------------------------------------------------------------------------

    @property
    def cursor(self) -> Cursor:
        """The position of the next contribution that no update has seen."""
        return self._tracker.cursor

    @property
    def uncommitted(self) -> Uncommitted:
        """Contributions of all ranks given out beyond the cursor: `issued` and `delivered`.

        A restart from the present state delivers them again.
        """
        return self._tracker.uncommitted()

    def remaining(self) -> int:
        """Return the micro-batches per rank from the cursor to the end of its epoch."""
        return self._tracker.remaining()

    def commit(self, micro_batches: int | None = None) -> None:
        """Say that an update happened; the cursor moves over what entered it.

        Args:
            micro_batches: Micro-batches per rank in the update. None means, with a
                `CursorLoader`, everything delivered since the last commit; without one,
                accumulation_steps (fewer at the end of an epoch).

        Raises:
            CommitError: More than was issued or delivered, twice, or in a worker process.
            ArgumentError: micro_batches < 1.
        """
        _require_main_process("commit")
        self._tracker.commit(micro_batches)

    def skip(self, reason: str = "overflow", micro_batches: int | None = None) -> None:
        """Say that an update was attempted and changed nothing; `on_skip` says what follows.

        Args:
            reason: Why, for the record.
            micro_batches: Micro-batches per rank in the update, as in `commit`.

        Raises:
            CommitError: As in `commit`; "retry" or "defer" without a `CursorLoader`; a 25th range
                would be deferred; or a hundred updates in a row changed nothing.
        """
        _require_main_process("skip")
        self._tracker.skip(reason, micro_batches)

    def skip_range(self, first: int, stop: int, reason: str = "") -> None:
        """Pass over positions [first, stop) of the cursor's epoch; live iterators become stale.

        They count as skipped, and the identity digest counts from `stop` on.

        Args:
            first: The cursor's position, said again so that no other range is left out.
            stop: Position after the last one to skip.
            reason: Why, for the record.

        Raises:
            ArgumentError: first is not the cursor's position, or the epoch has no such positions.
            MidUpdateError: The cursor holds pending micro-batches.
        """
        self._tracker.skip_range(first, stop, reason)

    def attach(self, optimizer: torch.optim.Optimizer, scaler: Any = None) -> None:
        """Commit by itself after each `optimizer.step()`, and skip where it changed nothing.

        A step stands for everything delivered since the last one (without a `CursorLoader`: for
        accumulation_steps micro-batches). With several optimizers attach the one that steps in
        every update. An optimizer that steps inside `backward()` ends no update: call `commit()`
        after `backward()` instead.

        Args:
            optimizer: Whose steps are the updates.
            scaler: The `GradScaler` that steps it, if one does; it leaves out overflowing steps.

        Raises:
            CommitError: An optimizer is attached already.
            TypeError: Not one optimizer, or a scaler without `step`.
        """
        if self._attachment is not None:
            raise CommitError(
                f"{type(self._attachment.optimizer).__name__} is attached already; with several "
                "optimizers attach only the one that steps in every update, or detach() first"
            )
        self._attachment = Attachment(self._tracker, optimizer, scaler)

    def detach(self) -> None:
        """Undo `attach`.

        Raises:
            CommitError: No optimizer is attached.
        """
        if self._attachment is None:
            raise CommitError("no optimizer is attached")
        self._tracker.decide()
        self._attachment.close()
        self._attachment = None

    def agree(self, group: ProcessGroup | None = None) -> None:
        """Raise on every rank unless all ranks stand at one cursor and dealt out each sample once.

        Call it on all ranks alike before saving; without torch.distributed it does nothing. It
        costs two all-reduces of a few dozen bytes.

        Args:
            group: The processes to ask; None is all. A multiple of num_replicas of them.

        Raises:
            DivergenceError: Cursors differ, or what the ranks were issued since they last agreed is
                not what they committed together; names the ranks and their values.
            ArgumentError: The group is no multiple of num_replicas.
        """
        require_agreement(self._tracker.moving, self._tracker.layout, group)

    def add_observer(self, observer: CommitObserver) -> None:
        """Tell an observer of every commit, skip and save from now on.

        Raises:
            ArgumentError: It was added before.
            TypeError: It lacks a method of `CommitObserver`.
        """
        self._tracker.moving.add_observer(observer)

    def remove_observer(self, observer: CommitObserver) -> None:
        """Tell an observer nothing any more.

        Raises:
            ArgumentError: It was not added.
        """
        self._tracker.moving.remove_observer(observer)

    def seek(self, epoch: int, position: int) -> None:
        """Move the cursor to any place, in contributions; live iterators become stale.

        The identity digest counts from there on. The end of an epoch is the start of the next.

        Raises:
            ArgumentError: There is no such epoch or position.
        """
        self._tracker.seek(epoch, position)

    # -- state -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the committed position: one uint8 tensor of shape (512,), equal on all ranks.

        Micro-batches of an open update are not in it; they are delivered again.
        """
        self._warn_if_never_committed()
        return state_of(self._tracker.moving.saved())

    def load_state_dict(
        self, state_dict: Mapping[str, Any], allow_changed: Collection[str] = ()
    ) -> None:
        """Continue from a saved state; live iterators become stale.

        A plain `DataLoader` with workers may have drawn the whole epoch already and then still
        delivers it; its later commits raise. A `CursorLoader` raises at the next batch.

        Args:
            state_dict: What `state_dict()` returned, in any layout of ranks.
            allow_changed: Names of differences to accept, as the mismatch error prints them.

        Raises:
            CursorFormatError: Not such a state, or a damaged one. Nothing has changed.
            CursorMismatchError: It belongs to other data or another plan. Nothing has changed.
            MidUpdateError: It holds pending micro-batches of another number of ranks or batch size.
        """
        self.load_cursor(cursor_of(state_dict), allow_changed)

    def load_cursor(self, cursor: Cursor, allow_changed: Collection[str] = ()) -> None:
        """Continue from a cursor, as `load_state_dict` does.

        Raises:
            CursorMismatchError: It belongs to other data or another plan. Nothing has changed.
            MidUpdateError: It holds pending micro-batches of another number of ranks or batch size.
            TypeError: cursor is no Cursor.
        """
        self._tracker.load(cursor, allow_changed)

    def pending_cursor(self) -> Cursor:
        """Return the cursor with the delivered micro-batches of the open update as pending.

        Whoever saves it saves their gradients with it; loaded, it goes on behind them, and the
        commit that closes the update commits them all.

        Raises:
            CommitError: Without a `CursorLoader` the open update is not known.
            MidUpdateError: The open update belongs to a range deferred twice.
        """
        return self._tracker.pending_cursor()

    def _warn_if_never_committed(self) -> None:
        session = self._tracker.session
        if session is None or self._tracker.has_concluded or self._has_warned:
            return
        if session.delivered is None:
            given, many = session.issued, _MANY_ISSUED
        else:
            given = session.delivered
            most_open = self._tracker.layout.accumulation_steps
            many = max(session.num_up_to(_MANY_DELIVERED), most_open + 1)
            many = min(_MANY_DELIVERED, many)
        if given >= many:
            self._has_warned = True
            warnings.warn(
                f"{given} micro-batches were given out and none was committed, so this state is "
                "where the run began; call sampler.commit() after each optimizer.step()",
                stacklevel=3,
            )


def _require_main_process(method: str) -> None:
    if get_worker_info() is not None:
        raise CommitError(
            f"{method}() was called in a loader's worker process; the training "
            "loop's process owns the cursor"
        )

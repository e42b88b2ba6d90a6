"""The position of a Loader: what the caller has received, and where the next iter() begins."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._dataset.dataset import Dataset
from stoker._dataset.mixture import Mixture
from stoker._loader.cursors import State, cursor_of, framework_epoch_of
from stoker._loader.plan import LoaderPlan

_log = logging.getLogger("stoker")
_EPOCH_MAX = 2**63 - 1


def checked_epochs(
    epochs: int | Literal["auto"] | None, total: int | None, order: Any
) -> int | None:
    """Returns the largest number of epochs of an iter()."""
    if epochs == "auto":
        if total is not None:
            raise ValueError(
                f"total_epochs={total!r}: also give epochs=None, if one `for` runs through all of "
                "them, or epochs=1, if each `for` is one epoch"
            )
        epochs = 1
    if epochs is not None:
        epochs = whole_number("epochs", epochs, 1, _EPOCH_MAX, "None for endlessly many, or ")
    if total is not None:
        total = whole_number("total_epochs", total, 1, _EPOCH_MAX, "None for no limit, or ")
        epochs = total if epochs is None else min(epochs, total)
    if epochs != 1 and hasattr(order, "__iter__") and not hasattr(order, "__getitem__"):
        raise ValueError("order= is a sampler, which gives one epoch at a time: epochs=1")
    return epochs


class Place(NamedTuple):
    """The position of a run at one moment.

    Attributes:
        at: What the caller has received.
        before: The same without the last batch.
        next: Epoch and position where the next iter() begins.
        is_loaded: Whether a state was loaded, and nothing was received since.
        is_within: Whether batches were received, and no position was set since.
        is_named: Whether an epoch was named, and nothing was received since.
        amid: Micro-batches received of a step that is not complete. ``at`` is where it begins.
        amid_before: The same for ``before``.
    """

    at: _native.Cursor
    before: _native.Cursor
    next: tuple[int, int]
    is_loaded: bool = False
    is_within: bool = False
    is_named: bool = False
    amid: int = 0
    amid_before: int = 0


class Progress:
    """Counts epochs and positions.

    Iterations begin at multiples of ``epochs``, unless load() sets another position, so a cursor
    alone determines where its iteration would end. After an iteration that ended early, the next
    one begins with the epochs after it, and the log says what was left out; with ``is_endless`` it
    continues there. No iteration goes beyond ``total``, if given.

    Attributes:
        place: The position of the run.
        is_ahead: Whether the caller fetches each batch before it has used the previous one.
        framework_epoch: The epoch that a framework has named last; None if none has.
    """

    def __init__(
        self,
        plan: LoaderPlan,
        epochs: int | None,
        total: int | None = None,
        *,
        is_endless: bool = False,
    ) -> None:
        self._plan = plan
        # Epochs per numbered iteration; without an end, there is only one iteration.
        self._numbered = None if is_endless else epochs
        self._total = total
        self.epochs = epochs
        self.is_ahead = False
        self.framework_epoch: int | None = None
        self._has_warned = False
        self._loaded_epoch: int | None = None  # of the framework, in a state; until it names one
        self._was_named = False  # whether somebody has named the epoch of the live iteration
        self._restored: tuple[int, int] | None = None  # batches done then, and the step
        self.place = self._at(0, 0)

    def _at(self, epoch: int, position: int) -> Place:
        cursor = self._plan.cursor(epoch, position)
        return Place(cursor, cursor, (epoch, position))

    @property
    def next(self) -> tuple[int, int]:
        """Epoch and position where the next iter() begins."""
        return self.place.next

    @property
    def used(self) -> _native.Cursor:
        """What the caller has received, without what it has fetched ahead: the position to save."""
        return self.place.before if self.is_ahead else self.place.at

    @property
    def amid(self) -> int:
        """Micro-batches of an incomplete step that the caller has received, as in ``used``."""
        return self.place.amid_before if self.is_ahead else self.place.amid

    def refuse_amid(self) -> None:
        """Raises if the caller is in the middle of a step: no run can continue there."""
        if self.amid > 0:
            count = self._plan.cut.micro_batches_at(self.used.position)
            raise RuntimeError(
                f"the position of a Loader cannot be saved between micro-batches: {self.amid} of "
                f"the {count} of this step were received. Save only if batch.last, when the "
                "optimizer has done the step (without a Batch, when loader.step_is_done), and ask "
                "saver.due() and Preemption.requested() only then"
            )

    def _end_of(self, epoch: int) -> int:
        """Returns the epoch after the iteration of ``epoch``; an endless one ends in its epoch."""
        if self.epochs is None:
            return epoch + 1
        end = (epoch // self.epochs + 1) * self.epochs
        return end if self._total is None else max(epoch, min(end, self._total))

    def batches_ahead(self) -> int | None:
        """Returns the number of batches of the next iter(); None if there is no end."""
        if self.epochs is None:
            return None
        epoch, position = self.next
        more = self._end_of(epoch) - epoch
        if more == 0:
            return 0  # all epochs are done
        return self._batches_from(position) + (more - 1) * self._plan.batches_in_epoch()

    def _batches_from(self, position: int) -> int:
        return self._plan.cut.micro_batches_from(position)

    def steps_done(self) -> int:
        """Returns the steps before the next iter(), counted with the current batch size."""
        epoch, position = self.next
        in_epoch = -(-position // self._plan.cut.global_batch_size)
        return epoch * self._plan.steps_in_epoch() + in_epoch

    def counted(self, every: int) -> tuple[int, int]:
        """Returns steps done before the next iter(), and further batches: of the run or a restore.

        Batches are global ones, not micro-batches. A restored step has priority if their number
        implies another: their size was different, or the program counts in its own way.
        """
        batches = self.steps_done()
        if self._restored is None or self._restored[0] // every == self._restored[1]:
            return 0, batches
        return self._restored[1], batches - self._restored[0]

    def count_from(self, step: int) -> None:
        """Sets the step of the state that was just loaded."""
        self._restored = self.steps_done(), step

    def after(self, cursor: _native.Cursor, amid: int) -> Place:
        """Returns the caller's position after the batch with this cursor and ``Got.amid``."""
        return Place(
            cursor,
            self.place.at,
            (self._end_of(cursor.epoch), 0),
            is_within=True,
            amid=amid,
            amid_before=self.place.amid,
        )

    def _ends_epoch(self, cursor: _native.Cursor) -> bool:
        return self._plan.cut.batches_from(cursor.position) == 0

    def epoch_is_done(self) -> bool:
        """Whether the last batch that was received was the last of its epoch."""
        return self.used.position > 0 and self._ends_epoch(self.used)

    def _following(self, cursor: _native.Cursor) -> tuple[int, int]:
        """Returns epoch and position of the batch after ``cursor``."""
        is_over = self._ends_epoch(cursor)
        return (cursor.epoch + 1, 0) if is_over else (cursor.epoch, cursor.position)

    def _upcoming(self) -> tuple[int, int]:
        """Epoch and position that an iter() would begin with now."""
        if self.place.is_within and self._numbered is None:
            return self._following(self.used)
        return self.next

    def take_up(self) -> None:
        """Begins an iter(): after one that ended early, continues there, or logs a warning.

        A step that was left in the middle begins again.
        """
        amid = self.amid
        self.place = self.place._replace(amid=0, amid_before=0)
        self._was_named = self.place.is_named
        if not self.place.is_loaded:
            self._loaded_epoch = None
        if not self.place.is_within:
            return
        self.place = self.place._replace(next=self._upcoming(), is_within=False)
        if self._numbered is not None and not self._has_warned:
            epoch, position = self._following(self.used)
            full_epochs = self.next[0] - epoch - (position > 0)
            left_out = full_epochs * self._plan.batches_in_epoch()
            if position > 0:
                left_out += self._batches_from(position)
            self._warn_of(left_out - amid)

    def _warn_of(self, left_out: int) -> None:
        """Warns that the previous iteration ended with this many batches left."""
        is_same_again = self._plan.is_same_each_epoch and self._numbered == 1
        if left_out <= 0 or (is_same_again and self._total is None):
            return
        self._has_warned = True
        _log.warning(
            "loader: the iteration before was left early: %d of its batches are left out, and a "
            "new one begins with epoch %d. Each iter() has epochs=%d of its own. To continue where "
            "the one before stopped, keep its iterator, or give epochs=None, with total_epochs= "
            "for an end. To look at a batch, use another Loader. This is logged once",
            left_out,
            self.next[0],
            self._numbered,
        )

    def is_over(self, epoch: int) -> bool:
        """Whether the epoch is beyond the last one."""
        return self._total is not None and epoch >= self._total

    def check(self, state: State, allow: Iterable[str]) -> None:
        """Raises what load() would, and changes nothing; a sampler is not asked for its order."""
        if self._plan.is_endless:
            self._plan.check(cursor_of(state), allow)

    def load(self, state: State, allow: Iterable[str]) -> None:
        """Goes to a saved state; CursorMismatch if it is from another run."""
        cursor, framework_epoch = cursor_of(state), framework_epoch_of(state)
        self._plan.go_to_epoch(cursor.epoch)
        self._plan.resume(cursor, allow)
        self._restored = None
        at = self._plan.cursor(cursor.epoch, cursor.position)
        self.place = Place(at, at, self._following(cursor), is_loaded=True)
        self.is_ahead = False
        self.framework_epoch = framework_epoch
        self._loaded_epoch = framework_epoch
        if framework_epoch is None:
            self._loaded_epoch = self._number_of(cursor.epoch)

    def set_epoch(self, epoch: int, *, is_running: bool) -> None:
        """Makes the next iter() the one with this number, or the rest of it if it continues there.

        ``is_running``: batches are being received, and the state must reflect them.
        """
        epoch = whole_number("epoch", epoch, 0, _EPOCH_MAX)
        upcoming = self._upcoming()
        if self._number_of(upcoming[0]) == epoch:
            self.place = self.place._replace(next=upcoming, is_within=False, is_named=True)
        else:
            self._begin(epoch, is_running=is_running)

    def _number_of(self, epoch: int) -> int:
        """Returns the number of the iteration that contains this epoch."""
        return epoch // (self._numbered or 1)

    def _begin(self, number: int, *, is_running: bool) -> None:
        """Makes the next iter() the one with this number, from its beginning."""
        begin = (number * (self._numbered or 1), 0)
        if is_running:
            self.place = self.place._replace(next=begin, is_within=False, is_named=True)
        else:
            is_loaded = self.place.is_loaded
            self.place = self._at(*begin)._replace(is_named=True, is_loaded=is_loaded)

    def begin_framework_epoch(self, named: int, given: int | None) -> None:
        """Begins the epoch that a framework calls ``named``, with the next iter().

        ``given``: batches that the live iteration has handed out, if there is one.

        After load() the position stays, unless the framework has moved to another epoch since the
        state was saved. A batch that was handed out before the epoch was named was fetched ahead.
        Lightning does so with what has no length. Such a batch is not trained on when a checkpoint
        is written.
        """
        named = whole_number("epoch", named, 0, _EPOCH_MAX)
        self.framework_epoch = named
        loaded, self._loaded_epoch = self._loaded_epoch, None
        is_known = loaded is not None or named <= self._number_of(self.place.at.epoch)
        if given == 1 and is_known and not self._was_named:
            self.is_ahead = True
            return
        self._was_named = True
        self.is_ahead = False
        if self.place.is_loaded and loaded is not None:
            self._loaded_epoch = max(named, loaded)
            if named <= loaded:
                self.place = self.place._replace(is_named=True)
                return
            self._warn_of_rest(named)
        self._begin(named, is_running=bool(given))

    def _warn_of_rest(self, named: int) -> None:
        """A framework moves from a state that was loaded to another epoch."""
        epoch, position = self.next
        full_epochs = named * (self._numbered or 1) - epoch - 1
        rest = self._batches_from(position) + full_epochs * self._plan.batches_in_epoch()
        if rest > 0:
            _log.warning(
                "loader: the next %d batches after the loaded state are left out: the framework "
                "begins its epoch %d. This is correct if it had finished the epoch before, as with "
                "limit_train_batches of Lightning. With max_steps, resume from a checkpoint that "
                "was saved after a batch (ModelCheckpoint(every_n_train_steps=...)) instead of at "
                "the end of an epoch",
                rest,
                named,
            )


def figures_of(data: Dataset | Mixture, plan: LoaderPlan, progress: Progress) -> dict[str, str]:
    """Returns the figures of a loader for repr()."""
    ranks, cut, epochs = plan.ranks, plan.cut, progress.epochs
    at = progress.place.at
    batches = "endless" if epochs is None else f"{epochs * plan.batches_in_epoch():,}"
    is_cut = cut.micro_batches_per_step > 1
    return {
        "data": repr(data),
        "global_batch_size": str(cut.global_batch_size),
        **({"micro_batch_size": str(cut.micro_batch_size)} if is_cut else {}),
        "rank": f"{ranks.rank} of {ranks.world_size}",
        "shuffle": at.shuffle,
        "seed": str(plan.seed),
        "tail": cut.tail,
        "epochs": str(epochs),
        "batches": batches,
        "memory_bytes": f"{plan.memory_bytes:,}",
        "at": f"epoch {at.epoch}, position {at.position:,}",
    }

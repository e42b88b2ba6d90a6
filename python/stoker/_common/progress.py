"""Where a Loader stands: what the caller has received, and where the next iter() begins."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._dataset.dataset import Dataset
from stoker._dataset.mixture import Mixture
from stoker._loader.cursors import State, cursor_of
from stoker._loader.plan import LoaderPlan

_log = logging.getLogger("stoker")
_EPOCH_MAX = 2**63 - 1


def checked_epochs(epochs: int | None, total: int | None, order: Any) -> int | None:
    """How many epochs an iter() has at most."""
    if epochs is not None:
        epochs = whole_number("epochs", epochs, 1, _EPOCH_MAX, "None for endlessly many, or ")
    if total is not None:
        total = whole_number("total_epochs", total, 1, _EPOCH_MAX, "None for no limit, or ")
        epochs = total if epochs is None else min(epochs, total)
    if epochs != 1 and hasattr(order, "__iter__") and not hasattr(order, "__getitem__"):
        raise ValueError("order= is a sampler, which gives one epoch at a time: epochs=1")
    return epochs


class Place(NamedTuple):
    """Where a run stands, at one moment.

    Attributes:
        at: What the caller has received.
        before: Without the last batch of it.
        next: Epoch and position that the next iter() begins with.
        is_loaded: Whether that is what load() said, and nothing was received since.
        is_within: Whether batches were received, and nobody has said since where to continue.
    """

    at: _native.Cursor
    before: _native.Cursor
    next: tuple[int, int]
    is_loaded: bool = False
    is_within: bool = False


class Progress:
    """Counts epochs and positions.

    Iterations begin at multiples of ``epochs``, unless load() says otherwise, so a cursor alone
    tells where the iteration that it is from would end. After one that was left early, the next one
    begins after it, and the log says what was left out; with ``is_endless`` it continues there.
    None goes beyond ``total``, where there is one.

    Attributes:
        place: Where the run stands.
        is_ahead: Whether the caller fetches each batch before it has used the one before.
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
        # How many epochs an iteration that has a number has; without an end they are one and all.
        self._numbered = None if is_endless else epochs
        self._total = total
        self.epochs = epochs
        self.is_ahead = False
        self._has_warned = False
        self._shift = 0  # from its count of epochs to ours
        self._restored: tuple[int, int] | None = None  # batches done then, and the step
        self.place = self._at(0, 0)

    def _at(self, epoch: int, position: int) -> Place:
        cursor = self._plan.cursor(epoch, position)
        return Place(cursor, cursor, (epoch, position))

    @property
    def next(self) -> tuple[int, int]:
        """Epoch and position that the next iter() begins with."""
        return self.place.next

    @property
    def used(self) -> _native.Cursor:
        """What the caller has received, less what it has fetched ahead: what to save."""
        return self.place.before if self.is_ahead else self.place.at

    def _end_of(self, epoch: int) -> int:
        """The epoch after an iteration that is in ``epoch``; an endless one ends where it is."""
        if self.epochs is None:
            return epoch + 1
        end = (epoch // self.epochs + 1) * self.epochs
        return end if self._total is None else max(epoch, min(end, self._total))

    def batches_ahead(self) -> int | None:
        """Of the next iter(); None if there is no end."""
        if self.epochs is None:
            return None
        epoch, position = self.next
        more = self._end_of(epoch) - epoch
        if more == 0:
            return 0  # all epochs are done
        return self._plan.cut.batches_from(position) + (more - 1) * self._plan.batches_in_epoch()

    def batches_done(self) -> int:
        """Before the next iter(), had all been cut as they are now."""
        epoch, position = self.next
        in_epoch = -(-position // self._plan.cut.global_batch_size)
        return epoch * self._plan.batches_in_epoch() + in_epoch

    def counted(self, every: int) -> tuple[int, int]:
        """Steps done before the next iter(), and batches besides: of a run, or since a restore.

        A restored step decides where the number of batches says another one: their size was
        another, or the program counts in its own way.
        """
        batches = self.batches_done()
        if self._restored is None or self._restored[0] // every == self._restored[1]:
            return 0, batches
        return self._restored[1], batches - self._restored[0]

    def count_from(self, step: int) -> None:
        """The state that was just loaded is that of a step."""
        self._restored = self.batches_done(), step

    def after(self, cursor: _native.Cursor) -> Place:
        """Where the caller stands with the batch that has this cursor."""
        return Place(cursor, self.place.at, (self._end_of(cursor.epoch), 0), is_within=True)

    def _following(self, cursor: _native.Cursor) -> tuple[int, int]:
        """Epoch and position of the batch after ``cursor``."""
        is_over = self._plan.cut.batches_from(cursor.position) == 0
        return (cursor.epoch + 1, 0) if is_over else (cursor.epoch, cursor.position)

    def take_up(self) -> None:
        """An iter() begins: after one that was left early, it continues there, or the log warns."""
        if not self.place.is_within:
            return
        self.place = self.place._replace(is_within=False)
        epoch, position = self._following(self.used)
        if self._numbered is None:
            self.place = self.place._replace(next=(epoch, position))
        elif not self._has_warned:
            full_epochs = self.next[0] - epoch - (position > 0)
            left_out = full_epochs * self._plan.batches_in_epoch()
            if position > 0:
                left_out += self._plan.cut.batches_from(position)
            self._warn_of(left_out)

    def _warn_of(self, left_out: int) -> None:
        """The iteration before was left with so many batches still to come."""
        is_same_again = self._plan.is_same_each_epoch and self._numbered == 1
        if left_out <= 0 or (is_same_again and self._total is None):
            return
        self._has_warned = True
        _log.warning(
            "loader: the iteration before was left early: %d of its batches are left out, and a "
            "new one begins with epoch %d. Each iter() has epochs=%d of its own. To continue where "
            "the one before stopped, keep its iterator, or give epochs=None, with total_epochs= "
            "for an end. To look at a batch, use another Loader. This is said once",
            left_out,
            self.next[0],
            self._numbered,
        )

    def is_over(self, epoch: int) -> bool:
        """Whether there is no such epoch any more."""
        return self._total is not None and epoch >= self._total

    def check(self, state: State, allow: Iterable[str]) -> None:
        """Raises what load() would, and changes nothing; a sampler is not asked for its order."""
        if self._plan.is_endless:
            self._plan.check(cursor_of(state), allow)

    def load(self, state: State, allow: Iterable[str]) -> None:
        """Goes to a saved state; CursorMismatch if it is another run's."""
        cursor = cursor_of(state)
        self._plan.go_to_epoch(cursor.epoch)
        self._plan.resume(cursor, allow)
        self._restored = None
        at = self._plan.cursor(cursor.epoch, cursor.position)
        self.place = Place(at, at, self._following(cursor), is_loaded=True)
        self.is_ahead = False

    def set_epoch(self, epoch: int, *, is_running: bool) -> None:
        """The next iter() is the one of this number, unless that is the one it goes on with.

        ``is_running``: batches are being received, which the state is to tell.
        """
        epoch = whole_number("epoch", epoch, 0, _EPOCH_MAX)
        is_taken_up = self.next[1] > 0 and not self.place.is_loaded
        self.place = self.place._replace(is_within=False)
        if self._is_within(epoch, self.next[0]) and not is_taken_up:
            return
        begin = (epoch * (self._numbered or 1), 0)
        if is_running:
            self.place = self.place._replace(next=begin)
        else:
            self.place = self._at(*begin)

    def _is_within(self, number: int, epoch: int) -> bool:
        """Whether the iteration of this number has that epoch."""
        if self._numbered is not None:
            return number == epoch // self._numbered
        # An endless one has all that follow. What was loaded belongs to one that began before.
        return number == epoch or (number < epoch and self.place.is_loaded)

    def begin_framework_epoch(self, named: int, given: int | None) -> None:
        """As set_epoch(), from a framework that has its own count of epochs.

        ``given``: how many batches the live iteration has handed out, if there is one.

        A state that was loaded is where the run stands, whatever the framework calls that epoch:
        Lightning counts one that ``max_steps`` has cut short as done, and then continues it.
        """
        named = whole_number("epoch", named, 0, _EPOCH_MAX)
        if self.place.is_loaded:
            shift = self.next[0] // (self._numbered or 1) - named
            self._shift = shift if self._numbered is not None else min(shift, 0)
        number = max(0, named + self._shift)
        self.set_epoch(number, is_running=bool(given))
        if given in (0, 1):
            self._watch_ahead(number, given == 1)

    def _watch_ahead(self, number: int, has_batch: bool) -> None:
        """An iteration's own epoch begins: a batch of it that was handed out was fetched ahead.

        Lightning does so with what has no length. Such a batch is not trained on when a checkpoint
        is written.
        """
        now = self.place.at.epoch if has_batch else self.next[0]
        if number <= now if self._numbered is None else number == now // self._numbered:
            self.is_ahead = has_batch


def figures_of(data: Dataset | Mixture, plan: LoaderPlan, progress: Progress) -> dict[str, str]:
    """What people want to see of a loader."""
    ranks, cut, epochs = plan.ranks, plan.cut, progress.epochs
    at = progress.place.at
    batches = "endless" if epochs is None else f"{epochs * plan.batches_in_epoch():,}"
    return {
        "data": repr(data),
        "global_batch_size": str(cut.global_batch_size),
        "rank": f"{ranks.rank} of {ranks.world_size}",
        "shuffle": at.shuffle,
        "seed": str(plan.seed),
        "tail": cut.tail,
        "epochs": str(epochs),
        "batches": batches,
        "memory_bytes": f"{plan.memory_bytes:,}",
        "at": f"epoch {at.epoch}, position {at.position:,}",
    }

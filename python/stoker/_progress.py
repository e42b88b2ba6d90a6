"""Where a Loader stands: what the caller has received, and where the next iter() begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker import _native
from stoker._cursors import State, check_cursor, cursor_of
from stoker._dataset import Dataset
from stoker._loader_plan import LoaderPlan
from stoker._mixture import Mixture
from stoker._numbers import whole_number

_EPOCH_MAX = 2**63 - 1


def checked_epochs(epochs: int | None, order: Any) -> int | None:
    """How many epochs an iter() has."""
    if epochs is not None:
        epochs = whole_number("epochs", epochs, 1, _EPOCH_MAX, "None for endlessly many, or ")
    if epochs != 1 and hasattr(order, "__iter__") and not hasattr(order, "__getitem__"):
        raise ValueError("order= is a sampler, which gives one epoch at a time: epochs=1")
    return epochs


class Progress:
    """Counts epochs and positions.

    Iterations begin at multiples of ``epochs``, unless set_epoch() or load() say otherwise, so a
    cursor alone tells where the iteration that it is from would end. One that was broken off is not
    taken up again: the next one begins after it.

    Attributes:
        at: What the caller has received.
        next: Epoch and position that the next iter() begins with.
    """

    def __init__(self, plan: LoaderPlan, epochs: int | None) -> None:
        self._plan = plan
        self.epochs = epochs
        self.next = (0, 0)
        self.at = plan.cursor(0, 0)
        self._restored: tuple[int, int] | None = None  # batches done then, and the step

    def _end_of(self, epoch: int) -> int:
        """The epoch after an iteration that is in ``epoch``; an endless one ends where it is."""
        return epoch + 1 if self.epochs is None else (epoch // self.epochs + 1) * self.epochs

    def batches_ahead(self) -> int | None:
        """Of the next iter(); None if there is no end."""
        if self.epochs is None:
            return None
        epoch, position = self.next
        more = self._end_of(epoch) - epoch - 1
        return self._plan.cut.batches_from(position) + more * self._plan.batches_in_epoch()

    def batches_done(self) -> int:
        """Before the next iter(), had all been cut as they are now."""
        epoch, position = self.next
        in_epoch = -(-position // self._plan.settings.global_batch_size)
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

    def receive(self, cursor: _native.Cursor) -> None:
        """The caller has got the batch with this cursor."""
        self.at = cursor
        self.next = (self._end_of(cursor.epoch), 0)

    def check(self, state: State, allow: Iterable[str]) -> None:
        """Raises what load() would, and changes nothing; a sampler is not asked for its order."""
        if self._plan.is_endless:
            check_cursor(cursor_of(state), self._plan.wanted_cursor(), allow)

    def load(self, state: State, allow: Iterable[str]) -> None:
        """Goes to a saved state; CursorMismatch if it is another run's."""
        cursor = cursor_of(state)
        self._plan.go_to_epoch(cursor.epoch)
        check_cursor(cursor, self._plan.wanted_cursor(), allow)
        self._plan.adopt(cursor)
        self._restored = None
        self.at = self._plan.cursor(cursor.epoch, cursor.position)
        is_over = self._plan.cut.batches_from(cursor.position) == 0
        self.next = (cursor.epoch + 1, 0) if is_over else (cursor.epoch, cursor.position)

    def set_epoch(self, epoch: int, *, is_running: bool) -> None:
        """Goes to the start of an epoch, unless that is the one where it is."""
        epoch = whole_number("epoch", epoch, 0, _EPOCH_MAX)
        if epoch == (self.at.epoch if is_running else self.next[0]):
            return
        self.next = (epoch, 0)
        if not is_running:
            self.at = self._plan.cursor(epoch, 0)


def figures_of(data: Dataset | Mixture, plan: LoaderPlan, progress: Progress) -> dict[str, str]:
    """What people want to see of a loader."""
    ranks, settings, at, epochs = plan.ranks, plan.settings, progress.at, progress.epochs
    batches = "endless" if epochs is None else f"{epochs * plan.batches_in_epoch():,}"
    return {
        "data": repr(data),
        "global_batch_size": str(settings.global_batch_size),
        "rank": f"{ranks.rank} of {ranks.world_size}",
        "shuffle": at.shuffle,
        "seed": str(settings.seed),
        "tail": settings.tail,
        "epochs": str(epochs),
        "batches": batches,
        "memory_bytes": f"{plan.memory_bytes:,}",
        "at": f"epoch {at.epoch}, position {at.position:,}",
    }

"""Lists a directory of checkpoints, and writes notes beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stoker import _native
from stoker._checkpoint.save.pending import Pending
from stoker._checkpoint.settings import number_of, step_number
from stoker._common.corrupt import corrupt_error


class Listing:
    """The part of a Checkpointer that lists checkpoints and annotates them.

    ``in_flight``: returns the saves in progress. ``kill_at``: for tests.

    Attributes:
        path: The directory.
    """

    def __init__(
        self, path: str, in_flight: Callable[[], list[Pending]], kill_at: tuple[str, int]
    ) -> None:
        self.path = path
        self._in_flight = in_flight
        self._kill_at = kill_at

    def steps(self) -> list[int]:
        """Returns the steps whose manifest was valid when last read, oldest checkpoint first.

        A manifest is read again if its name, inode, size or time has changed. Data are not read:
        ``restore`` and ``stoker checkpoint verify`` do that.
        """
        found = [step for _, step, old, _, damage, _ in self._list() if damage is None and not old]
        return found[::-1]

    @property
    def latest(self) -> int | None:
        """The step of the newest checkpoint; None if there is none."""
        return next((step for _, step, _, _, damage, _ in self._list() if damage is None), None)

    def annotate(self, step: int, **values: Any) -> None:
        """Adds numbers to a checkpoint, for ``keep_best`` and for people; waits for its save.

        The checkpoint itself never changes: notes are stored beside it.

        Raises:
            FileNotFoundError: There is no such step.
            CorruptError: The checkpoint is damaged, or its name belongs to something else.
        """
        numbers = {name: number_of(name, value) for name, value in values.items()}
        step, where = step_number(step), os.fsencode(self.path)
        _native.annotate_checkpoint(where, step, *self._find(step), numbers, self._kill_at)

    def pin(self, step: int, pinned: bool = True) -> None:
        """Keeps a checkpoint regardless of the rules; ``pinned=False`` undoes it.

        Raises:
            FileNotFoundError: There is no such step.
            CorruptError: The checkpoint is damaged, or its name belongs to something else.
        """
        step, where = step_number(step), os.fsencode(self.path)
        _native.pin_checkpoint(where, step, *self._find(step), pinned, self._kill_at)

    def _list(self) -> list[tuple[str, int, bool, int, str | None, str]]:
        try:
            return _native.list_checkpoints(os.fsencode(self.path))
        except FileNotFoundError:
            return []

    def _find(self, step: int) -> tuple[int, str]:
        """Returns the generation and the line of a step."""
        for pending in self._in_flight():
            if pending.step == step:
                pending.wait()
        for name, number, is_superseded, generation, damage, line in self._list():
            if number != step or is_superseded:
                continue
            if damage is not None:
                where = f"{self.path}/{name}"
                _native.OpenCheckpoint(os.fsencode(where))  # raises if only permission is missing
                raise corrupt_error(damage, where)
            return generation, line
        raise FileNotFoundError(f"{self.path} has no step {step}")

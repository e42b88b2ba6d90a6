"""What is in a directory of checkpoints, and the notes beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stoker import _native
from stoker._checkpoint.pending import Pending
from stoker._checkpoint.settings import number_of, step_number
from stoker._common.corrupt import corrupt_error


class Listing:
    """The part of a Checkpointer that looks at what is there, and takes notes of it.

    ``in_flight``: the saves that are on their way. ``kill_at``: for tests.

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
        """The steps whose manifest was whole when it was last read, oldest checkpoint first.

        A manifest is read again if its name, inode, size or time has changed. Data are not read:
        ``restore`` does that, and ``stoker checkpoint verify``.
        """
        found = [step for _, step, old, _, damage, _ in self._list() if damage is None and not old]
        return found[::-1]

    @property
    def latest(self) -> int | None:
        """The step of the newest checkpoint; None if there is none."""
        return next((step for _, step, _, _, damage, _ in self._list() if damage is None), None)

    def annotate(self, step: int, **values: Any) -> None:
        """Adds numbers to a checkpoint, for ``keep_best`` and for people; waits until it is there.

        The checkpoint itself never changes: notes lie beside it.

        Raises:
            FileNotFoundError: There is no such step.
            CorruptError: What has its name is damaged, or no checkpoint.
        """
        numbers = {name: number_of(name, value) for name, value in values.items()}
        step, where = step_number(step), os.fsencode(self.path)
        _native.annotate_checkpoint(where, step, *self._find(step), numbers, self._kill_at)

    def pin(self, step: int, pinned: bool = True) -> None:
        """Keeps a checkpoint whatever the rules say; ``pinned=False`` lets it go.

        Raises:
            FileNotFoundError: There is no such step.
            CorruptError: What has its name is damaged, or no checkpoint.
        """
        step, where = step_number(step), os.fsencode(self.path)
        _native.pin_checkpoint(where, step, *self._find(step), pinned, self._kill_at)

    def _list(self) -> list[tuple[str, int, bool, int, str | None, str]]:
        try:
            return _native.list_checkpoints(os.fsencode(self.path))
        except FileNotFoundError:
            return []

    def _find(self, step: int) -> tuple[int, str]:
        """The generation and the line of a step."""
        for pending in self._in_flight():
            if pending.step == step:
                pending.wait()
        for name, number, is_superseded, generation, damage, line in self._list():
            if number != step or is_superseded:
                continue
            if damage is not None:
                where = f"{self.path}/{name}"
                _native.OpenCheckpoint(os.fsencode(where))  # raises: a right may be all it lacks
                raise corrupt_error(damage, where)
            return generation, line
        raise FileNotFoundError(f"{self.path} has no step {step}")

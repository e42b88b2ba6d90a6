"""The result of a restore, and the check that the run continues as it was."""

from __future__ import annotations

import logging
import math
from typing import Any

from stoker._checkpoint.settings import number_of

_log = logging.getLogger("stoker")


class Restored(int):
    """The restored step: an int with the details of its checkpoint.

    Printed and formatted, it is its number; ``repr()`` includes the directory.

    Attributes:
        source: The checkpoint's directory.
        generation: Says which checkpoint is newer; step numbers do not, because runs are rewound.
        line: The token of the writer that saved it. Generation and line together are unique.
        world_size: Number of ranks that saved it.
        has_loader: Whether the position of a loader was saved with it. An import has none.
        skipped: Newer checkpoints that were skipped: (name, reason).
        reference: The numbers that were saved to compare with.
        extra: The ``extra`` value that was saved.
        trees: The trees as they are now, by the names given to ``restore()``.
        missing: With ``strict=False``: names in memory that were not saved, as "model.head.weight".
        unexpected: With ``strict=False``: saved names that a module or an optimizer does not have.
    """

    source: str
    generation: int
    line: str
    world_size: int
    has_loader: bool
    skipped: list[tuple[str, str]]
    reference: dict[str, float]
    extra: Any
    trees: dict[str, Any]
    missing: list[str]
    unexpected: list[str]

    def __new__(cls, step: int, **attributes: Any) -> Restored:
        """Makes a step with these attributes."""
        restored = super().__new__(cls, step)
        restored.__dict__.update(attributes)
        return restored

    def __str__(self) -> str:  # also used by format()
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"<stoker.Restored: step {int(self)} from {self.source}>"


class StepWatch:
    """Warns, once, of a save whose step is smaller than the one that was restored."""

    def __init__(self) -> None:
        self._restored: int | None = None
        self._is_told = False

    def restored(self, step: int) -> None:
        """The steps to come are greater."""
        self._restored = step

    def saved(self, step: int) -> None:
        """Compares."""
        if self._is_told or self._restored is None or step >= self._restored:
            return
        self._is_told = True
        _log.warning(
            "step %d is saved, but step %d was restored: the step numbers do not continue. "
            "keep_last= counts the checkpoints that were saved last, whatever their steps are, and "
            "may remove step %d. To continue the numbers, pass loader= to restore(), or use "
            "loader.steps(start=done), where done is what restore() returns",
            step,
            self._restored,
            self._restored,
        )


class ReferenceMismatch(ValueError):  # noqa: N818 (as CursorMismatch)
    """A resumed run computes different numbers than the run that saved the checkpoint.

    Attributes:
        differences: For each number: name, saved value, current value.
    """

    def __init__(self, message: str, differences: list[tuple[str, float, float]]) -> None:
        super().__init__(message)
        self.differences = differences


def check_reference(done: Restored | None, values: dict[str, Any], rtol: float) -> None:
    """Compares numbers with the saved ones; does nothing if ``done`` is None.

    Raises:
        ReferenceMismatch: A number differs by more than ``rtol``.
    """
    if done is None:
        return
    if not isinstance(done, Restored):
        raise TypeError(f"done is what restore() gave, not {type(done).__name__}")
    unknown = [name for name in values if name not in done.reference]
    if unknown:
        there = ", ".join(sorted(done.reference)) or "nothing"
        raise ValueError(f"{unknown[0]}: not among the reference values of {done!r}: {there}")
    differences = []
    for name, value in values.items():
        was, now = done.reference[name], number_of(name, value)
        is_same = math.isclose(was, now, rel_tol=rtol, abs_tol=0) or (was != was and now != now)
        if not is_same:
            differences.append((name, was, now))
    if differences:
        text = ", ".join(f"{name} was {was!r} and is {now!r}" for name, was, now in differences)
        raise ReferenceMismatch(f"step {int(done)} does not match: {text}", differences)

"""What a restore has found, and whether the run goes on as it was."""

from __future__ import annotations

import math
from typing import Any

from stoker._checkpoint.settings import number_of


class Restored(int):
    """The step that was restored: an int, with where it came from.

    Printed and formatted it is its number; ``repr()`` has the directory too.

    Attributes:
        source: The checkpoint's directory.
        generation: Says which checkpoint is newer; step numbers do not, because runs are rewound.
        line: Who has saved it: a token that the writer drew. Generation and line are given once.
        world_size: How many ranks have saved it.
        skipped: Newer checkpoints that were passed over: (name, reason).
        reference: The numbers that were saved to compare with.
        extra: What the caller had saved along.
        trees: The trees as they are now, by the names given to ``restore()``.
    """

    source: str
    generation: int
    line: str
    world_size: int
    skipped: list[tuple[str, str]]
    reference: dict[str, float]
    extra: Any
    trees: dict[str, Any]

    def __new__(cls, step: int, **attributes: Any) -> Restored:
        """Of a step; the attributes are set as given."""
        restored = super().__new__(cls, step)
        restored.__dict__.update(attributes)
        return restored

    def __str__(self) -> str:  # and format(), which asks it
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"<stoker.Restored: step {int(self)} from {self.source}>"


class ReferenceMismatch(ValueError):  # noqa: N818 (as CursorMismatch)
    """A resumed run computes other numbers than the run that saved the checkpoint.

    Attributes:
        differences: Of each number: name, as it was, as it is.
    """

    def __init__(self, message: str, differences: list[tuple[str, float, float]]) -> None:
        super().__init__(message)
        self.differences = differences


def check_reference(done: Restored | None, values: dict[str, Any], rtol: float) -> None:
    """Compares numbers with those that were saved; None was not restored and has none.

    Raises:
        ReferenceMismatch: Some differ by more than ``rtol``.
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
        raise ReferenceMismatch(f"step {int(done)} does not go on as it was: {text}", differences)

"""stoker.PerRank: a value of which each rank has its own."""

from __future__ import annotations

from typing import Any


class PerRank:
    """A value that differs between ranks on purpose.

    A leaf or a branch of the trees that ``Checkpointer.save`` and ``restore`` take. Its tensors are
    stored for each rank, and each rank gets its own. Without it, tensors of the same name that are
    equal on all ranks are stored once, and a save fails if they have become different since the
    one before.

    Args:
        value: Anything that can be saved.

    Attributes:
        value: The value; ``restore`` replaces it if it is immutable.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<stoker.PerRank {type(self.value).__name__}>"

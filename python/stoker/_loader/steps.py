"""Numbered batches of a Loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Steps(Iterator[tuple[int, Any]]):
    """Begins an iteration at the first next(), and returns its items.

    Not a generator: an interrupted generator would end.
    """

    def __init__(self, begin: Callable[[], Iterator[tuple[int, Any]]]) -> None:
        self._begin = begin
        self._iteration: Iterator[tuple[int, Any]] | None = None

    def __next__(self) -> tuple[int, Any]:
        if self._iteration is None:
            self._iteration = self._begin()
        for item in self._iteration:  # not next(): signals are handled after a call
            return item
        raise StopIteration

    def close(self) -> None:
        """Ends the iteration; the next one begins after it."""
        close = getattr(self._iteration, "close", None)
        self._iteration = iter(())
        if close is not None:
            close()

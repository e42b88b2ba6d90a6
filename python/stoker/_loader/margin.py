"""Detects that batches that used to be ready now have to be waited for."""

from __future__ import annotations

_BATCHES = 256
_CALM_SHARE = 0.01  # of the time: not noticeable
_SHORT_SHARE = 0.05


class MarginWatch:
    """Observes the waits of a loader, 256 batches at a time, over all its iterations.

    A loader that was never ahead has no margin to lose: it needs tuning, and its statistics say so.
    If one was ahead and no longer is, its storage or map has become slower, or the training step
    faster.
    """

    def __init__(self) -> None:
        self._had_margin = self._was_told = False
        self._batches = 0
        self._waited_s = self._elapsed_s = 0.0
        self._last: float | None = None

    def begin(self) -> None:
        """Begins an iteration: the time since the previous one does not count."""
        self._last = None

    @property
    def is_at_border(self) -> bool:
        """Whether the next batch is the first of 256."""
        return self._batches == 0

    def saw(self, called: float, returned: float, copied_s: float = 0.0) -> float | None:
        """Records one batch, requested and returned at these times; copying is not a wait.

        Returns:
            The share of time waited during the last 256 batches, if it is worth a warning; once.
        """
        self._batches += 1
        self._waited_s += max(0.0, returned - called - copied_s)
        self._elapsed_s += returned - (called if self._last is None else self._last)
        self._last = returned
        if self._batches < _BATCHES:
            return None
        share = self._waited_s / self._elapsed_s if self._elapsed_s > 0 else 0.0
        self._batches, self._waited_s, self._elapsed_s = 0, 0.0, 0.0
        self._had_margin = self._had_margin or share < _CALM_SHARE
        if not self._had_margin or self._was_told or share < _SHORT_SHARE:
            return None
        self._was_told = True
        return share

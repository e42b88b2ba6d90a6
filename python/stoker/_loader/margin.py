"""Whether batches that used to be ready have begun to be waited for."""

from __future__ import annotations

_BATCHES = 256
_CALM_SHARE = 0.01  # of the time: nobody would notice
_SHORT_SHARE = 0.05


class MarginWatch:
    """Looks at the waits of a loader, 256 batches at a time, over all its iterations.

    A loader that never kept ahead has no margin to lose: what it needs is tuning, and its
    statistics say so. One that did, and does no longer, has a storage or a map that became slower,
    or feeds a step that became faster.
    """

    def __init__(self) -> None:
        self._had_margin = self._was_told = False
        self._batches = 0
        self._waited_s = self._elapsed_s = 0.0
        self._last: float | None = None

    def begin(self) -> None:
        """An iteration begins: the time since the one before does not count."""
        self._last = None

    @property
    def is_at_border(self) -> bool:
        """Whether the next batch is the first of 256."""
        return self._batches == 0

    def saw(self, called: float, returned: float, copied_s: float = 0.0) -> float | None:
        """One batch, asked for and handed out at these times; a copy of it is no wait.

        Returns:
            The part of the time that the last 256 were waited for, if that is news; once.
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

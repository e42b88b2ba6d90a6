"""Saves by the clock: with several ranks, rank 0's clock decides for all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stoker._common.agreed_step import AgreedStep
from stoker._common.boards import Board
from stoker._common.ranks import Ranks

_log = logging.getLogger("stoker")
_WITHIN_SECONDS = 5.0  # in which the ranks must agree
_AGAIN_SECONDS = 60.0  # after they did not


class DueTime:
    """Says when a save is due by time, at the same step on all ranks, without a collective.

    Rank 0 asks for a step when its clock says so; ``agreed_step.py`` has the protocol. All ranks
    call ``is_due`` with the same steps.

    Thread safety: ``is_due`` is for one thread, the training loop.

    Args:
        ranks: Which of the ranks this is.
        open_board: Returns the board of the ranks; called once, by the first ``is_due`` of several
            ranks.
    """

    def __init__(self, ranks: Ranks, open_board: Callable[[], Board]) -> None:
        self._ranks, self._open_board = ranks, open_board
        self._agreement: AgreedStep | None = None
        self._is_asked, self._ask_after = False, 0.0

    def is_due(self, step: int, seconds: float, last_time: float) -> bool:
        """Whether ``seconds`` have passed since ``last_time``, which only rank 0 needs to know.

        Raises:
            ValueError: The ranks have nothing in common through which they could agree.
        """
        if self._ranks.world_size == 1:
            return time.monotonic() - last_time >= seconds
        if self._agreement is None:
            self._agreement = AgreedStep(
                self._open_board(),
                self._ranks,
                within=_WITHIN_SECONDS,
                on_agreed=lambda *_: None,
                on_refused=self._refused,
                is_ahead=True,
            )
        if self._agreement.reached(step):
            self._is_asked = False
            return True
        now = time.monotonic()
        is_time = now - last_time >= seconds and now >= self._ask_after
        if self._ranks.rank == 0 and is_time and not self._is_asked:
            self._is_asked = True
            self._agreement.ask("due")
        return False

    def _refused(self, _: str, why: str) -> None:
        """Called by the agreement's thread."""
        if self._ranks.rank == 0:
            text = "due: no step agreed for a save: %s. Every rank must call due(every=) with each "
            _log.warning(text + "step. Asking again in %g s", why, _AGAIN_SECONDS)
        self._ask_after = time.monotonic() + _AGAIN_SECONDS
        self._is_asked = False

    def close(self) -> None:
        """Ends what the first ``is_due`` has begun."""
        if self._agreement is not None:
            self._agreement.close()

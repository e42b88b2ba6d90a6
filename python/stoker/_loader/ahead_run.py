"""A run of the core's loader whose batches are copied ahead to a GPU."""

from __future__ import annotations

import contextlib
from time import perf_counter
from typing import Any

from stoker import _native
from stoker._dataset.columns import ColumnMaker
from stoker._loader.batch import Batch
from stoker._loader.extras import Extras
from stoker._loader.feed import DeviceFeed, Sending
from stoker._loader.native_run import Got, Hand, NativeRun, amid_of


class AheadRun:
    """Batches of the core, of which up to ``depth`` are on their way to the GPU.

    What is on its way counts for nothing yet: a position is that of what was handed out.

    Attributes:
        feed: Of the GPU.
    """

    def __init__(
        self,
        options: _native.LoaderOptions,
        feed: DeviceFeed,
        depth: int,
        maker: ColumnMaker,
        extras: Extras,
    ) -> None:
        feed.native.lend_memory(options)
        self._native = NativeRun(options)
        self.feed = feed
        self._depth = depth
        self._maker = maker
        self._extras = extras
        self._before = feed.native.stats()
        self._counters = self._before
        self._sending: Sending | None = None
        self._ahead: tuple[Got, ...] = ()

    def next(self, hand: Hand) -> bool:
        """Puts the oldest batch into ``hand``; False if there are no more.

        Sends what is ready first. Waits only if nothing is on its way. An interruption at any
        point, and an exception such as that of a GPU without memory, loses no batch.
        """
        copied_s = 0.0
        while len(self._ahead) <= self._depth:
            found = self._native.poll() if self._ahead else self._native.next()
            if not isinstance(found, _native.Batch):
                break  # the end or an error, after what is on its way; or nothing is ready
            began = perf_counter()
            try:
                self._send(found)
            except Exception:
                if not self._ahead:
                    raise
                break  # if it lasts, it is raised when nothing is left
            copied_s += perf_counter() - began
        if not self._ahead:
            hand.error = found if isinstance(found, Exception) else None
            return False
        got = self._ahead[0]._replace(copied_s=copied_s)
        self._ahead, hand.got = self._ahead[1:], got
        return True

    def _send(self, native: _native.Batch) -> None:
        if len(native) == 0 and self._extras.show_columns:
            shown = Batch._of(self._extras.stand_in(native), self._maker, native.cursor)
            batch, arrive = shown._emptied().to(self.feed.device), None
        else:
            if self._sending is None or self._sending.native is not native:
                self._sending = Sending(native, self.feed, self._maker)
            self._sending.send()
            batch, arrive = self._sending.batch, self._sending.arrive
        batch.last = native.last
        got = Got(batch, native.cursor, len(native), amid=amid_of(native), arrive=arrive)
        # No call between these: an interruption finds all of them done, or none.
        self._native.found, self._sending, self._ahead = [], None, (*self._ahead, got)

    def stats(self) -> dict[str, Any]:
        """Returns the core's counters, and those of the copies since the run began."""
        with contextlib.suppress(ValueError):  # closed: the last values
            self._counters = self.feed.native.stats()
        copies = {name: value - self._before[name] for name, value in self._counters.items()}
        return {**self._native.stats(), **copies}

    def close(self) -> None:
        """Stops the threads and waits for them; what is on its way is dropped."""
        self.stats()
        self._native.close()
        self._sending, self._ahead = None, ()

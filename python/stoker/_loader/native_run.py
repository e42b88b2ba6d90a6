"""One run of the core's loader: a sequence of batches with or without an end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from stoker import _native
from stoker._loader.batch import Batch
from stoker._loader.extras import Extras

_log = logging.getLogger("stoker")
_SLICE_S = 0.05  # Ctrl-C takes effect between two waits


class RunStopped(RuntimeError):  # noqa: N818 (nothing has failed)
    """The iteration was ended by close(), or by a later iter()."""


class Got(NamedTuple):
    """A batch for the caller."""

    batch: Any
    cursor: _native.Cursor  # position after it
    size: int  # samples
    core_s: float | None = None  # that the caller waited for the core; None: all but the copy
    copied_s: float = 0.0  # in its own thread
    amid: int = 0  # micro-batches of its step up to it; 0: it is the last, the step is complete
    # For a batch on its way to a device: makes the caller's current stream wait for it. None: it
    # has to be moved there.
    arrive: Callable[[], None] | None = None


def amid_of(batch: _native.Batch) -> int:
    """Returns ``Got.amid`` of a batch."""
    return 0 if batch.last else batch.micro_batch + 1


class Hand:
    """Where a run puts the caller's next batch.

    Not a return value: Python runs signal handlers when a function has returned, and an exception
    of a handler, such as KeyboardInterrupt, discards the returned value. Attributes are set between
    two such points. A batch that is here, or still with the run, is returned by the next call.

    Attributes:
        got: The next batch.
        error: Why there are no more. Other exceptions of a call are not the run's.
    """

    def __init__(self) -> None:
        self.got: Got | None = None
        self.error: BaseException | None = None


class NativeRun:
    """Batches of the core, in order.

    Thread safety: every method from any thread; next() by one at a time.
    """

    def __init__(self, options: _native.LoaderOptions) -> None:
        self._native = _native.Loader(options)
        self._warned = 0
        self._counters = self._native.stats()
        self.found: list[_native.Batch | Exception] = []

    def next(self) -> _native.Batch | Exception | None:
        """Returns the next batch, or the error in its place; None if there are no more.

        Returns the same one until ``found`` is emptied. After BufferError, call again.
        """
        while not self.found:
            none = self._native.next(_SLICE_S, self.found)
            if none == _native.NoBatch.end:
                return None
            if none == _native.NoBatch.stopped:
                raise RunStopped("this iteration is over: the Loader was closed, or iterated again")
            if none is not None:
                self._warn_if_held()
        return self.found[0]

    def poll(self) -> _native.Batch | Exception | None:
        """Returns what next() would return at once; None if it would wait, or has nothing."""
        if not self.found:
            with contextlib.suppress(BufferError):
                self._native.next(0.0, self.found)
        return self.found[0] if self.found else None

    def _warn_if_held(self) -> None:
        stats = self.stats()
        if stats["held_warnings"] <= self._warned:
            return
        self._warned = stats["held_warnings"]
        _log.warning(
            "loader: waiting for memory of batches that were handed out before: %d of %d "
            "bytes. Release a batch before asking for the next but one (use Batch.clone() "
            "to keep one), or raise memory_bytes",
            stats["leased_bytes"],
            stats["memory_bytes"],
        )

    def stats(self) -> dict[str, Any]:
        """Returns the core's counters; after close(), their last values."""
        with contextlib.suppress(ValueError):  # closed, perhaps just now
            self._counters = self._native.stats()
        return self._counters

    def close(self) -> None:
        """Stops the threads and waits for them."""
        self.stats()
        self._native.close()


class PlainRun:
    """Batches of the core, each converted for the caller."""

    def __init__(
        self,
        options: _native.LoaderOptions,
        finish: Callable[[_native.Batch, _native.Cursor], Batch],
        extras: Extras,
    ) -> None:
        self._native = NativeRun(options)
        self._finish = finish
        self._extras = extras

    def next(self, hand: Hand) -> bool:
        """Puts the next batch into ``hand``; False if there are no more."""
        native = self._native.next()
        if not isinstance(native, _native.Batch):
            hand.error = native
            return False
        fetched = perf_counter()
        cursor = native.cursor
        if len(native) == 0 and self._extras.show_columns:
            batch = self._finish(self._extras.stand_in(native), cursor)._emptied()
        else:
            batch = self._finish(native, cursor)
        batch.last = native.last
        copied_s = perf_counter() - fetched
        got = Got(batch, cursor, len(native), copied_s=copied_s, amid=amid_of(native))
        self._native.found, hand.got = [], got
        return True

    def stats(self) -> dict[str, Any]:
        """Returns the core's counters."""
        return self._native.stats()

    def close(self) -> None:
        """Stops the threads and waits for them."""
        self._native.close()

"""One run of the core's loader, as an endless or ending series of batches."""

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
_SLICE_S = 0.05  # between two of them Ctrl-C is heard


class RunStopped(RuntimeError):  # noqa: N818 (nothing has failed)
    """The iteration was ended: by close(), or by a later iter()."""


class Got(NamedTuple):
    """A batch on its way to the caller."""

    batch: Any
    cursor: _native.Cursor  # after it
    size: int  # samples
    mapped_s: float = 0.0  # that the caller waited for a map
    copied_s: float = 0.0  # in its own thread


class Hand:
    """Where a run puts what the caller is to get.

    Not a return value: Python runs signal handlers when a function has returned, and what a handler
    raises, such as KeyboardInterrupt, takes the place of what was returned. Attributes are set
    between two such points. What is here, or still with the run, comes at the next call.

    Attributes:
        got: The batch that is due.
        error: Why there are no more. Whatever a call raises besides is not the run's.
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
        """The next one, or the error in its place; None if there are no more.

        It comes again until ``found`` is emptied. BufferError may be tried again.
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

    def _warn_if_held(self) -> None:
        stats = self.stats()
        if stats["held_warnings"] <= self._warned:
            return
        self._warned = stats["held_warnings"]
        _log.warning(
            "loader: waiting for memory that batches hold which were handed out before: %d of %d "
            "bytes. Let go of a batch before asking for the next but one (use Batch.clone() "
            "to keep one), or raise memory_bytes",
            stats["leased_bytes"],
            stats["memory_bytes"],
        )

    def stats(self) -> dict[str, Any]:
        """The core's counters; of one that was closed, as they were then."""
        with contextlib.suppress(ValueError):  # closed, perhaps this very moment
            self._counters = self._native.stats()
        return self._counters

    def close(self) -> None:
        """Stops the threads and waits for them."""
        self.stats()
        self._native.close()


class PlainRun:
    """Batches as the core makes them, each turned into what the caller gets."""

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
        """Puts the next one into ``hand``; False if there are no more."""
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
        got = Got(batch, cursor, len(native), copied_s=perf_counter() - fetched)
        self._native.found, hand.got = [], got
        return True

    def stats(self) -> dict[str, Any]:
        """The core's counters."""
        return self._native.stats()

    def close(self) -> None:
        """Stops the threads and waits for them."""
        self._native.close()

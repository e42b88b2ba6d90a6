"""One run of the core's loader, as an endless or ending series of batches."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from stoker import _native
from stoker._batch import Batch
from stoker._extras import Extras

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


class NativeRun:
    """Batches of the core, in order.

    Thread safety: every method from any thread.
    """

    def __init__(self, options: _native.LoaderOptions) -> None:
        self._native = _native.Loader(options)
        self._warned = 0
        self._counters = self._native.stats()

    def next(self) -> _native.Batch | None:
        """The next one; None if there are no more. BufferError may be tried again."""
        while True:
            got = self._native.next(_SLICE_S)
            if isinstance(got, _native.Batch):
                return got
            if got == _native.NoBatch.end:
                return None
            if got == _native.NoBatch.stopped:
                raise RunStopped("this iteration is over: the Loader was closed, or iterated again")
            self._warn_if_held()

    def _warn_if_held(self) -> None:
        stats = self.stats()
        if stats["held_warnings"] <= self._warned:
            return
        self._warned = stats["held_warnings"]
        _log.warning(
            "loader: waiting for memory that batches hold which were handed out before: %d of %d "
            "bytes. Let go of a batch before asking for the next but one (Batch.clone() is for "
            "what is to stay), or raise memory_bytes",
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

    def next(self) -> Got | None:
        """The next one; None if there are no more."""
        native = self._native.next()
        if native is None:
            return None
        fetched = perf_counter()
        cursor = native.cursor
        if len(native) == 0 and self._extras.show_columns:
            batch = self._finish(self._extras.stand_in(native), cursor)._emptied()
        else:
            batch = self._finish(native, cursor)
        return Got(batch, cursor, len(native), copied_s=perf_counter() - fetched)

    def stats(self) -> dict[str, Any]:
        """The core's counters."""
        return self._native.stats()

    def close(self) -> None:
        """Stops the threads and waits for them."""
        self._native.close()

"""One iter() of a Loader."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Protocol

from stoker import _native
from stoker._device import Place
from stoker._loader_stats import LoaderStats, StatsCounter
from stoker._margin import MarginWatch
from stoker._native_run import Got, RunStopped

_log = logging.getLogger("stoker")

OTHER_PROCESS = (
    "this Loader was made in process {made} and cannot be used in its fork {here}, such as a "
    "worker of a torch DataLoader. A Loader has threads of its own and needs no workers: iterate "
    "over it where it was made; or give the DataLoader a stoker.Dataset"
)


class Run(Protocol):
    """Batches one after the other."""

    def next(self) -> Got | None:
        """The next one; None at the end."""

    def stats(self) -> dict[str, Any]:
        """The core's counters."""

    def close(self) -> None:
        """Ends it."""


class Iteration(Iterator[Any]):
    """Hands out ``count`` batches of a run, endlessly many if None, through ``place``.

    After an error or the end it stays there. A BufferError may be tried again. ``owner`` lives as
    long as it does: ``for batch in stoker.Loader(...)`` has no other reference to the loader.

    Thread safety: every method from any thread; each batch goes to one of them.
    """

    def __init__(
        self,
        owner: object,
        run: Run,
        count: int | None,
        place: Place,
        margin: MarginWatch,
        received: Callable[[_native.Cursor], None],
        ended: Callable[[Run | None, LoaderStats], None],
    ) -> None:
        self._pid = os.getpid()
        self._owner = owner
        self._turn = threading.Lock()
        self._run: Run | None = run
        self._left = count
        self._place = place
        self._received = received
        self._ended = ended
        self._error: BaseException | None = None
        self._counter = StatsCounter(run.stats())
        self._window = StatsCounter(run.stats())  # of the batches that the watch looks at
        self._margin = margin
        margin.begin()

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        if self._pid != os.getpid():
            raise RuntimeError(OTHER_PROCESS.format(made=self._pid, here=os.getpid()))
        with self._turn:
            return self._next()

    def _next(self) -> Any:
        if self._error is not None:
            raise self._error
        if self._left == 0:
            raise StopIteration
        run = self._run  # close() may come from another thread at any time
        if run is None:
            raise RunStopped("this iteration is over: the Loader was closed, or iterated again")
        called = perf_counter()
        try:
            got = run.next()
            fetched = perf_counter()
            batch = None if got is None else self._place(got.batch)
        except BufferError:
            raise  # the caller may let go of batches and ask again
        except Exception as error:
            self._error = error
            self.close()
            raise
        if got is None:
            self._left = 0
            self._end()
            raise StopIteration
        returned = perf_counter()
        got = got._replace(copied_s=got.copied_s + returned - fetched)
        self._count(run, called, returned, got)
        self._received(got.cursor)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._end()
        return batch

    def _count(self, run: Run, called: float, returned: float, got: Got) -> None:
        self._counter.count(called, returned, got)
        self._window.count(called, returned, got)
        share = self._margin.saw(called, returned, got.copied_s)
        if not self._margin.is_at_border:
            return
        core = run.stats()
        if share is not None:
            _warn_of_waits(share, self._window.waited_in(core))
        self._window = StatsCounter(core)

    @property
    def is_live(self) -> bool:
        """Whether there may be more."""
        return self._run is not None

    def stats(self) -> LoaderStats | None:
        """Figures so far, of one that is live; None of one that has ended."""
        run = self._run
        return None if run is None else self._counter.stats(run.stats())

    def _end(self) -> None:
        """Gives the run back: the next iter() may go on with it."""
        run, self._run = self._run, None
        if run is not None:
            self._ended(run, self._counter.stats(run.stats()))

    def close(self) -> None:
        """Ends the iteration in the middle."""
        if self._pid != os.getpid():
            return
        run, self._run = self._run, None
        if run is None:
            return
        stats = self._counter.stats(run.stats())
        run.close()
        self._ended(None, stats)

    def __del__(self) -> None:
        if getattr(self, "_run", None) is not None:
            self.close()


def _warn_of_waits(share: float, waited_in_s: dict[str, float]) -> None:
    stages = {name: s for name, s in waited_in_s.items() if name != "copy"}  # nobody waits for that
    worst = max(stages, key=stages.__getitem__)
    doctor = "`stoker doctor` looks at the machine; " if worst == "read" else ""
    _log.warning(
        "loader: batches used to be ready, and now %.0f %% of the time is spent waiting for them, "
        "most of it in %r: they no longer keep ahead of training. %sdocs/tuning.md has a row for "
        "each stage",
        100 * share,
        worst,
        doctor,
    )

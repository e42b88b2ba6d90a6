"""One iter() of a Loader."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeAlias

from stoker._loader.device import Place as ToDevice
from stoker._loader.margin import MarginWatch
from stoker._loader.native_run import Got, Hand, RunStopped
from stoker._loader.progress import Place, Progress
from stoker._loader.stats import LoaderStats, StatsCounter

_log = logging.getLogger("stoker")

Label: TypeAlias = Callable[[int, Any], Any]  # of the number of earlier steps, and a batch

OTHER_PROCESS = (
    "this Loader was made in process {made} and cannot be used in its fork {here}, such as a "
    "worker of a torch DataLoader. A Loader has threads of its own and needs no workers: iterate "
    "over it where it was made; or give the DataLoader a stoker.Dataset"
)


class Run(Protocol):
    """A sequence of batches."""

    def next(self, hand: Hand) -> bool:
        """Puts the next batch into ``hand``; False if there are no more.

        If interrupted at any point, the batch is in ``hand``, or will be after the next call.
        """

    def stats(self) -> dict[str, Any]:
        """Returns the core's counters."""

    def close(self) -> None:
        """Ends the run."""


class _Due(NamedTuple):
    """What the next call of next() returns, the position after it, and ``Got.arrive``."""

    item: Any
    place: Place
    arrive: Callable[[], None] | None


class Iteration(Iterator[Any]):
    """Hands out ``count`` batches of a run, or without end if None, through ``to_device``.

    After an error or the end, further calls repeat it. Other exceptions in next(), such as
    BufferError or one from a signal handler, lose nothing: the next call returns the batch.
    ``owner`` lives as long as the iteration: ``for batch in stoker.Loader(...)`` has no other
    reference to the loader.

    Thread safety: every method from any thread; each batch goes to one thread.
    """

    def __init__(
        self,
        owner: object,
        run: Run,
        count: int | None,
        to_device: ToDevice,
        margin: MarginWatch,
        progress: Progress,
        ended: Callable[[Run | None, LoaderStats, int], None],
        label: Label = lambda _, batch: batch,
    ) -> None:
        self._pid = os.getpid()
        self._owner = owner
        self._turn = threading.Lock()
        self._run: Run | None = None
        self._count = count
        self._to_device = to_device
        self._progress = progress
        self._ended = ended
        self._label = label
        self._error: BaseException | None = None
        self._hand = Hand()
        self._due: _Due | None = None
        self._is_closed = False
        self.given = 0  # batches handed out
        self._steps = 0  # complete steps among them
        self._counter = StatsCounter(run.stats())
        self._window = StatsCounter(run.stats())  # for the batches that the watch considers
        self._margin = margin
        margin.begin()
        self._run = run  # last: close() needs all of it

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        if self._pid != os.getpid():
            raise RuntimeError(OTHER_PROCESS.format(made=self._pid, here=os.getpid()))
        due = before = None
        try:
            with self._turn:
                if self._due is None or self._is_closed:
                    self._prepare()
                elif self._due.arrive is not None:  # the interrupted call had another stream
                    self._due.arrive()
                due, before = self._due, self._progress.place
                assert due is not None
                # Signals are handled around calls: the next is the release of the lock.
                self._due, self._progress.place = None, due.place
                self.given += 1
                self._steps += due.place.amid == 0
        except BaseException:
            if due is not None and before is not None:  # the caller does not receive it now
                self._due, self._progress.place = due, before
                self.given -= 1
                self._steps -= due.place.amid == 0
            raise
        return due.item

    def _prepare(self) -> None:
        """Prepares a batch, or raises."""
        self._due = None
        if self._error is not None:
            raise self._error
        if self.given == self._count:
            self._end()
            raise StopIteration
        run, hand = self._run, self._hand  # another thread may call close() at any time
        if run is None:
            raise RunStopped("this iteration is over: the Loader was closed, or iterated again")
        called = perf_counter()
        if hand.got is None and not run.next(hand):
            if hand.error is None:
                self._count = self.given
                self._end()
                raise StopIteration
            self._error = hand.error
            self.close()
            raise self._error
        got = hand.got
        assert got is not None
        fetched = perf_counter()
        if got.arrive is None:
            batch = self._to_device(got.batch)
        else:
            batch = got.batch
            got.arrive()
        item = self._label(self._steps, batch)
        returned = perf_counter()
        due = _Due(item, self._progress.after(got.cursor, got.amid), got.arrive)
        self._due, hand.got = due, None
        self._note(run, called, returned, got._replace(copied_s=got.copied_s + returned - fetched))
        if self.given + 1 == self._count:
            self._end()

    def _note(self, run: Run, called: float, returned: float, got: Got) -> None:
        if self._counter.batches == 0:
            self._counter.count_first(called, returned, got, run.stats())
        else:
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
        """Whether there may be more batches."""
        return self._run is not None

    def stats(self) -> LoaderStats | None:
        """Returns the figures of a live iteration so far; None after the end."""
        run = self._run
        return None if run is None else self._counter.stats(run.stats())

    def begin_again(self, start: Callable[[], Run], batches: Callable[[], int | None]) -> None:
        """Replaces the run, if nothing was handed out yet."""
        with self._turn:
            if self.given > 0 or self._run is None:
                return
            self._run.close()
            self._run = run = start()
            self._count, self._due, self._hand = batches(), None, Hand()
            self._counter, self._window = StatsCounter(run.stats()), StatsCounter(run.stats())

    def _end(self) -> None:
        """Returns the run, so that the next iter() may continue with it."""
        run, self._run = self._run, None
        if run is not None:
            place = self._progress.place if self._due is None else self._due.place
            self._ended(run, self._counter.stats(run.stats()), place.next[0])

    def close(self) -> None:
        """Ends the iteration early."""
        if self._pid != os.getpid():
            return
        self._is_closed = True
        run, self._run = self._run, None
        if run is None:
            return
        stats = self._counter.stats(run.stats())
        run.close()
        self._ended(None, stats, 0)

    def __del__(self) -> None:
        if getattr(self, "_run", None) is not None:
            self.close()


def _warn_of_waits(share: float, waited_in_s: dict[str, float]) -> None:
    stages = {name: s for name, s in waited_in_s.items() if name != "copy"}  # not a wait
    worst = max(stages, key=stages.__getitem__)
    doctor = ", and `stoker doctor` looks at the machine" if worst == "read" else ""
    _log.warning(
        "loader: batches used to be ready, and now %.0f %% of the time is spent waiting for them, "
        "most of it in %r: they no longer keep ahead of training. The page 'Tuning' of the "
        "documentation has a row for each stage%s",
        100 * share,
        worst,
        doctor,
    )

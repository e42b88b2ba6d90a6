"""Batches mapped by Python functions, ahead of the caller and in order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stoker import _native
from stoker._dataset.columns import ColumnMaker
from stoker._loader.extras import Extras
from stoker._loader.map.job import Job, JobRunner, LeftOut, MapError, Stopped
from stoker._loader.map.processes import MapProcess
from stoker._loader.native_run import Got, Hand, NativeRun, RunStopped

_WAIT_S = 0.05
_JOIN_S = 2.0  # a function that takes longer is left to itself

# What maps a batch; the second argument says whether to give up.
Worker = Callable[[Job, Callable[[], bool]], Any]


def thread_worker(runner: JobRunner) -> Worker:
    """Maps in the calling thread."""
    return runner.run


def process_worker(process: MapProcess) -> Worker:
    """Maps in another process, for which the calling thread waits."""
    return lambda job, _: process.run(job)


class _Result(NamedTuple):
    fetched: float  # when the core had given it
    batch: Any = None
    cursor: _native.Cursor | None = None  # None: there is no batch, at the end or for an error
    size: int = 0
    error: BaseException | None = None


class MapRun:
    """A thread for each worker: takes the next batch from the core, maps it, puts it down.

    They take batches in turn, so each has a number; the caller takes them by number. At most
    ``depth`` are under way or ready.

    Thread safety: next() by one thread; close() from any. In a forked child close() does nothing.
    """

    def __init__(
        self,
        options: _native.LoaderOptions,
        maker: ColumnMaker,
        workers: Sequence[Worker],
        finish: Callable[[Any, _native.Batch, list[str] | None], Any],
        extras: Extras,
    ) -> None:
        self._pid = os.getpid()
        self._native = NativeRun(options)
        self._maker = maker
        self._finish = finish
        self._extras = extras
        self._depth = len(workers) + 2
        self._turn = threading.Lock()  # to take the next batch
        self._changed = threading.Condition()  # guards all below
        self._results: dict[int, _Result] = {}
        self._begun = 0
        self._taken = 0
        self._is_wanted = False  # the caller waits
        self._is_stopped = False
        self._held: BufferError | None = None
        self._left_out = 0  # samples, by map
        self._workers = list(workers)
        self._worker_count = len(workers)
        self._threads: list[threading.Thread] = []

    def _start(self) -> None:
        """At the first next(), when somebody has us who will close us, whatever interrupts.

        Threads hold us, too: had they been started in the constructor, and had Ctrl-C come in it,
        nobody could. One that was started and not noted is no harm: its worker is its own.
        """
        while len(self._threads) < self._worker_count:
            thread = threading.Thread(target=self._work, name="stoker-map", daemon=True)
            thread.start()
            self._threads.append(thread)

    # The workers:

    def _work(self) -> None:
        with self._changed:
            if not self._workers:
                return
            worker = self._workers.pop()
        while (number := self._begin()) is not None:
            result = self._make(number, worker)
            with self._changed:
                self._results[number] = result
                self._changed.notify_all()
            if result.cursor is None:  # the end, or an error: nothing comes after it
                return
            del result

    def _begin(self) -> int | None:
        """Takes the turn, and keeps it until _take() has a batch.

        The turn first: whoever has it may need ``_changed``, so nobody waits for it with that.
        """
        while True:
            with self._changed:
                while self._is_full():
                    self._changed.wait()
            self._turn.acquire()
            with self._changed:
                if not self._is_stopped and not self._is_full():
                    self._begun += 1
                    return self._begun - 1
            self._turn.release()
            if self._is_stopped:
                return None

    def _is_full(self) -> bool:
        return not self._is_stopped and self._begun - self._taken >= self._depth

    def _make(self, number: int, worker: Worker) -> _Result:
        fetched = 0.0
        try:
            try:
                native = self._take(number)
            finally:
                self._turn.release()
            fetched = time.perf_counter()
            if native is None:
                return _Result(fetched)
            batch = self._map(native, worker)
            return _Result(fetched, batch, native.cursor, len(native))
        except BaseException as error:  # whatever it is, it is the caller's
            if isinstance(error, Stopped):
                error = RunStopped("this iteration is over")
            return _Result(fetched, error=error)

    def _map(self, native: _native.Batch, worker: Worker) -> Any:
        is_empty = len(native) == 0
        samples = begun = self._extras.stand_in(native) if is_empty else native
        job = Job.of(samples, self._maker)._replace(is_stand_in=is_empty)
        keys: list[str] | None = None  # once they are not those of the batch
        while True:
            try:
                mapped = worker(job, self._stopped)
            except MapError as error:
                raise error.located(samples) from error.__cause__
            if not isinstance(mapped, LeftOut):
                return self._finish(mapped, native, None if is_empty else keys)
            samples = self._extras.replacements(begun, mapped.rows, job.attempt)
            job = Job.of(samples, self._maker)._replace(
                rows=mapped.rows, attempt=job.attempt + 1, is_stand_in=is_empty
            )
            keys = begun.keys() if keys is None else keys
            for row, key in zip(mapped.rows, samples.keys(), strict=True):
                keys[row] = key
            with self._changed:
                self._left_out += 0 if is_empty else len(mapped.rows)

    def _take(self, number: int) -> _native.Batch | None:
        while True:
            try:
                found = self._native.next()
                self._native.found = []
                if isinstance(found, Exception):
                    raise found
                return found
            except BufferError as error:
                # Only the caller can let go of batches, and only if it waits for this one is it
                # they that have the memory, and not batches that are being mapped.
                with self._changed:
                    if self._is_wanted and self._taken == number:
                        self._held = error
                        self._changed.notify_all()

    def _stopped(self) -> bool:
        return self._is_stopped

    # The caller:

    def next(self, hand: Hand) -> bool:
        """Puts the next one into ``hand``; False if there are no more."""
        self._start()
        started = time.perf_counter()
        with self._changed:
            self._is_wanted = True
            try:
                result = self._due()
            finally:
                self._is_wanted = False
            if result.cursor is None:
                hand.error = result.error
                return False
            mapped_s = time.perf_counter() - max(started, result.fetched)
            got = Got(result.batch, result.cursor, result.size, mapped_s)
            del self._results[self._taken]
            self._taken += 1
            hand.got = got
            self._changed.notify_all()
        return True

    def _due(self) -> _Result:
        while (result := self._results.get(self._taken)) is None:
            if self._is_stopped:
                raise RunStopped("this iteration is over: the Loader was closed")
            if self._held is not None:
                error, self._held = self._held, None
                raise error
            self._changed.wait(_WAIT_S)
        return result

    def stats(self) -> dict[str, Any]:
        """The core's counters, and what maps have left out."""
        core = self._native.stats()
        return {**core, "replaced": core["replaced"] + self._left_out}

    def close(self) -> None:
        """Stops the workers and the core's threads, and waits for them."""
        if os.getpid() != self._pid:
            return
        self._is_stopped = True
        self._native.close()
        with self._changed:
            self._changed.notify_all()
            self._results.clear()
        deadline = time.monotonic() + _JOIN_S
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            self._results.clear()  # what was put down in the meantime keeps the core's memory

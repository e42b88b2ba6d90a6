"""Batches mapped by Python functions, in advance and in order."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stoker import _native
from stoker._dataset.columns import ColumnMaker
from stoker._loader.extras import Extras
from stoker._loader.map.job import Job, JobRunner, LeftOut, MapError, Stopped
from stoker._loader.map.processes import MapProcess
from stoker._loader.native_run import Got, Hand, NativeRun, RunStopped, amid_of

_WAIT_S = 0.05
_JOIN_S = 2.0  # a function that takes longer is abandoned

# Maps a batch; the second argument says whether to give up.
Worker = Callable[[Job, Callable[[], bool]], Any]


def thread_worker(runner: JobRunner) -> Worker:
    """Maps in the calling thread."""
    return runner.run


def process_worker(process: MapProcess) -> Worker:
    """Maps in another process, for which the calling thread waits."""
    return lambda job, _: process.run(job)


class _Result(NamedTuple):
    fetched: float  # when the core had returned it
    batch: Any = None
    cursor: _native.Cursor | None = None  # None: no batch, because of the end or an error
    size: int = 0
    amid: int = 0
    error: BaseException | None = None


class MapRun:
    """One thread per worker: takes the next batch from the core, maps it, stores it.

    They take batches in turn, so each batch has a number; the caller takes them by number. At most
    ``depth`` are in progress or ready.

    Thread safety: next() by one thread; close() from any. In a forked child close() does nothing.
    """

    def __init__(
        self,
        options: _native.LoaderOptions,
        maker: ColumnMaker,
        workers: Sequence[Worker],
        finish: Callable[[Any, _native.Batch, list[str] | None], Any],
        extras: Extras,
        in_order: Callable[[Any, int], Any],
    ) -> None:
        self._pid = os.getpid()
        self._native = NativeRun(options)
        self._maker = maker
        self._finish = finish
        self._extras = extras
        self._in_order = in_order
        self._depth = len(workers) + 2
        self._turn = threading.Lock()  # to take the next batch
        # The caller takes the lock itself, and waits for a token: what a signal handler raises in a
        # method of a Condition, which is Python, can leave the lock taken, or let go of too early.
        self._lock = threading.RLock()  # guards all below
        self._changed = threading.Condition(self._lock)  # for the workers
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()  # for the caller
        self._results: dict[int, _Result] = {}
        self._begun = 0
        self._taken = 0
        self._is_wanted = False  # the caller is waiting
        self._is_stopped = False
        self._held: BufferError | None = None
        self._left_out = 0  # samples that map left out
        self._workers = list(workers)
        self._worker_count = len(workers)
        self._threads: list[threading.Thread] = []

    def _start(self) -> None:
        """Called at the first next(), when the caller has the run and will close it.

        Threads have references to the run: if they were started in the constructor and Ctrl-C came
        there, nothing could close it. A thread that was started but not recorded does no harm.
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
                self._wake()
            if result.cursor is None:  # the end, or an error: nothing follows
                return
            del result

    def _begin(self) -> int | None:
        """Takes the turn, and keeps it until _take() has a batch.

        The turn first: its owner may need ``_changed``, so no thread waits for the turn holding
        that.
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
            return _Result(fetched, batch, native.cursor, len(native), amid_of(native))
        except BaseException as error:  # passed on to the caller
            if isinstance(error, Stopped):
                error = RunStopped("this iteration is over")
            return _Result(fetched, error=error)

    def _map(self, native: _native.Batch, worker: Worker) -> Any:
        is_empty = len(native) == 0
        samples = begun = self._extras.stand_in(native) if is_empty else native
        job = Job.of(samples, self._maker)._replace(is_stand_in=is_empty)
        keys: list[str] | None = None  # set if they differ from those of the batch
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
                # Only the caller can release batches, and only if it waits for this one do its
                # batches have the memory, and not batches that are being mapped.
                with self._changed:
                    if self._is_wanted and self._taken == number:
                        self._held = error
                        self._wake()

    def _wake(self) -> None:
        """Something has changed."""
        self._changed.notify_all()
        if self._is_wanted:
            self._tokens.put(None)

    def _stopped(self) -> bool:
        return self._is_stopped

    # The caller:

    def next(self, hand: Hand) -> bool:
        """Puts the next batch into ``hand``; False if there are no more."""
        self._start()
        started = time.perf_counter()
        try:
            while True:
                with self._lock:
                    self._is_wanted = True
                    if (result := self._due()) is not None:
                        return self._hand_over(result, started, hand)
                with contextlib.suppress(queue.Empty):
                    self._tokens.get(timeout=_WAIT_S)
        finally:
            self._is_wanted = False

    def _hand_over(self, result: _Result, started: float, hand: Hand) -> bool:
        if result.cursor is None:
            hand.error = result.error
            return False
        core_s = max(0.0, result.fetched - started)  # then it was mapped, or waited for the GIL
        batch = self._in_order(result.batch, result.size)
        got = Got(batch, result.cursor, result.size, core_s, amid=result.amid)
        # No call from here on until it is handed over: a signal handler may raise in one.
        del self._results[self._taken]
        self._taken += 1
        hand.got = got
        self._changed.notify_all()
        return True

    def _due(self) -> _Result | None:
        """The result that the caller is to get, if it is there."""
        if (result := self._results.get(self._taken)) is not None:
            return result
        if self._is_stopped:
            raise RunStopped("this iteration is over: the Loader was closed")
        if self._held is not None:
            error, self._held = self._held, None
            raise error
        return None

    def stats(self) -> dict[str, Any]:
        """Returns the core's counters, with the samples that maps left out."""
        core = self._native.stats()
        return {**core, "replaced": core["replaced"] + self._left_out}

    def close(self) -> None:
        """Stops the workers and the core's threads, and waits for them."""
        if os.getpid() != self._pid:
            return
        self._is_stopped = True
        self._native.close()
        with self._lock:
            self._wake()
            self._results.clear()
        deadline = time.monotonic() + _JOIN_S
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            self._results.clear()  # results stored meanwhile keep the core's memory

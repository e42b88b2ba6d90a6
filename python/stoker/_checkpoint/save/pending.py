"""A save in progress."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import math
import operator
import os
import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias

from stoker import _native
from stoker._checkpoint.tensors.memory import size_bytes_of
from stoker._common.corrupt import error_text
from stoker._common.late import LateError, telling_late

_log = logging.getLogger("stoker")
_STOP_SECONDS = 5.0  # for threads that end at once, unless Ctrl-C broke something in them
Shapes: TypeAlias = list[tuple[str, tuple[int, ...]]]  # the stored types and shapes of tensors
_POLL_SECONDS = 0.1  # how soon the thread sees that it must end; the end of a save wakes it


class _Condition(threading.Condition):
    """A condition that Ctrl-C does not leave locked.

    Python's version enters and leaves in Python functions, where the interrupt may come between the
    lock and the ``with`` block. Here ``with`` calls the methods of the lock itself, in C.
    """

    __enter__: Any = property(operator.attrgetter("_lock.__enter__"))
    __exit__: Any = property(operator.attrgetter("_lock.__exit__"))


class SaveTimes(NamedTuple):
    """When a save began, on the monotonic clock, and whether this rank logs its end."""

    called: float  # save()
    begun: float  # copying and writing
    is_told: bool = True


class LentMemory:
    """What a save reads on devices after ``save()`` has returned: tensors, and a snapshot of them.

    It stays alive until the core has released it, even if nobody holds the save any more.

    Attributes:
        native: The save, as soon as it has begun: set by the core, so that no signal handler can
            raise in between.
    """

    def __init__(self, memory: list[Any]) -> None:
        self.native: _native.PendingSave | None = None
        self._memory = memory
        self.pid = os.getpid()

    def add(self, memory: Any) -> None:
        """Keeps more."""
        self._memory.append(memory)

    def begin_call(self) -> None:
        """Keeps it alive until ``end_call()``, which must follow even after an interruption."""
        _lent.add(self)

    def end_call(self) -> None:
        """Lets go of the memory after ``save()``, unless the save still reads it."""
        if self.native is None or self.native.is_released:
            self._memory = []
            _lent.discard(self)


_lent: set[LentMemory] = set()


def free_released() -> None:
    """Lets go of the memory of all saves that have released theirs."""
    for lent in list(_lent):
        if lent.native is not None and lent.pid == os.getpid():  # a fork does not see its end
            lent.end_call()


class Pending(concurrent.futures.Future[str]):
    """The result of ``Checkpointer.save()``: a Future of "committed", "skipped" or "replaced".

    It can be waited for, awaited, and given callbacks, which run in a thread of the checkpointer. A
    save cannot be cancelled. Every call of ``result()`` raises the save's error; the checkpointer
    does not raise it again on this rank.
    """

    def __init__(self, native: _native.PendingSave, shapes: Shapes, times: SaveTimes) -> None:
        super().__init__()
        self._condition = _Condition()
        self._native = native
        self._pid = os.getpid()
        self._times = times
        self._blocked_s = time.monotonic() - times.called
        self._shapes = shapes
        self.is_read = False
        self._callbacks = _CallbackThread()
        self._telling = threading.RLock()  # the lock alone: a signal handler may ask again
        self._is_told = not times.is_told
        self.set_running_or_notify_cancel()

    @functools.cached_property
    def size_bytes(self) -> int:
        """Size of the tensors that this rank gave to the save."""
        return sum(size_bytes_of(*shape) for shape in self._shapes)  # not in the time of save()

    @property
    def step(self) -> int:
        """The step it saves."""
        return self._native.step

    @property
    def staged(self) -> bool:
        """Whether the state was copied and may change; true once ``save()`` has returned."""
        return self._here().is_staged

    @property
    def durable(self) -> bool:
        """Whether it survives a power failure, unless the file system is in memory."""
        return self._here().outcome == "committed"

    @property
    def skipped(self) -> bool:
        """Whether it was skipped because the writer was late, or replaced by a later save."""
        return self._here().outcome in ("skipped", "replaced")

    @property
    def outcome(self) -> str | None:
        """The result: committed, skipped, replaced, failed or unknown. None before the end."""
        return self._here().outcome

    @property
    def generation(self) -> int:
        """Generation of the committed checkpoint; 0 before."""
        return self._here().generation

    @property
    def line(self) -> str:
        """The writer's token; with the generation it identifies the checkpoint. Empty before."""
        return self._here().line

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end; returns whether the save is durable.

        Raises:
            LateError: The save has not ended, or it missed its deadline.
            OSError: It failed; other errors are raised as they are.
        """
        return self.result(timeout) == "committed"

    def done(self) -> bool:
        """Whether the save has ended."""
        self._settle()
        return super().done()

    def running(self) -> bool:
        """Whether the save is in progress."""
        return not self.done()

    def cancel(self) -> bool:
        """Returns False: a save cannot be cancelled."""
        return False

    def result(self, timeout: float | None = None) -> str:
        """Waits for the end and returns the outcome; raises the save's error, or LateError."""
        self._await_end(timeout)
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end and returns the error; None if there is none."""
        self._await_end(timeout)
        return super().exception()

    @property
    def error(self) -> BaseException | None:
        """The error, if the save has ended. Unlike ``exception()``, does not mark it as read."""
        return super().exception() if self.done() else None

    def _await_end(self, timeout: float | None) -> None:
        if not self.await_end(timeout):
            raise LateError(f"save step {self.step}: not over after {timeout} s")
        self.is_read = True
        self._native.set_reported()

    def await_end(self, timeout: float | None) -> bool:
        """Waits at most ``timeout`` seconds; returns whether the save has ended.

        Raises nothing except on Ctrl-C. Does not use ``concurrent.futures.wait``, which Ctrl-C may
        leave with locks held.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self.done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._native.wait(min(left, _POLL_SECONDS))
        return True

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[str]], object]) -> None:
        """Calls ``fn`` with this save at its end, in a thread that may wait for other saves.

        If the save has ended, calls ``fn`` at once.
        """
        if self.done():
            super().add_done_callback(fn)
        else:
            super().add_done_callback(lambda _: self._callbacks.call(fn, self))

    def __await__(self) -> Generator[Any, None, str]:
        return asyncio.wrap_future(self).__await__()

    def _here(self) -> _native.PendingSave:
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this save belongs to process {self._pid}, of which this is a fork: nothing here "
                "works on it"
            )
        return self._native

    def _settle(self) -> None:
        """Sets the result after the end. The first caller does it, so that none lags behind."""
        if super().done() or not self._here().is_done:
            return
        free_released()
        error: Exception | None = None
        try:
            with telling_late():
                self._native.check()
        except (OSError, ValueError) as raised:
            error = raised
        with self._telling:  # whoever sees the end finds it in the log
            if not self._is_told:
                self._is_told = True
                self._report(error)
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # another was faster
            if error is None:
                self.set_result(self._native.outcome or "")
            else:
                self.set_exception(error)

    def _report(self, error: Exception | None) -> None:
        seconds = time.monotonic() - self._times.begun
        if error is not None:
            why = error_text(error).removeprefix(f"save step {self.step}: ")
            _log.info("step %d %s after %.2f s: %s", self.step, self.outcome, seconds, why)
        elif self.outcome != "committed":
            _log.info("step %d %s, blocked %.2f s", self.step, self.outcome, self._blocked_s)
        else:
            _log.info(
                "saved step %d: %s, blocked %.2f s, written in %.2f s (%s/s)",
                self.step,
                _bytes_text(self.size_bytes),
                self._blocked_s,
                seconds,
                _bytes_text(self.size_bytes / max(seconds, 1e-9)),
            )

    def __repr__(self) -> str:
        state = self.outcome or ("staged" if self.staged else "copying")
        return f"<stoker.Pending: step {self.step}, {state}>"


def _bytes_text(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size / 10:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} bytes"


class _CallbackThread:
    """Runs the callbacks of finished saves, in order.

    Not the watcher's thread: a callback that waits for the next save would wait for itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def call(self, fn: Callable[[Pending], object], pending: Pending) -> None:
        """Runs the callback in the thread; at once if the thread has ended."""
        with self._lock:
            is_stopped = self._is_stopped
            if not is_stopped:
                self._queue.put(lambda: fn(pending))
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="stoker-callbacks", daemon=True
                    )
                    self._thread.start()
        if is_stopped:
            fn(pending)

    def stop(self, timeout: float | None) -> None:
        """Runs remaining callbacks and ends the thread; does not wait if called from it."""
        with self._lock:
            self._is_stopped = True
            thread = self._thread
            self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            try:
                call()
            except Exception:
                _log.exception("a callback of a save has failed")
            del call


class Watcher:
    """The thread that detects the end of saves, and logs what they wait for.

    Waits in native code, without the GIL.
    """

    def __init__(self, notices: _native.WaitNotices) -> None:
        self._notices = notices
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._callbacks = _CallbackThread()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="stoker-saves", daemon=True)
        self._thread.start()

    def watch(self, pending: Pending) -> None:
        """Adds a save; call in the order of the saves."""
        pending._callbacks = self._callbacks
        self._queue.put(pending)

    def stop(self, timeout: float | None) -> None:
        """Ends the thread, which reports nothing afterwards. ``timeout``: for callbacks."""
        self._is_stopped = True
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)
        self._callbacks.stop(None if timeout is None else max(timeout, _STOP_SECONDS))

    def _run(self) -> None:
        while (pending := self._queue.get()) is not None:
            while not pending._native.wait(_POLL_SECONDS):
                free_released()
                for notice in self._notices.take():
                    _log.warning("%s", notice)
                if self._is_stopped:
                    return
            pending._settle()
            del pending

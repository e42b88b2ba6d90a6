"""Threads that use one checkpointer take turns."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from stoker._checkpoint_late import LateError

_LOOK_SECONDS = 0.1


class Turns:
    """One thread at a time, and nobody after the last turn. A thread may take one within its own.

    Attributes:
        is_closed: Whether the last turn was taken.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_closing = False
        self._idle_lock = threading.Lock()
        self._is_idle = False
        self.is_closed = False

    def check_open(self) -> None:
        """Raises after the last turn, and while somebody waits for it."""
        if self.is_closed or self._is_closing:
            raise ValueError("this Checkpointer is closed")

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Waits for those that came before."""
        self.check_open()
        with self._lock:
            self.check_open()
            yield

    @contextlib.contextmanager
    def take_from(self) -> Iterator[None]:
        """For who takes its lock away; also after the last turn."""
        with self._lock:
            yield

    @contextlib.contextmanager
    def idle(self) -> Iterator[None]:
        """For who has the turn, has begun nothing, and waits for others.

        The last turn does not wait for it. After this it has to ask ``is_closed``.
        """
        with self._idle_lock:
            self._is_idle = True
        try:
            yield
        finally:
            with self._idle_lock:
                self._is_idle = False

    def _close_if_idle(self) -> bool:
        with self._idle_lock:
            self.is_closed = self.is_closed or self._is_idle
            return self._is_idle

    @contextlib.contextmanager
    def take_last(self, timeout: float | None) -> Iterator[None]:
        """Nobody comes between: who calls in a loop would keep the turn for ever.

        Raises:
            LateError: Another thread has it for longer than that; nothing is closed.
        """
        end = None if timeout is None else time.monotonic() + timeout
        self._is_closing = True
        is_mine = False
        try:
            while not (is_mine := self._lock.acquire(timeout=_LOOK_SECONDS)):
                if self._close_if_idle():
                    break
                if end is not None and time.monotonic() >= end:
                    raise LateError(f"close: another thread saves or restores after {timeout} s")
            yield
        finally:
            self._is_closing = False
            if is_mine:
                self._lock.release()

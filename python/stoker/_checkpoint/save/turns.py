"""Serializes the threads that use one checkpointer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from stoker._common.late import LateError


class Turns:
    """One thread at a time, and none after the last turn. Reentrant within a thread.

    Attributes:
        is_closed: Whether the last turn was taken.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_closing = False
        self.is_closed = False

    def check_open(self) -> None:
        """Raises after the last turn, and while a thread waits for it."""
        if self.is_closed or self._is_closing:
            raise ValueError("this Checkpointer is closed")

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Waits for earlier turns."""
        self.check_open()
        with self._lock:
            self.check_open()
            yield

    @contextlib.contextmanager
    def take_from(self) -> Iterator[None]:
        """For a writer that takes over the lock; also after the last turn."""
        with self._lock:
            yield

    @contextlib.contextmanager
    def take_last(self, timeout: float | None) -> Iterator[None]:
        """Takes the last turn; no other thread gets one, even if it calls in a loop.

        Raises:
            LateError: Another thread has the turn for longer than ``timeout``; nothing is closed.
        """
        self._is_closing = True
        try:
            if not self._lock.acquire(timeout=_seconds(timeout)):
                raise LateError(f"close: another thread saves or restores after {timeout} s")
            try:
                yield
            finally:
                self._lock.release()
        finally:
            self._is_closing = False


def _seconds(timeout: float | None) -> float:
    return -1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)

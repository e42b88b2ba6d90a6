"""Signal handlers that can be taken back, and signals that are then handled as before."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

_installed: list[Handlers] = []  # in the order of installation


def _leave_child() -> None:
    for handlers in reversed(_installed.copy()):
        handlers.restore()


# A forked child, such as a worker of a DataLoader, is stopped by the signals that end it.
os.register_at_fork(after_in_child=_leave_child)


def signal_numbers(signals: Iterable[str | int]) -> list[int]:
    """Returns the numbers of signals given by name or number.

    Raises:
        ValueError: There is no such signal, or a process cannot handle it.
    """
    if isinstance(signals, str):
        raise ValueError(f'signals={signals!r}: several names: signals=("{signals}",)')
    numbers = []
    for given in signals:
        try:
            number = signal.Signals[given] if isinstance(given, str) else signal.Signals(given)
        except (KeyError, ValueError):
            raise ValueError(f'signals: {given!r} is not a signal such as "SIGTERM"') from None
        if number in (signal.SIGKILL, signal.SIGSTOP):
            raise ValueError(f"signals: no process can handle {number.name}")
        numbers.append(int(number))
    return numbers


class Handlers:
    """Handles some signals until ``restore``.

    Thread safety: ``install`` and ``restore`` are for the main thread; ``pass_on`` for any.

    Args:
        numbers: The signals.
        note: Called with the number of a signal, in the main thread between any two instructions of
            it: it may take no lock.
    """

    def __init__(self, numbers: Iterable[int], note: Callable[[int], None]) -> None:
        self._numbers, self._note = list(numbers), note
        self._own = self._handle  # one object: to see whether it is still installed
        self._previous: dict[int, Any] = {}
        self._passing: set[int] = set()
        self._is_active = False

    def install(self) -> None:
        """Installs the handlers.

        Raises:
            RuntimeError: This is not the main thread, or a signal has a handler of another
                language, which could not be restored. Nothing was installed.
        """
        if not self._numbers:
            return
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "stoker.Preemption: Python handles signals in the main thread only. Enter the "
                "block there, or give signals=() and call request()"
            )
        for number in self._numbers:
            if signal.getsignal(number) is None:
                raise RuntimeError(
                    f"stoker.Preemption: {signal.Signals(number).name} has a handler that was not "
                    "installed by Python: leave it out of signals="
                )
        _installed.append(self)
        self._is_active = True
        for number in self._numbers:
            self._previous[number] = signal.signal(number, self._own)

    def restore(self) -> None:
        """Restores the previous handlers, except where somebody has installed another since."""
        self._is_active = False
        if self in _installed:
            _installed.remove(self)
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._own:
                signal.signal(number, previous)

    def pass_on(self, number: int) -> None:
        """Has a signal handled as if these handlers were not installed.

        The default action does not wait for the main thread, which may be stuck in a collective.
        """
        previous = self._previous[number]
        if previous == signal.SIG_DFL:
            # Python's own signal() works in the main thread only.
            libc_signal = ctypes.CDLL(None).signal
            libc_signal.argtypes, libc_signal.restype = [ctypes.c_int, ctypes.c_void_p], None
            libc_signal(number, None)
            os.kill(os.getpid(), number)
        elif callable(previous):
            self._passing.add(number)
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, number)  # it handles the signal as soon as it can

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_active and number not in self._passing:
            self._note(number)
            return
        # Passed on; or restored while a handler that was installed later calls this one.
        self._passing.discard(number)
        previous = self._previous.get(number)
        if callable(previous):
            previous(number, frame)
        elif previous == signal.SIG_DFL:
            self.pass_on(number)

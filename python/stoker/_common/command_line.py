"""Shared by the commands that run in Python: exit statuses, one-line errors, Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

EXIT_FAILED, EXIT_MISUSED, EXIT_INTERRUPTED = 1, 2, 130
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def counted(count: int, noun: str) -> str:
    """Returns a text such as "1 shard", "2 shards"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def one_line(error: BaseException) -> str:
    """Returns the message of an error, without the number that Python puts before an OSError."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(text.split())


def stop(_signal: int, _frame: FrameType | None) -> None:
    """Handles the first signal; the next one ends the process."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt inside."""
    before = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

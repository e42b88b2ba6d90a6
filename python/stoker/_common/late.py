"""The error for operations that took too long."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class LateError(TimeoutError):
    """A save, a rank, or the lock of a directory was not ready in time.

    Nothing is damaged: earlier commits are intact, and the operation can be repeated.
    """


@contextlib.contextmanager
def telling_late() -> Iterator[None]:
    """Converts the core's timeouts to LateError."""
    try:
        yield
    except LateError:
        raise
    except (BlockingIOError, TimeoutError) as error:
        raise LateError(error.errno, error.strerror) from None

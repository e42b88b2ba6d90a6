"""What took longer than it was given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class LateError(TimeoutError):
    """A save, a rank, or the lock of a directory was not there in the time it was given.

    Nothing is broken: what was committed before is untouched, and it may be tried again.
    """


@contextlib.contextmanager
def telling_late() -> Iterator[None]:
    """The core's "not yet" as a LateError."""
    try:
        yield
    except LateError:
        raise
    except (BlockingIOError, TimeoutError) as error:
        raise LateError(error.errno, error.strerror) from None

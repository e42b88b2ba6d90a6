"""Python's collector of reference cycles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Makes no collections inside, for code that makes objects for each of many tensors.

    They would take a third of its time: Python looks at all objects of the process each time their
    number has grown by a quarter.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

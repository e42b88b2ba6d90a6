"""Makes ``CorruptError`` in Python, with the file and the offset."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from stoker._native import CorruptError


def corrupt_error(message: str, path: str, offset: int | None = None) -> CorruptError:
    """Returns the error for a damaged file; ``message`` names it."""
    error = CorruptError(message)
    error.path, error.offset = path, offset
    return error


def tensor_in(message: str, names: Sequence[str]) -> str | None:
    """Returns the first of these tensors that the core's message names as damaged.

    The message ends with "(tensor a)", or "(tensors a, b and 2 more)" for several in one piece.
    """
    found = re.search(r"\(tensors? (.*)\)$", message)
    text = found[1] if found is not None else ""
    there = {text, *re.sub(r" and \d+ more$", "", text).split(", ")}
    return next((name for name in names if name in there), None)


def is_damage(error: Exception) -> bool:
    """Whether it says that stored bytes are wrong or lost; a lack of memory or rights does not."""
    return isinstance(error, CorruptError) or (
        isinstance(error, OSError) and error.errno == errno.EIO
    )


def error_text(error: Exception) -> str:
    """Its message without the number that Python puts before that of an OSError."""
    text = str(error) or type(error).__name__
    return text.removeprefix(f"[Errno {error.errno}] ") if isinstance(error, OSError) else text

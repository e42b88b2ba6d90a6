"""``CorruptError`` from Python: with the file and the place in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker._native import CorruptError


def corrupt_error(message: str, path: str, offset: int | None = None) -> CorruptError:
    """Of a file that cannot be what was written; ``message`` names it."""
    error = CorruptError(message)
    error.path, error.offset = path, offset
    return error


def tensor_in(message: str, names: Sequence[str]) -> str | None:
    """The first of these tensors that the core names as damaged.

    It says "(tensor a)", or "(tensors a, b and 2 more)" of those in one piece.
    """
    found = re.search(r"\(tensors? (.*)\)$", message)
    text = found[1] if found is not None else ""
    there = {text, *re.sub(r" and \d+ more$", "", text).split(", ")}
    return next((name for name in names if name in there), None)

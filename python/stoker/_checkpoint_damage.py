"""Which tensor of a checkpoint is damaged: ``CorruptError.tensor``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from stoker import _native


def name_tensor(error: Any, tensor: str | None) -> None:
    """Says of a CorruptError which tensor it is about."""
    error.tensor = tensor


class Damage:
    """Remembers where tensors could not be read, for an error that is raised later and elsewhere.

    The core passes over a damaged checkpoint for the one before, and what it raises if none holds
    is a new error with the path of the first.
    """

    def __init__(self) -> None:
        self._tensors: dict[str | None, str] = {}  # by the path of the file

    @contextlib.contextmanager
    def noted(self, names: Sequence[str]) -> Iterator[None]:
        """Around a read of these tensors."""
        try:
            yield
        except _native.CorruptError as error:
            name = _first_in(str(error), names)
            if name is not None:
                self._tensors.setdefault(error.path, name)
            raise

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Around what raises in the end."""
        try:
            yield
        except _native.CorruptError as error:
            name_tensor(error, self._tensors.get(error.path))
            raise


def _first_in(message: str, names: Sequence[str]) -> str | None:
    """The core says "(tensor a)", or "(tensors a, b and 2 more)" of those in one piece."""
    found = re.search(r"\(tensors? (.*)\)$", message)
    text = found[1] if found is not None else ""
    there = {text, *re.sub(r" and \d+ more$", "", text).split(", ")}
    return next((name for name in names if name in there), None)

"""Exceptions of the caller's own code during a restore."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class UsersError(Exception):
    """Carries such an exception to where it is raised unchanged.

    A FileNotFoundError of a user's ``state_dict()`` says nothing about checkpoints, and a
    CorruptError nothing about this one.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def users_code() -> Iterator[None]:
    """Marks exceptions raised inside as the caller's."""
    try:
        yield
    except Exception as error:
        raise UsersError(error) from error

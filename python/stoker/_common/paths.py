"""Paths from the caller."""

from __future__ import annotations

import os


def path_text(path: str | os.PathLike[str]) -> str:
    """Returns ``os.fspath(path)`` with ``~`` and ``~user`` at its beginning expanded."""
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111 (it keeps a trailing slash)


def path_bytes(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """Returns the same as bytes, for the kernel."""
    return os.path.expanduser(os.fsencode(path))  # noqa: PTH111 (Path has no bytes)

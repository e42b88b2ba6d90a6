"""Paths that a caller gives."""

from __future__ import annotations

import os


def path_text(path: str | os.PathLike[str]) -> str:
    """``os.fspath(path)``, with ``~`` and ``~user`` at its beginning expanded as a shell would."""
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111 (it keeps a trailing slash)


def path_bytes(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """The same as the bytes that the kernel is given."""
    return os.path.expanduser(os.fsencode(path))  # noqa: PTH111 (Path has no bytes)

"""Paths from the caller."""

from __future__ import annotations

import os
import re


def path_text(path: str | os.PathLike[str]) -> str:
    """Returns ``os.fspath(path)`` with ``~`` and ``~user`` at its beginning expanded."""
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111 (it keeps a trailing slash)


def has_scheme(path: str) -> bool:
    """Whether it is a URI, such as ``s3://bucket/key``, and not a path."""
    return re.match(r"[a-z0-9+]{2,}://|file:|pipe:", path) is not None


def local_path_text(path: str | os.PathLike[str]) -> str:
    """Returns path_text(path) of something to write; a ValueError for a URI."""
    text = path_text(path)
    if has_scheme(text):  # a directory of that name would be made
        raise ValueError(
            f"{text}: Python writes to directories; `stoker pack` and `stoker cp` write to buckets"
        )
    return text


def path_bytes(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """Returns the same as bytes, for the kernel."""
    return os.path.expanduser(os.fsencode(path))  # noqa: PTH111 (Path has no bytes)

"""stoker.Cache: what was read of remote shards, on a local disk."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.paths import path_text


class Cache:
    """Keeps what is read of shards in a directory on a local disk.

    Any number of processes of one machine may share the directory: each chunk is fetched by one of
    them, checked on every read, and fetched again if it is damaged. The files never take more than
    ``size``. What the orders of the running Loaders need last is removed first.

    The shards themselves are always enough: if the disk is full or fails, reads go to them, with a
    RuntimeWarning.

    >>> cache = stoker.Cache("/nvme/cache", "200GiB")
    >>> loader = stoker.Loader("/lustre/train", batch_size=256, cache=cache)

    Args:
        directory: A new or empty directory, or that of a cache. Its mode becomes 0700.
        size: Largest size of all files: bytes, or text such as "200GiB". At least 32 MiB.

    Raises:
        ValueError: The size is too small, or the directory has other files.
    """

    def __init__(self, directory: str | os.PathLike[str], size: int | str) -> None:
        self.directory = str(Path.cwd() / path_text(directory))
        given = _native.parse_bytes(size) if isinstance(size, str) else size
        self.size_bytes = whole_number("size", given)
        self._has_warned = False
        self._native = _native.open_cache(self.directory, self.size_bytes)
        self.warn_once(stacklevel=3)

    def warn_once(self, stacklevel: int) -> None:
        """Warns if the cache does not work, the first time."""
        if self._has_warned or not self._native.trouble:
            return
        self._has_warned = True
        warnings.warn(
            f"{self._native.trouble}; what cannot be cached is read from the source",
            RuntimeWarning,
            stacklevel=stacklevel,
        )

    @property
    def trouble(self) -> str:
        """Why the cache did not work at some time, the first reason; empty if it always did."""
        return self._native.trouble

    def stats(self) -> dict[str, int]:
        """Returns what the cache has done in this process.

        ``hits`` and ``hit_bytes`` were read from the local disk, ``fetches`` and ``fetched_bytes``
        from the source, to be kept, ``passes`` and ``passed_bytes`` from the source, and not kept.
        ``healed`` chunks were damaged, ``waits`` is how often a range was being fetched by another
        thread or process, ``evicted`` chunks made room, ``failures`` are those of the disk.
        ``used_bytes`` is the size of all files, of all processes.
        """
        return self._native.stats()

    def __reduce__(self) -> tuple[type[Cache], tuple[str, int]]:
        return Cache, (self.directory, self.size_bytes)

    def __repr__(self) -> str:
        return f"stoker.Cache({self.directory!r}, {self.size_bytes})"


def warn_of_caches(data: Any) -> None:
    """Warns if a cache of a Dataset, or of one in a Mixture, did not work at some time."""
    for dataset in getattr(data, "datasets", (data,)):
        cache = dataset._arguments.cache
        if cache is not None:
            cache.warn_once(stacklevel=4)

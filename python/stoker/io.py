"""Storage as plain functions: many reads at once, durable writes, and page cache residency.

>>> import stoker.io
>>> first, second = stoker.io.read_many([("a.bin", 0, 4096), ("b.bin", 100, 28)])
>>> stoker.io.write_durable("state.json", b"{}")
>>> stoker.io.residency("a.bin").share
1.0

All functions work in any thread, several at once, and in forked children. The GIL is released
during I/O.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._common.paths import path_bytes
from stoker._common.policies import Policy as Policy
from stoker._common.policies import policy_name

__all__ = ["Residency", "evict", "read_many", "residency", "warm", "write_durable"]

Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
Request: TypeAlias = "tuple[Path, SupportsIndex, SupportsIndex | None]"
Array: TypeAlias = npt.NDArray[np.uint8]
Engine = Literal["auto", "uring", "threads", "sync"]
Places = TypeVar("Places", bound="Sequence[Any] | npt.NDArray[Any]")

_TO_END = (1 << 64) - 1
_SIZE_MAX = (1 << 63) - 1  # the kernel's largest offset


@dataclass(frozen=True)
class Residency:
    """How much of a range of a file is in the page cache; counting does not change it."""

    resident_bytes: int
    """Whole pages; never more than ``size_bytes``."""
    size_bytes: int
    """The part of the range that is inside the file."""

    @property
    def share(self) -> float:
        """0 for a cold range, 1 for a warm one; 0 for an empty one."""
        return self.resident_bytes / self.size_bytes if self.size_bytes else 0.0


def _range(path: Path, offset: SupportsIndex, size: SupportsIndex | None) -> tuple[int, int]:
    """Returns both as numbers; a size of None as _TO_END."""
    start = operator.index(offset)
    length = _TO_END if size is None else operator.index(size)
    if not 0 <= start <= _SIZE_MAX or not (0 <= length <= _SIZE_MAX or size is None):
        raise ValueError(
            f"read {os.fsdecode(path)}, offset {start}, length {size}: "
            "both are 0 or more, and at most 2**63 - 1"
        )
    return start, length


def _table(requests: Iterable[Request]) -> tuple[list[bytes], npt.NDArray[np.uint64]]:
    """Returns the files, each once, and a row for each request: file, offset, size."""
    if isinstance(requests, (str, bytes, os.PathLike)):
        raise TypeError(f"requests are a list of (path, offset, size), not {requests!r}")
    files: dict[bytes, int] = {}
    rows: list[int] = []
    for number, request in enumerate(requests):
        try:
            path, offset, size = (request,) if isinstance(request, str) else request
        except (TypeError, ValueError):
            raise TypeError(f"request {number} is {request!r}, not (path, offset, size)") from None
        file = files.setdefault(path_bytes(path), len(files))
        rows += (file, *_range(path, offset, size))
    return list(files), np.array(rows, dtype=np.uint64)


def _place(item: Any, number: int) -> Array:
    """Returns a given array as bytes, without a copy."""
    array = np.asarray(item)
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError(f"out[{number}] is not a writable C-contiguous array")
    if not np.may_share_memory(array, np.asarray(item)) and array.size:
        raise ValueError(f"out[{number}] is a {type(item).__name__} that NumPy would copy")
    return array.reshape(-1).view(np.uint8)


def _engine_name(engine: Engine | None) -> str:
    return engine or os.environ.get("STOKER_ENGINE") or "auto"


@overload
def read_many(
    requests: Iterable[Request],
    out: None = None,
    policy: Policy = "automatic",
    engine: Engine | None = None,
) -> list[Array]: ...
@overload
def read_many(
    requests: Iterable[Request],
    out: Places,
    policy: Policy = "automatic",
    engine: Engine | None = None,
) -> Places: ...
def read_many(
    requests: Iterable[Request],
    out: Places | None = None,
    policy: Policy = "automatic",
    engine: Engine | None = None,
) -> list[Array] | Places:
    """Reads ranges of files, many at once, and returns their bytes in the same order.

    Args:
        requests: ``(path, offset, size)`` each; a size of None means to the end of the file. Any
            order, any number of files; ranges may overlap.
        out: One writable C-contiguous array for each request, or one array with a row for each, of
            exactly that many bytes: filled and returned. Tensors in host memory are accepted. Reuse
            arrays to make repeated calls fast: new memory costs more than a fast disk.
        policy: ``automatic`` reads what is in the page cache from there, and the rest past it if
            that is faster; ``buffered`` reads through the page cache; ``direct`` past it, or fails
            if the filesystem does not support that; ``drop_behind`` leaves the page cache as it
            was.
        engine: ``uring``, ``threads`` or ``sync``; None uses STOKER_ENGINE, or what works here.

    Returns:
        uint8 arrays, views of one buffer that lives as long as any of them; or ``out``.

    Raises:
        OSError: A file is missing, cannot be read, or ends before a range does (EIO). The message
            names path, offset and length. The contents of ``out`` are then undefined.
        ValueError: A negative offset or size, a path that is not a regular file, or an ``out`` of
            another size.
    """
    name = policy_name(policy)
    paths, table = _table(requests)
    places = None if out is None else [_place(item, i) for i, item in enumerate(out)]
    if places is not None and 3 * len(places) != len(table):
        raise ValueError(f"out has {len(places)} arrays for {len(table) // 3} requests")
    arrays = _native.read_many(paths, table, places, name, _engine_name(engine))
    if out is not None:
        return out
    assert arrays is not None
    return arrays


def write_durable(path: Path, data: Any, mode: Literal["replace", "new"] = "replace") -> None:
    """Replaces the contents of ``path`` with ``data``, atomically and durably.

    The bytes are written under another name in the same directory, fsynced, renamed, and the
    directory is fsynced. Whenever the machine stops, readers find either the old file or the new
    one, complete; after the return, the new one is durable.

    Args:
        path: The file. Its directory must exist; a symbolic link of that name is replaced.
        data: bytes, memoryview, array or tensor in host memory, contiguous; not copied.
        mode: ``replace`` an existing file, or ``new``: FileExistsError if the name exists.

    Raises:
        OSError: Nothing was changed, unless only the last fsync failed: then the new file may exist
            without being durable.
    """
    if mode not in ("replace", "new"):
        raise ValueError(f'mode={mode!r}: "replace" or "new"')
    try:
        view = memoryview(data)
    except TypeError:
        if not hasattr(data, "__array__"):  # a tensor has it; a str or a list has no bytes
            raise TypeError(f"data is a {type(data).__name__}, which has no bytes") from None
        view = np.asarray(data).data
    if not view.c_contiguous:
        raise ValueError("data is not C-contiguous: copy it, or write what it is a view of")
    _native.write_durable(path_bytes(path), view, mode == "new")


def evict(path: Path) -> Residency:
    """Asks the kernel to drop a file from the page cache, after writing dirty pages.

    The pages are dropped for every process, but the kernel may keep some: returns what is left.
    """
    return Residency(*_native.residency(path_bytes(path), 0, 0, True))


def warm(paths: Path | Iterable[Path]) -> Residency:
    """Reads files into the page cache, several at once, and returns how much of them is there.

    It is less than all if the files are larger than the free memory.

    Raises:
        OSError: A file cannot be read.
        ValueError: A path is not a regular file.
    """
    several = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    names = [path_bytes(path) for path in several]
    for name in names:
        residency(name)  # raises for what is no regular file, which could be waited for in vain
    with ThreadPoolExecutor(min(8, len(names) or 1), "stoker-warm") as pool:
        list(pool.map(_read_through, names))
    found = [residency(name) for name in names]
    return Residency(sum(one.resident_bytes for one in found), sum(one.size_bytes for one in found))


def _read_through(path: bytes) -> None:
    memory = [bytearray(8 << 20)]
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (a path may be bytes)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        offset = 0
        while count := os.preadv(file.fileno(), memory, offset):
            offset += count


def residency(
    path: Path, offset: SupportsIndex = 0, size: SupportsIndex | None = None
) -> Residency:
    """Returns how much of a file, or of ``size`` bytes from ``offset``, is in the page cache."""
    start, length = _range(path, offset, size)
    to_end = size is None
    found = _native.residency(path_bytes(path), start, 0 if to_end else length, False)
    return Residency(*found) if to_end or length > 0 else Residency(0, 0)

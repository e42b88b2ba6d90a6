"""The interface of every importer: numbered rows, counted before the first is read."""

from __future__ import annotations

import abc
import contextlib
import errno
import hashlib
import importlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import _native

Sample: TypeAlias = dict[str, Any]  # as for stoker.ingest()
Rows: TypeAlias = "range | npt.NDArray[np.uint64]"

BATCH_BYTES = 4 << 20  # of samples that a thread keeps as Python objects
BATCH_ROWS = 1024
_NAMES_SHOWN = 8


class RowInput(abc.ABC):
    """Files of another system as a list of rows.

    Opening a source reads the metadata of the files, and no rows. The same files and options give
    the same rows under the same numbers, in every process: so tasks can share a job, and a restart
    can continue it.

    Thread safety: read() from any thread, several at a time; close() when none is running.

    Attributes:
        path: What was opened, for messages.
        count: Number of rows.
        fields: Names that a sample may have, without the key.
        size_bytes: Approximate size of all rows: shards are cut by it.
        sizes: Size of each row, if known.
        starts: The rows where reading may begin without skipping others, ascending from 0; None:
            all.
        is_sequential: A row requires reading its whole row group, chunk or batch; read() takes only
            ranges, and a shuffle needs a copy (staged_rows.py).
        fingerprint: Changes if the rows or the selection changes.
        token_bytes: Size of one token, if rows are arrays of tokens; otherwise 0.
    """

    path: str
    count: int
    fields: Sequence[str]
    size_bytes: int
    sizes: npt.NDArray[np.uint64] | None = None
    starts: npt.NDArray[np.int64] | None = None
    is_sequential: bool = False
    fingerprint: str
    token_bytes: int = 0

    @abc.abstractmethod
    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """Yields the rows in that order, in batches; ``rows`` is a range if ``is_sequential``."""

    def notes(self) -> list[str]:
        """Returns what a user should know about the rows read so far."""
        return []

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Closes the files."""

    def __enter__(self) -> RowInput:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def batch_rows(self) -> int:
        """Rows to keep in memory at a time: bounds memory regardless of their size."""
        mean = max(1, self.size_bytes // max(1, self.count))
        return min(BATCH_ROWS, max(1, BATCH_BYTES // mean))


def need(package: str, extra: str) -> Any:
    """Imports an optional package; the error has the command that installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(
            f"{name} is needed to read this: pip install {name}, or pip install '.[{extra}]' in a "
            f"checkout of Stoker ({error})"
        ) from None


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], *errors: type[Exception]) -> Iterator[None]:
    """Converts a package's own errors, and OSErrors without an errno, to CorruptError."""
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, OSError) and error.errno is None
        if not is_ours and not isinstance(error, errors):
            raise
        message = " ".join(str(error).split())
        raise _native.CorruptError(f"{os.fspath(path)}: {message}") from None


def check_plain(path: str | os.PathLike[str]) -> None:
    """Raises OSError unless it is a file or folder: a package would block on a FIFO."""
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def fingerprint_of(
    files: Sequence[str | os.PathLike[str]],
    *choices: object,
    folder: str | os.PathLike[str] | None = None,
) -> str:
    """Returns a digest of the files' names, sizes and times, and of the choices.

    Names are relative to ``folder``, if it is one: the folders in it determine the order of the
    files, and some are columns.
    """
    digest = hashlib.sha256()
    for file in files:
        info = Path(file).stat()
        is_below = folder is not None and Path(folder).is_dir()
        name = os.path.relpath(file, folder) if is_below else Path(file).name
        digest.update(os.fsencode(name))
        digest.update(f"\0{info.st_size}\0{info.st_mtime_ns}\0".encode())
    digest.update(repr(choices).encode())
    return digest.hexdigest()


def with_key(sample: Sample, key: str | None, row: int) -> Sample:
    """Returns the sample with one of its fields as its key: text, UTF-8 bytes, or a number."""
    if key is None:
        return sample
    value = sample.get(key)
    if value is None:
        raise ValueError(f"row {row}: key={key!r}: there is no such column, or it is null")
    if key != "__key__" and "__key__" in sample:
        raise ValueError(
            f"key={key!r}: there is a column '__key__' as well, which would be lost: leave it out "
            "(columns=, --columns)"
        )
    return {"__key__": _key_text(value, key, row), **{n: v for n, v in sample.items() if n != key}}


def _key_text(value: Any, key: str, row: int) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"row {row}: key={key!r}: {value[:32]!r} is not UTF-8") from None
    is_bool = isinstance(value, (bool, np.bool_))
    if is_bool or not isinstance(value, (str, int, float, np.integer, np.floating)):
        kind = type(getattr(value, "value", value)).__name__
        raise ValueError(
            f"row {row}: key={key!r}: a {kind} is not a key; name a column of text or of numbers"
        )
    return str(value)


def left_out_notes(names: Sequence[str], why: str = "") -> list[str]:
    """Returns a line that names what is not packed, in the words of the native packer."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return [f"left out: {shown}{more}{why}"] if names else []


def pieces(rows: Rows, size: int) -> Iterator[Rows]:
    """Divides rows into runs of at most ``size``."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]

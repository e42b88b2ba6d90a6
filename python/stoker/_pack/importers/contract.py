"""What every importer offers: numbered rows, known in number before the first is read."""

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

Sample: TypeAlias = dict[str, Any]  # as stoker.ingest() takes them
Rows: TypeAlias = "range | npt.NDArray[np.uint64]"

BATCH_BYTES = 4 << 20  # of samples that a thread holds as Python objects
BATCH_ROWS = 1024
_NAMES_SHOWN = 8


class RowSource(abc.ABC):
    """Somebody else's files as a list of rows.

    Whoever opens one has read what the files say about themselves, and no rows. The same files and
    options give the same rows under the same numbers, in every process: that is what lets tasks
    share a job, and a restart go on with it.

    Thread safety: read() from any thread, several at a time; close() when none is running.

    Attributes:
        path: What was opened, for messages.
        count: Of rows.
        fields: Names that a sample may have, without the key.
        size_bytes: Of all rows, about: shards are cut by it.
        sizes: Of each row, where that is known.
        starts: The rows that reading may begin at without passing over others, ascending from 0;
            None: all.
        is_sequential: A row costs the reading of its whole row group, chunk or batch; read() takes
            ranges alone, and a shuffle goes through a copy (_staged_rows.py).
        fingerprint: Changes when the rows, or what is taken of them, do.
        token_bytes: Of one token, where rows are arrays of tokens; else 0.
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
        """The rows in that order, some at a time; a range if ``is_sequential``."""

    def notes(self) -> list[str]:
        """What a user should know of the rows read so far."""
        return []

    def close(self) -> None:  # noqa: B027 (most have nothing to let go of)
        """Lets go of the files."""

    def __enter__(self) -> RowSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def batch_rows(self) -> int:
        """Rows to hold at a time: memory is bounded whatever their size."""
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
    """Turns a package's own errors, and OSErrors that no system call made, into CorruptError."""
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, OSError) and error.errno is None
        if not is_ours and not isinstance(error, errors):
            raise
        message = " ".join(str(error).split())
        raise _native.CorruptError(f"{os.fspath(path)}: {message}") from None


def check_plain(path: str | os.PathLike[str]) -> None:
    """OSError for what is no file or folder: a package would wait for whoever writes to a FIFO."""
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def fingerprint_of(
    files: Sequence[str | os.PathLike[str]],
    *choices: object,
    folder: str | os.PathLike[str] | None = None,
) -> str:
    """Of the files' names, sizes and times, and of what was chosen of them.

    Names are those below ``folder``, if that is one: the folders in it decide the order of the
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
    """The sample with one of its fields as its key: text, bytes that are UTF-8, or a number."""
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
            f"row {row}: key={key!r}: a {kind} is no key; name a column of text or of numbers"
        )
    return str(value)


def left_out_notes(names: Sequence[str], why: str = "") -> list[str]:
    """A line that names what is not packed, as the packer of trees says it."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return [f"left out: {shown}{more}{why}"] if names else []


def pieces(rows: Rows, size: int) -> Iterator[Rows]:
    """Cuts rows into runs of at most ``size``."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]

"""Files in places that others may write to: no link is followed, nothing waits for a FIFO."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_plain(
    path: str | os.PathLike[str], *, dir_fd: int | None = None, buffering: int = -1
) -> BinaryIO:
    """Opens a regular file to read.

    Args:
        path: What a user has named: it may be a symbolic link. Below ``dir_fd`` it may not.
        dir_fd: Of the directory that the name is looked up in.
        buffering: As for ``open``.

    Raises:
        OSError: It cannot be opened. ELOOP: it is a link. EINVAL: it is no regular file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(path, flags | (0 if dir_fd is None else os.O_NOFOLLOW), dir_fd=dir_fd)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        return os.fdopen(fd, "rb", buffering)
    except BaseException:
        os.close(fd)
        raise


def create_plain(path: str | os.PathLike[str]) -> BinaryIO:
    """Creates a file, to write and read it. FileExistsError if the name is taken, by a link too."""
    return os.fdopen(os.open(path, _CREATE, 0o666), "w+b")


def _mount_of(fd: int) -> str:
    """The mount that a file was opened on; its filesystem where /proc does not tell."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii").splitlines():
            if line.startswith("mnt_id:"):
                return line
    return f"device {os.fstat(fd).st_dev}"


class OwnFolder:
    """A directory of our own below one that others may write to. Made where it is missing.

    Thread safety: all but close() from any thread.
    """

    def __init__(self, root: str | os.PathLike[str], *names: str) -> None:
        """Opens ``root/names[0]/names[1]...``.

        Links on the way to ``root`` are followed, below it none is: NotADirectoryError, ELOOP.
        """
        self.path = Path(root, *names)
        self._fd = os.open(root, _FOLDER)
        try:
            for name in names:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self._fd)
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._fd)
                os.close(self._fd)
                self._fd = inner
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Lets go of it."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def open(self, name: str) -> BinaryIO:
        """As open_plain()."""
        return open_plain(name, dir_fd=self._fd)

    def create(self, name: str) -> BinaryIO:
        """Creates a file of that name. One that an earlier run has left is removed."""
        self.remove(name)
        return os.fdopen(os.open(name, _CREATE, 0o666, dir_fd=self._fd), "w+b")

    def rename(self, name: str, to: str) -> None:
        """Replaces a file of the name ``to``."""
        os.rename(name, to, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Removes a file, or a link and not what it leads to."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def remove_all(self, folder: str) -> None:
        """Removes a directory of plain files in it; what else is there, or is mounted, stays."""
        try:
            fd = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=self._fd)
        except OSError:
            return
        try:
            if _mount_of(fd) != _mount_of(self._fd):
                return
            for name in os.listdir(fd):  # noqa: PTH208 (pathlib takes no descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
        with contextlib.suppress(OSError):
            os.rmdir(folder, dir_fd=self._fd)

"""Files in places that others may write to: links are not followed, FIFOs do not block."""

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
        path: A name from the user: it may be a symbolic link, unless ``dir_fd`` is given.
        dir_fd: The directory in which the name is looked up.
        buffering: As for ``open``.

    Raises:
        OSError: It cannot be opened. ELOOP: it is a link. EINVAL: it is not a regular file.
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
    """Creates a file, to write and read it. FileExistsError if the name exists, even as a link."""
    return os.fdopen(os.open(path, _CREATE, 0o666), "w+b")


def _mount_of(fd: int) -> str:
    """Returns the mount of an open file, or its filesystem if /proc is not available."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii").splitlines():
            if line.startswith("mnt_id:"):
                return line
    return f"device {os.fstat(fd).st_dev}"


class OwnFolder:
    """A directory of our own below one that others may write to. Created if missing.

    Thread safety: every method except close() from any thread.
    """

    def __init__(self, root: str | os.PathLike[str], *names: str) -> None:
        """Opens ``root/names[0]/names[1]...``.

        Links in ``root`` are followed; below it they raise NotADirectoryError or ELOOP.
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
        """Closes the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def open(self, name: str) -> BinaryIO:
        """Opens a file like open_plain()."""
        return open_plain(name, dir_fd=self._fd)

    def create(self, name: str) -> BinaryIO:
        """Creates a file of that name. Removes one that an earlier run left."""
        self.remove(name)
        return os.fdopen(os.open(name, _CREATE, 0o666, dir_fd=self._fd), "w+b")

    def rename(self, name: str, to: str) -> None:
        """Replaces a file of the name ``to``."""
        os.rename(name, to, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Removes a file, or a link but not its target."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def remove_all(self, folder: str) -> None:
        """Removes a directory of plain files in it; keeps anything else, and mounts."""
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

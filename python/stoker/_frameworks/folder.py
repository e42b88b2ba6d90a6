"""Folders that appear whole or not at all, under the names that a framework chooses."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path


def sync_folder(path: Path) -> None:
    """Makes the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(path: Path) -> None:
    """Makes all files below a directory durable, and their names."""
    for folder, _, files in os.walk(path):
        for name in files:
            fd = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        sync_folder(Path(folder))


def make_hidden(path: Path) -> Path:
    """Makes an empty hidden directory beside ``path``; what a killed process left there is gone."""
    hidden = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_folder(hidden)
    hidden.mkdir()
    return hidden


def folder_of(hidden: Path) -> Path:
    """Returns the path whose hidden directory it is."""
    return hidden.with_name(hidden.name.removeprefix(".").removesuffix(".new"))


def show(hidden: Path, path: Path) -> None:
    """Gives a hidden directory its name, durably. Its files are durable already.

    Raises:
        OSError: ENOTEMPTY: there is a folder of that name that is not empty.
    """
    sync_folder(hidden)
    hidden.rename(path)
    sync_folder(path.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a hidden directory that gets the name ``path`` at the end, unless the block raises."""
    hidden = make_hidden(path)
    try:
        yield hidden
        show(hidden, path)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_folder(hidden)
        raise


def remove_folder(path: Path) -> None:
    """Removes a folder or a file; a folder first gets a hidden name, so that none is half there."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(kind):
        path.unlink()
        return
    gone = path
    if not path.name.startswith("."):
        gone = path.with_name(f".{path.name}.gone")
        if os.path.lexists(gone):
            shutil.rmtree(gone)
        path.rename(gone)
    shutil.rmtree(gone)

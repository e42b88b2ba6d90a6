"""Writes what torch reads: whole or not at all, durable, with checksums beside it."""

from __future__ import annotations

import hashlib
import importlib
import os
import secrets
import shutil
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from stoker import io as stoker_io
from stoker._checkpoint.foreign.torch_files import save_pt
from stoker._common.plain_files import create_plain

_PIECE_BYTES = 16 << 20


def sums_of(out: Path, is_directory: bool) -> Path:
    """Returns the file with the checksums of an export."""
    return out / "SHA256SUMS" if is_directory else out.with_name(f"{out.name}.sha256")


def refuse_taken(out: Path, sums: Path) -> None:
    """Raises if something has one of the names: an export replaces nothing."""
    for taken in (out, sums):
        if os.path.lexists(taken):
            raise FileExistsError(
                f"{taken}: already exists, and an export does not replace files; "
                "remove it, or name another"
            )
    if set(out.name) & set("\\\n\r"):
        raise ValueError("the name of an export has no backslash or line break")


def _sync_and_sum(file: BinaryIO) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    file.seek(0)
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
        size += len(piece)
    file.flush()
    os.fsync(file.fileno())
    return size, digest.hexdigest()


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_pt(tree: Any, out: Path) -> tuple[int, list[Path]]:
    """Writes a file for ``torch.load(weights_only=True)``; returns its size, and the file.

    1. Write under a private name, and fsync.  2. Link to the final name, which replaces nothing. 3.
    fsync the parent.  4. Publish the checksums: they never exist without their file.
    """
    sums, staged = sums_of(out, False), _staged(out)
    file = create_plain(staged)
    try:
        try:
            with file:
                save_pt(tree, file)
                size, digest = _sync_and_sum(file)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(out)) from None
        os.link(staged, out, follow_symlinks=False)
    finally:
        staged.unlink(missing_ok=True)
    try:
        _sync_directory(out.parent)
        stoker_io.write_durable(sums, f"{digest}  {out.name}\n".encode())
    except BaseException:
        sums.unlink(missing_ok=True)
        out.unlink()
        raise
    return size, [out]


def write_dcp(tree: Any, out: Path) -> tuple[int, list[Path]]:
    """Writes a directory for torch's FileSystemReader; returns its size, and its files.

    1. torch writes all files under a private name.  2. fsync them, the checksums and the directory.
    3. Rename it: at most an empty directory is replaced.  4. fsync the parent.
    """
    checkpoint = importlib.import_module("torch.distributed.checkpoint")
    staged = _staged(out)
    staged.mkdir()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torch.distributed is not used
            checkpoint.save(tree, storage_writer=checkpoint.FileSystemWriter(staged), no_dist=True)
        size, lines = 0, []
        names = sorted(path.name for path in staged.iterdir())
        for name in names:
            with (staged / name).open("r+b") as file:
                written, digest = _sync_and_sum(file)
            size += written
            lines.append(f"{digest}  {name}\n")
        stoker_io.write_durable(sums_of(staged, True), "".join(lines).encode())
        _sync_directory(staged)
        staged.rename(out)
    except checkpoint.CheckpointException as error:  # is no Exception, and hides the cause
        cause: BaseException = next(iter(error.failures.values()))[0]
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(out)) from None
        raise ValueError(f"{out}: torch cannot write it: {cause}") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    try:
        _sync_directory(out.parent)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return size, [out / name for name in names]


def _staged(out: Path) -> Path:
    return out.with_name(f"{out.name}.staged-{secrets.token_hex(16)}")

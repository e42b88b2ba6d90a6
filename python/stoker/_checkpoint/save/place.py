"""Checks the directory of checkpoints: what it is, and whether it may be lost."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Mapping

from stoker import _native
from stoker._checkpoint.foreign.files import IMPORT, foreign_file, is_dataset

_log = logging.getLogger("stoker")
_IMPORTED = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_MEMORY = {"tmpfs", "ramfs"}
_OWN_DISKS = {"ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "overlay"}
# Set in jobs that may run on any node. On a personal machine, a local disk needs no warning.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "KUBERNETES_SERVICE_HOST")


def refuse_place(directory: str) -> None:
    """Raises if it is a file, a dataset or a checkpoint: saves in one would be removed with it.

    A directory called ``latest`` is refused as well: that name means the newest checkpoint of the
    directory above.
    """
    if os.path.isfile(directory):  # noqa: PTH113
        raise NotADirectoryError(errno.ENOTDIR, _about_file(directory))
    if is_dataset(directory):
        raise ValueError(
            f"{directory} is a dataset, and no directory of checkpoints. Give another directory"
        )
    if os.path.isfile(f"{directory}/manifest.json"):  # noqa: PTH113
        above = os.path.dirname(os.path.realpath(directory))  # noqa: PTH120
        raise ValueError(
            f"{directory} has a manifest.json: it is a checkpoint, and no directory of "
            f"checkpoints. Give the one above it, {above}, and the step to restore()"
        )
    if os.path.basename(directory) == "latest":  # noqa: PTH119
        above = os.path.dirname(directory)  # noqa: PTH120
        raise ValueError(
            f"{directory}: `latest` is the name of the newest checkpoint in a directory. Give "
            f"{above} to use its checkpoints, or choose another name for a new directory"
        )


def _about_file(path: str) -> str:
    text = f"{path} is a file, and a Checkpointer takes a directory of checkpoints"
    what = None
    with contextlib.suppress(OSError):
        what = foreign_file(path)
    if what is None and path.endswith(_IMPORTED):
        what = f"a file of tensors: {IMPORT}".format(name=path)
    return text if what is None else f"{text}. It is {what}"


def tell_place(directory: str, environment: Mapping[str, str] = os.environ) -> None:
    """Warns about checkpoints in memory and, in a scheduler's job, on a local disk."""
    kind = _native.filesystem_of(os.fsencode(directory))
    if kind in _MEMORY:
        text = "%s is in memory (%s): no checkpoint there survives a power cut or a restart"
        _log.warning(text, directory, kind)
    elif kind in _OWN_DISKS and any(name in environment for name in _SCHEDULERS):
        text = "%s is on this machine's own disk (%s): the only copy is lost with it"
        _log.warning(text, directory, kind)

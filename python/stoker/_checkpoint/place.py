"""Where checkpoints are put: what that directory is, and whether it may go away."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path

from stoker._checkpoint.foreign.files import IMPORT, foreign_file, is_dataset

_log = logging.getLogger("stoker")
_MOUNTS = Path("/proc/self/mountinfo")
_IMPORTED = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_MEMORY = {"tmpfs", "ramfs"}
_OWN_DISKS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "overlay"}
# Set inside jobs that run on whichever node is free. On a person's own machine a local disk is
# nothing to be warned of.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "KUBERNETES_SERVICE_HOST")


def refuse_place(directory: str) -> None:
    """Raises if it is a file, or a checkpoint itself: what is saved into one goes away with it."""
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


def _about_file(path: str) -> str:
    text = f"{path} is a file, and a Checkpointer takes a directory of checkpoints"
    what = None
    with contextlib.suppress(OSError):
        what = foreign_file(path)
    if what is None and path.endswith(_IMPORTED):
        what = f"a file of tensors: {IMPORT}".format(name=path)
    return text if what is None else f"{text}. It is {what}"


def filesystem_of(directory: str, mounts: Path = _MOUNTS) -> str:
    """The kind of filesystem that it lies on, as the kernel names it; empty if not known."""
    path = os.path.realpath(directory)
    found, kind = "", ""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:
        left, _, right = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), left.split()[4])
        is_above = path == place or path.startswith(place.rstrip("/") + "/")
        if is_above and len(place) >= len(found):  # of two on one place the later one is seen
            found, kind = place, right.split()[0]
    return kind


def tell_place(directory: str, environment: Mapping[str, str] = os.environ) -> None:
    """Warns of checkpoints in memory and, inside a scheduler's job, that only this node has."""
    kind = filesystem_of(directory)
    if kind in _MEMORY:
        text = "%s is in memory (%s): no checkpoint there survives a power cut or a restart"
        _log.warning(text, directory, kind)
    elif kind in _OWN_DISKS and any(name in environment for name in _SCHEDULERS):
        text = "%s is on this machine's own disk (%s): the only copy is lost with it"
        _log.warning(text, directory, kind)

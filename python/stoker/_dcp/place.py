"""What a checkpoint_id means: a directory of checkpoints, and a step in it."""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

from stoker._checkpoint.settings import name_of
from stoker._common.paths import path_text

_STEP = re.compile("(?:step-)?([0-9]{1,19})")
_STORE = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")


class Place(NamedTuple):
    """Where a checkpoint is.

    Attributes:
        path: As it was given, absolute.
        directory: The directory of checkpoints.
        step: The step in it; None if the path names no step: then the directory has one checkpoint.
    """

    path: str
    directory: str
    step: int | None

    @property
    def checkpoint(self) -> str:
        """The directory of the checkpoint; without a step, that of all checkpoints."""
        if self.step is None:
            return self.path
        ours = f"{self.directory}/{name_of(self.step)}"
        return self.path if os.path.lexists(self.path) and not os.path.lexists(ours) else ours

    def refuse_other(self) -> None:
        """Raises FileExistsError if something else has this path, which a load would find."""
        if self.step is None or not os.path.lexists(self.path):
            return
        if self.path == f"{self.directory}/{name_of(self.step)}":
            return  # what is there is checked as that of a Checkpointer
        is_empty_place = os.path.isdir(self.path) and not os.path.islink(self.path)  # noqa: PTH112, PTH114
        if not is_empty_place or os.path.lexists(f"{self.path}/.metadata"):
            raise FileExistsError(
                errno.EEXIST,
                f"{self.path} is something else, and no checkpoint of Stoker: move it away, or "
                "give another directory",
            )


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether it names an object store, ``s3://...``, and no path."""
    return _STORE.match(os.fspath(path)) is not None


def place_of(path: str | os.PathLike[str]) -> Place:
    """Returns the place of ``run/step-100`` or ``run/100``, or of ``run/best``, which is no step.

    Raises:
        ValueError: It is no path of a directory.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint_id is a path, not {type(path).__name__}")
    text = path_text(path)
    if not text:
        raise ValueError("an empty checkpoint_id names no directory")
    if is_store(text):
        raise ValueError(f"{text}: checkpoints are in directories; stores are not supported here")
    whole = os.path.abspath(text)  # noqa: PTH100 (the working directory may change later)
    parent, last = os.path.split(whole)
    found = _STEP.fullmatch(last)
    step = None if found is None else int(found[1])
    return Place(whole, whole if step is None else parent, step)

"""stoker.save: one checkpoint at a path, replaced by each save."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stoker import _native
from stoker._checkpoint.checkpointer import Checkpointer
from stoker._checkpoint.save.writer import Encoded
from stoker._checkpoint.state.nodes import decode_tree, manifest_path
from stoker._common.paths import path_text

# In `extra`: the directory has one checkpoint, and a save may replace it.
SINGLE = "one_at_this_path"


def save(path: str | os.PathLike[str], tree: Mapping[str, Any]) -> None:
    """Saves a dict at a path, in place of what was saved there; durable on return.

    A crash at any moment leaves the old one or the new one. ``path`` becomes a directory with one
    checkpoint, which ``stoker.load(path)`` opens; ``stoker.load(path).read()`` returns the dict.
    The process saves alone, whatever its rank.

    >>> stoker.save("last", {"model": model.state_dict(), "epoch": 3})

    Args:
        path: A directory, created if it is missing. A run's directory of checkpoints is refused.
        tree: The state by name, as for ``Checkpointer.save``; its keys may be any strings.

    Raises:
        TypeError: It is no dict with strings as keys, or has a value that cannot be saved.
        ValueError: The path is that of something else.
        LateError: Another process saves there.
        OSError: No space, or no permission.
    """
    if not isinstance(tree, Mapping) or not all(type(key) is str for key in tree):
        raise TypeError('save: a dict with strings as keys: {"model": model.state_dict()}')
    if not all(key and not key.startswith("!") for key in tree):
        raise ValueError("save: a key is not empty and does not begin with '!'")
    where = path_text(path)
    with Checkpointer(where, keep_last=1, rank=0, world_size=1) as saver:

        def encode() -> Encoded:
            return saver._encoded(dict(tree), extra={SINGLE: True})

        saver._save(next_step(saver), encode).wait()


def next_step(saver: Checkpointer) -> int:
    """Returns the step to save next in a directory with one checkpoint, which this continues.

    Every rank calls it.

    Raises:
        ValueError: The directory has a checkpoint that is not to be replaced.
    """
    found = saver._list()
    for name, _, _, _, damage, _ in found:
        if damage is None and not _is_single(f"{saver.path}/{name}"):
            raise ValueError(
                f"{saver.path}: it has the checkpoints of a run, and a save of one checkpoint at a "
                "path would replace them: give another path, or save with a Checkpointer"
            )
    above = 1 + max((step for _, step, _, _, _, _ in found), default=-1)
    try:
        done = saver.restore(partial=True)  # without trees: it finds the newest
    except _native.CorruptError:
        return above  # none can be used, which must not end all saves
    return above if done is None else max(above, done + 1)


def _is_single(checkpoint: str) -> bool:
    try:
        opened = _native.OpenCheckpoint(os.fsencode(checkpoint))
    except FileNotFoundError:
        return True  # removed meanwhile
    extra = decode_tree(opened.extra, "extra", manifest_path(opened), arrays=False)
    return isinstance(extra, dict) and extra.get(SINGLE) is True

"""Lightning's CheckpointIO, so that ModelCheckpoint saves through Stoker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stoker._checkpoint.checkpointer import Checkpointer
from stoker._checkpoint.load import load
from stoker._common.paths import path_text
from stoker._common.torch import is_tensor
from stoker._frameworks import lightning_package
from stoker._frameworks.folder import new_folder, remove_folder
from stoker._frameworks.lightning_loops import with_epochs_counted
from stoker._native import CorruptError

_WEIGHTS, _REST = "model", "lightning"  # the trees of a checkpoint


class CheckpointIO(lightning_package.CheckpointIO):
    """Saves what Lightning's ``ModelCheckpoint`` saves: durable, checked, without pickle.

    >>> trainer = lightning.Trainer(plugins=[stoker.lightning.CheckpointIO()])

    Each path that Lightning chooses, such as ``last.ckpt``, becomes a directory with one checkpoint
    of Stoker. It appears whole or not at all, also where an older one is replaced. The tree `model`
    has the weights, under the names of the LightningModule; the tree `lightning` has the rest.

    Strategies that shard a model write its state themselves and do not ask a CheckpointIO:
    ``CheckpointerCallback`` is for those.

    Args:
        settings: Arguments of ``stoker.Checkpointer``, such as ``rate_limit="1GB/s"``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        chosen = {"keep_last", "keep_every", "keep_best", "rank", "world_size"} & settings.keys()
        if chosen:
            raise ValueError(f"{min(chosen)}= is decided by Lightning: see ModelCheckpoint")
        # Only rank 0 is asked to save, and every rank to load.
        self._settings: dict[str, Any] = {**settings, "rank": 0, "world_size": 1}

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Saves at the path, and returns when the checkpoint is durable.

        Raises:
            TypeError: A value cannot be saved; names its place, as lightning['hyper_parameters'].
            OSError: No space, no permission, or the path is a file.
        """
        if storage_options is not None:
            raise TypeError("storage_options: a checkpoint of Stoker is a local directory")
        trees: dict[str, Any] = {_REST: dict(checkpoint)}
        if "state_dict" in checkpoint:
            trees[_WEIGHTS] = trees[_REST].pop("state_dict")
        loops = checkpoint.get("loops") or {}
        if "fit_loop" in loops:
            trees[_REST]["loops"] = {**loops, "fit_loop": with_epochs_counted(loops["fit_loop"])}
        step = int(checkpoint.get("global_step", 0))
        place = _local(path)
        if os.path.lexists(place):
            self._replace(place, step, trees)
            return
        with new_folder(place) as hidden, Checkpointer(hidden, **self._settings) as saver:
            saver.save(step, **trees)

    def _replace(self, place: Path, step: int, trees: dict[str, Any]) -> None:
        """Saves a newer checkpoint in an existing directory, which then loses the older one."""
        with Checkpointer(place, **self._settings, keep_last=1) as saver:
            try:
                found = saver.restore(partial=True)  # nothing, but what is there is continued
            except CorruptError:
                found = None  # damaged checkpoints stay, for people to look at
            # A step is saved once. Of equal or smaller steps, the newest one must win.
            saver.save(step if found is None else max(step, found + 1), **trees)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Returns what was saved. All of it was verified.

        Args:
            path: The path it was saved at.
            map_location: A device for the tensors; they are on the CPU without one.
            weights_only: Has no effect: nothing in these files can run code.

        Raises:
            FileNotFoundError: There is no checkpoint.
            NotADirectoryError: It is a file, perhaps one of torch.save(); says what to do.
            CorruptError: It is damaged.
        """
        place = _local(path)
        device = None if callable(map_location) else map_location  # a function: as in Lightning
        with Checkpointer(place, **self._settings) as saver:
            there = load(place)
            wanted: dict[str, Any] = dict.fromkeys(there.state)
            found = saver.restore(there.step, partial=True, **wanted)
        assert found is not None  # restore() of a number raises if there is none
        trees = found.trees
        checkpoint = dict(trees.pop(_REST, {}))
        if _WEIGHTS in trees:
            checkpoint["state_dict"] = trees.pop(_WEIGHTS)
        checkpoint.update(trees)  # `stoker checkpoint import` makes a tree of each item of a .ckpt
        return checkpoint if device is None else moved(checkpoint, device)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Removes the checkpoint, if there is one. A kill in between leaves it whole or hidden."""
        remove_folder(_local(path))


def _local(path: str | os.PathLike[str]) -> Path:
    text = path_text(path)
    if "://" in text:
        raise ValueError(f"{text}: a checkpoint of Stoker is a local directory")
    return Path(text)


def moved(value: Any, device: Any) -> Any:
    """Returns a tree with its tensors on a device; dicts keep their class."""
    if is_tensor(value):
        return value.to(device)
    if isinstance(value, dict):
        value.update({key: moved(item, device) for key, item in value.items()})
        return value
    if type(value) in (list, tuple):
        return type(value)(moved(item, device) for item in value)
    return value

"""The folders `checkpoint-N` of a Trainer whose weights a Checkpointer has."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoker._common.corrupt import corrupt_error
from stoker._frameworks.folder import folder_of, make_hidden, remove_folder, show, sync_tree
from stoker._native import CorruptError

_POINTER = "stoker.json"
_STATE = "trainer_state.json"  # what Transformers calls it
_VERSION = 1
_NAME = re.compile(r"checkpoint-(\d+)")


def weights_directory(run: str | os.PathLike[str]) -> Path:
    """Returns the directory of the Checkpointer, in the `output_dir` of a Trainer."""
    return Path(run) / "stoker"


def step_in(folder: str | os.PathLike[str]) -> int | None:
    """Returns the step that a `checkpoint-N` is about; None if it has its own weights.

    Raises:
        FileNotFoundError: There is no such folder.
        CorruptError: The pointer in it, or trainer_state.json, is damaged.
        ValueError: It was renamed, or a newer version of Stoker has written it.
    """
    path = Path(os.path.abspath(folder))  # noqa: PTH100 (".." may be meant)
    return _pointed_step(path, path.name)


def _pointed_step(path: Path, known_as: str) -> int | None:
    """Returns the step of a folder that is, or will be, known by a name."""
    pointer = path / _POINTER
    try:
        found = json.loads(pointer.read_bytes())
        version, step, digest = (found[name] for name in ("version", "step", "state_sha256"))
    except FileNotFoundError:
        if not path.is_dir():
            raise FileNotFoundError(f"{path}: there is no such checkpoint") from None
        return None
    except (ValueError, TypeError, LookupError, RecursionError):
        raise corrupt_error(f"{pointer} is damaged", str(pointer), 0) from None
    if type(step) is not int or version != _VERSION:
        raise ValueError(f"{pointer}: this version of Stoker cannot read version {version!r} of it")
    name = _NAME.fullmatch(known_as)
    if name is None or int(name[1]) != step:
        raise ValueError(f"{path} was checkpoint-{step}: give it that name again")
    if _digest_of(path) != digest:
        state = path / _STATE
        raise corrupt_error(f"{state} is missing or damaged", str(state), 0)
    return step


def _digest_of(folder: Path) -> str | None:
    try:
        return hashlib.sha256((folder / _STATE).read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def newest_first(run: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the folders `checkpoint-N` that have a trainer_state.json, the greatest N first."""
    found = []
    for path in Path(run).iterdir() if Path(run).is_dir() else ():
        name = _NAME.fullmatch(path.name)
        if name is not None and (path / _STATE).is_file():
            found.append((int(name[1]), path))
    for _, path in sorted(found, reverse=True):
        yield path


def unpublished(run: str | os.PathLike[str]) -> list[tuple[int, Path, Path]]:
    """Returns what a run that was killed had written and not published: step, folder, its name.

    Folders of which some files are missing are left out, and so are those whose name is taken.
    """
    found = []
    for hidden in Path(run).glob(".checkpoint-*.new"):
        folder = folder_of(hidden)
        try:
            step = None if folder.exists() else _pointed_step(hidden, folder.name)
        except (CorruptError, ValueError, FileNotFoundError):
            continue
        if step is not None:
            found.append((step, hidden, folder))
    return found


class Announcement:
    """A `checkpoint-N` that appears when its weights are durable, with all of its files.

    Attributes:
        folder: Where it will be.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.folder, self._step = folder, step
        self._hidden = make_hidden(folder)

    def write(self, trainer: Any, *, is_new: bool) -> None:
        """Writes what Transformers reads besides the weights: state, configuration, tokenizer.

        If the step is new, a later run may publish the folder as soon as there are weights of that
        step: they are those of this save, and not of one that an abandoned run has left.
        """
        trainer.state.save_to_json(str(self._hidden / _STATE))
        model = trainer.model
        adapters = list(getattr(model, "peft_config", {}).values())[:1]  # adapter_config.json
        parts: list[Any] = [getattr(model, "config", None), trainer.processing_class, *adapters]
        for part in parts:
            if hasattr(part, "save_pretrained"):
                part.save_pretrained(str(self._hidden))
        if is_new:
            self._point()

    def _point(self) -> None:
        pointer = {
            "version": _VERSION,
            "step": self._step,
            "state_sha256": _digest_of(self._hidden),
        }
        (self._hidden / _POINTER).write_text(json.dumps(pointer) + "\n")

    def publish(self) -> None:
        """Gives the folder its name, in place of one that an abandoned run has left."""
        self._point()
        sync_tree(self._hidden)
        remove_folder(self.folder)
        show(self._hidden, self.folder)

    def cancel(self) -> None:
        """Removes what was written."""
        shutil.rmtree(self._hidden, ignore_errors=True)


def remove_outdated(run: Path, steps: list[int]) -> None:
    """Removes each `checkpoint-N` whose step is gone from the Checkpointer's directory."""
    for path in newest_first(run):
        try:
            step = step_in(path)
        except (CorruptError, ValueError):
            continue  # a person has to look at it
        if step is not None and step not in steps:
            remove_folder(path)

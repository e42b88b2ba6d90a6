"""Folders of safetensors files, as Hugging Face writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from stoker._common.corrupt import corrupt_error
from stoker._common.plain_files import open_plain

_END = ".safetensors"
_INDEX_END = ".safetensors.index.json"
_INDEX = f"model{_INDEX_END}"
_INDEX_BYTES_MAX = 100 << 20


def shown(name: str) -> str:
    """Returns a name from a file for a message: as it is, if it can be printed on one line."""
    return name if name.isprintable() else repr(name)


def safetensors_files(path: str) -> dict[str, set[str]] | None:
    """Returns the files of a model, and the names that an index has for each.

    ``path``: a folder, or an index in it. The names are empty without an index: the files have them
    all. None for a folder that has no such files, or has checkpoints of some kind.

    Raises:
        CorruptError: The index is damaged, or names a file that is missing or elsewhere.
        ValueError: There are several indexes.
    """
    if path.endswith(_INDEX_END):
        return _indexed(path)
    if not Path(path).is_dir():
        return None
    if Path(path).resolve().name.startswith("step-"):  # a checkpoint, even without its manifest
        return None
    names = sorted(entry.name for entry in Path(path).iterdir())
    others = ("manifest.json", ".metadata", "latest")
    if any(name in others or name.startswith("step-") for name in names):
        return None
    indexes = [name for name in names if name.endswith(_INDEX_END)]
    if _INDEX in indexes:
        indexes = [_INDEX]
    if len(indexes) > 1:
        raise ValueError(f"{path}: it has several indexes: load one, such as {indexes[0]}")
    if indexes:
        return _indexed(str(Path(path) / indexes[0]))
    files = [str(Path(path) / name) for name in names if name.endswith(_END)]
    return {file: set() for file in files} or None


def _indexed(path: str) -> dict[str, set[str]]:
    def damaged(why: str) -> Exception:
        return corrupt_error(f"{path}: {why}", path, 0)

    with open_plain(path) as file:
        text = file.read(_INDEX_BYTES_MAX + 1)
    if len(text) > _INDEX_BYTES_MAX:
        raise damaged("an index of more than 100 MiB")
    try:
        index: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise damaged("it is not JSON") from None
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(f, str) for f in places.values()):
        raise damaged("it has no weight_map from names to files")
    folder = Path(path).parent
    files: dict[str, set[str]] = {}
    for name, file in places.items():
        if not file or file in (".", "..") or "/" in file or "\0" in file:
            raise damaged(f"{file!r} is not the name of a file in this folder")
        files.setdefault(os.fspath(folder / file), set()).add(name)
    for place in files:
        if not Path(place).is_file():
            raise damaged(f"it names a missing file: {shown(place)}")
    return files

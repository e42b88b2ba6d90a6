"""Reads and writes torch's files, restricted to tensors and plain values."""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import re
import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from stoker._checkpoint.foreign.dcp_metadata import RefusedPickleError, parse_metadata
from stoker._checkpoint.foreign.files import foreign_file
from stoker._common.corrupt import corrupt_error
from stoker._common.plain_files import open_plain
from stoker._native import CorruptError

_METADATA = ".metadata"  # a pickle of torch's metadata classes
_MESSAGE_MAX = 300
_NEITHER = "neither a file of torch.save() nor a safetensors file"
_DCP = "torch.distributed.checkpoint"


# The code in a pickle can do anything, so only who knows the file can decide.
_TRUST_ADVICE = (
    ". If you trust the file, load it in Python with torch.load(path, weights_only=False), and "
    "save what it has: saver.save(step, model=..., optimizer=...), where saver is a "
    "stoker.Checkpointer"
)


def import_torch(why: str) -> Any:
    """Imports torch; an ImportError says what it is needed for."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"{why}, and {sys.executable} has no torch: install it there, or let STOKER_PYTHON "
            "name the Python that has it"
        ) from None


def _one_line(error: BaseException) -> str:
    """Returns the reason alone: torch's messages add advice to run the file anyway."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text.rpartition("WeightsUnpickler error:")[2]
    for advice in ("Please ", "Check the documentation", "This file can still be loaded"):
        text = text.partition(advice)[0]
    return text.strip(" .")[:_MESSAGE_MAX]


def _load_plain(torch: Any, source: Any, name: str, advice: str = "") -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols
            return torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise RefusedPickleError(
            f"{name}: refused, nothing in it was run: it has more than tensors and plain values "
            f"({_one_line(error)}){advice}"
        ) from None
    except (RuntimeError, EOFError, KeyError, ValueError, AttributeError) as error:
        # For garbage, the unpickler's message is only a number, or empty.
        words = {KeyError: "its contents are not a pickle", EOFError: "it ends too soon"}
        reason = words.get(type(error)) or _one_line(error)
        raise corrupt_error(f"{name}: no file of torch.save(): {reason}", name) from None


def load_plain_values(data: BinaryIO, name: str) -> Any:
    """Loads what ``torch.save`` has written to memory; no code in it runs.

    Raises:
        TypeError: It has more than tensors and plain values; names ``name``.
    """
    data.seek(0)
    try:
        return _load_plain(importlib.import_module("torch"), data, name)
    except RefusedPickleError as error:
        raise TypeError(f"{error}. Save the values that it is made of") from None


def load_pt(path: Path) -> Any:
    """Loads a file of ``torch.save`` with ``weights_only=True``: no code in it runs.

    Raises:
        RefusedPickleError: It has more than tensors and plain values.
        CorruptError: It is not such a file.
    """
    torch = import_torch(f"{path}: read by torch")
    with open_plain(path) as file:
        try:
            return _load_plain(torch, file, str(path), _TRUST_ADVICE)
        except CorruptError as error:
            known = foreign_file(path)
            if known is None:
                message = str(error).replace("no file of torch.save()", _NEITHER, 1)
                raise corrupt_error(message, str(path)) from None
            raise corrupt_error(f"{error}: it is {known}", str(path)) from None


def _read_metadata(directory: Path, folder: int) -> Any:
    path = directory / _METADATA
    try:
        with open_plain(_METADATA, dir_fd=folder) as file:
            metadata = parse_metadata(file.read())
    except FileNotFoundError:
        message = f"{directory}: no {_METADATA}, so no distributed checkpoint of torch"
        raise corrupt_error(message, str(directory)) from None
    except OSError as error:
        raise _named(error, path) from None
    except RefusedPickleError as error:
        raise RefusedPickleError(
            f"{path}: refused, nothing in it was run: a distributed checkpoint's metadata has no "
            f"{_one_line(error)}"
        ) from None
    except ValueError as error:
        message = f"{path}: no metadata of a distributed checkpoint: {_one_line(error)}"
        raise corrupt_error(message, str(path)) from None
    _check_files(directory, folder, metadata)
    return metadata


def _check_files(directory: Path, folder: int, metadata: Any) -> None:
    """Checks that the files are plain files in the directory, with the sizes in the metadata."""
    ends: dict[str, int] = {}
    for info in metadata.storage_data.values():
        ends[info.relative_path] = max(ends.get(info.relative_path, 0), info.offset + info.length)
    for name, end in ends.items():
        path = directory / name
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise RefusedPickleError(
                f"{directory / _METADATA}: names a file outside of its directory: {name!r}"
            )
        try:
            with open_plain(name, dir_fd=folder) as file:
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise _named(error, path) from None
        if size < end:
            message = f"{path}, offset {size}: it ends there, and {_METADATA} says {end} bytes"
            raise corrupt_error(message, str(path), size)


def _named(error: OSError, path: Path) -> OSError:
    """Returns the error with the whole path: the file was opened by its name in a directory."""
    what = "a symbolic link, which is not followed" if error.errno == errno.ELOOP else None
    return type(error)(error.errno, what or error.strerror, str(path))


def load_dcp(directory: Path) -> Any:
    """Loads the whole state of a distributed checkpoint into memory.

    Uses torch's reader and planner, except where they would unpickle anything: the metadata
    (dcp_metadata.py), and values that are not tensors, which are loaded with ``weights_only=True``.
    Data files must be plain files of the directory; links in it are not followed.

    Raises:
        RefusedPickleError: It has more than tensors and plain values.
        CorruptError: It is not such a directory, or it is damaged.
    """
    torch = import_torch(f"{directory}: read by torch")
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        metadata = _read_metadata(directory, folder)
        return with_numbers(_load_state(torch, directory, folder, metadata))
    finally:
        os.close(folder)


def with_numbers(state: Any) -> Any:
    """Converts the keys of every optimizer's state back to the numbers of parameters.

    A distributed checkpoint converts each key to str, and an optimizer does not find its moments
    under those.
    """
    if isinstance(state, list):
        return [with_numbers(part) for part in state]
    if not isinstance(state, dict):
        return state
    state = {key: with_numbers(part) for key, part in state.items()}
    moments = state.get("state")
    if "param_groups" in state and isinstance(moments, dict):
        numbers = {key: int(key) for key in moments if _is_number(key)}
        state["state"] = {numbers.get(key, key): part for key, part in moments.items()}
    return state


def _is_number(key: Any) -> bool:
    return isinstance(key, str) and re.fullmatch("0|[1-9][0-9]{0,17}", key) is not None


def _load_state(torch: Any, directory: Path, folder: int, metadata: Any) -> dict[str, Any]:
    reader, planner = _dcp_reader(torch, directory, folder, metadata)
    loader = importlib.import_module(f"{_DCP}.state_dict_loader")
    state: dict[str, Any] = {}
    try:
        loader._load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
    except (CorruptError, RefusedPickleError, OSError):
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # torch's does not derive from Exception, and wraps the cause
        for inner in _causes(error):
            if isinstance(inner, (CorruptError, RefusedPickleError)):
                raise inner from None
        message = f"{directory}: cannot be read: {_one_line(error)}"
        raise corrupt_error(message, str(directory)) from None
    return state


def _causes(error: BaseException) -> list[BaseException]:
    failures = getattr(error, "failures", None)  # of CheckpointException, by rank
    inner = [failure[0] for failure in failures.values()] if failures else []
    return [*inner, *(cause for cause in (error.__cause__, error.__context__) if cause)]


def _dcp_reader(torch: Any, directory: Path, folder: int, metadata: Any) -> tuple[Any, Any]:
    files = importlib.import_module(f"{_DCP}.filesystem")
    planners = importlib.import_module(f"{_DCP}.default_planner")
    meta = importlib.import_module(f"{_DCP}.metadata")

    class Files(files.FileSystem):  # type: ignore[misc, name-defined]
        def create_stream(self, path: Any, mode: str) -> Any:
            if mode != "rb":
                raise ValueError(f"{path}: opened to be read")
            return open_plain(Path(path).name, dir_fd=folder)

    class Reader(files.FileSystemReader):  # type: ignore[misc, name-defined]
        def read_metadata(self, *_args: Any, **_kwargs: Any) -> Any:
            metadata.storage_meta = metadata.storage_meta or meta.StorageMeta()
            metadata.storage_meta.load_id = self.load_id
            return metadata

    class Planner(planners._EmptyStateDictLoadPlanner):  # type: ignore[misc, name-defined]
        def load_bytes(self, read_item: Any, value: Any) -> None:
            name = read_item.dest_index.fqn
            loaded = _load_plain(torch, value, f"{directory}: {name}")
            self.state_dict[name] = loaded
            if self.flatten_state_dict:
                flatten = importlib.import_module(f"{_DCP}._nested_dict")
                flatten.set_element(self.original_state_dict, self.mappings[name], loaded)

    reader = Reader(directory)
    reader.fs = Files()
    return reader, Planner()


class _Out:
    """A file that remembers its first error: torch reports a full disk without the reason."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: tuple[int | None, str | None] | None = None  # not the error: it keeps frames

    def write(self, data: Any) -> int:
        """Writes all data."""
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = self.error or (error.errno, error.strerror)
            raise

    def flush(self) -> None:
        """Flushes to the operating system."""
        self._file.flush()


def save_pt(tree: Any, file: BinaryIO) -> None:
    """Writes a file for ``torch.load`` with ``weights_only=True``, and checks that it loads.

    Raises:
        ValueError: torch.save() or torch.load() refuses it.
        OSError: The file cannot be written, for example for lack of space.
    """
    torch = import_torch("a file of torch.save()")
    out = _Out(file)
    try:
        torch.save(tree, out)
    except KeyError as error:  # of torch's table of element types
        raise ValueError(
            f"torch.save() cannot write it: {error.args[0]}. Write OUT.safetensors, or choose "
            "other tensors with --only"
        ) from None
    except RuntimeError:
        if out.error is None:
            raise
        raise OSError(*out.error) from None
    file.seek(0)
    try:
        torch.load(file, map_location="meta", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"torch.load(weights_only=True) would not take this state: {_one_line(error)}"
        ) from None

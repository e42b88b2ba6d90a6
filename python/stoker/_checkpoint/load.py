"""stoker.load: the tensors of a checkpoint by name, read on demand."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

import numpy.typing as npt

from stoker import _native
from stoker._checkpoint.device.load_device import read_into, read_to
from stoker._checkpoint.foreign.dcp_items import PATHS, saved_by_dcp, with_lists
from stoker._checkpoint.foreign.files import foreign_directory, foreign_file, is_dataset
from stoker._checkpoint.foreign.safetensors_file import SafetensorsFile
from stoker._checkpoint.foreign.safetensors_folder import safetensors_files, shown
from stoker._checkpoint.read_tree import TreeReader
from stoker._checkpoint.settings import name_of
from stoker._checkpoint.state.nodes import TensorNode, decode_tree, manifest_path
from stoker._checkpoint.state.rank_states import identity_in, states_of, tree_of_all
from stoker._checkpoint.state.trainable import Trainable
from stoker._checkpoint.state.values import parts_of, with_parts
from stoker._checkpoint.tensors.flattened import Flattened
from stoker._checkpoint.tensors.lazy_tensor import Box, LazyTensor, Source
from stoker._checkpoint.tensors.memory import UnsupportedValueError, memory_of_array
from stoker._common.corrupt import corrupt_error
from stoker._common.paths import path_text

_log = logging.getLogger("stoker")
_TOLD_MAX = 5
_LISTINGS_MAX = 1000  # no writer overtakes this reader more often in a row


class _CheckpointSource:
    def __init__(self, native: _native.OpenCheckpoint) -> None:
        self.native = native

    def read_box(self, name: str, box: Box | None, into: npt.NDArray[Any]) -> None:
        memory = memory_of_array(into)
        try:
            self.native.read_all([(name, box, memory.address, None, memory.bounds)])
        except _native.CorruptError as error:
            error.tensor = name
            raise


class Loaded(Mapping[str, LazyTensor]):
    """The tensors of a checkpoint or a safetensors file, by name, read on demand.

    Attributes:
        source: The path it was opened from.
        step: The step; None for a plain file, which has none of the following either.
        reference: The reference numbers that were saved.
        extra: The ``extra`` value that was saved.
        state: The trees by name, with a LazyTensor for each array; rank 0's if several ranks saved.
    """

    def __init__(self, source: str, tensors: dict[str, LazyTensor]) -> None:
        self.source = source
        self._tensors = tensors
        self.step: int | None = None
        self.reference: dict[str, float] = {}
        self.extra: Any = None
        self.state: Any = None
        self._read: Callable[[], dict[str, Any]] | None = None  # of a checkpoint

    def read(self) -> dict[str, Any]:
        """Reads everything into memory, and returns it.

        Returns:
            The trees by name as they were saved, with new arrays and tensors; of several ranks
            those of rank 0. Of a file: arrays by name.

        Raises:
            ValueError: A tensor subclass, which can only be restored into an object.
            CorruptError: It is damaged.
        """
        if self._read is None:
            return {name: tensor[...] for name, tensor in self.items()}
        return self._read()

    def __getitem__(self, name: str) -> LazyTensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"{self.source} has no tensor {name}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def _under(self, prefix: str) -> dict[str, LazyTensor]:
        """Returns the tensors whose names begin with the prefix, by the rest of their names."""
        cut = len(prefix)
        found = {name[cut:]: one for name, one in self._tensors.items() if name.startswith(prefix)}
        if prefix and not found:
            begins = list(dict.fromkeys(name.partition(".")[0] for name in self._tensors))
            told = ", ".join(repr(f"{name}.") for name in begins[:_TOLD_MAX])
            raise ValueError(
                f"{self.source}: no name begins with {prefix!r}; names begin with {told or 'none'}"
                + (f" and {len(begins) - _TOLD_MAX} more" if len(begins) > _TOLD_MAX else "")
            )
        return found

    def __repr__(self) -> str:
        return f"<stoker.Loaded {self.source}: {len(self)} tensor{'' if len(self) == 1 else 's'}>"


def _open_file(path: str) -> SafetensorsFile:
    try:
        return SafetensorsFile(path)
    except _native.CorruptError:
        known = foreign_file(path)
        if known is None:
            raise
        raise ValueError(f"{path}: it is {known}") from None


def _load_file(path: str) -> Loaded:
    file = _open_file(path)
    tensors = {}
    for name, (kind, shape) in file.tensors.items():
        with contextlib.suppress(UnsupportedValueError):  # elements smaller than a byte
            tensors[name] = LazyTensor(file, name, kind, shape)
    return Loaded(path, tensors)


def _load_files(
    path: str, files: dict[str, set[str]], *, at_once: bool
) -> tuple[Loaded, _native.OpenCheckpoint]:
    """Opens the files of a model together. With an index, all names must be where it says."""
    for file, names in files.items():
        if missing := names - _open_file(file).tensors.keys():
            message = f"{file}: there is no {shown(min(missing))}, which the index says is there"
            raise corrupt_error(message, file, 0)
    native = _native.open_safetensors([os.fsencode(file) for file in files], at_once)
    wanted = set().union(*files.values())
    if wanted - {name for name, _, _ in native.tensors()}:
        raise corrupt_error(
            f"{path}: a file was replaced while it was opened: load it again", path, 0
        )
    return Loaded(path, _tensors_of(native, wanted)), native


def _tensors_of(
    native: _native.OpenCheckpoint, only: set[str] | None = None
) -> dict[str, LazyTensor]:
    source = _CheckpointSource(native)
    tensors = {}
    for name, kind, shape in native.tensors():
        if only and name not in only:
            continue
        with contextlib.suppress(UnsupportedValueError):  # elements smaller than a byte
            tensors[name] = LazyTensor(source, name, kind, shape)
    return tensors


def _with_step(path: str) -> str:
    """Returns the path with the step's directory name in place of its number."""
    parent, last = os.path.split(path.rstrip("/"))
    if not last.isascii() or not last.isdecimal() or os.path.lexists(path):
        return path
    return os.path.join(parent, name_of(last))  # noqa: PTH118


def _directory_of(path: str) -> str:
    parent, last = os.path.split(path.rstrip("/") or path)
    return parent or "." if last == "latest" else path


def _nothing_at(path: str) -> Exception | None:
    """Returns what to raise if there are no checkpoints; None if there are some."""
    directory = _directory_of(path)
    parent, last = os.path.split(path.rstrip("/"))
    if last.startswith("step-") and not os.path.lexists(path):
        directory = parent or "."
    none = f"no checkpoints in {directory}"
    if not os.path.isdir(directory):  # noqa: PTH112
        return FileNotFoundError(f"{none}: there is no such directory")
    names = os.listdir(directory)  # noqa: PTH208
    if "manifest.json" in names:
        return None
    if any(name.startswith("step-") for name in names):
        is_missing = directory != path and last != "latest"
        return FileNotFoundError(f"no checkpoint {last} in {directory}") if is_missing else None
    known = foreign_directory(directory)
    return FileNotFoundError(none) if known is None else ValueError(f"{directory}: it is {known}")


def _open(path: str, *, at_once: bool = False) -> _native.OpenCheckpoint:
    """Opens a checkpoint; a directory of checkpoints, and ``latest`` in it, means the newest one.

    The link may be outdated, or broken for a moment: only the generations say which is newest. A
    writer may remove a checkpoint between listing and opening, but only after it has committed a
    newer one: so the directory is listed again until nothing changes.
    """
    directory = _directory_of(path)
    before: list[Any] | None = None
    for _ in range(_LISTINGS_MAX):
        names = os.listdir(directory) if os.path.isdir(directory) else []  # noqa: PTH112, PTH208
        is_run = any(name.startswith("step-") for name in names)
        if "manifest.json" in names or not (is_run or "latest" in names):
            break
        found = _native.list_checkpoints(os.fsencode(directory), for_newest=True)
        opened, error = _open_first(directory, found, at_once)
        if opened is not None:
            return opened
        if found == before:
            if error is not None:
                raise error
            if found:
                path = f"{directory}/{found[0][0]}"  # damaged: opening it raises the reason
            break
        before = found
    return _native.OpenCheckpoint(os.fsencode(path), at_once)


def _open_first(
    directory: str, found: list[tuple[str, int, bool, int, str | None, str]], at_once: bool
) -> tuple[_native.OpenCheckpoint | None, Exception | None]:
    """Returns the first valid checkpoint, otherwise the first error.

    A damaged checkpoint may be the newest, which cannot be known: it is tried first, and logged.
    """
    errors: dict[bool, Exception] = {}  # by whether the listing found it valid
    passed_over = []
    for name, _, _, _, damage, _ in sorted(found, key=lambda one: one[4] is None):
        try:
            opened = _native.OpenCheckpoint(os.fsencode(f"{directory}/{name}"), at_once)
        except (_native.CorruptError, FileNotFoundError) as error:
            errors.setdefault(damage is None, error)
            if isinstance(error, _native.CorruptError):  # otherwise it was removed meanwhile
                passed_over.append((name, error))
            continue
        for passed, why in passed_over:
            _log.warning("passed over %s: %s", passed, why)
        return opened, None
    return None, errors.get(True, errors.get(False))


@overload
def load(
    path: str | os.PathLike[str], *, device: None = None, prefix: str = "", into: None = None
) -> Loaded: ...
@overload
def load(path: str | os.PathLike[str], *, device: Any, prefix: str = "") -> dict[str, Any]: ...
@overload
def load(
    path: str | os.PathLike[str], *, prefix: str = "", into: Mapping[str, Any]
) -> dict[str, Any]: ...


def load(
    path: str | os.PathLike[str],
    *,
    device: Any = None,
    prefix: str = "",
    into: Mapping[str, Any] | None = None,
) -> Loaded | dict[str, Any]:
    """Opens a checkpoint for reading, even while others write to its directory.

    >>> stoker.load("run/checkpoints/latest")["state.w"][0:16]
    >>> model.load_state_dict(stoker.load("Llama-3.1-8B", device="cuda:0"))
    >>> stoker.load("run/checkpoints", prefix="model.", into=model.state_dict())

    With ``device`` or ``into``, all tensors are read at once, each byte once, by several threads,
    and the result is a dict. They are read through the page cache: if several processes of a
    machine load the same files, the disk is read once.

    Args:
        path: A checkpoint (``run/40000`` is step 40000 in ``run``), ``latest`` or a directory of
            checkpoints (the newest with a valid manifest; damaged ones are logged), any safetensors
            file, or a folder of them as Hugging Face writes it, with or without an index. Such
            files have no checksums to check.
        device: A device of torch, where new tensors are made. Nothing that a checksum does not
            match gets to a GPU. Without torch, ``"cpu"`` gives NumPy arrays.
        prefix: Only the tensors whose names begin with it, by the rest of their names.
        into: Arrays and tensors by name, on any devices, which are filled in place. Nothing else is
            read. After a CorruptError, what they contain is undefined.

    Raises:
        FileNotFoundError: There is no such file, or there are no checkpoints.
        ValueError: It is a file of another kind, such as one of torch.save(); says what to do. Or
            torch lacks the type or shape of a tensor, no name begins with ``prefix``, or what is in
            ``into`` is not there or has another type or shape: then nothing was changed.
        CorruptError: It is damaged.
    """
    if device is not None and into is not None:
        raise ValueError("give device= for new tensors or into= to fill existing ones, not both")
    if into is not None and not isinstance(into, Mapping):
        kind = type(into).__name__
        raise TypeError(f"into= takes tensors by name, such as model.state_dict(), and no {kind}")
    at_once = device is not None or into is not None
    loaded, native = _load(path_text(path), at_once=at_once)
    found = loaded._under(prefix)
    if not at_once:
        loaded._tensors = found
        return loaded
    assert native is not None
    if into is not None:
        return read_into(found, native, into, loaded.source)
    return read_to(found, native, device)


def _load(path: str, *, at_once: bool) -> tuple[Loaded, _native.OpenCheckpoint | None]:
    """Returns the tensors, and what reads them all; None for a file, except ``at_once``."""
    files = safetensors_files(path)
    if files is not None:
        return _load_files(path, files, at_once=at_once)
    if os.path.isfile(path):  # noqa: PTH113
        if at_once:
            return _load_files(path, {path: set()}, at_once=True)
        return _load_file(path), None
    native = open_checkpoint(path, at_once=at_once)
    return _load_checkpoint(native), native


def open_checkpoint(path: str, *, at_once: bool = False) -> _native.OpenCheckpoint:
    """Opens a checkpoint by the path that ``load`` takes; raises what that raises."""
    path = _with_step(path)
    if is_dataset(path):
        raise ValueError(f"{path}: it is a dataset: open it with stoker.Dataset({path!r})")
    try:
        return _open(path, at_once=at_once)
    except OSError:
        nothing = _nothing_at(path)
        if nothing is None:
            raise
        raise nothing from None


def _load_checkpoint(native: _native.OpenCheckpoint) -> Loaded:
    source = _CheckpointSource(native)
    stored = {name: (kind, shape) for name, kind, shape in native.tensors()}
    tensors = _tensors_of(native)
    loaded = Loaded(native.directory, tensors)
    loaded.step = native.step
    loaded.reference = native.reference
    manifest = manifest_path(native)
    loaded.extra = decode_tree(native.extra, "extra", manifest, arrays=False)
    trees = states_of(native, manifest)
    state = tree_of_all(trees, identity_in(native), own=0) if trees else None
    if saved_by_dcp(loaded.extra) == PATHS:
        state = with_lists(state)
    loaded.state = _with_tensors(state, source, stored, tensors, "")
    if state is not None:
        loaded._read = lambda: dict(TreeReader(native).value(state, "state"))
    return loaded


def _with_tensors(
    node: Any,
    source: Source,
    stored: dict[str, tuple[str, tuple[int, ...]]],
    tensors: dict[str, LazyTensor],
    name: str,
) -> Any:
    """Returns the tree with its tensors. Adds a name for tensors stored under another name."""
    if isinstance(node, TensorNode):
        lazy = tensors.get(node.name)
        if lazy is not None and node.element is not None:
            lazy = LazyTensor(source, node.name, *stored[node.name], node.element)
            tensors[node.name] = lazy
        if lazy is not None:
            tensors.setdefault(name, lazy)
        return lazy
    if isinstance(node, Trainable):
        return _with_tensors(node["state"], source, stored, tensors, name)
    if isinstance(node, Flattened):
        inner = _with_tensors(node["tensors"], source, stored, tensors, name)
        return {**node, "tensors": inner}
    parts = parts_of(node)
    if parts is None:
        return node
    prefix = f"{name}." if name else ""
    items = [_with_tensors(item, source, stored, tensors, f"{prefix}{key}") for key, item in parts]
    return with_parts(node, items)

"""stoker.load: the tensors of a checkpoint by name, read on demand."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._checkpoint.flattened import Flattened
from stoker._checkpoint.foreign.files import foreign_directory, foreign_file, is_dataset
from stoker._checkpoint.foreign.safetensors_file import SafetensorsFile
from stoker._checkpoint.memory import (
    UnsupportedValueError,
    array_layout,
    memory_of_array,
    new_array,
)
from stoker._checkpoint.nodes import TensorNode, decode_tree, manifest_path
from stoker._checkpoint.ranks import identity_in, states_of, tree_of_all
from stoker._checkpoint.settings import name_of
from stoker._checkpoint.trainable import Trainable
from stoker._checkpoint.values import parts_of, with_parts
from stoker._common.paths import path_text

_log = logging.getLogger("stoker")
_LISTINGS_MAX = 1000  # no writer is faster than this reader so many times in a row
Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, shape


class Source(Protocol):
    """A source of tensors: a checkpoint, or a safetensors file."""

    def read_box(self, name: str, box: Box | None, into: npt.NDArray[Any]) -> None:
        """Fills a contiguous array."""


def _box_of(index: Any, shape: tuple[int, ...]) -> tuple[Box, tuple[Any, ...]]:
    """Returns the smallest box around what ``index`` selects, and the index into that box."""
    wanted = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(wanted) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not dots:
        wanted.append(Ellipsis)
    at = dots[0] if dots else len(wanted) - 1
    free = len(shape) - (len(wanted) - 1)
    if free < 0:
        raise IndexError(f"too many indices for {len(shape)} dimensions")
    wanted[at : at + 1] = [slice(None)] * free
    offsets: list[int] = []
    sizes: list[int] = []
    inner: list[Any] = []
    for item, size in zip(wanted, shape, strict=True):
        if isinstance(item, slice):
            steps = range(*item.indices(size))
            # Its ends: min() and max() would iterate over all of it.
            ends = sorted((steps[0], steps[-1])) if steps else [0, -1]
            offsets.append(ends[0])
            sizes.append(ends[1] - ends[0] + 1)
            inner.append(slice(None, None, steps.step))
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            number = int(item)
            if not -size <= number < size:
                raise IndexError(f"index {number} is out of bounds for a dimension of {size}")
            offsets.append(number % size)
            sizes.append(1)
            inner.append(0)
        else:
            raise TypeError(f"index with numbers and slices, not {type(item).__name__}")
    return (tuple(offsets), tuple(sizes)), tuple(inner)


class LazyTensor:
    """A tensor on disk: slices of it are read and checked on demand.

    ``tensor[0:16]``, ``tensor[...]`` and ``np.asarray(tensor)`` give NumPy arrays. NumPy lacks
    bfloat16 and float8: they become unsigned integers of their size.

    Attributes:
        name: Its name in the files.
        type: Type of its elements in safetensors: "BF16".
        shape: Shape of the array.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        element: str | None = None,
    ) -> None:
        self._source = source
        self._element = element
        self.name = name
        self.type = kind
        self._stored = shape
        self.dtype, self.shape = array_layout(kind, shape, element)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        (offsets, sizes), inner = _box_of(index, self.shape)
        last = self._stored[len(self.shape) :]
        box = (offsets + tuple(0 for _ in last), sizes + last)
        array = new_array(self.type, box[1], self._element)
        if array.size:
            whole = box[1] == self._stored
            self._source.read_box(self.name, None if whole else box, array)
        return array[inner]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("what is on the disk cannot be had without a copy")
        array: npt.NDArray[Any] = np.asarray(self[...])
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<stoker.LazyTensor {self.name}: {self.type} {self.shape}>"


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

    def __getitem__(self, name: str) -> LazyTensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"{self.source} has no tensor {name}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<stoker.Loaded {self.source}: {len(self)} tensor{'' if len(self) == 1 else 's'}>"


def _load_file(path: str) -> Loaded:
    try:
        file = SafetensorsFile(path)
    except _native.CorruptError:
        known = foreign_file(path)
        if known is None:
            raise
        raise ValueError(f"{path}: it is {known}") from None
    tensors = {}
    for name, (kind, shape) in file.tensors.items():
        with contextlib.suppress(UnsupportedValueError):  # elements smaller than a byte
            tensors[name] = LazyTensor(file, name, kind, shape)
    return Loaded(path, tensors)


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


def _open(path: str) -> _native.OpenCheckpoint:
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
        opened, error = _open_first(directory, found)
        if opened is not None:
            return opened
        if found == before:
            if error is not None:
                raise error
            if found:
                path = f"{directory}/{found[0][0]}"  # damaged: opening it raises the reason
            break
        before = found
    return _native.OpenCheckpoint(os.fsencode(path))


def _open_first(
    directory: str, found: list[tuple[str, int, bool, int, str | None, str]]
) -> tuple[_native.OpenCheckpoint | None, Exception | None]:
    """Returns the first valid checkpoint, otherwise the first error.

    A damaged checkpoint may be the newest, which cannot be known: it is tried first, and logged.
    """
    errors: dict[bool, Exception] = {}  # by whether the listing found it valid
    passed_over = []
    for name, _, _, _, damage, _ in sorted(found, key=lambda one: one[4] is None):
        try:
            opened = _native.OpenCheckpoint(os.fsencode(f"{directory}/{name}"))
        except (_native.CorruptError, FileNotFoundError) as error:
            errors.setdefault(damage is None, error)
            if isinstance(error, _native.CorruptError):  # otherwise it was removed meanwhile
                passed_over.append((name, error))
            continue
        for passed, why in passed_over:
            _log.warning("passed over %s: %s", passed, why)
        return opened, None
    return None, errors.get(True, errors.get(False))


def load(path: str | os.PathLike[str]) -> Loaded:
    """Opens a checkpoint for reading, even while others write to its directory.

    >>> stoker.load("run/checkpoints/latest")["state.w"][0:16]

    Args:
        path: A checkpoint (``run/40000`` is step 40000 in ``run``), ``latest`` or a directory of
            checkpoints (the newest with a valid manifest; damaged ones are logged), or any
            safetensors file, which has no checksums to check.

    Raises:
        FileNotFoundError: There is no such file, or there are no checkpoints.
        ValueError: It is a file of another kind, such as one of torch.save(); says what to do.
        CorruptError: It is damaged.
    """
    path = path_text(path)
    if os.path.isfile(path):  # noqa: PTH113
        return _load_file(path)
    path = _with_step(path)
    if is_dataset(path):
        raise ValueError(f"{path}: it is a dataset: open it with stoker.Dataset({path!r})")
    try:
        native = _open(path)
    except OSError:
        nothing = _nothing_at(path)
        if nothing is None:
            raise
        raise nothing from None
    source = _CheckpointSource(native)
    stored = {name: (kind, shape) for name, kind, shape in native.tensors()}
    tensors: dict[str, LazyTensor] = {}
    for name, (kind, shape) in stored.items():
        with contextlib.suppress(UnsupportedValueError):  # elements smaller than a byte
            tensors[name] = LazyTensor(source, name, kind, shape)
    loaded = Loaded(native.directory, tensors)
    loaded.step = native.step
    loaded.reference = native.reference
    manifest = manifest_path(native)
    loaded.extra = decode_tree(native.extra, "extra", manifest, arrays=False)
    trees = states_of(native, manifest)
    state = tree_of_all(trees, identity_in(native), own=0) if trees else None
    loaded.state = _with_tensors(state, source, stored, tensors, "")
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

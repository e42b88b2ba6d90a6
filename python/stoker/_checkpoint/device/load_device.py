"""stoker.load with device= or into=: many tensors of a checkpoint, read at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy.typing as npt

from stoker import _native
from stoker._checkpoint.device.cuda import has_cuda
from stoker._checkpoint.device.cuda_load import is_filled_directly
from stoker._checkpoint.device.targets import Place, Targets
from stoker._checkpoint.tensors.memory import (
    Memory,
    UnsupportedValueError,
    check_writable,
    describe,
    memory_of,
    quick_memory,
)
from stoker._common.collector import paused_collector
from stoker._common.corrupt import tensor_in

_TOLD_MAX = 10


class Stored(Protocol):
    """A tensor on disk."""

    name: str

    @property
    def layout(self) -> tuple[str, tuple[int, ...], str | None]:
        """Type and shape as stored, and its elements, as in a Memory."""

    def new_array(self) -> npt.NDArray[Any]:
        """Returns an array for it, without its elements."""

    def new_tensor(self, device: Any) -> Any:
        """Returns a torch tensor for it, without its elements."""


@paused_collector()
def read_to(
    stored: Mapping[str, Stored], checkpoint: _native.OpenCheckpoint, device: Any
) -> dict[str, Any]:
    """Reads all tensors to a device; several names of one tensor get one torch tensor.

    Without torch, "cpu" gives NumPy arrays.
    """
    try:
        device = importlib.import_module("torch").device(device)
    except ModuleNotFoundError as error:
        if error.name != "torch" or str(device) != "cpu":
            raise
        device = None
    made: dict[int, Any] = {}
    targets = Targets()
    for name, one in stored.items():
        if id(one) in made:
            continue
        array = one.new_array() if device is None else one.new_tensor(device)
        made[id(one)] = array
        memory = quick_memory(array, has_cuda()) or memory_of(array)
        assert memory is not None
        targets.add(Place(name, one.name, None, array, memory, not is_filled_directly(memory)))
    _read(targets, checkpoint)
    return {name: made[id(one)] for name, one in stored.items()}


@paused_collector()
def read_into(
    stored: Mapping[str, Stored],
    checkpoint: _native.OpenCheckpoint,
    into: Mapping[str, Any],
    source: str,
) -> dict[str, Any]:
    """Reads tensors into existing arrays and tensors, on any devices.

    Raises:
        ValueError: One of them cannot be filled, or has another type or shape than what is stored
            under its name; nothing was changed.
    """
    targets = Targets(source)
    misfits: list[str] = []
    missing: list[tuple[str, Memory]] = []
    filled = set()
    for name, array in into.items():
        try:
            memory = quick_memory(array, has_cuda()) or memory_of(array)
            if memory is None:
                raise UnsupportedValueError(f"a {type(array).__name__}, not an array or a tensor")
            check_writable(memory, array)
        except UnsupportedValueError as error:
            misfits.append(f"{name}: cannot be filled: {error}")
            continue
        one = stored.get(name)
        if one is None:
            missing.append((name, memory))
        elif (memory.type, memory.shape, memory.element) != one.layout:
            misfits.append(f"{name}: {memory.describe()}, but {describe(*one.layout)} is stored")
        else:
            filled.add(memory.key)
            is_staged = not is_filled_directly(memory)
            targets.add(Place(name, one.name, None, array, memory, is_staged))
    # Of tied weights, many files have only one name.
    misfits += [f"{name}: not there" for name, memory in missing if memory.key not in filled]
    if misfits:
        lines = "\n  ".join(misfits[:_TOLD_MAX])
        more = len(misfits) - _TOLD_MAX
        rest = f"\n  and {more} more" if more > 0 else ""
        raise ValueError(f"{source} does not fit, and nothing was changed:\n  {lines}{rest}")
    _read(targets, checkpoint)
    return dict(into)


def _read(targets: Targets, checkpoint: _native.OpenCheckpoint) -> None:
    wanted = targets.resolve(checkpoint)
    try:
        targets.read(checkpoint, wanted)
    except _native.CorruptError as error:
        error.tensor = tensor_in(str(error), [target[0] for target in wanted])
        raise
    targets.copy()

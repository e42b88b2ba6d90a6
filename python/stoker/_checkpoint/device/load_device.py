"""stoker.load(device=): all tensors of a checkpoint as torch tensors, read at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from stoker import _native
from stoker._checkpoint.device.cuda import has_cuda
from stoker._checkpoint.device.cuda_load import is_filled_directly
from stoker._checkpoint.device.targets import Place, Targets
from stoker._checkpoint.tensors.memory import memory_of, quick_memory
from stoker._common.collector import paused_collector
from stoker._common.corrupt import tensor_in


class Stored(Protocol):
    """A tensor on disk."""

    name: str

    def new_tensor(self, device: Any) -> Any:
        """Returns a torch tensor for it, without its elements."""


@paused_collector()
def read_to(
    stored: Mapping[str, Stored], checkpoint: _native.OpenCheckpoint, device: Any
) -> dict[str, Any]:
    """Reads all tensors to a device; several names of one tensor get one torch tensor."""
    device = importlib.import_module("torch").device(device)
    made: dict[int, Any] = {}
    targets = Targets()
    for name, one in stored.items():
        if id(one) in made:
            continue
        tensor = made[id(one)] = one.new_tensor(device)
        memory = quick_memory(tensor, has_cuda()) or memory_of(tensor)
        assert memory is not None
        place = Place(name, one.name, None, tensor, memory, not is_filled_directly(memory))
        targets.add(place)
    wanted = targets.resolve(checkpoint)
    try:
        targets.read(checkpoint, wanted)
    except _native.CorruptError as error:
        error.tensor = tensor_in(str(error), [target[0] for target in wanted])
        raise
    targets.copy()
    return {name: made[id(one)] for name, one in stored.items()}

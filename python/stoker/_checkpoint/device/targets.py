"""Where tensors are read to: directly into arrays, or into staging memory and then copied."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from stoker import _native
from stoker._checkpoint.device.cuda_load import (
    await_copies,
    device_of,
    is_on_cuda,
    new_device_staging,
    streams_for,
)
from stoker._checkpoint.tensors.memory import Memory, copy_into, memory_of, new_staging
from stoker._checkpoint.tensors.slice import Box
from stoker._common.collector import paused_collector
from stoker._common.torch import tell_autograd

_log = logging.getLogger("stoker")


class Place(NamedTuple):
    """One array to fill.

    Attributes:
        path: Its place in the trees, for messages.
        name: Name of the stored tensor.
        box: The part of the tensor; None for all.
        array: The array or tensor, which may be on a device.
        memory: The memory of the array.
        is_staged: Whether it is filled by a copy, after everything was read.
    """

    path: str
    name: str
    box: Box | None
    array: Any
    memory: Memory
    is_staged: bool = False


class Targets:
    """Collects places, and plans how to fill them so that the order of the tree decides.

    Threads read, and no two of them may write to the same memory. If places share memory, the later
    one in the tree wins, as in torch's load_state_dict. Arrays that are staged, and those that
    overlap with an earlier place, are read into staging memory; ``copy`` copies them after
    everything was read and checked. Staging memory is the host's, except for overlapping tensors on
    a CUDA device that has room, and for those with gaps.
    """

    def __init__(self, source: str | None = None) -> None:
        self._source = source  # for messages; None: the step
        self._places: list[Place] = []
        self._copies: list[tuple[Any, Any]] = []

    def add(self, place: Place) -> None:
        """Adds a place; call in the order of the tree."""
        self._places.append(place)

    @paused_collector()
    def resolve(self, checkpoint: _native.OpenCheckpoint) -> list[tuple[Any, ...]]:
        """Returns what the native reader reads: name, box, address, strides, bounds, device."""
        places = self._last_of_each(checkpoint)
        beside = _overlapping(places)
        targets = []
        for i, place in enumerate(places):
            memory = place.memory
            if i in beside or place.is_staged:
                is_direct = (i in beside or memory.strides is not None) and is_on_cuda(memory)
                staging = (new_device_staging if is_direct else new_staging)(place.array)
                self._copies.append((place.array, staging))
                found = memory_of(staging)
                assert found is not None
                memory = found
            where = (memory.address, memory.strides, memory.bounds)
            targets.append((place.name, place.box, *where, device_of(memory)))
        # Before reading: when damage is found, some arrays may already be filled.
        tell_autograd(place.array for place in self._places if not place.is_staged)
        return targets

    @staticmethod
    def read(checkpoint: _native.OpenCheckpoint, targets: list[tuple[Any, ...]]) -> None:
        """Reads the result of ``resolve``: in the order of the caller's streams on devices."""
        checkpoint.read_all(targets, streams_for(targets))

    def copy(self) -> None:
        """Copies staging memory to its places; complete on return."""
        for array, staging in self._copies:
            copy_into(array, staging)
        await_copies(array for array, _ in self._copies)
        self._copies.clear()
        tell_autograd(place.array for place in self._places if place.is_staged)

    def _last_of_each(self, checkpoint: _native.OpenCheckpoint) -> list[Place]:
        last: dict[tuple[Any, ...], Place] = {}
        kept: list[Place] = []
        for place in reversed(self._places):
            has_memory = 0 not in place.memory.shape and place.memory.address != 0
            later = last.setdefault(place.memory.key, place) if has_memory else place
            if later is place:
                kept.append(place)
            else:
                source = self._source or f"step {checkpoint.step}"
                _tell_if_different(place, later, checkpoint, source)
        return kept[::-1]


def _tell_if_different(
    earlier: Place, later: Place, checkpoint: _native.OpenCheckpoint, source: str
) -> None:
    if (earlier.name, earlier.box) == (later.name, later.box):
        return
    if earlier.box is None and later.box is None:
        digests = checkpoint.digests([earlier.name, later.name])
        if digests[earlier.name] == digests[later.name]:
            return
    _log.warning(
        "%s and %s share memory, but %s has a tensor for each: that of %s is restored",
        earlier.path,
        later.path,
        source,
        later.path,
    )


def _overlapping(places: list[Place]) -> set[int]:
    """Returns those that may overlap with an earlier one: all but the first of each group."""
    memories = [place.memory for place in places]
    spans = sorted((memory.device or "", *memory.bounds, i) for i, memory in enumerate(memories))
    found: set[int] = set()
    device, end, first = "", 0, -1
    for where, begin, size, i in spans:
        if size == 0:
            continue
        if where != device or begin >= end:
            device, end, first = where, begin + size, i
            continue
        end = max(end, begin + size)
        found.add(max(first, i))
        first = min(first, i)
    return found

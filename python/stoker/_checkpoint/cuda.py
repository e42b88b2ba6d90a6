"""CUDA tensors in saves: the caller's streams, and memory on the device for a snapshot."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from stoker import _native
from stoker._checkpoint.memory import Memory

Stage: TypeAlias = Literal["auto", "host", "device"]
Streams: TypeAlias = list[tuple[int, int]]

_log = logging.getLogger("stoker")
_SAVES_SEEN = 2  # what a training needs at most is known only after some steps of it
_SPARE = 20  # a snapshot leaves a 20th of the device's memory
_WORTH_BYTES = 64 << 20  # a smaller part of a larger state would not shorten the save


def _torch() -> Any:
    """Returns torch if this process uses CUDA; None otherwise. Imports and initializes nothing."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


@functools.cache
def _has_driver() -> bool:
    problem = _native.find_cuda_problem()
    if problem is not None:
        _log.warning("CUDA tensors are saved through torch, which takes longer: %s", problem)
    return problem is None


def has_cuda() -> bool:
    """Whether tensors on CUDA devices are copied by the core, without torch."""
    return _torch() is not None and _has_driver()


def check_capture() -> None:
    """Raises ValueError during the capture of a CUDA graph, before anything joins it."""
    torch = _torch()
    if torch is not None and torch.cuda.is_current_stream_capturing():
        raise ValueError(
            "a CUDA graph is being captured on the current stream, and a save cannot be a part of "
            "it: save before or after the capture"
        )


def streams_of(devices: Iterable[str | None], more: Iterable[Any] | None) -> Streams:
    """Returns the current stream of each device, and those given, as (device, handle).

    The current device counts as well: tensors in pinned memory may be written by its stream.
    """
    torch = _torch()
    if torch is None or not has_cuda():
        return []
    numbers = {int(device.removeprefix("cuda:")) for device in devices if device is not None}
    current = torch.cuda.current_device()
    if _is_in_use(torch, current):
        numbers.add(current)
    streams = [torch.cuda.current_stream(number) for number in sorted(numbers)]
    streams += [] if more is None else list(more)
    return list(dict.fromkeys((s.device_index, s.cuda_stream) for s in streams))


def _is_in_use(torch: Any, device: int) -> bool:
    """Whether this process has a context there: creating one would take memory of the device."""
    ask = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return ask is not None and bool(ask(device))


def follow(streams: Iterable[Any]) -> None:
    """Lets the current stream of each stream's device wait for it.

    Tensors with gaps are copied on the current stream, before the core sees any stream.
    """
    torch = _torch()
    for stream in streams if torch is not None else ():
        torch.cuda.current_stream(stream.device_index).wait_stream(stream)


def check_streams(streams: Iterable[Any] | None) -> list[Any]:
    """Returns the streams of ``save(streams=)``; TypeError for anything else."""
    if streams is None:
        return []
    given = list(streams) if isinstance(streams, Iterable) else [streams]
    for stream in given:
        if not hasattr(stream, "cuda_stream") or not hasattr(stream, "device_index"):
            raise TypeError(f"streams: torch.cuda.Stream, not {type(stream).__name__}")
    return given


class _Room(NamedTuple):
    """Memory of a device, in bytes."""

    free: int  # of the device
    total: int
    idle: int  # what torch's allocator has, and no tensor
    peak: int  # what it has had at most


def _room_on(torch: Any, device: str) -> _Room:
    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    idle = reserved - torch.cuda.memory_allocated(device)
    return _Room(free, total, idle, torch.cuda.max_memory_reserved(device))


class SnapshotMemory:
    """Lends memory of devices to the saves of one checkpointer, from torch's allocator.

    Args:
        stage: "host": never. "auto": what the training has never needed so far, less a 20th of the
            device's memory, after some saves. "device": what is free.
        most: Bytes on each device at most; None: no other limit.
    """

    def __init__(self, stage: Stage, most: int | None) -> None:
        self._stage = stage
        self._most = most
        self._saves = 0
        self._own: dict[str, int] = {}  # the size of the last one on each device

    def lend(self, memories: Iterable[Memory]) -> list[Any]:
        """Returns tensors of bytes with room for a save's tensors on devices, or for some of them.

        Keep them until the save has released them. Never raises for lack of memory: the save then
        takes the way through the host.
        """
        self._saves += 1
        torch = _torch()
        if torch is None or self._stage == "host" or not has_cuda():
            return []
        sizes: dict[str, int] = {}
        for memory in memories:
            if memory.device is not None:
                sizes[memory.device] = sizes.get(memory.device, 0) + memory.size_bytes
        lent = []
        for device, size in sizes.items():
            try:
                made = self._make(torch, device, size)
            except RuntimeError as error:  # torch's own: the memory was taken meanwhile
                _log.info("no snapshot on %s: %s", device, error)
                continue
            lent += [] if made is None else [made]
        return lent

    def _make(self, torch: Any, device: str, size: int) -> Any:
        room = self._limit(_room_on(torch, device), self._own.get(device, 0))
        granted = min(size, room)
        if granted == 0 or granted < min(size, _WORTH_BYTES):
            if self._stage == "device" or self._saves > _SAVES_SEEN:
                _log.info("no snapshot on %s: room for %d of %d bytes", device, room, size)
            return None
        memory = torch.empty(granted, dtype=torch.uint8, device=device)
        self._own[device] = granted
        return memory

    def _limit(self, room: _Room, own: int) -> int:
        """Returns what may be lent. ``own``: the last snapshot, which torch counts as well."""
        limit = room.free + room.idle
        if self._stage == "auto":
            if self._saves <= _SAVES_SEEN:
                return 0
            # Not all that is idle: torch would have to free its blocks, which takes a while.
            limit = room.free + min(own, room.idle)
            limit = min(limit, room.total - room.total // _SPARE - max(0, room.peak - own))
        return max(0, limit if self._most is None else min(limit, self._most))


def places_of(lent: Iterable[Any]) -> dict[int, tuple[int, int]]:
    """Returns address and size of the tensors of ``lend``, by device, as the core takes them."""
    return {int(m.get_device()): (int(m.data_ptr()), int(m.numel())) for m in lent}

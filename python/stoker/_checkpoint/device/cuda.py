"""CUDA tensors in saves: the caller's streams, and memory on the device for a snapshot."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from stoker import _native

Stage: TypeAlias = Literal["auto", "host", "device"]
Streams: TypeAlias = list[tuple[int, int]]
Lend: TypeAlias = Callable[[int, int], tuple[int, int] | None]

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
    reserved: int  # what torch's allocator has
    idle: int  # and no tensor
    peak: int  # what it has had at most


def _room_on(torch: Any, device: str) -> _Room:
    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    idle = reserved - torch.cuda.memory_allocated(device)
    return _Room(free, total, reserved, idle, torch.cuda.max_memory_reserved(device))


class _Own(NamedTuple):
    """What snapshots have of it."""

    reserved: int = 0
    idle: int = 0  # the largest piece that the current stream can have again


@functools.cache
def _pool_on(device: str) -> Any:
    """Returns memory of torch's allocator that only snapshots use, unless torch has no other.

    None if this torch has no such pools. Never freed: some versions fail after that.
    """
    try:
        return sys.modules["torch"].cuda.MemPool(use_on_oom=True)
    except (AttributeError, TypeError, RuntimeError):
        return None


def _own_on(torch: Any, device: str) -> _Own:
    pool = _pool_on(device)
    if pool is None:
        return _Own()
    number, stream = torch.device(device).index, torch.cuda.current_stream(device).cuda_stream
    segments = [one for one in pool.snapshot() if one["device"] == number]
    blocks = [block for one in segments if one["stream"] == stream for block in one["blocks"]]
    idle = max((one["size"] for one in blocks if one["state"] == "inactive"), default=0)
    return _Own(sum(one["total_size"] for one in segments), idle)


def _empty_on(torch: Any, device: str, size: int) -> Any:
    pool = _pool_on(device)
    if pool is None:
        return torch.empty(size, dtype=torch.uint8, device=device)
    with torch.cuda.use_mem_pool(pool, device):
        return torch.empty(size, dtype=torch.uint8, device=device)


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
        self._needed: dict[str, int] = {}  # what the training has reserved at most
        self._most_own: dict[str, int] = {}

    def lender(self, keep: Callable[[Any], object]) -> Lend | None:
        """Counts a save, and returns what lends memory to it; None if nothing does.

        ``keep`` gets each tensor that is lent, and must keep it until the save has released it.
        """
        self._saves += 1
        torch = _torch()
        if torch is None or self._stage == "host" or not has_cuda():
            return None
        if self._stage == "auto" and self._saves <= _SAVES_SEEN:
            return None

        def lend(number: int, size: int) -> tuple[int, int] | None:
            """Returns address and size of memory with room for ``size`` bytes, or for some."""
            device = f"cuda:{number}"
            try:
                made = self._make(torch, device, size)
            except RuntimeError as error:  # torch's own: the memory was taken meanwhile
                _log.info("no snapshot on %s: %s", device, error)
                return None
            if made is None:
                return None
            keep(made)
            return int(made.data_ptr()), int(made.numel())

        return lend

    def _make(self, torch: Any, device: str, size: int) -> Any:
        room = self._limit(device, _room_on(torch, device), _own_on(torch, device))
        granted = min(size, room)
        if granted == 0 or granted < min(size, _WORTH_BYTES):
            _log.info("no snapshot on %s: room for %d of %d bytes", device, room, size)
            return None
        return _empty_on(torch, device, granted)

    def _limit(self, device: str, room: _Room, own: _Own) -> int:
        """Returns what may be lent."""
        limit = room.free + room.idle
        if self._stage == "auto":
            # The peak is that of the training and of snapshots together. The latter are known to
            # have had no more than this.
            most_own = self._most_own[device] = max(self._most_own.get(device, 0), own.reserved)
            training = room.reserved - own.reserved
            needed = max(self._needed.get(device, 0), training, room.peak - most_own)
            self._needed[device] = needed
            # Not what torch has idle: it would have to free its blocks, which takes a while.
            spare = room.free - (needed - training) - room.total // _SPARE
            limit = max(spare, min(own.idle, spare + own.idle))
        return max(0, limit if self._most is None else min(limit, self._most))

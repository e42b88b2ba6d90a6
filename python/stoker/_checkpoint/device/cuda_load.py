"""CUDA tensors in restores: which of them the core fills itself, and in which order."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from stoker._checkpoint.device.cuda import Streams, has_cuda, streams_of
from stoker._checkpoint.tensors.memory import Memory, new_staging

_PREFIX = "cuda:"


def is_on_cuda(memory: Memory) -> bool:
    """Whether it is on a device that the core can copy to."""
    return memory.device is not None and memory.device.startswith(_PREFIX) and has_cuda()


def is_filled_directly(memory: Memory) -> bool:
    """Whether the core reads into it: host memory, or memory of a CUDA device without gaps.

    Gaps are left to torch: one copy for each run of elements would take longer.
    """
    return memory.device is None or (memory.strides is None and is_on_cuda(memory))


def new_device_staging(array: Any) -> Any:
    """Returns memory without gaps for the elements of a tensor: on its device, if it has room."""
    torch = sys.modules["torch"]
    try:
        return torch.empty(tuple(array.shape), dtype=array.dtype, device=array.device)
    except torch.OutOfMemoryError:
        return new_staging(array)


def await_copies(tensors: Iterable[Any]) -> None:
    """Waits for what the current streams of CUDA tensors' devices have been given."""
    devices = {t.device for t in tensors if getattr(t, "is_cuda", False)}
    for device in devices:
        sys.modules["torch"].cuda.current_stream(device).synchronize()


def device_of(memory: Memory) -> int | None:
    """Returns the number of the CUDA device; None for host memory."""
    is_cuda = memory.device is not None and memory.device.startswith(_PREFIX)
    return int(memory.device.removeprefix(_PREFIX)) if memory.device and is_cuda else None


def streams_for(targets: list[tuple[Any, ...]]) -> Streams:
    """Returns the caller's streams on the devices of targets, which end with their devices."""
    devices = {target[-1] for target in targets} - {None}
    return streams_of([f"{_PREFIX}{device}" for device in devices], None) if devices else []

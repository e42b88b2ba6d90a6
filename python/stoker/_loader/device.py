"""Moves batches to the device of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from stoker._loader.batch import Batch

Place: TypeAlias = Callable[[Any], Any]


def placer_of(device: Any, torch: Any, *, is_pinned: bool) -> Place:
    """Returns a function that moves a batch to the device, in the caller's thread.

    The copy is queued on the caller's current stream, so that its next computation finds the
    tensors there. From page-locked memory the copy is asynchronous: the memory is torch's own, and
    torch does not reuse it before the copy has ended.
    """
    if device is None:
        return lambda batch: batch
    if torch is None:
        raise ValueError(f"device={device!r} is for tensors, and there is no torch, or torch=False")
    place = _device_of(device, torch)

    def moved(batch: Any) -> Any:
        if not isinstance(batch, Batch):
            raise TypeError(
                f"device= moves the tensors of a dict, and collate= made a {type(batch).__name__}: "
                "make a dict, or leave device out and move them yourself"
            )
        batch._refuse_arrays("device=", "make tensors in collate=, or leave device out")
        return batch.to(place, non_blocking=is_pinned)

    return moved


def _device_of(device: Any, torch: Any) -> Any:
    """Returns the torch.device.

    Raises:
        ValueError: The name is invalid, or the device does not exist here.
    """
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f'device={device!r}: "cuda", "cuda:1" or a torch.device') from None
    if place.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(
                f"device={device!r}, and torch.cuda.is_available() is False here. Leave device out "
                "for batches in the machine's own memory"
            )
        count = torch.cuda.device_count()
        if place.index is not None and place.index >= count:
            raise ValueError(f"device={device!r}: torch has {count} GPUs here, counted from 0")
    elif place.type not in ("cpu", "meta"):
        try:
            torch.empty(0, device=place)
        except Exception as error:  # many types: torch may have been built without it
            raise ValueError(f"device={device!r}: torch cannot use it here: {error}") from error
    return place

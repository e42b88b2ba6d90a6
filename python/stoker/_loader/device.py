"""Batches on the device that a model computes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from stoker._loader.batch import Batch

Place: TypeAlias = Callable[[Any], Any]


def placer_of(device: Any, torch: Any, *, is_pinned: bool) -> Place:
    """What a batch goes through on its way to the caller, in the caller's thread.

    The copy is put into the caller's current stream, so what it computes next finds the tensors
    there. From page-locked memory the program goes on meanwhile: that is torch's own, and torch
    does not give it to anybody before the copy has ended.
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
    """The torch.device that is meant.

    Raises:
        ValueError: There is none of that name, or not here.
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
        except Exception as error:  # of many kinds: torch may have been built without it
            raise ValueError(f"device={device!r}: torch cannot use it here: {error}") from error
    return place

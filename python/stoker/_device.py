"""Batches on the device that a model computes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from stoker._batch import Batch

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
    place = torch.device(device)
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r}, and torch.cuda.is_available() is False here. Leave device out for "
            "batches in the machine's own memory"
        )

    def moved(batch: Any) -> Any:
        if not isinstance(batch, Batch):
            raise TypeError(
                f"device= moves the tensors of a dict, and collate= made a {type(batch).__name__}: "
                "make a dict, or leave device out and move them yourself"
            )
        batch._refuse_arrays("device=", "make tensors in collate=, or leave device out")
        return batch.to(place, non_blocking=is_pinned)

    return moved

"""Tensor subclasses with __tensor_flatten__: their inner tensors, and what else describes them.

The class is not saved: a restore fills the inner tensors of an object that exists.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from stoker._common.torch import is_tensor

MEMBERS = ("tensors", "context", "dtype", "shape")


class Flattened(dict[str, Any]):
    """A saved tensor subclass: its inner tensors by name, context, dtype and shape."""


class FlattenedPart:
    """A tensor subclass that is the part of a DTensor on this rank: stored for each rank.

    How the elements of its inner tensors belong to those of the whole is unknown, so only the same
    part is filled with it.
    """

    def __init__(self, local: Any, shape: Sequence[int], offsets: Sequence[int]) -> None:
        self.local, self.shape, self.offsets = local, list(shape), list(offsets)


def is_flattenable(value: Any) -> bool:
    """Whether it is a tensor subclass that is made of other tensors.

    Not a DTensor: its inner tensor is the part on this rank.
    """
    if not is_tensor(value):
        return False
    kind = type(value)
    if not hasattr(kind, "__tensor_flatten__") or not hasattr(kind, "__tensor_unflatten__"):
        return False
    distributed = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return distributed is None or not isinstance(value, distributed)


def inner_tensors(value: Any) -> dict[str, Any]:
    """Returns the tensors that a subclass is made of: those of the object, not copies."""
    value = value.local if isinstance(value, FlattenedPart) else value
    names, _ = value.__tensor_flatten__()
    return {name: getattr(value, name) for name in names}


def description_of(value: Any) -> dict[str, Any]:
    """Returns what else must be equal, without devices: context, dtype and shape."""
    if isinstance(value, FlattenedPart):
        inner = description_of(value.local)
        place = {"of": value.shape, "at": value.offsets}
        return {**inner, "context": {"part": place, "context": inner["context"]}}
    _, context = value.__tensor_flatten__()
    dtype = str(value.dtype).removeprefix("torch.")
    return {"context": _plain(context, 0), "dtype": dtype, "shape": list(value.shape)}


def _plain(value: Any, depth: int) -> Any:
    """Returns a context as it can be saved: classes and functions are their names.

    It is only compared with that of the object in memory. What cannot be saved is refused later.
    """
    if depth > 20:
        return value
    torch = sys.modules["torch"]
    if isinstance(value, torch.device):
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {one.name: _plain(getattr(value, one.name), depth + 1) for one in fields}
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return value


def check_flattened(body: Any) -> Flattened:
    """Returns a decoded node of a file; ValueError if it has another form."""
    if not isinstance(body, dict) or set(body) != set(MEMBERS):
        raise ValueError("no flattened tensor")
    if not isinstance(body["tensors"], dict) or not body["tensors"]:
        raise ValueError("a flattened tensor without tensors")
    return Flattened(body)

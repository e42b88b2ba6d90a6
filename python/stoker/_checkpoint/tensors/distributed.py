"""Tensors that are distributed over ranks: DTensor, and tensors that say where they belong."""

from __future__ import annotations

import sys
from typing import Any

from stoker._checkpoint.tensors.flattened import FlattenedPart, is_flattenable
from stoker._checkpoint.tensors.memory import UnsupportedValueError
from stoker._checkpoint.tensors.slice import Slice
from stoker._common.torch import is_tensor

# Attributes of torch's CheckpointableTensor: a plain tensor that is a part of a larger one.
_PLACE = ("global_shape", "global_offsets", "local_offsets", "local_sizes")


def is_dtensor(value: Any) -> bool:
    """Whether it is a DTensor of torch."""
    loaded = sys.modules.get("torch.distributed.tensor")
    return loaded is not None and isinstance(value, loaded.DTensor)


def is_distributed(value: Any) -> bool:
    """Whether it is a tensor of which other ranks may have other parts."""
    return is_dtensor(value) or (is_tensor(value) and is_placed(value))


def is_placed(tensor: Any) -> bool:
    """Whether a tensor says where in a larger one it belongs."""
    # Nearly every tensor lacks the first: no generator is made for it.
    return hasattr(tensor, _PLACE[0]) and all(hasattr(tensor, name) for name in _PLACE)


def part_on_this_rank(value: Any) -> Any:
    """Returns the part of a distributed tensor on this rank, which shares its memory.

    A ``Slice``; or a tensor, if every rank has all of it; or a ``FlattenedPart``.

    Raises:
        UnsupportedValueError: It has no such part: a sum over ranks is pending.
    """
    if not is_dtensor(value):
        return _part_of_placed(value)
    try:
        return _part_of_dtensor(value)
    except (NotImplementedError, RuntimeError, TypeError) as error:  # of a tensor subclass in it
        reason = str(error).partition("\n")[0]
        raise UnsupportedValueError(
            f"a DTensor whose part on this rank refuses: {reason}"
        ) from None


def _part_of_dtensor(value: Any) -> Any:
    placements = [
        placement
        for dimension, placement in enumerate(value.placements)
        if value.device_mesh.size(dimension) > 1
    ]
    if any(placement.is_partial() for placement in value.placements):
        raise UnsupportedValueError(
            "a DTensor with pending sums (Partial): redistribute() it to Shard or Replicate first"
        )
    local = _local_of(value.detach())
    if is_flattenable(local):
        if all(placement.is_replicate() for placement in placements):
            return local
        return FlattenedPart(local, tuple(value.shape), _chunk_of(value).offsets)
    if 0 in value.shape:  # no rank would store a slice of it
        return local.new_empty(tuple(value.shape))
    if all(placement.is_replicate() for placement in placements):
        return local
    if value.device_mesh.get_coordinate() is None:  # this rank has nothing of it
        return _slice(local.new_empty((0,) * value.ndim), value.shape, (0,) * value.ndim)
    chunk = _chunk_of(value)
    return _slice(local.reshape(chunk.sizes), value.shape, chunk.offsets)


def _local_of(value: Any) -> Any:
    with sys.modules["torch"].no_grad():  # otherwise it is a view, which a subclass may lack
        local = value.to_local()
    return local.wait() if hasattr(local, "wait") else local  # a collective may be in progress


def is_filled_inside(value: Any) -> bool:
    """Whether it is a tensor subclass made of others, or has one as its part: it may lack copy_().

    Its inner tensors are filled.
    """
    return is_flattenable(value) or (is_dtensor(value) and is_flattenable(_local_of(value)))


def _chunk_of(value: Any) -> Any:
    chunks = value.__create_chunk_list__()
    if len(chunks) != 1:
        raise UnsupportedValueError(
            f"a DTensor with placements {value.placements}: this rank has {len(chunks)} separate "
            "parts of it"
        )
    return chunks[0]


def _part_of_placed(value: Any) -> Any:
    local = value.detach().as_subclass(sys.modules["torch"].Tensor)
    if 0 in value.global_shape:
        return local.new_empty(tuple(value.global_shape))
    for dimension, (begin, size) in enumerate(
        zip(value.local_offsets, value.local_sizes, strict=True)
    ):
        local = local.narrow(dimension, begin, size)
    return _slice(local, value.global_shape, value.global_offsets)


def _slice(local: Any, shape: Any, offsets: Any) -> Slice:
    # An empty part may be said to begin behind the end.
    begins = [min(begin, whole) for begin, whole in zip(offsets, shape, strict=True)]
    return Slice(local, tuple(shape), begins)


def new_like(parameter: Any, dtype: Any, device: Any = None) -> Any:
    """Returns a new DTensor that is distributed as another, with elements of any type.

    ``device``: where it is, if the other one is on meta.
    """
    torch = sys.modules["torch"]
    kind = sys.modules["torch.distributed.tensor"].DTensor
    local = parameter.detach().to_local()
    where = device if local.is_meta else local.device
    local = torch.empty_like(local, dtype=dtype, device=where)
    return kind.from_local(
        local,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def buffers_of_others(module: Any) -> set[int]:
    """Returns the addresses of buffers that belong to another rank.

    DistributedDataParallel overwrites the buffers of all ranks by those of its first rank before
    each forward pass. Those of the first rank are saved.
    """
    loaded = sys.modules.get("torch.nn.parallel")
    if loaded is None:
        return set()
    found: set[int] = set()
    for part in module.modules():
        if not isinstance(part, loaded.DistributedDataParallel) or not part.broadcast_buffers:
            continue
        if sys.modules["torch.distributed"].get_rank(part.process_group) <= 0:
            continue  # the first one, or the group is gone
        ignored = set(part.parameters_to_ignore)
        found |= {
            buffer.data_ptr()
            for name, buffer in part.module.named_buffers()
            if name not in ignored and buffer.numel() > 0
        }
    return found

"""Batches in memory from the caller's allocator: page-locked for a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from stoker import _native
from stoker._common.torch import is_tensor
from stoker._dataset.columns import KEY, ColumnMaker, change_tensors, tensors_in
from stoker._loader.batch import Batch

Allocator: TypeAlias = Callable[[int], Any]

_ALIGN = 64


def allocator_of(pin_memory: bool | Allocator | None, torch: Any) -> Allocator | None:
    """Returns the allocator of batch memory; None if batches stay in the loader's memory."""
    if pin_memory is False:
        return None
    if not (pin_memory is None or pin_memory is True or callable(pin_memory)):
        raise TypeError(f"pin_memory={pin_memory!r}: a bool, or a function that gives memory")
    if callable(pin_memory):
        if torch is None:
            raise ValueError("pin_memory= makes tensors, and there is no torch, or torch=False")
        return pin_memory
    if pin_memory is None:
        if torch is None or not torch.cuda.is_available():
            return None
    elif torch is None:
        raise ValueError("pin_memory=True makes tensors, and there is no torch, or torch=False")
    elif not torch.cuda.is_available():
        raise ValueError(
            "pin_memory=True locks memory for a GPU, and torch.cuda.is_available() is False here. "
            "Leave pin_memory out: it is then done where there is a GPU"
        )
    return functools.partial(torch.empty, dtype=torch.uint8, pin_memory=True)


def move_tensors(
    columns: Mapping[str, Any],
    rooms: Callable[[list[Any]], list[Any]],
    copy: Callable[[Any, Any], None],
) -> dict[str, Any]:
    """Returns the columns with their tensors in new memory; others are unchanged.

    Args:
        columns: By name.
        rooms: Returns as many new tensors like these, on any device.
        copy: Called with each tensor and the one that replaces it.
    """
    values = list(columns.values())
    is_plain = all(is_tensor(one) and _is_movable(one) for one in values)
    tensors = values if is_plain else [one for one in tensors_in(values) if _is_movable(one)]
    made = rooms(tensors)
    for tensor, placed in zip(tensors, made, strict=True):
        copy(tensor, placed)
    if is_plain:  # fast path: the rest takes longer than all of the above
        return dict(zip(columns, made, strict=True))
    left = iter(made)
    return {
        name: change_tensors(column, lambda one: next(left) if _is_movable(one) else one)
        for name, column in columns.items()
    }


def in_one_piece(tensors: list[Any], room: Callable[[int], Any]) -> list[Any]:
    """Returns new tensors like these, in one piece of memory.

    Args:
        tensors: Contiguous or not.
        room: Returns memory of a number of bytes: a uint8 tensor.
    """
    ends = [0]
    for tensor in tensors:
        ends.append(ends[-1] + -(-tensor.nbytes // _ALIGN) * _ALIGN)
    memory = room(ends[-1])
    return [
        memory[at : at + one.nbytes].view(one.dtype).view(one.shape)
        for at, one in zip(ends, tensors, strict=False)
    ]


class FreshMemory:
    """Copies the tensors of a batch into one new piece of memory.

    The memory is released with the tensors and never reused by us: only its allocator knows when a
    copy to a GPU has ended, and torch's allocator waits for that.

    Thread safety: that of the allocator.
    """

    def __init__(self, allocate: Allocator) -> None:
        self._allocate = allocate

    def moved(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the columns with their tensors in new memory; others are unchanged."""
        return move_tensors(columns, lambda some: in_one_piece(some, self._room), _copied)

    def _room(self, size: int) -> Any:
        memory = self._allocate(size)
        if not (
            is_tensor(memory)
            and str(memory.dtype) == "torch.uint8"
            and memory.device.type == "cpu"
            and memory.is_contiguous()
            and memory.shape == (size,)
            and memory.data_ptr() % 8 == 0
        ):
            raise TypeError(
                f"pin_memory: the allocator was asked for {size} bytes, and is to give a uint8 "
                "tensor of that length in host memory, aligned to 8"
            )
        return memory

    def batch(self, native: _native.Batch, maker: ColumnMaker, cursor: _native.Cursor) -> Batch:
        """Returns a batch of the core; the memory of its arrays is released at once."""
        batch = Batch._of(native, maker, cursor)
        columns = {name: maker.column(native, name) for name in maker.names(native) if name != KEY}
        columns.update(self.moved(columns))
        batch.update(columns)
        del columns
        native.release_arrays()
        return batch


def _is_movable(tensor: Any) -> bool:
    """Excludes tensors on a device, and sparse ones, which are not one range of bytes."""
    return bool(tensor.device.type == "cpu" and str(tensor.layout) == "torch.strided")


def _copied(tensor: Any, placed: Any) -> None:
    if tensor.is_contiguous():
        # Not by torch: all its threads would wake up for each batch, and then spin.
        _native.copy_bytes(_bytes_of(tensor), _bytes_of(placed))
    else:
        placed.copy_(tensor)


def _bytes_of(tensor: Any) -> Any:
    import torch

    return tensor.view(-1).view(torch.uint8).numpy()

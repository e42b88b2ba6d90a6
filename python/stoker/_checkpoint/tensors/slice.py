"""stoker.Slice: the part of a tensor that one rank has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker._checkpoint.tensors.memory import Memory
from stoker._common.torch import is_tensor

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets in a tensor; its shape, or a part's


class Slice:
    """An array that is part of a larger tensor, the rest of which is on other ranks.

    A leaf of the trees that ``Checkpointer.save`` and ``restore`` take. Slices can be restored into
    any other slices, by any number of ranks, and ``stoker.load`` reads them as one tensor.

    Args:
        array: A NumPy array or a torch tensor: the part on this rank.
        global_shape: Shape of the whole tensor.
        offsets: Where ``array`` begins in the tensor, one number per dimension.
    """

    def __init__(self, array: Any, global_shape: Sequence[int], offsets: Sequence[int]) -> None:
        if not isinstance(array, np.ndarray) and not is_tensor(array):
            raise TypeError(f"Slice: an array or a tensor, not {type(array).__name__}")
        self.array = array
        self.global_shape = tuple(int(size) for size in global_shape)
        self.offsets = tuple(int(offset) for offset in offsets)
        shape = tuple(array.shape)
        if not len(shape) == len(self.global_shape) == len(self.offsets):
            raise ValueError(
                f"Slice: array, global_shape and offsets have {len(shape)}, "
                f"{len(self.global_shape)} and {len(self.offsets)} dimensions"
            )
        for begin, size, whole in zip(self.offsets, shape, self.global_shape, strict=True):
            if begin < 0 or begin + size > whole:
                raise ValueError(
                    f"Slice: {shape} at {self.offsets} is not inside {self.global_shape}"
                )

    @property
    def is_empty(self) -> bool:
        """Whether it has no elements; such a slice is not saved, and needs no saved data."""
        return 0 in self.array.shape

    def place(self, memory: Memory) -> Box:
        """Returns its offsets in the stored tensor and the tensor's shape, from ``memory``."""
        more = memory.shape[len(self.offsets) :]  # for element types that safetensors lacks
        return self.offsets + tuple(0 for _ in more), self.global_shape + more

    def __repr__(self) -> str:
        shape = tuple(self.array.shape)
        return f"<stoker.Slice {shape} at {self.offsets} of {self.global_shape}>"

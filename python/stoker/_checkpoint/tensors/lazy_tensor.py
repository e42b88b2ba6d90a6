"""A tensor on disk, of which slices are read on demand."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker._checkpoint.tensors.memory import (
    UnsupportedValueError,
    array_layout,
    empty_tensor,
    new_array,
    torch_layout,
)

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, shape


class Source(Protocol):
    """A source of tensors: a checkpoint, or a safetensors file."""

    def read_box(self, name: str, box: Box | None, into: npt.NDArray[Any]) -> None:
        """Fills a contiguous array."""


def _box_of(index: Any, shape: tuple[int, ...]) -> tuple[Box, tuple[Any, ...]]:
    """Returns the smallest box around what ``index`` selects, and the index into that box."""
    wanted = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(wanted) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not dots:
        wanted.append(Ellipsis)
    at = dots[0] if dots else len(wanted) - 1
    free = len(shape) - (len(wanted) - 1)
    if free < 0:
        raise IndexError(f"too many indices for {len(shape)} dimensions")
    wanted[at : at + 1] = [slice(None)] * free
    offsets: list[int] = []
    sizes: list[int] = []
    inner: list[Any] = []
    for item, size in zip(wanted, shape, strict=True):
        if isinstance(item, slice):
            steps = range(*item.indices(size))
            # Its ends: min() and max() would iterate over all of it.
            ends = sorted((steps[0], steps[-1])) if steps else [0, -1]
            offsets.append(ends[0])
            sizes.append(ends[1] - ends[0] + 1)
            inner.append(slice(None, None, steps.step))
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            number = int(item)
            if not -size <= number < size:
                raise IndexError(f"index {number} is out of bounds for a dimension of {size}")
            offsets.append(number % size)
            sizes.append(1)
            inner.append(0)
        else:
            raise TypeError(f"index with numbers and slices, not {type(item).__name__}")
    return (tuple(offsets), tuple(sizes)), tuple(inner)


class LazyTensor:
    """A tensor on disk: slices of it are read and checked on demand.

    ``tensor[0:16]``, ``tensor[...]`` and ``np.asarray(tensor)`` give NumPy arrays. NumPy lacks
    bfloat16 and float8: they become unsigned integers of their size. Other elements that only torch
    has become what they are stored as: complex32 pairs of float16.

    Attributes:
        name: Its name in the files.
        type: Type of its elements in safetensors: "BF16".
        shape: Shape of the array.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        element: str | None = None,
    ) -> None:
        self._source = source
        self._element = element
        self.name = name
        self.type = kind
        self._stored = shape
        self.dtype, self.shape = array_layout(kind, shape, element)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        (offsets, sizes), inner = _box_of(index, self.shape)
        last = self._stored[len(self.shape) :]
        box = (offsets + tuple(0 for _ in last), sizes + last)
        array = new_array(self.type, box[1], self._element)
        if array.size:
            whole = box[1] == self._stored
            self._source.read_box(self.name, None if whole else box, array)
        return array[inner]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("what is on the disk cannot be had without a copy")
        array: npt.NDArray[Any] = np.asarray(self[...])
        return array if dtype is None else array.astype(dtype, copy=False)

    @property
    def layout(self) -> tuple[str, tuple[int, ...], str | None]:
        """Type and shape as stored, and the elements that these stand for, as in a Memory."""
        return self.type, self._stored, self._element

    def new_array(self) -> npt.NDArray[Any]:
        """Returns an array of this type and shape, with any elements."""
        return new_array(*self.layout)

    def new_tensor(self, device: Any) -> Any:
        """Returns a torch tensor of this type and shape, with any elements.

        Raises:
            ValueError: torch lacks the type or the shape.
        """
        try:
            kind, shape = torch_layout(*self.layout)
        except UnsupportedValueError as error:
            raise ValueError(f"{self.name}: {error}: load it without a device") from None
        try:
            return empty_tensor(shape, kind, device)
        except TypeError:  # a dimension beyond int64, of a tensor without elements
            raise ValueError(f"{self.name}: torch has no tensor of the shape {shape}") from None

    def __repr__(self) -> str:
        return f"<stoker.LazyTensor {self.name}: {self.type} {self.shape}>"

"""The values of a batch: arrays, tensors, ragged columns, bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, overload

import numpy as np

from stoker import _native
from stoker._common.torch import is_tensor, tensor_of
from stoker._dataset.fields import Columns
from stoker._loader.collate import stack_numbers

KEY, VALID = "__key__", "__valid__"
_PLAIN = frozenset((str, bytes, int, float, bool, type(None), np.ndarray))


class RaggedColumn:
    """Arrays of different lengths, concatenated.

    ``column[i]`` is the i-th sample's array, a view. ``values`` has all rows; those of sample i are
    from ``offsets[i]`` to ``offsets[i + 1]``.
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: Any, offsets: Any) -> None:
        self.values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self.values[int(self.offsets[position]) : int(self.offsets[position + 1])]

    def __iter__(self) -> Iterator[Any]:
        ends = self.offsets.tolist()
        return (self.values[a:b] for a, b in pairwise(ends))

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes."""
        return int(self.values.nbytes)

    def _mapped(self, change: Callable[[Any], Any]) -> RaggedColumn:
        return RaggedColumn(change(self.values), change(self.offsets))

    def __reduce__(self) -> tuple[Any, ...]:
        return RaggedColumn, (self.values, self.offsets)

    def __repr__(self) -> str:
        return f"RaggedColumn({len(self)} samples, {describe(self.values)})"


class ColumnMaker:
    """Makes the columns of native batches, each on first access."""

    def __init__(self, torch: Any, columns: Columns, *, has_valid: bool) -> None:
        self.torch = torch
        self._columns = columns
        self._padded = columns.padded
        self._has_valid = has_valid
        extra = (*columns.padded, VALID) if has_valid else tuple(columns.padded)
        self._extra_names = (*extra, KEY)
        self._fixed = None if columns.names is None else (*columns.names, *self._extra_names)

    def without_torch(self) -> ColumnMaker:
        """Returns a maker of NumPy arrays."""
        return ColumnMaker(None, self._columns, has_valid=self._has_valid)

    def names(self, native: _native.Batch) -> tuple[str, ...]:
        """Returns the names of all columns, which are the keys of the batch."""
        return self._fixed or (*native.names, *self._extra_names)

    def column(self, native: _native.Batch, name: str) -> Any:
        """Returns one column: a view of the batch's memory, which it keeps alive."""
        if name == KEY:
            return native.keys()
        if name == VALID:
            return tensor_of(native.valid, self.torch)
        if name in self._padded:
            return tensor_of(native.lengths(self._padded[name]), self.torch)
        if (found := native.values(name)) is not None:
            values, kind = found
            if kind in ("bytes", "values"):
                return values
            return tensor_of(stack_numbers(name, values, native.keys()), self.torch)
        value = native.column(name)
        if isinstance(value, np.ndarray):
            return self._tensor(native, name, value)
        if isinstance(value, tuple):
            values, offsets = value
            return RaggedColumn(self._tensor(native, name, values), tensor_of(offsets, self.torch))
        return value

    def items(self, native: _native.Batch, name: str) -> Any:
        """Returns one column for iteration over samples: one value each for fields without a type.

        The values are those of a Dataset, None for a sample without the field.
        """
        if name in self._extra_names or (found := native.values(name)) is None:
            return self.column(native, name)
        return found[0]

    def presence(self, native: _native.Batch, name: str) -> list[bool] | None:
        """Returns which samples have the field; None if all do."""
        return None if name in self._extra_names else native.presence(name)

    def _tensor(self, native: _native.Batch, name: str, array: Any) -> Any:
        is_bfloat16 = array.dtype == np.uint16 and native.dtype(name) == "bfloat16"
        return tensor_of(array, self.torch, is_bfloat16=is_bfloat16)


def cloned(value: Any) -> Any:
    """Returns a copy that shares no memory with the loader's."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if is_tensor(value):
        return value.clone()
    if isinstance(value, RaggedColumn):
        return value._mapped(cloned)
    if isinstance(value, _native.BytesColumn):
        return _copied_bytes(value)
    if isinstance(value, (dict, list, tuple)):
        made = _rebuilt(value, cloned)
        return copy.copy(value) if made is value else made
    return value


def _copied_bytes(column: _native.BytesColumn) -> list[Any]:
    """Returns arrays, all in one piece of memory."""
    memory = np.empty(column.nbytes, np.uint8)
    column.copy_to(memory)
    ends = np.cumsum(column.sizes).tolist()
    copies: list[Any] = [memory[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    for i in np.flatnonzero(column.sizes == 0).tolist():
        copies[i] = None if column[i] is None else copies[i]
    return copies


def emptied(value: Any) -> Any:
    """Returns a column of the same kind without samples; also for columns in a dict.

    What has no length, as a number that holds for a whole batch, is returned unchanged. A nested
    tensor becomes None, because torch makes none without parts.
    """
    if is_tensor(value):
        return _emptied_tensor(value)
    if isinstance(value, np.ndarray):
        return value[:0] if value.ndim else value
    if isinstance(value, RaggedColumn):
        return RaggedColumn(value.values[:0], value.offsets[:1])
    if isinstance(value, _native.BytesColumn):
        return value.first(0)
    if isinstance(value, dict):
        return {name: emptied(item) for name, item in value.items()}
    return value[:0] if isinstance(value, (list, tuple)) else value


def _emptied_tensor(tensor: Any) -> Any:
    if tensor.is_nested:
        return None
    if not tensor.ndim:
        return tensor
    # A sparse tensor has no slices.
    return tensor.new_empty((0, *tensor.shape[1:]))


def change_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """Applies ``change`` to a tensor, or to all in a ragged column, a dict, a list or a tuple.

    The order of the tensors is always the same. Anything else is returned unchanged.
    """
    if type(value) in _PLAIN:  # fast path for long lists
        return value
    if is_tensor(value):
        return change(value)
    if isinstance(value, RaggedColumn) and is_tensor(value.values):
        return value._mapped(change)
    if isinstance(value, (dict, list, tuple)):
        return _rebuilt(value, lambda item: change_tensors(item, change))
    return value


def tensors_in(value: Any) -> list[Any]:
    """Returns the tensors that ``change_tensors`` changes, in its order."""
    found: list[Any] = []

    def keep(tensor: Any) -> Any:
        found.append(tensor)
        return tensor

    change_tensors(value, keep)
    return found


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a dict, list or tuple of changed items; the same object if none changed."""
    if isinstance(value, dict):
        made = {name: change(item) for name, item in value.items()}
        return value if all(made[name] is item for name, item in value.items()) else made
    items = [change(item) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def describe(value: Any) -> str:
    """Returns a text for repr(): dtype and shape of arrays and tensors, the length of lists."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, list):
        return f"list of {len(value)}"
    return repr(value)

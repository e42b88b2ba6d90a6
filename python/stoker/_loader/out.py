"""Copies batches into the caller's arrays and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from stoker import _native
from stoker._common.torch import is_tensor
from stoker._dataset.columns import ColumnMaker
from stoker._loader.batch import Batch
from stoker._loader.host_memory import FreshMemory

Finish: TypeAlias = Callable[[_native.Batch, _native.Cursor], Batch]
Out: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class OutFiller:
    """Copies columns of batches into given arrays; several sets of them are used in turn."""

    def __init__(self, out: Out, maker: ColumnMaker, batch_size: int) -> None:
        self._sets = [out] if isinstance(out, Mapping) or not isinstance(out, Iterable) else [*out]
        if not self._sets or not all(isinstance(one, Mapping) and one for one in self._sets):
            raise TypeError("out is a dict of arrays or tensors by column, or a list of such dicts")
        for one in self._sets:
            for name, room in one.items():
                if not (isinstance(room, np.ndarray) or is_tensor(room)):
                    raise TypeError(f"out[{name!r}] is {type(room).__name__}: no array, no tensor")
                if len(room.shape) == 0 or room.shape[0] < batch_size:
                    raise ValueError(
                        f"out[{name!r}] has the shape {tuple(room.shape)}, and a batch has "
                        f"{batch_size} rows"
                    )
        self._maker = maker
        self._turn = 0

    def __call__(self, native: _native.Batch, cursor: _native.Cursor) -> Batch:
        """Returns the batch with the given arrays in place of its columns."""
        batch = Batch._of(native, self._maker, cursor)
        given = self._sets[self._turn % len(self._sets)]
        self._turn += 1
        for name, room in given.items():
            if name not in batch:
                raise ValueError(f"out[{name!r}]: batches have {list(batch)}")
            batch[name] = _filled(name, room, batch[name], batch.size)
        return batch


def batch_finisher(
    out: Out | None, fresh: FreshMemory | None, maker: ColumnMaker, batch_size: int
) -> Finish:
    """Returns the function that converts the core's batches to the caller's."""
    if out is not None:
        return OutFiller(out, maker, batch_size)
    if fresh is not None:
        return lambda native, cursor: fresh.batch(native, maker, cursor)
    return lambda native, cursor: Batch._of(native, maker, cursor)


def _filled(name: str, room: Any, column: Any, size: int) -> Any:
    if not (isinstance(column, np.ndarray) or is_tensor(column)):
        raise TypeError(f"out[{name!r}]: the column is a {type(column).__name__}, not an array")
    rows = room if room.shape[0] == size else room[:size]
    dtypes = [str(one.dtype).removeprefix("torch.") for one in (room, column)]
    if tuple(rows.shape) != tuple(column.shape) or dtypes[0] != dtypes[1]:
        raise ValueError(
            f"out[{name!r}] is {dtypes[0]} {tuple(room.shape)}, and the batch has {dtypes[1]} "
            f"{tuple(column.shape)}"
        )
    if is_tensor(rows):
        import torch

        rows.copy_(column if is_tensor(column) else torch.from_numpy(column))
    else:
        np.copyto(rows, np.asarray(column))
    return rows

"""stoker.Batch: a dict of columns."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, ValuesView
from typing import Any

import numpy as np

from stoker import _native
from stoker._dataset.columns import (
    VALID,
    ColumnMaker,
    change_tensors,
    cloned,
    describe,
    emptied,
    tensors_in,
)


class _Pending:
    """Placeholder for a column that was not accessed yet."""


_PENDING = _Pending()


class Batch(dict[str, Any]):
    """The columns of some samples, by name.

    A real dict. Numbers, arrays and token windows are tensors (NumPy arrays without torch), text is
    a list of str, raw bytes are a :class:`stoker.BytesColumn`, ragged arrays a
    :class:`stoker.RaggedColumn`. ``batch["__key__"]`` has the samples' keys;
    ``batch["__valid__"]``, if the end of an epoch is padded, says which samples count.

    Columns are created on access, and are views of the loader's memory. The loader can reuse that
    memory once the batch and everything taken from it are gone; use :meth:`clone` to keep a batch.

    Attributes:
        cursor: The position of a run that has received this batch and all before it: save it with a
            model that was trained on them. None in a batch that no loader made.
        size: Number of samples.
        last: Whether it is the last micro-batch of its step (``micro_batch_size=``). Without
            micro-batches, every batch is. Until the last one, ``cursor`` is the beginning of the
            step: a run can only continue there.
    """

    cursor: _native.Cursor | None = None
    size: int = 0
    last: bool = True
    _source: _native.Batch | None = None
    _maker: ColumnMaker | None = None

    @classmethod
    def _of(cls, native: _native.Batch, maker: ColumnMaker, cursor: _native.Cursor) -> Batch:
        batch: Batch = cls.fromkeys(maker.names(native), _PENDING)  # type: ignore[assignment]
        batch.cursor = cursor
        batch.size = len(native)
        batch._source = native
        batch._maker = maker
        return batch

    def _made(self, name: str) -> Any:
        assert self._source is not None
        assert self._maker is not None
        value = self._maker.column(self._source, name)
        super().__setitem__(name, value)
        return value

    def _all(self) -> Batch:
        """Creates every column that does not exist yet."""
        for name in super().__iter__():
            if super().__getitem__(name) is _PENDING:
                self._made(name)
        return self

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return self._made(name) if value is _PENDING else value

    def __missing__(self, name: object) -> Any:
        columns = ", ".join(repr(column) for column in super().__iter__())
        raise KeyError(f"{name!r}: no such column; the batch has {columns}")

    # dict's own methods would return placeholders, so all methods that read are overridden. As this
    # class has its own __iter__, dict(batch) and f(**batch) use these methods, too.

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the column, or ``default`` if there is none with that name."""
        return self[name] if name in self else default  # noqa: SIM401 (this is get)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Names and columns."""
        return dict.items(self._all())

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """The columns."""
        return dict.values(self._all())

    def pop(self, name: str, *default: Any) -> Any:
        """Removes and returns a column."""
        if name in self:
            self[name]
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Removes and returns the last column."""
        return dict.popitem(self._all())

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Returns the column; adds ``default`` if there is none with that name."""
        return self[name] if name in self else super().setdefault(name, default)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Batch):
            other._all()
        return dict.__eq__(self._all(), other)

    def __or__(self, other: Any) -> Batch:  # type: ignore[override]
        both = self.copy()
        both.update(other)
        return both

    def copy(self) -> Batch:
        """Returns another dict of the same columns."""
        return self._with(dict(self))

    __copy__ = copy

    def _with(self, columns: dict[str, Any]) -> Batch:
        batch = Batch(columns)
        batch.cursor, batch.size, batch.last = self.cursor, self.size, self.last
        return batch

    def _changed(self, change: Callable[[Any], Any]) -> Batch:
        return self._with({name: change(value) for name, value in self.items()})

    def _emptied(self) -> Batch:
        """Returns the same columns without samples."""
        batch = self._changed(emptied)
        batch.size = 0
        return batch

    def clone(self) -> Batch:
        """Returns a copy with its own memory, so that the loader can reuse its memory."""
        return self._changed(cloned)

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        return self.clone()

    def to(self, device: Any, *, non_blocking: bool = False) -> Batch:
        """Returns a batch whose tensors are on ``device``; other values are unchanged.

        Tensors in dicts, lists and tuples of the batch are moved, too.

        ``device`` may also be a dtype, or anything else that ``torch.Tensor.to`` takes.
        """
        self._refuse_arrays("to()")
        return self._changed(
            lambda value: change_tensors(value, lambda t: t.to(device, non_blocking=non_blocking))
        )

    def pin_memory(self) -> Batch:
        """Returns a batch whose tensors are in page-locked memory, which a GPU copies directly."""
        self._refuse_arrays("pin_memory()")
        return self._changed(lambda value: change_tensors(value, lambda t: t.pin_memory()))

    def _refuse_arrays(self, what: str, advice: str = "torch=True makes tensors") -> None:
        """Raises if there are arrays but no tensor: otherwise nothing would move, silently."""
        made = {name: value for name, value in self.items() if name != VALID}  # added by us
        arrays = [name for name, value in made.items() if _is_array(value)]
        if arrays and not tensors_in(made):
            raise TypeError(f"{what}: {arrays[0]!r} is a NumPy array; {advice}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (dict(self.clone()), self.cursor, self.size, self.last)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {describe(value)}" for name, value in self.items())
        return f"Batch({self.size} samples; {columns}; {self.cursor!r})"


def _is_array(value: Any) -> bool:
    """Whether it is an array, or a dict with one. Lists of arrays are raw bytes, not tensors."""
    if isinstance(value, dict):
        return any(_is_array(item) for item in value.values())
    return isinstance(value, np.ndarray)


def _rebuilt(
    columns: dict[str, Any], cursor: _native.Cursor | None, size: int, last: bool = True
) -> Batch:
    batch = Batch(columns)
    batch.cursor, batch.size, batch.last = cursor, size, last
    return batch

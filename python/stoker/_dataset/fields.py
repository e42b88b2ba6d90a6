"""The types of a sample's fields in a batch: the values of a Loader's ``fields``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import _native

Fields: TypeAlias = Mapping[str, Any] | Sequence[str]

_PLAIN: dict[Any, str] = {
    bytes: "bytes",
    str: "text",
    int: "int64",
    float: "float64",
    bool: "bool",
}
_JSON = {int: "int64", float: "float64", str: "text"}


def dtype_name(dtype: npt.DTypeLike | str) -> str:
    """Returns the core's name of a dtype of NumPy or torch."""
    if dtype == "bfloat16" or str(dtype) == "torch.bfloat16":
        return "bfloat16"  # NumPy has no bfloat16
    if str(dtype).startswith("torch."):
        return str(dtype).removeprefix("torch.")
    try:
        return np.dtype(dtype).name
    except TypeError:
        raise TypeError(f"dtype={dtype!r}: no dtype that NumPy or torch has") from None


@dataclass(frozen=True)
class Field:
    """A field under a different column name: ``{"image": stoker.Field("jpg;jpeg;png")}``.

    Attributes:
        field: The field to read; of several names separated by semicolons, the first that the
            sample has.
        type: bytes, str, int, float, bool, a dtype, or None for the value that a Dataset gives.
    """

    field: str
    type: Any = bytes

    def _spec(self, name: str) -> _native.FieldSpec:
        if self.type is None or self.type in _PLAIN:
            return _native.FieldSpec(name, _PLAIN.get(self.type, "own"), self.field)
        if _is_dtype(self.type):
            return Array(self.type, field=self.field)._spec(name)
        raise TypeError(
            f"fields[{name!r}]: the type of a Field is bytes, str, int, float, bool, a dtype or "
            f"None, not {self.type!r}"
        )


@dataclass(frozen=True)
class Json:
    """One value of a JSON document.

    Attributes:
        path: Members by name and elements by number, separated by dots: "box.corners.0". Empty: the
            whole document is the value.
        type: int, float or str.
        field: The field that contains the document, if its name differs from the column's.
    """

    path: str
    type: type = str
    field: str = ""

    def _spec(self, name: str) -> _native.FieldSpec:
        if self.type not in _JSON:
            raise TypeError(f"{name!r}: a JSON value is int, float or str, not {self.type!r}")
        spec = _native.FieldSpec(name, "json", self.field)
        spec.json_path = self.path
        spec.json_type = _JSON[self.type]
        return spec


@dataclass(frozen=True)
class Array:
    """An array with the same shape in all samples; a batch stacks them.

    The field is an ``.npy`` file, a typed array of its format (MDS, TFRecord, tokens), or plain
    elements of ``dtype``. It may also be one number, of any dtype or as text, which is converted to
    ``dtype`` if it fits: ``{"y": np.float32}``.

    Attributes:
        dtype: The dtype of a field that states none; it must match the dtype of an array that
            states one. NumPy's or torch's.
        shape: The shape in every sample; that of the first sample if not given.
        field: The field to read, if its name differs from the column's.
    """

    dtype: npt.DTypeLike | None = None
    shape: Sequence[int] | None = None
    field: str = ""

    def _spec(self, name: str) -> _native.FieldSpec:
        spec = _native.FieldSpec(name, "array", self.field)
        if self.dtype is not None:
            spec.dtype = dtype_name(self.dtype)
        if self.shape is not None:
            spec.shape = [int(size) for size in self.shape]
        return spec


@dataclass(frozen=True)
class Npy(Array):
    """An ``.npy`` file, which states its dtype and shape."""


@dataclass(frozen=True)
class Ragged:
    """Arrays whose first dimension varies: all rows in one array, and where each sample begins.

    Attributes:
        dtype: As in Array.
        field: The field to read, if its name differs from the column's.
    """

    dtype: npt.DTypeLike | None = None
    field: str = ""

    def _spec(self, name: str) -> _native.FieldSpec:
        spec = _native.FieldSpec(name, "ragged", self.field)
        if self.dtype is not None:
            spec.dtype = dtype_name(self.dtype)
        return spec


@dataclass(frozen=True)
class Pad:
    """Arrays whose first dimension varies, padded to one length.

    The batch then also has ``<name>_length``: the number of rows per sample that are not padding.

    Attributes:
        length: The length to pad to.
        value: The value to pad with.
        dtype: As in Array.
        cut: Cut longer arrays; otherwise they are an error.
        field: The field to read, if its name differs from the column's.
    """

    length: int
    value: float = 0
    dtype: npt.DTypeLike | None = None
    cut: bool = False
    field: str = ""

    def _spec(self, name: str) -> _native.FieldSpec:
        spec = _native.FieldSpec(name, "pad", self.field)
        if self.dtype is not None:
            spec.dtype = dtype_name(self.dtype)
        spec.pad_length = self.length
        spec.pad_value = self.value
        spec.pad_cut = self.cut
        return spec


_KINDS = (Field, Json, Array, Ragged, Pad)


def _is_dtype(kind: Any) -> bool:
    """Whether it is a dtype of NumPy or torch, or the name of one."""
    if isinstance(kind, (str, np.dtype)):
        return True
    if isinstance(kind, type):
        return issubclass(kind, np.generic)
    return type(kind).__module__ == "torch" and type(kind).__name__ == "dtype"


def _spec_of(name: str, kind: Any) -> _native.FieldSpec:
    if isinstance(kind, _KINDS):
        return kind._spec(name)
    if isinstance(kind, type) and kind in _PLAIN:
        return _native.FieldSpec(name, _PLAIN[kind])
    if _is_dtype(kind):
        return Array(kind)._spec(name)
    raise TypeError(
        f"fields[{name!r}] is {kind!r}: give bytes, str, int, float, bool, a dtype, or "
        "stoker.Field, Json, Array, Npy, Ragged or Pad"
    )


def _source_of(name: str, kind: Any) -> str:
    return (isinstance(kind, _KINDS) and kind.field) or name


@dataclass(frozen=True)
class Columns:
    """The columns of a loader's batches."""

    specs: list[_native.FieldSpec]
    names: tuple[str, ...] | None  # None: every field that samples have
    padded: dict[str, str]  # column of the lengths -> column of the array
    sources: tuple[str, ...] = ()  # the fields of samples that they are made from
    are_shown_by_samples: bool = False  # the types of some are known only from samples


def columns_of(fields: Fields | None, *, packs: bool = False) -> Columns:
    """Checks ``fields`` and makes columns from them; packs of tokens also have lengths."""
    if fields is None:
        padded = {"tokens_length": "tokens"} if packs else {}
        return Columns([], None, padded, are_shown_by_samples=True)
    if isinstance(fields, str):
        raise TypeError(f"fields is a mapping or a sequence of names: give [{fields!r}]")
    kinds = (
        dict(fields) if isinstance(fields, Mapping) else {one: Field(one, None) for one in fields}
    )
    if not kinds:
        raise ValueError("fields is empty: leave it out for every field as it is")
    for name in ("__key__", "__valid__"):
        if name in kinds:
            raise ValueError(f"{name!r} comes with every batch that has it: leave it out of fields")
    padded = {f"{name}_length": name for name, kind in kinds.items() if isinstance(kind, Pad)}
    for lengths, name in padded.items():
        if lengths in kinds:
            raise ValueError(f"{lengths!r} is where the lengths of {name!r} go: name it otherwise")
    specs = [_spec_of(name, kind) for name, kind in kinds.items()]
    sources = (_source_of(name, kind) for name, kind in kinds.items())
    has_own = any(isinstance(kind, Field) and kind.type is None for kind in kinds.values())
    return Columns(specs, tuple(kinds), padded, tuple(sources), has_own)

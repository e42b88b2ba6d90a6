"""What to make of a sample's fields: the values of a Loader's ``fields``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import _native

Fields: TypeAlias = Mapping[str, Any] | Sequence[str]

_PLAIN: dict[Any, str] = {bytes: "bytes", str: "text", int: "int64", float: "float64"}
_JSON = {int: "int64", float: "float64", str: "text"}


def dtype_name(dtype: npt.DTypeLike | str) -> str:
    """The core's name of a dtype; NumPy and torch have others for some."""
    if dtype == "bfloat16" or str(dtype) == "torch.bfloat16":
        return "bfloat16"  # NumPy has none
    if str(dtype).startswith("torch."):
        return str(dtype).removeprefix("torch.")
    try:
        return np.dtype(dtype).name
    except TypeError:
        raise TypeError(f"dtype={dtype!r}: no dtype that NumPy or torch has") from None


@dataclass(frozen=True)
class Field:
    """A field under another name than its own: ``{"image": stoker.Field("jpg;jpeg;png")}``.

    Attributes:
        field: The field to take; of several names between semicolons, the first that the sample
            has.
        type: bytes, str, int, float, a dtype, or None for what a Dataset gives.
    """

    field: str
    type: Any = bytes

    def _spec(self, name: str) -> _native.FieldSpec:
        if self.type is None or self.type in _PLAIN:
            return _native.FieldSpec(name, _PLAIN.get(self.type, "own"), self.field)
        if _is_dtype(self.type):
            return Array(self.type, field=self.field)._spec(name)
        raise TypeError(
            f"fields[{name!r}]: the type of a Field is bytes, str, int, float, a dtype or None, "
            f"not {self.type!r}"
        )


@dataclass(frozen=True)
class Json:
    """One value of a JSON document.

    Attributes:
        path: Members by name and elements by number, with dots: "box.corners.0". Empty: the whole
            document is the value.
        type: int, float or str.
        field: The field that holds the document, if the column is called otherwise.
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
    """An array of one shape in all samples; in a batch they are stacked.

    The field is an ``.npy`` file, a typed array of its format (MDS, TFRecord, tokens), or the plain
    elements of ``dtype``. Or it is one number, of any dtype or written as text, which is converted
    to ``dtype`` if it fits: ``{"y": np.float32}``.

    Attributes:
        dtype: Of a field that has none; of an array that has one, it must be the same. NumPy's or
            torch's.
        shape: Of every sample; that of the first one if not given.
        field: The field to take, if the column is called otherwise.
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
    """An ``.npy`` file, which says its dtype and shape itself."""


@dataclass(frozen=True)
class Ragged:
    """Arrays whose first dimension differs: all rows in one array, and where each sample begins.

    Attributes:
        dtype: As of Array.
        field: The field to take, if the column is called otherwise.
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
    """Arrays whose first dimension differs, filled up to one length.

    A batch then also has ``<name>_length``: how many rows of each sample are its own.

    Attributes:
        length: To fill up to.
        value: To fill up with.
        dtype: As of Array.
        cut: Cut a longer one; otherwise it is an error.
        field: The field to take, if the column is called otherwise.
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
    """Whether it is one of NumPy's or torch's, or the name of one."""
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
        f"fields[{name!r}] is {kind!r}: give bytes, str, int, float, a dtype, or stoker.Field, "
        "Json, Array, Npy, Ragged or Pad"
    )


def _source_of(name: str, kind: Any) -> str:
    return (isinstance(kind, _KINDS) and kind.field) or name


@dataclass(frozen=True)
class Columns:
    """The columns of a loader's batches."""

    specs: list[_native.FieldSpec]
    names: tuple[str, ...] | None  # None: every field that samples have
    padded: dict[str, str]  # the column of the lengths -> that of the array
    sources: tuple[str, ...] = ()  # the fields of samples that they are made of
    are_shown_by_samples: bool = False  # what they are, of at least one


def columns_of(fields: Fields | None, *, packs: bool = False) -> Columns:
    """Checks ``fields`` and makes columns of them; packs of tokens have lengths besides."""
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

"""Petastorm: Parquet whose binary columns may be arrays or images.

Petastorm stores its schema as a pickle in the metadata of ``_common_metadata``, under the key
``dataset-toolkit.unischema.v1``. Unpickling runs code from the file, so it is never read here:
columns have their Arrow types, and arrays and images are declared by the user's schema, or detected
from the first row.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stoker._pack.importers import arrow_rows
from stoker._pack.importers.parquet import ParquetRows

_NPY_MAGIC = b"\x93NUMPY"
_CODECS = ("ndarray", "compressed_image", "scalar")
_IMAGE_MAGICS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


def read_npy(value: bytes) -> np.ndarray[Any, Any]:
    """Parses the output of NdarrayCodec: the bytes of an .npy file, without objects.

    NumPy parses the header, and evaluates nothing in it; the array is a view of the bytes, so a
    header that claims too much data costs no memory.
    """
    file = io.BytesIO(value)
    form: Any = np.lib.format
    try:
        version = form.read_magic(file)
        read_head = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
        shape, is_fortran, dtype = read_head(file)
        if dtype.hasobject:
            raise ValueError("an array of objects, which are pickled")
        if math.prod(shape) * dtype.itemsize != len(value) - file.tell():
            raise ValueError(f"shape {shape} of {dtype} is not what {len(value)} bytes hold")
        array = np.frombuffer(value, dtype, offset=file.tell())
        return array.reshape(shape, order="F" if is_fortran else "C")
    except Exception as error:  # NumPy's parser also raises errors of its tokenizer
        raise ValueError(f"not an array as NdarrayCodec writes them: {error}") from None


def _array_decoder(dtype: np.dtype[Any] | None, shape: list[Any] | None) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        array = read_npy(value)
        if dtype is not None and array.dtype != dtype:
            raise ValueError(f"an array of {array.dtype}, where the schema says {dtype}")
        if shape is not None and not (
            len(shape) == array.ndim
            and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
        ):
            raise ValueError(f"an array of shape {array.shape}, where the schema says {shape}")
        return array

    return decode


def _fits(value: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "b":
        return isinstance(value, bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(type(value) is int and limits.min <= value <= limits.max)
    if dtype.kind == "f":
        if type(value) not in (int, float):
            return False
        with np.errstate(over="ignore"):
            made = float(np.float64(value).astype(dtype))
        return bool(made == value or value != value)
    kinds = {"U": str, "S": bytes}
    return dtype.kind not in kinds or isinstance(value, kinds[dtype.kind])


def _scalar_decoder(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """Only checks; the value from Arrow is stored unchanged."""

    def decode(value: Any) -> Any:
        if not _fits(value, dtype):
            shown = repr(value)[:40]
            raise ValueError(f"{shown}, where the schema says {dtype}, which cannot hold it")
        return value

    return decode


def _image(value: Any) -> Any:
    if not value.startswith(_IMAGE_MAGICS):
        raise ValueError("neither a PNG nor a JPEG, as the schema says")
    return value


def _decoder(column: str, entry: Any) -> Callable[[Any], Any] | None:
    """Returns the decoder for one column of the schema; None: unchanged."""
    if not isinstance(entry, Mapping) or entry.get("codec") not in _CODECS:
        raise ValueError(f'schema: column {column!r} needs a "codec": one of {", ".join(_CODECS)}')
    unknown = set(entry) - {"codec", "dtype", "shape"}
    if unknown:
        raise ValueError(
            f"schema: column {column!r} has {sorted(unknown)[0]!r}, which is not known"
        )
    try:
        dtype = np.dtype(entry["dtype"]) if entry.get("dtype") is not None else None
    except TypeError:
        raise ValueError(f"schema: column {column!r}: {entry['dtype']!r} is not a dtype") from None
    shape = entry.get("shape")
    if shape is not None and not (
        isinstance(shape, (list, tuple)) and all(n is None or isinstance(n, int) for n in shape)
    ):
        raise ValueError(f"schema: column {column!r}: a shape is a list of numbers and nulls")
    if entry["codec"] == "ndarray":
        return _array_decoder(dtype, None if shape is None else list(shape))
    if entry["codec"] == "compressed_image":
        return _image
    return None if dtype is None else _scalar_decoder(dtype)


def read_schema(schema: Any) -> dict[str, Any]:
    """Returns a mapping unchanged; for a path, the contents of the JSON file."""
    if schema is None or isinstance(schema, Mapping):
        return dict(schema or {})
    try:
        document = json.loads(Path(schema).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"schema {str(schema)!r}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f'schema {str(schema)!r}: not an object of columns, {{"image": {{...}}}}')
    return document


class PetastormRows(ParquetRows):
    """The rows of a folder that Petastorm wrote."""

    def __init__(self, path: str, *, schema: Any = None, **options: Any) -> None:
        """Opens the folder.

        Args:
            path: The folder.
            schema: Describes columns whose type Arrow does not show: a mapping, or a JSON file, of
                ``{"image": {"codec": "ndarray", "dtype": "uint8", "shape": [32, 32, 3]}}``; codec
                is "ndarray", "compressed_image" (the bytes are kept) or "scalar". Without a schema,
                binary columns whose first value is an .npy file are arrays.
            **options: Options of Parquet.
        """
        self._codecs = None if schema is None else read_schema(schema)
        super().__init__(path, **options)
        self.fingerprint += json.dumps(self._codecs, sort_keys=True, default=str)

    def choose_decoders(self, schema: Any) -> arrow_rows.Decoders:
        """Uses the user's schema, or the first row."""
        if self._codecs is None:
            return self._seen_decoders()
        for name in self._codecs:
            if name not in schema.names:
                names = ", ".join(map(repr, schema.names))
                raise ValueError(f"schema: {self.path} has no column {name!r}; it has {names}")
        made = {name: _decoder(name, entry) for name, entry in self._codecs.items()}
        return {name: decode for name, decode in made.items() if decode is not None}

    def _seen_decoders(self) -> arrow_rows.Decoders:
        first = next(self.read(range(1)))[0] if self.count else {}
        return {
            name: read_npy
            for name, value in first.items()
            if isinstance(value, bytes) and value.startswith(_NPY_MAGIC)
        }

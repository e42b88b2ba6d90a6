"""stoker.ingest: writes shards from any iterable."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.paths import local_path_text

Format: TypeAlias = Literal["tar", "mds", "tfrecord", "tokens", "counted", "shard001"]
Field: TypeAlias = tuple[str, str, str, tuple[int, ...], bytes]  # name, type, dtype, shape, bytes
FORMATS = tuple(name for name, _ in _native.written_formats())
ARRAY_FORMATS = tuple(name for name, is_array in _native.written_formats() if is_array)


def default_format(*, is_array: bool) -> str:
    """Returns the format to write if the user names none: the first one for such samples."""
    return next(name for name, of_arrays in _native.written_formats() if of_arrays == is_array)


@dataclass(frozen=True)
class JsonValue:
    """A value to store as JSON regardless of its type, from a source that knows its types.

    A plain list of numbers becomes a numeric feature in a TFRecord, a list of texts does not, and
    an empty list could be either.
    """

    value: Any


def parse_size(size: int | str | None) -> int | None:
    """Returns a number unchanged, or parses a text such as "256MiB"."""
    return _native.parse_bytes(size) if isinstance(size, str) else size


def _array_field(name: str, value: npt.NDArray[Any]) -> Field:
    if value.dtype.byteorder == ">":
        value = value.astype(value.dtype.newbyteorder("<"))
    return name, "array", value.dtype.str, value.shape, value.tobytes()


def _list_dtype(value: Any) -> str:
    """Returns the dtype of a list that has only numbers, for which TFRecord has a type."""
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(number, float) or (isinstance(number, int) and -(2**63) <= number < 2**63)
        for number in value
    ):
        return ""
    return "<f8" if any(isinstance(number, float) for number in value) else "<i8"


def _check_keys(value: Any) -> None:
    """Raises ValueError for keys that are different in a dict but equal in JSON: 1 and "1"."""
    if isinstance(value, dict):
        names = [key if isinstance(key, str) else json.dumps(key) for key in value]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {twice!r} would be there more than once")
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, (dict, list, tuple)):
            _check_keys(one)


def _json_field(name: str, value: Any) -> Field:
    is_told = isinstance(value, JsonValue)
    value = value.value if isinstance(value, JsonValue) else value
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if isinstance(value, (dict, list, tuple)):
            _check_keys(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"field {name!r}: {type(value).__name__} is not JSON: {error}") from None
    return name, "json", "" if is_told else _list_dtype(value), (), text.encode()


def to_field(name: str, value: Any, *, keep_arrays: bool = False) -> Field:
    """Returns one value of a sample in the form of the native writers.

    One-dimensional arrays of bytes become bytes, as a Dataset returns them; ``keep_arrays`` keeps
    them as arrays.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):  # np.bytes_ and np.str_, too
        return name, "bytes", "", (), bytes(value)
    if isinstance(value, str):
        return name, "text", "", (), value.encode()
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind in "biuf" else np.asarray(value)
    if isinstance(value, (bool, dict, list, tuple, JsonValue)) or value is None:
        return _json_field(name, value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(
                f"field {name!r}: {value} does not fit a signed 64-bit integer: give it as text"
            )
        return name, "int64", "", (), value.to_bytes(8, "little", signed=True)
    if isinstance(value, float):
        return name, "float64", "", (), np.float64(value).tobytes()
    if not hasattr(value, "__array__"):
        kind = type(value).__name__
        raise ValueError(f"field {name!r}: {kind} has no form in a shard: give bytes or an array")
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        raise ValueError(f"field {name!r}: a masked array, whose mask would be lost: fill it first")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # raised by tensors
        kind = f"{type(value).__name__} of {getattr(value, 'dtype', '?')}"
        raise ValueError(
            f"field {name!r}: {kind} cannot be an array ({error}): give a NumPy array, as of "
            "x.detach().cpu().float()"
        ) from None
    if array.dtype == np.uint8 and array.ndim == 1 and not keep_arrays:
        return name, "bytes", "", (), array.tobytes()
    return _array_field(name, array)


def to_sample(number: int, sample: Mapping[str, Any], keep_arrays: bool) -> tuple[str, list[Field]]:
    """Returns a sample in the form of the native writers; its number is its default key."""
    if not isinstance(sample, Mapping):
        raise ValueError(f"sample {number} is {type(sample).__name__}: give dicts of fields")
    key = sample.get("__key__", f"{number:09d}")
    if not isinstance(key, str):
        raise ValueError(f"sample {number}: __key__ is {type(key).__name__}, not str")
    try:
        fields = [
            to_field(name, value, keep_arrays=keep_arrays)
            for name, value in sample.items()
            if name != "__key__"
        ]
    except ValueError as error:
        raise ValueError(f"sample {number} ({key!r}): {error}") from None
    return key, fields


def ingest(
    samples: Iterable[Mapping[str, Any]],
    dst: str | os.PathLike[str],
    *,
    format: Format = "tar",  # noqa: A002 (as on the command line)
    samples_per_shard: int = 1000,
    shard_size: int | str | None = None,
) -> _native.PackReport:
    """Writes shards, an index with checksums, and a manifest from any iterable of dicts.

    Values may be bytes, str, int, float, NumPy arrays and anything that ``numpy.asarray`` converts
    (tensors in host memory); dicts, lists, bools and None become JSON; in a TFRecord, lists of only
    numbers become a feature. ``"__key__"`` is the key of the sample; without it, samples are
    numbered. The samples of one shard are kept in memory. A value without a type in the format is
    written in the nearest one: in a tar, numbers become text and arrays ``.npy`` files.
    The manifest of a tar records the types, so that a Dataset returns the values. A ``UserWarning``
    names each field whose float64 numbers TFRecord rounds.

    Shards are published when they are complete and durable; the manifest is written last. If the
    iterable raises, everything that was written is removed.

    Args:
        samples: The samples, in the order of the shards.
        dst: A directory that is new or empty.
        format: "tar", "mds", "tfrecord"; for samples of one array each "tokens", and "counted" or
            "shard001" if all have the same length.
        samples_per_shard: Maximum number of samples in a shard.
        shard_size: A shard ends when its samples have this many bytes: 268435456, "256MiB".

    Raises:
        FileExistsError: ``dst`` is not empty.
        ValueError: A sample cannot be written; the message names it. Or there are no samples.
    """
    if format not in FORMATS:
        raise ValueError(f"format={format!r} cannot be written: one of {', '.join(FORMATS)}")
    samples_per_shard = whole_number("samples_per_shard", samples_per_shard, 1)
    limit_bytes = parse_size(shard_size)
    writer = _native.make_ingest_writer(local_path_text(dst), format)
    try:
        shard: list[tuple[str, list[Field]]] = []
        size_bytes = 0
        for number, sample in enumerate(samples):
            entry = to_sample(number, sample, keep_arrays=format in ARRAY_FORMATS)
            shard.append(entry)
            size_bytes += sum(len(field[4]) for field in entry[1])
            is_full = limit_bytes is not None and size_bytes >= limit_bytes
            if is_full or len(shard) == samples_per_shard:
                writer.write_shard(shard)
                shard, size_bytes = [], 0
        writer.write_shard(shard)
        report = writer.finish()
    except BaseException:
        writer.abandon()
        raise
    for remark in report.remarks:
        warnings.warn(remark, stacklevel=2)
    return report

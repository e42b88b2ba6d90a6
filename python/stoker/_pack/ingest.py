"""stoker.ingest: from any iterable to shards."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.paths import path_text

Format: TypeAlias = Literal["tar", "mds", "tfrecord", "tokens", "counted", "shard001"]
Field: TypeAlias = tuple[str, str, str, tuple[int, ...], bytes]  # name, type, dtype, shape, bytes
ARRAY_FORMATS = ("tokens", "counted", "shard001")  # a sample is an array
FORMATS = ("tar", "mds", "tfrecord", *ARRAY_FORMATS)


@dataclass(frozen=True)
class JsonValue:
    """A value that is JSON whatever it is: of a source that knows the type of all its values.

    A bare list of numbers is a feature of numbers in a TFRecord, and one of texts is not; an empty
    one could be either.
    """

    value: Any


def parse_size(size: int | str | None) -> int | None:
    """A number as it is, "256MiB" as a number."""
    return _native.parse_bytes(size) if isinstance(size, str) else size


def _array_field(name: str, value: npt.NDArray[Any]) -> Field:
    if value.dtype.byteorder == ">":
        value = value.astype(value.dtype.newbyteorder("<"))
    return name, "array", value.dtype.str, value.shape, value.tobytes()


def _list_dtype(value: Any) -> str:
    """What the numbers of a list are, if it holds nothing else: TFRecord has a form for such."""
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(number, float) or (isinstance(number, int) and -(2**63) <= number < 2**63)
        for number in value
    ):
        return ""
    return "<f8" if any(isinstance(number, float) for number in value) else "<i8"


def _check_keys(value: Any) -> None:
    """ValueError for keys that are several in a dict, and one in JSON: 1 and "1"."""
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
        raise ValueError(f"field {name!r}: {type(value).__name__} is no JSON: {error}") from None
    return name, "json", "" if is_told else _list_dtype(value), (), text.encode()


def to_field(name: str, value: Any, *, keep_arrays: bool = False) -> Field:
    """One value of a sample as the native writers take it.

    Arrays of bytes in one dimension are bytes, which is how a Dataset gives them back;
    ``keep_arrays`` leaves them what they are.
    """
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind in "biuf" else np.asarray(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return name, "bytes", "", (), bytes(value)
    if isinstance(value, str):
        return name, "text", "", (), value.encode()
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
    except (TypeError, ValueError, RuntimeError) as error:  # of tensors
        kind = f"{type(value).__name__} of {getattr(value, 'dtype', '?')}"
        raise ValueError(
            f"field {name!r}: {kind} cannot be an array ({error}): give a NumPy array, as of "
            "x.detach().cpu().float()"
        ) from None
    if array.dtype == np.uint8 and array.ndim == 1 and not keep_arrays:
        return name, "bytes", "", (), array.tobytes()
    return _array_field(name, array)


def to_sample(number: int, sample: Mapping[str, Any], keep_arrays: bool) -> tuple[str, list[Field]]:
    """A sample as the native writers take it; its number is its key if it has none."""
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
    format: Format = "tar",  # noqa: A002 (the word of the command line, too)
    samples_per_shard: int = 1000,
    shard_size: int | str | None = None,
) -> _native.PackReport:
    """Writes shards, an index with checksums, and a manifest from any iterable of dicts.

    Values may be bytes, str, int, float, NumPy arrays and what ``numpy.asarray`` takes for one
    (tensors in host memory); dicts, lists, bools and None become JSON, in a TFRecord lists of
    numbers alone a feature of them. ``"__key__"`` is the key of the sample, else samples are
    numbered. A shard's worth of samples is held in memory. What a
    format has no type for is written in the nearest one: numbers in a tar become text, arrays
    ``.npy`` files.

    Shards get their names when they are whole and durable, the manifest comes last. If the iterable
    raises, what was written is removed.

    Args:
        samples: The samples, in the order of the shards.
        dst: A directory that is new or empty.
        format: "tar", "mds", "tfrecord"; for samples of one array each "tokens", and "counted" or
            "shard001" if all have the same length.
        samples_per_shard: At most.
        shard_size: A shard ends when its samples have that many bytes: 268435456, "256MiB".

    Raises:
        FileExistsError: There is something in ``dst``.
        ValueError: A sample cannot be written; the message names it. Or there are none.
    """
    if format not in FORMATS:
        raise ValueError(f"format={format!r} cannot be written: one of {', '.join(FORMATS)}")
    samples_per_shard = whole_number("samples_per_shard", samples_per_shard, 1)
    limit_bytes = parse_size(shard_size)
    writer = _native.make_ingest_writer(path_text(dst), format)
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
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise

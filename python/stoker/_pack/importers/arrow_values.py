"""How the values of an Arrow column are stored: chosen once, from its type.

    type                                        stored as
    text, binary                                unchanged
    integers, floats, booleans                  int64, float64, JSON true and false
    dates, times, timestamps, decimals          text, as Arrow writes it
    durations                                   the number, in the column's unit
    {"bytes", "path"} (Hugging Face)            the bytes
    lists of numbers or booleans                arrays; a null among floats is NaN
    Hugging Face's Array2D to Array5D           arrays of that shape
    everything else: lists, structs, maps       JSON; the leaves as above, binary as base64

Nothing here depends on the values, so a column has one name and one type in all rows, in whatever
order they are read.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from stoker._pack.importers.contract import need
from stoker._pack.ingest import JsonValue

Reader: TypeAlias = Callable[[Any], list[Any]]  # reads an Arrow array; None for null
_Plain: TypeAlias = Callable[[Any], Any]


def _is_list(kind: Any, types: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_list_view(kind: Any, types: Any) -> bool:
    names = ("is_list_view", "is_large_list_view")  # since pyarrow 16
    return any(getattr(types, name)(kind) for name in names if hasattr(types, name))


def _is_number(kind: Any, types: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_binary(kind: Any, types: Any) -> bool:
    names = ("is_binary", "is_large_binary", "is_fixed_size_binary", "is_binary_view")
    return any(getattr(types, name)(kind) for name in names if hasattr(types, name))


def _is_file(kind: Any, types: Any) -> bool:
    """Hugging Face stores images and sounds as {"bytes": ..., "path": ...}."""
    return types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}


def _file_bytes(value: Any) -> Any:
    if value is None or (value["bytes"] is None and value["path"] is None):
        return None
    if value["bytes"] is None:
        raise ValueError(
            f"only the path of a file ({value['path']}), and not its bytes; embed them first"
        )
    return value["bytes"]


def _text_of(value: Any) -> Any:
    return None if value is None else base64.b64encode(value).decode()


def _storable(kind: Any, arrow: Any) -> Any:
    """Returns the type with storable leaves: times and decimals as text, durations as numbers."""
    types = arrow.types
    if isinstance(kind, arrow.BaseExtensionType):
        return _storable(kind.storage_type, arrow)
    if types.is_dictionary(kind):
        return _storable(kind.value_type, arrow)
    if types.is_duration(kind):
        return arrow.int64()
    if types.is_temporal(kind) or types.is_decimal(kind):
        return arrow.string()
    if types.is_map(kind):
        return arrow.map_(_storable(kind.key_type, arrow), _storable(kind.item_type, arrow))
    if types.is_struct(kind):
        return arrow.struct([field.with_type(_storable(field.type, arrow)) for field in kind])
    if _is_list(kind, types):
        item = kind.value_field.with_type(_storable(kind.value_type, arrow))
        if types.is_fixed_size_list(kind):
            return arrow.list_(item, kind.list_size)
        return arrow.large_list(item) if types.is_large_list(kind) else arrow.list_(item)
    return kind


def _plain(kind: Any, types: Any) -> _Plain | None:
    """Returns a function that converts a value to JSON; None if none is needed."""
    if _is_binary(kind, types):
        return _text_of
    if _is_file(kind, types):
        return lambda value: _text_of(_file_bytes(value))
    if _is_list(kind, types):
        item = _plain(kind.value_type, types)
        return item and (lambda value: value and [item(one) for one in value])
    if types.is_struct(kind):
        fields = {field.name: _plain(field.type, types) for field in kind}
        changed = {name: change for name, change in fields.items() if change is not None}
        if not changed:
            return None
        return lambda value: value and {
            name: changed[name](one) if name in changed else one for name, one in value.items()
        }
    if types.is_map(kind):
        both = [
            _plain(part, types) or (lambda one: one) for part in (kind.key_type, kind.item_type)
        ]
        return lambda value: value and [(both[0](name), both[1](one)) for name, one in value]
    return None


def _json_reader(kind: Any, arrow: Any) -> Reader:
    storable = _storable(kind, arrow)
    plain = _plain(storable, arrow.types)

    def read(column: Any) -> list[Any]:
        if isinstance(column.type, arrow.BaseExtensionType):
            column = column.storage
        values = column.cast(storable).to_pylist()
        return [
            None if value is None else JsonValue(plain(value) if plain else value)
            for value in values
        ]

    return read


def _flat_numbers(values: Any, arrow: Any) -> Any:
    if values.null_count and not arrow.types.is_floating(values.type):
        raise ValueError(
            f"a null in a list of {values.type}, which has none in an array; store the column as "
            "JSON (json_columns=, --json-columns), or leave it out (columns=, --columns)"
        )
    return values.to_numpy(zero_copy_only=False)


def _list_reader(arrow: Any) -> Reader:
    compute = need("pyarrow.compute", "parquet")

    def read(column: Any) -> list[Any]:
        flat = _flat_numbers(column.flatten(), arrow)
        lengths = compute.fill_null(compute.list_value_length(column), 0).to_pylist()
        valid = column.is_valid().to_pylist()
        values, at = [], 0
        for length, is_valid in zip(lengths, valid, strict=True):
            values.append(flat[at : at + length] if is_valid else None)
            at += length
        return values

    return read


def _list_view_reader(field: Any, arrow: Any) -> Reader:
    """Of numbers. Arrow's cast to a list loses elements (pyarrow 26), so Python makes the list."""
    read_list, kind = _list_reader(arrow), arrow.large_list(field.type.value_field)
    return lambda column: read_list(arrow.array(column.to_pylist(), kind))


def _check_lengths(lists: Any, size: int | None) -> None:
    """Checks that lists are rows of an array: none is null, and all have the right length."""
    if lists.null_count:
        raise ValueError("one of its rows is null, which an array cannot be")
    lengths = lists.value_lengths().unique().to_pylist()
    if len(lengths) > 1 or (size is not None and lengths not in ([], [size])):
        raise ValueError(f"its rows have {sorted(lengths)} elements, which is not an array")


def _tensor_reader(shape: tuple[int | None, ...], arrow: Any) -> Reader:
    """Returns a reader of nested lists that are known to be arrays."""

    def read_one(value: Any) -> Any:
        items = value.values
        for size in shape[1:]:
            _check_lengths(items, size)
            items = items.flatten()
        array = _flat_numbers(items, arrow)
        fixed = math.prod(size for size in shape if size is not None)
        rest = len(array) // fixed if fixed else 0
        full = tuple(rest if size is None else size for size in shape)
        if math.prod(full) != len(array):
            raise ValueError(f"{len(array)} elements, which is not the shape {list(shape)}")
        return array.reshape(full)

    def read(column: Any) -> list[Any]:
        return [read_one(value) if value.is_valid else None for value in column]

    return read


def _shape_of(field: Any, features: Mapping[str, Any], arrow: Any) -> tuple[int | None, ...] | None:
    """Returns Hugging Face's shape of an Array2D etc.: in the schema, or in the field's type."""
    feature = features.get(field.name)
    shape = feature.get("shape") if isinstance(feature, dict) else None
    if shape is None and isinstance(field.type, arrow.BaseExtensionType):
        shape = getattr(field.type, "shape", None)
    if shape is None and field.metadata:
        try:
            shape = json.loads(field.metadata.get(b"ARROW:extension:metadata", b""))[0]
        except (ValueError, TypeError, LookupError, RecursionError):
            return None
    if not isinstance(shape, (list, tuple)) or len(shape) < 2:
        return None
    sizes = [size for size in shape if size is not None]
    if len(sizes) < len(shape) - 1 or not all(type(n) is int and n >= 0 for n in sizes):
        return None
    kind = _storable(field.type, arrow)
    for _ in shape:
        if not _is_list(kind, arrow.types):
            return None
        kind = kind.value_type
    return tuple(shape) if _is_number(kind, arrow.types) else None


def _features(schema: Any) -> Mapping[str, Any]:
    """Returns Hugging Face's description of the columns, from the schema's metadata."""
    try:
        document = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = document["info"]["features"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def shapes_of(schema: Any) -> dict[str, tuple[int | None, ...]]:
    """Returns the shapes of columns that are arrays according to Hugging Face."""
    arrow = need("pyarrow", "parquet")
    features = _features(schema)
    shapes = {field.name: _shape_of(field, features, arrow) for field in schema}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _fixed_shape_tensors(column: Any) -> list[Any]:
    arrow = need("pyarrow", "parquet")
    filled = column.storage.drop_null()
    if filled.flatten().null_count:
        raise ValueError(
            "a null inside a tensor; store the column as JSON (json_columns=, --json-columns), or "
            "leave it out (columns=, --columns)"
        )
    tensors = iter(arrow.ExtensionArray.from_storage(column.type, filled).to_numpy_ndarray())
    return [next(tensors) if is_valid else None for is_valid in column.is_valid().to_pylist()]


def _reader(field: Any, features: Mapping[str, Any], arrow: Any) -> Reader:
    types = arrow.types
    kind = field.type
    if isinstance(kind, arrow.FixedShapeTensorType):
        return _fixed_shape_tensors
    shape = _shape_of(field, features, arrow)
    if isinstance(kind, arrow.BaseExtensionType):
        inner = field.with_type(kind.storage_type)
        read_storage = _tensor_reader(shape, arrow) if shape else _reader(inner, {}, arrow)
        return lambda column: read_storage(column.storage)
    if types.is_dictionary(kind):
        read_values = _reader(field.with_type(kind.value_type), {}, arrow)
        return lambda column: read_values(column.dictionary_decode())
    if shape is not None:
        return _tensor_reader(shape, arrow)
    if _is_file(kind, types):
        return lambda column: [_file_bytes(value) for value in column.to_pylist()]
    if _is_list(kind, types) and _is_number(kind.value_type, types):
        return _list_reader(arrow)
    if _is_list_view(kind, types) and _is_number(kind.value_type, types):
        return _list_view_reader(field, arrow)
    if types.is_nested(kind):
        return _json_reader(kind, arrow)
    storable = _storable(kind, arrow)
    return lambda column: list(column.cast(storable).to_pylist())


def choose_readers(
    schema: Any, columns: Collection[str], json_columns: Collection[str]
) -> dict[str, Reader]:
    """Returns a reader for each column; those in ``json_columns`` are always JSON."""
    arrow = need("pyarrow", "parquet")
    unknown = [name for name in json_columns if name not in columns]
    if unknown:
        names = ", ".join(map(repr, columns))
        raise ValueError(f"json_columns: {unknown[0]!r} is not a column to pack; they are {names}")
    features = _features(schema)
    fields = {name: schema.field(name) for name in columns}
    return {
        name: _json_reader(field.type, arrow)
        if name in json_columns
        else _reader(field, features, arrow)
        for name, field in fields.items()
    }

"""Merges the schemas of the files of one folder; refuses what would lose values.

Two files agree on a column if it has the same type in both. Differences that lose nothing are
accepted: metadata, nullability, the order of columns, dictionary encoding, large and small forms of
text, binary and lists, and a column, member or element that is entirely null in one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from stoker._pack.importers.arrow_values import shapes_of
from stoker._pack.importers.contract import need

_CURE = "the files of a folder must have one schema: convert one, or pack them apart"
_LEAVE_OUT = ", or leave the column out (columns=, --columns)"
_SAME = (  # names of types with the same values
    {"string", "large_string", "string_view"},
    {"binary", "large_binary", "binary_view"},
)


class _DifferentError(Exception):
    """Where two types differ: the place within the column, and both types."""


def _merge_lists(place: str, one: Any, other: Any, arrow: Any) -> Any:
    item = one.value_field.with_type(_merge(f"{place}[]", one.value_type, other.value_type, arrow))
    if arrow.types.is_fixed_size_list(one):
        return arrow.list_(item, one.list_size)
    return arrow.large_list(item) if arrow.types.is_large_list(one) else arrow.list_(item)


def _merge_structs(place: str, one: Any, other: Any, arrow: Any) -> Any:
    members = {field.name: field.type for field in other}
    if len(members) != len(other) or members.keys() != {field.name for field in one}:
        raise _DifferentError(place, one, other)
    return arrow.struct(
        [
            field.with_type(_merge(f"{place}.{field.name}", field.type, members[field.name], arrow))
            for field in one
        ]
    )


def _merge(place: str, one: Any, other: Any, arrow: Any) -> Any:
    """Returns the type for the values of both."""
    types = arrow.types
    if one.equals(other) or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_dictionary(one) or types.is_dictionary(other):
        plain, also = (k.value_type if types.is_dictionary(k) else k for k in (one, other))
        return _merge(place, plain, also, arrow)
    if any({str(one), str(other)} <= same for same in _SAME):
        return one
    if types.is_struct(one) and types.is_struct(other):
        return _merge_structs(place, one, other, arrow)
    if types.is_map(one) and types.is_map(other):
        return arrow.map_(
            _merge(f"{place}.key", one.key_type, other.key_type, arrow),
            _merge(f"{place}.value", one.item_type, other.item_type, arrow),
        )
    lists = (types.is_list, types.is_large_list)
    is_fixed = types.is_fixed_size_list(one) and types.is_fixed_size_list(other)
    if (is_fixed and one.list_size == other.list_size) or (
        any(is_kind(one) for is_kind in lists) and any(is_kind(other) for is_kind in lists)
    ):
        return _merge_lists(place, one, other, arrow)
    raise _DifferentError(place, one, other)


def _check_names(
    columns: Collection[str], first_path: str, first: Any, path: str, schema: Any
) -> None:
    """Raises ValueError for a column that only one has, or that is duplicate in ``schema``."""
    for name in columns:
        before, now = (one.names.count(name) for one in (first, schema))
        if now > 1:
            raise ValueError(
                f"{path}: more than one column is called {name!r}, unlike {first_path}"
            )
        if before != now:
            has, lacks = (path, first_path) if now else (first_path, path)
            raise ValueError(f"{lacks}: no column {name!r}, which {has} has")


def _merge_all(schemas: Iterable[tuple[str, Any]], columns: Collection[str] | None) -> Any:
    arrow = need("pyarrow", "parquet")
    rest = iter(schemas)
    first_path, first = next(rest)
    merged = {field.name: field.type for field in first}
    shapes = shapes_of(first)
    for path, schema in rest:
        wanted = list(dict.fromkeys([*first.names, *schema.names])) if columns is None else columns
        _check_names(wanted, first_path, first, path, schema)
        other_shapes = shapes_of(schema)
        for name in wanted:
            here, there = other_shapes.get(name), shapes.get(name)
            try:
                if here != there:
                    raise _DifferentError(name, f"of shape {there}", f"of shape {here}")
                merged[name] = _merge(name, merged[name], schema.field(name).type, arrow)
            except _DifferentError as error:
                place, one, other = error.args
                message = f"{path}: column {place!r} is {other}, but {one} in {first_path}"
                raise ValueError(message) from None
    fields = [field.with_type(merged[field.name]) for field in first]
    return arrow.schema(fields, first.metadata)


def merge_schemas(schemas: Iterable[tuple[str, Any]], columns: Collection[str] | None) -> Any:
    """Returns the types of the columns in all files, as a schema.

    Args:
        schemas: Paths and schemas of the files; at least one. The first has no duplicate columns.
        columns: The columns to merge, all of which are in files; None for all.

    Raises:
        ValueError: Two files differ; the message names both and the column.
    """
    try:
        return _merge_all(schemas, columns)
    except ValueError as error:
        raise ValueError(f"{error}; {_CURE}{_LEAVE_OUT}") from None


def check_same(first_path: str, first: Any, path: str, schema: Any) -> None:
    """Raises ValueError, naming both files, unless the schemas differ only in metadata."""
    if schema.equals(first) and shapes_of(schema) == shapes_of(first):
        return
    try:
        _merge_all([(first_path, first), (path, schema)], None)
    except ValueError as error:
        raise ValueError(f"{error}; {_CURE}") from None
    for one, other in zip(first, schema, strict=True):
        if not one.equals(other):
            both = [str(field).removeprefix("pyarrow.Field") for field in (other, one)]
            raise ValueError(f"{path}: column {both[0]}, but {both[1]} in {first_path}; {_CURE}")

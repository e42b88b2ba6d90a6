"""Arrow's record batches as samples, for Parquet and Arrow files alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from stoker._importers import row_filter
from stoker._importers.contract import Sample, need, with_key

Decoders: TypeAlias = Mapping[str, Callable[[Any], Any]]  # by column


def _is_list(kind: Any, types: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_file(kind: Any, types: Any) -> bool:
    """Hugging Face keeps images and sounds as {"bytes": ..., "path": ...}."""
    return types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}


def _file_bytes(value: Any) -> Any:
    if value is None or (value["bytes"] is None and value["path"] is None):
        return None
    if value["bytes"] is None:
        raise ValueError(
            f"only the path of a file ({value['path']}), and not its bytes; embed them first"
        )
    return value["bytes"]


def _values(column: Any, arrow: Any) -> list[Any]:
    """A column as a list of what ingest() takes, None for null."""
    types = arrow.types
    if isinstance(column.type, arrow.FixedShapeTensorType):
        tensors = column.to_numpy_ndarray()
        return [tensors[i] if column[i].is_valid else None for i in range(len(column))]
    if isinstance(column.type, arrow.BaseExtensionType):
        column = column.storage
    kind = column.type
    if types.is_duration(kind):
        column = column.cast(arrow.int64())
    elif types.is_temporal(kind) or types.is_decimal(kind):
        column = column.cast(arrow.string())
    elif _is_file(kind, types):
        return [_file_bytes(value) for value in column.to_pylist()]
    elif _is_list(kind, types):
        item = kind.value_type
        is_numbers = types.is_integer(item) or types.is_floating(item)
        if is_numbers and column.flatten().null_count == 0:
            dtype = item.to_pandas_dtype()
            return [
                value.values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
                if value.is_valid
                else None
                for value in column
            ]
    return list(column.to_pylist())


def samples_of(batch: Any, key: str | None, decoders: Decoders) -> list[Sample]:
    """A sample for each row of a record batch; fields that are null are left out."""
    arrow = need("pyarrow", "parquet")
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values = _values(column, arrow)
            if name in decoders:
                decode = decoders[name]
                values = [None if value is None else decode(value) for value in values]
        except (ValueError, NotImplementedError) as error:
            raise ValueError(f"column {name!r}: {error}") from None
        columns[name] = values
    rows = zip(*columns.values(), strict=True)
    return [
        with_key({name: v for name, v in zip(columns, row, strict=True) if v is not None}, key)
        for row in rows
    ]


def choose_columns(
    schema: Any, columns: Sequence[str] | None, key: str | None, path: str
) -> list[str]:
    """The columns to read, the key among them; ValueError for one that is not there."""
    names = list(schema.names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: more than one column is called {twice[0]!r}; rename one")
    chosen = list(names if columns is None else columns)
    if key is not None and key not in chosen:
        chosen.append(key)
    for name in chosen:
        if name not in names:
            raise ValueError(f"{path}: no column {name!r}; it has {', '.join(map(repr, names))}")
    if not chosen:
        raise ValueError(f"{path}: no columns to pack")
    return list(dict.fromkeys(chosen))


def make_filter(where: Any, schema: Any, path: str) -> Any:
    """An Arrow expression from our grammar, pyarrow's lists, or an expression; None from None."""
    if where is None:
        return None
    expression = where
    if isinstance(where, str):
        conditions = row_filter.parse_row_filter(where)
        for condition in conditions:
            if condition.column not in schema.names:
                names = ", ".join(map(repr, schema.names))
                raise ValueError(f"{path}: no column {condition.column!r}; it has {names}")
        expression = row_filter.to_arrow(conditions, need("pyarrow.compute", "parquet"))
    elif isinstance(where, list):
        expression = need("pyarrow.parquet", "parquet").filters_to_expression(where)
    try:
        schema.empty_table().filter(expression)
    except Exception as error:  # Arrow has no base class for what an expression can do wrong
        message = str(error).partition("\n")[0]
        raise ValueError(f"where {str(where)!r} does not fit the columns: {message}") from None
    return expression

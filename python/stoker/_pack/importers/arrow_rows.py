"""Converts Arrow's record batches to samples, for Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from stoker._pack.importers import row_filter
from stoker._pack.importers.arrow_values import Reader
from stoker._pack.importers.contract import Sample, need, with_key

Decoders: TypeAlias = Mapping[str, Callable[[Any], Any]]  # by column


def samples_of(
    batch: Any, key: str | None, readers: Mapping[str, Reader], first_row: int
) -> list[Sample]:
    """Returns a sample per row of a record batch; null fields are omitted.

    Args:
        batch: The rows.
        key: The column with the keys.
        readers: A reader for every column.
        first_row: Number of the first row, for messages.
    """
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns[name] = readers[name](column)
        except (ValueError, NotImplementedError) as error:
            last_row = first_row + batch.num_rows - 1
            raise ValueError(f"rows {first_row} to {last_row}: column {name!r}: {error}") from None
    rows = zip(*columns.values(), strict=True)
    return [
        with_key(
            {name: v for name, v in zip(columns, row, strict=True) if v is not None},
            key,
            first_row + i,
        )
        for i, row in enumerate(rows)
    ]


def decoded(read: Reader, decode: Callable[[Any], Any]) -> Reader:
    """Returns a reader that applies ``decode`` to each value that is not null."""
    return lambda column: [None if value is None else decode(value) for value in read(column)]


def choose_columns(
    schema: Any, columns: Sequence[str] | None, key: str | None, path: str
) -> list[str]:
    """Returns the columns to read, including the key; ValueError for a missing one."""
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


def columns_of_filter(expression: Any, schema: Any) -> list[str]:
    """Returns the columns that an Arrow expression may name, from its text."""
    if expression is None:
        return []
    text = str(expression)
    by_number = "FieldPath(" in text
    return [name for name in schema.names if by_number or name in text]


def has_floats(kind: Any, types: Any) -> bool:
    """Whether a value of this Arrow type may contain a NaN."""
    if types.is_dictionary(kind):
        return has_floats(kind.value_type, types)
    return bool(types.is_floating(kind)) or any(
        has_floats(kind.field(i).type, types) for i in range(kind.num_fields)
    )


def make_filter(where: Any, schema: Any, path: str) -> Any:
    """Makes an Arrow expression from our grammar, pyarrow's lists, or an expression."""
    if where is None:
        return None
    expression = where
    if isinstance(where, str):
        conditions = row_filter.parse_row_filter(where)
        for condition in conditions:
            if condition.column not in schema.names:
                names = ", ".join(map(repr, schema.names))
                raise ValueError(f"{path}: no column {condition.column!r}; it has {names}")
    try:
        if isinstance(where, str):
            arrow, compute = need("pyarrow", "parquet"), need("pyarrow.compute", "parquet")
            expression = row_filter.to_arrow(conditions, schema, arrow, compute)
        elif isinstance(where, list):
            expression = need("pyarrow.parquet", "parquet").filters_to_expression(where)
        schema.empty_table().filter(expression)
    except Exception as error:  # Arrow raises many types for invalid expressions
        message = str(error).partition("\n")[0]
        raise ValueError(f"where {str(where)!r} does not fit the columns: {message}") from None
    return expression

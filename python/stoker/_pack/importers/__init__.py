"""Converts files of other systems to shards: Parquet, Petastorm, Arrow, HDF5, LMDB, and text.

Each format is a module with one class, a RowInput (contract.py), over a package that is imported
when a source is opened.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stoker import _native
from stoker._common.paths import path_text
from stoker._pack import ingest as _ingest
from stoker._pack.importers.arrow_files import ArrowRows
from stoker._pack.importers.contract import RowInput, check_plain
from stoker._pack.importers.hdf5 import Hdf5Rows
from stoker._pack.importers.lmdb_rows import LmdbRows
from stoker._pack.importers.parquet import ParquetRows
from stoker._pack.importers.petastorm import PetastormRows
from stoker._pack.importers.renamed import RenamedRows
from stoker._pack.importers.text import TokenRows

_TABLE_OPTIONS = ("columns", "where", "key", "json_columns", "rename")
_TEXT_OPTIONS = ("tokenizer", "eod", "lines", "text_field")

# The class of each kind, and its options.
_KINDS: dict[str, tuple[Callable[..., RowInput], tuple[str, ...]]] = {
    "parquet": (ParquetRows, _TABLE_OPTIONS),
    "petastorm": (PetastormRows, (*_TABLE_OPTIONS, "schema")),
    "arrow": (ArrowRows, _TABLE_OPTIONS),
    "hf": (ArrowRows, _TABLE_OPTIONS),
    "hdf5": (Hdf5Rows, ("datasets", "key", "rename")),
    "lmdb": (LmdbRows, ("field", "database")),
    "text": (TokenRows, _TEXT_OPTIONS),
}

OPTIONS = sorted({name for _, names in _KINDS.values() for name in names})


def import_kind(path: str, kind: str | None, options: dict[str, Any]) -> str | None:
    """Returns which importer a pack needs; None if a native source reads it."""
    if "tokenizer" in options:
        if kind not in (None, "text", "jsonl"):
            raise ValueError(f"tokenizer: for text and jsonl, not for {kind}")
        return "text"
    if kind == "text":
        raise ValueError("text is packed through a tokenizer: name one by tokenizer=, and eod=")
    if kind is not None:
        return kind if kind in _KINDS else None
    return _native.import_kind_of(path) or None


def open_source(kind: str, path: str, options: dict[str, Any]) -> RowInput:
    """Opens the files; ValueError for an option that the kind does not have."""
    made, known = _KINDS[kind]
    for name in options:
        if name not in (*known, "is_jsonl"):
            raise ValueError(f"{kind} has no option {name}; it has {', '.join(known)}")
    check_plain(path)  # raises our error before the package raises its own
    names = options.get("rename")
    source = made(path, **{name: value for name, value in options.items() if name != "rename"})
    if not names:
        return source
    try:
        return RenamedRows(source, names)
    except BaseException:
        source.close()
        raise


def _ingest_all(
    kind: str,
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    chosen: dict[str, Any],
    options: dict[str, Any],
) -> _native.PackReport:
    given = {name: value for name, value in chosen.items() if value is not None}
    _native.check_apart(path_text(path), path_text(dst))
    with open_source(kind, path_text(path), given) as source:
        rows = (row for batch in source.read(range(source.count)) for row in batch)
        report = _ingest.ingest(rows, dst, **options)
        for note in source.notes():
            warnings.warn(note, stacklevel=3)
        return report


def ingest_parquet(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    row_filter: Any = None,
    key: str | None = None,
    json_columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    **options: Any,
) -> _native.PackReport:
    """Writes shards from a Parquet file, or a directory of them, with a sample per row.

    For large files use :func:`pack`, which works in parallel and can be restarted.

    Args:
        path: The file or directory.
        dst: As for :func:`ingest`.
        columns: Columns to write; None for all.
        row_filter: ``"label < 10"``, pyarrow's lists, or a ``pyarrow.compute`` expression.
        key: The column with the keys.
        json_columns: Columns to store as JSON, regardless of their type.
        rename: New names of fields: ``{"URL": "url"}``.
        **options: Options of :func:`ingest`.
    """
    chosen = {"columns": columns, "where": row_filter, "key": key}
    chosen |= {"json_columns": json_columns, "rename": rename}
    return _ingest_all("parquet", path, dst, chosen, options)


def ingest_arrow(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    key: str | None = None,
    json_columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    **options: Any,
) -> _native.PackReport:
    """Writes shards from an ``.arrow`` file, or a folder of Hugging Face's ``save_to_disk``.

    Args:
        path: The file, or the folder of one split.
        dst: As for :func:`ingest`.
        columns: Columns to write; None for all.
        key: The column with the keys.
        json_columns: Columns to store as JSON, regardless of their type.
        rename: New names of fields: ``{"URL": "url"}``.
        **options: Options of :func:`ingest`.
    """
    chosen = {"columns": columns, "key": key, "json_columns": json_columns, "rename": rename}
    return _ingest_all("arrow", path, dst, chosen, options)


def ingest_hdf5(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    datasets: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    **options: Any,
) -> _native.PackReport:
    """Writes shards from the datasets of an HDF5 file: sample i has row i of each.

    Args:
        path: The file.
        dst: As for :func:`ingest`.
        datasets: Names in the file; None for all.
        rename: New names of fields: ``{"group.x": "x"}``.
        **options: Options of :func:`ingest`.
    """
    return _ingest_all("hdf5", path, dst, {"datasets": datasets, "rename": rename}, options)


def ingest_lmdb(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    field: str = "bin",
    database: str | None = None,
    **options: Any,
) -> _native.PackReport:
    """Writes shards from an LMDB environment: a sample per key, with its value in one field.

    Args:
        path: The environment, a folder or a file.
        dst: As for :func:`ingest`.
        field: Name of the field for the values: "jpg".
        database: The name of the database, in an environment with named databases.
        **options: Options of :func:`ingest`.
    """
    return _ingest_all("lmdb", path, dst, {"field": field, "database": database}, options)

"""From other systems' files to shards: Parquet, Hugging Face's Arrow folders, HDF5, LMDB.

Each is an iterable for stoker.ingest() over a package that is imported when it is called.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stoker import _ingest, _native

_ROWS = 1024  # read at a time


def _need(package: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(
            f"{name} is needed to read this: pip install 'stoker[{extra}]' ({error})"
        ) from None


def _arrow_columns(batch: Any, arrow: Any) -> dict[str, list[Any]]:
    """Each column as a list of values that ingest() takes."""
    columns: dict[str, list[Any]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type
        is_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
        is_list = is_list or arrow.types.is_fixed_size_list(kind)
        item: Any = kind.value_type if is_list else arrow.null()
        is_numbers = arrow.types.is_integer(item) or arrow.types.is_floating(item)
        if is_numbers and column.flatten().null_count == 0:
            dtype = item.to_pandas_dtype()
            columns[name] = [
                value.values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
                if value.is_valid
                else None
                for value in column
            ]
        else:
            columns[name] = [_image_bytes(value) for value in column.to_pylist()]
    return columns


def _image_bytes(value: Any) -> Any:
    """Hugging Face keeps images and sounds as {"bytes": ..., "path": ...}."""
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return value["bytes"]
    return value


def _arrow_rows(batches: Any, arrow: Any, key: str | None) -> Iterator[dict[str, Any]]:
    """A sample for each row; fields that are null are left out."""
    for batch in batches:
        columns = _arrow_columns(batch, arrow)
        for row in range(batch.num_rows):
            sample = {name: values[row] for name, values in columns.items()}
            sample = {name: value for name, value in sample.items() if value is not None}
            if key is not None:
                if key not in sample:
                    raise ValueError(f"key={key!r}: there is no such column, or it is null")
                sample["__key__"] = str(sample.pop(key))
            yield sample


def ingest_parquet(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    row_filter: Any = None,
    key: str | None = None,
    **options: Any,
) -> _native.PackReport:
    """Writes shards from a Parquet file, or a directory of them, a sample for each row.

    Row groups are read ahead, several at a time, and those that the filter rules out not at all.

    Args:
        path: The file or directory.
        dst: As for :func:`ingest`.
        columns: All if None.
        row_filter: A ``pyarrow.compute`` expression, or pyarrow's lists: ``[("label", "<", 10)]``.
        key: The column that has the keys.
        **options: Of :func:`ingest`.
    """
    arrow = _need("pyarrow", "parquet")
    source = _need("pyarrow.dataset", "parquet").dataset(os.fspath(path), format="parquet")
    if isinstance(row_filter, list):
        row_filter = _need("pyarrow.parquet", "parquet").filters_to_expression(row_filter)
    wanted = None if columns is None else [*columns, *([key] if key else [])]
    batches = source.to_batches(columns=wanted, filter=row_filter, batch_size=_ROWS)
    return _ingest.ingest(_arrow_rows(batches, arrow, key), dst, **options)


def _arrow_batches(folder: Path, ipc: Any) -> Iterator[Any]:
    """Of the files that state.json names, in its order; else of all, by name."""
    state = folder / "state.json"
    if state.exists():
        files = json.loads(state.read_text(encoding="utf-8"))["_data_files"]
        names = [str(file["filename"]) for file in files]
    else:
        names = sorted(path.name for path in folder.glob("*.arrow"))
    if not names:
        raise FileNotFoundError(f"{folder}: no .arrow files in it; name one split's folder")
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"{state}: {name!r} is outside of the folder")
        with (folder / name).open("rb") as file:
            is_stream = file.read(6) != b"ARROW1"
            file.seek(0)
            if is_stream:
                yield from ipc.open_stream(file)
            else:
                reader = ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))


def ingest_arrow(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    key: str | None = None,
    **options: Any,
) -> _native.PackReport:
    """Writes shards from a folder of ``.arrow`` files, as Hugging Face's ``save_to_disk`` makes.

    Args:
        path: The folder of one split.
        dst: As for :func:`ingest`.
        columns: All if None.
        key: The column that has the keys.
        **options: Of :func:`ingest`.
    """
    arrow = _need("pyarrow", "parquet")
    batches = _arrow_batches(Path(path), _need("pyarrow.ipc", "parquet"))
    if columns is not None:
        wanted = [*columns, *([key] if key else [])]
        batches = (batch.select(wanted) for batch in batches)
    return _ingest.ingest(_arrow_rows(batches, arrow, key), dst, **options)


def _hdf5_rows(file: Any, h5py: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    arrays = {name: file[name] for name in names}
    counts = {name: array.shape[0] if array.shape else 0 for name, array in arrays.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(f"datasets of different lengths: {counts}; choose some by datasets=")
    texts = {name for name, array in arrays.items() if h5py.check_string_dtype(array.dtype)}
    for start in range(0, next(iter(counts.values())), _ROWS):
        rows = {name: array[start : start + _ROWS] for name, array in arrays.items()}
        for row in range(len(next(iter(rows.values())))):
            yield {
                name: values[row].decode() if name in texts else values[row]
                for name, values in rows.items()
            }


def ingest_hdf5(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    datasets: Sequence[str] | None = None,
    **options: Any,
) -> _native.PackReport:
    """Writes shards from the datasets of an HDF5 file: sample i has row i of each.

    Args:
        path: The file.
        dst: As for :func:`ingest`.
        datasets: Names in the file; all at its top if None.
        **options: Of :func:`ingest`.
    """
    h5py = _need("h5py", "hdf5")
    with h5py.File(os.fspath(path), "r") as file:
        names = datasets or [name for name in file if isinstance(file[name], h5py.Dataset)]
        if not names:
            raise ValueError(f"{os.fspath(path)}: no datasets at its top; name some by datasets=")
        return _ingest.ingest(_hdf5_rows(file, h5py, names), dst, **options)


def ingest_lmdb(
    path: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    field: str = "bin",
    **options: Any,
) -> _native.PackReport:
    """Writes shards from an LMDB environment: a sample for each key, its value in one field.

    Args:
        path: The environment, a folder or a file.
        dst: As for :func:`ingest`.
        field: What the values are: "jpg".
        **options: Of :func:`ingest`.
    """
    lmdb = _need("lmdb", "lmdb")
    name = os.fspath(path)
    options_of_lmdb = {"readonly": True, "lock": False, "subdir": Path(name).is_dir()}
    with lmdb.open(name, **options_of_lmdb) as environment, environment.begin() as transaction:
        rows = (
            {"__key__": bytes(key).decode(), field: np.frombuffer(value, np.uint8)}
            for key, value in transaction.cursor()
        )
        return _ingest.ingest(rows, dst, **options)

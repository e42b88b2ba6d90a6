"""HDF5: row i of every dataset is sample i."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stoker._pack.importers.contract import (
    RowInput,
    Rows,
    Sample,
    fingerprint_of,
    left_out_notes,
    need,
    pieces,
    reading,
    with_key,
)
from stoker._pack.ingest import JsonValue

_ROWS_SEEN = 64  # to estimate the size of a row


def _text(value: Any) -> Any:
    """Returns a string as text; a row of several strings as nested lists of text."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def _field(dataset: str) -> str:
    """Returns the field name of a dataset: "group/x" has a slash, which no field may have."""
    return dataset.strip("/").replace("/", ".")


class Hdf5Rows(RowInput):
    """The rows of the datasets of an HDF5 file."""

    def __init__(
        self, path: str, *, datasets: Sequence[str] | None = None, key: str | None = None
    ) -> None:
        """Opens the file.

        Args:
            path: The file.
            datasets: Names in the file; None for all. "group/x" becomes "group.x".
            key: The dataset with the keys.
        """
        self._h5py = need("h5py", "hdf5")
        self.path = path
        self._key = None if key is None else _field(key)
        self._left_out: list[str] = []
        with reading(path):
            self._file = self._h5py.File(path, "r")
        try:
            names = self._names(datasets, key)
            self._arrays = {_field(name): self._dataset(name) for name in names}
            if len(self._arrays) < len(names):
                raise ValueError(f"{path}: datasets whose fields would have one name: {names}")
            self._measure()
        except BaseException:
            self.close()
            raise
        self.fields = [name for name in self._arrays if name != self._key]
        self.fingerprint = fingerprint_of([path], "hdf5", list(self._arrays), key)

    def _names(self, datasets: Sequence[str] | None, key: str | None) -> list[str]:
        names = list(datasets or [])
        if not names:
            self._visit(self._file, "", set(), names)
        if not names:
            raise ValueError(f"{self.path}: no datasets in it")
        return list(dict.fromkeys([*names, key] if key is not None else names))

    def _visit(self, group: Any, prefix: str, seen: set[Any], names: list[str]) -> None:
        """Collects the datasets of a group and its subgroups, by name; each group once.

        Links to a dataset of this file are followed; links elsewhere, broken links, and links to a
        group, which may form a cycle, are left out.
        """
        h5py = self._h5py
        seen.add(group.id)
        for name in sorted(group, key=str.encode):
            place = prefix + name
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                self._left_out.append(f"{place}: a link to {link.filename}; pack that file")
                continue
            found = group.get(name)
            is_soft = isinstance(link, h5py.SoftLink)
            if isinstance(found, h5py.Dataset) and self._is_here(found):
                if found.shape:
                    names.append(place)
                else:
                    self._left_out.append(f"{place}: a single value, not rows")
            elif isinstance(found, h5py.Dataset) and not is_soft:
                names.append(place)  # raises an error later
            elif isinstance(found, h5py.Group) and not is_soft and found.id not in seen:
                self._visit(found, f"{place}/", seen, names)
            elif isinstance(found, h5py.Group):
                where = f"the group {link.path}" if is_soft else "a group that has another name"
                self._left_out.append(f"{place}: a link to {where}")
            elif is_soft:
                where = f"leads to {link.path}"
                why = "is in another file" if found is not None else "is not there"
                self._left_out.append(f"{place}: a link that {where}, which {why}")

    def _is_here(self, array: Any) -> bool:
        return bool(array.file.filename == self._file.filename)

    def notes(self) -> list[str]:
        """Returns the links that were not followed, and the single values."""
        return left_out_notes(self._left_out)

    def _dataset(self, name: str) -> Any:
        """Returns a dataset of this file: links to other files and external storage are refused."""
        h5py = self._h5py
        array = self._file.get(name)
        if not isinstance(array, h5py.Dataset):
            raise ValueError(f"{self.path}: no dataset {name!r} in it")
        is_elsewhere = array.external is not None or array.is_virtual
        if is_elsewhere or not self._is_here(array):
            raise ValueError(f"{self.path}: dataset {name!r} is in another file; pack that one")
        if not array.shape:
            raise ValueError(
                f"{self.path}: dataset {name!r} is a single value and has no rows; name the others "
                "(datasets=, --datasets)"
            )
        is_text = h5py.check_string_dtype(array.dtype) is not None
        kind = array.dtype if is_text else h5py.check_vlen_dtype(array.dtype) or array.dtype
        if not is_text and np.dtype(kind).hasobject:
            what = "references" if h5py.check_ref_dtype(kind) else f"values of type {kind}"
            raise ValueError(
                f"{self.path}: dataset {name!r} holds {what}, which have no form in a shard; name "
                "the others (datasets=, --datasets)"
            )
        return array

    def _measure(self) -> None:
        counts = {name: array.shape[0] for name, array in self._arrays.items()}
        if len(set(counts.values())) != 1:
            raise ValueError(
                f"{self.path}: datasets of different lengths: {counts}; name those to pack "
                "(datasets=, --datasets)"
            )
        self.count = next(iter(counts.values()))
        self.is_sequential = any(array.chunks is not None for array in self._arrays.values())
        self.size_bytes = sum(a.size * a.dtype.itemsize for a in self._arrays.values())
        texts = {n for n, a in self._arrays.items() if self._h5py.check_string_dtype(a.dtype)}
        self._texts = texts
        seen = min(_ROWS_SEEN, self.count)
        variable = [a for a in self._arrays.values() if a.dtype.hasobject]
        if variable and seen:
            found = sum(getattr(v, "nbytes", len(v)) for a in variable for v in a[:seen])
            self.size_bytes += found * self.count // seen

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _take(self, array: Any, rows: Rows) -> Any:
        if isinstance(rows, range):
            return array[rows.start : rows.stop]
        order = np.argsort(rows)  # h5py needs them ascending
        values = array[rows[order].tolist()]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return values[back]

    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """Reads some rows of each dataset at a time."""
        for piece in pieces(rows, self.batch_rows):
            with reading(self.path):
                columns = {name: self._take(array, piece) for name, array in self._arrays.items()}
            yield [
                with_key(
                    {name: self._value(name, values[i], row) for name, values in columns.items()},
                    self._key,
                    int(row),
                )
                for i, row in enumerate(piece)
            ]

    def _value(self, name: str, value: Any, row: int) -> Any:
        """Returns one row of a dataset: a string is text, several strings in a row are JSON."""
        if name not in self._texts:
            return value
        try:
            text = _text(value)
        except UnicodeDecodeError as error:
            raise ValueError(f"dataset {name!r}, row {row}: not UTF-8: {error}") from None
        return JsonValue(text) if self._arrays[name].ndim > 1 else text

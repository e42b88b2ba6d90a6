"""Parquet: a file, or a folder of them, read by row groups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from stoker._pack.importers import arrow_rows
from stoker._pack.importers.arrow_values import choose_readers
from stoker._pack.importers.contract import (
    RowInput,
    Rows,
    Sample,
    fingerprint_of,
    left_out_notes,
    need,
    reading,
)
from stoker._pack.importers.schemas import merge_schemas

_METADATA_THREADS = 8
_DESCRIPTIONS = (".md", ".txt", ".json", ".yaml", ".yml", ".cff", ".md5", ".sha256", ".crc")
_NO_DATA = ("_SUCCESS", "_common_metadata", "_metadata")  # markers of Parquet writers


def _passed_over(path: str) -> list[str]:
    """Returns files and folders that Arrow skips, except well-known markers."""
    found = []
    for folder, folders, files in os.walk(path):
        for name in sorted(folders) + sorted(files):
            is_known = name in _NO_DATA or name.endswith(".crc")
            if name.startswith(("_", ".")) and not is_known:
                found.append(os.path.relpath(Path(folder, name), path))
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
    return found


def _is_description(name: str) -> bool:
    """Whether a file beside the data describes them, as in a snapshot of Hugging Face."""
    name = name.lower()
    return name.endswith(_DESCRIPTIONS) or name in ("license", "readme", "citation")


def _descriptions(path: str) -> list[str]:
    """Returns the files of a folder that describe its data, and are not read."""
    found = []
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(files):
            if _is_description(name) and not name.startswith(("_", ".")):
                found.append(os.path.relpath(Path(folder, name), path))
    return found


def _check_folders(path: str, files: Sequence[str]) -> None:
    """Raises ValueError for folders NAME=VALUE that Arrow would misread.

    If one file is in k=1 and another is not, k would be null; k=01 and k=1 would be the same
    number.
    """
    first: tuple[str, list[str]] | None = None
    texts: dict[tuple[str, int], tuple[str, str]] = {}
    for file in files:
        parts = [part.partition("=") for part in Path(os.path.relpath(file, path)).parent.parts]
        names = [name for name, equals, _ in parts if equals]
        first = first or (file, names)
        if names != first[1]:
            raise ValueError(
                f"{file}: its folders are the columns {names}, and those of {first[0]} are "
                f"{first[1]}; the files of a folder must have one schema: pack them apart"
            )
        for name, _, value in parts:
            if not re.fullmatch(r"-?[0-9]+", value):
                continue
            seen = texts.setdefault((name, int(value)), (value, file))
            if seen[0] != value:
                raise ValueError(
                    f"{file}: {name}={value} and {name}={seen[0]} ({seen[1]}) are one number; "
                    "rename one of the folders"
                )


class ParquetRows(RowInput):
    """The rows of Parquet files that pass a filter.

    Rows are counted when opened: from the metadata, or, with a filter, by reading the filter's
    columns in the row groups that their statistics do not exclude. Statistics of floats do not
    consider NaN: if a filter names such a column, all row groups are read.
    """

    is_sequential = True

    def __init__(
        self,
        path: str,
        *,
        columns: Sequence[str] | None = None,
        where: Any = None,
        key: str | None = None,
        json_columns: Sequence[str] = (),
    ) -> None:
        """Opens the files.

        Args:
            path: A file, or a folder; folders NAME=VALUE in it are columns.
            columns: Columns to read; None for all.
            where: A filter (row_filter.py), pyarrow's lists, or one of its expressions.
            key: The column with the keys.
            json_columns: Columns to store as JSON, regardless of their type.
        """
        arrow = need("pyarrow", "parquet")
        self.path = path
        self._key = key
        self._errors = arrow.ArrowException
        partitioning = "hive" if Path(path).is_dir() else None
        self._descriptions = _descriptions(path) if partitioning else []
        ignored = [".", "_", *{Path(name).name for name in self._descriptions}]
        with reading(path, self._errors):
            dataset = need("pyarrow.dataset", "parquet").dataset(
                path, format="parquet", partitioning=partitioning, ignore_prefixes=ignored
            )
            files = sorted(dataset.get_fragments(), key=lambda f: os.fsencode(f.path))
            if partitioning is not None:
                _check_folders(path, [file.path for file in files])
            self._schema = dataset.schema
            self._columns = arrow_rows.choose_columns(self._schema, columns, key, path)
            self._filter = arrow_rows.make_filter(where, self._schema, path)
            self._schema = self._common_schema(files, is_all=columns is None)
            self._own_filter = self._columns_without_statistics()
            self._readers = choose_readers(self._schema, self._columns, json_columns)
            self._groups = self._count(files, is_all=columns is None)
        self.fields = [name for name in self._columns if name != key]
        choices = (self._columns, str(self._filter), key, *json_columns)
        self.fingerprint = fingerprint_of(
            [file.path for file in files], "parquet", choices, folder=path
        )
        for name, decode in self.choose_decoders(self._schema).items():
            if name in self._readers:
                self._readers[name] = arrow_rows.decoded(self._readers[name], decode)

    def notes(self) -> list[str]:
        """Returns what was skipped in a folder."""
        return [
            *left_out_notes(
                _passed_over(self.path), ": Parquet passes over names that begin with _ or ."
            ),
            *left_out_notes(self._descriptions),
        ]

    def choose_decoders(self, schema: Any) -> arrow_rows.Decoders:
        """Returns decoders for the values of columns; overridden by other Parquet readers."""
        return {}

    def _common_schema(self, files: list[Any], *, is_all: bool) -> Any:
        """Merges the schemas of all files: Arrow alone would use the columns of the first."""
        if len(files) < 2:
            return self._schema
        with ThreadPoolExecutor(_METADATA_THREADS) as pool:
            each = list(pool.map(lambda file: (file.path, file.physical_schema), files))
        if is_all:
            wanted = None
        else:  # the columns of a filter are in its text
            in_filter = arrow_rows.columns_of_filter(self._filter, self._schema)
            in_files = {name for _, schema in each for name in schema.names}
            wanted = sorted(in_files & {*self._columns, *in_filter})
        merged = merge_schemas(each, wanted)
        fields = [merged.field(f.name) if f.name in merged.names else f for f in self._schema]
        return need("pyarrow", "parquet").schema(fields, self._schema.metadata)

    def _count(self, files: list[Any], *, is_all: bool) -> list[Any]:
        """Returns row groups with rows, and sets the numbers of rows and bytes."""
        with ThreadPoolExecutor(_METADATA_THREADS) as pool:
            groups = [
                g for split in pool.map(lambda f: f.split_by_row_group(), files) for g in split
            ]
            if self._filter is None:
                counts = [group.row_groups[0].num_rows for group in groups]
            else:
                counts = list(pool.map(self._count_passing, groups))
        self.size_bytes = sum(
            self._group_bytes(group, is_all) * count // max(1, group.row_groups[0].num_rows)
            for group, count in zip(groups, counts, strict=True)
        )
        self._first = np.cumsum([0, *(count for count in counts if count)])[:-1]
        self.starts = self._first
        self.count = sum(counts)
        return [group for group, count in zip(groups, counts, strict=True) if count]

    def _columns_without_statistics(self) -> list[str]:
        """Returns the filter's columns if we must filter, because it names floats; else none."""
        if self._filter is None:
            return []
        types = need("pyarrow", "parquet").types
        names = arrow_rows.columns_of_filter(self._filter, self._schema)
        kinds = [self._schema.field(name).type for name in names]
        return names if any(arrow_rows.has_floats(kind, types) for kind in kinds) else []

    def _passing(self, group: Any, columns: list[str], **options: Any) -> Iterator[Any]:
        """Yields tables of the rows of a row group that pass the filter."""
        arrow = need("pyarrow", "parquet")
        if not self._own_filter:
            options["filter"] = self._filter
        names = list(dict.fromkeys([*columns, *self._own_filter]))
        for batch in group.to_batches(schema=self._schema, columns=names, **options):
            table = arrow.Table.from_batches([batch])
            yield table.filter(self._filter).select(columns) if self._own_filter else table

    def _count_passing(self, group: Any) -> int:
        if not self._own_filter:
            options = {"schema": self._schema, "filter": self._filter, "columns": []}
            return int(group.scanner(**options).count_rows())
        tables = self._passing(group, self._own_filter, use_threads=False)
        return sum(table.num_rows for table in tables)

    def _group_bytes(self, group: Any, is_all: bool) -> int:
        """Returns the uncompressed size; sums columns only if some are left out."""
        info = group.row_groups[0]
        if is_all:
            return int(info.total_byte_size)
        columns = group.metadata.row_group(info.id)
        each = (columns.column(i) for i in range(columns.num_columns))
        wanted = set(self._columns)
        return sum(
            column.total_uncompressed_size
            for column in each
            if column.path_in_schema.partition(".")[0] in wanted
        )

    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """Decodes one row group at a time."""
        assert isinstance(rows, range)
        group = int(np.searchsorted(self._first, rows.start, side="right")) - 1
        at = rows.start
        while at < rows.stop:
            begin = int(self._first[group])
            for batch in self._batches(group, at - begin, rows.stop - begin):
                yield arrow_rows.samples_of(batch, self._key, self._readers, at)
                at += batch.num_rows
            group += 1
            if group == len(self._groups):
                return

    def _batches(self, group: int, start: int, stop: int) -> Iterator[Any]:
        """Yields rows [start, stop) of a row group, as far as they exist."""
        tables = self._passing(
            self._groups[group],
            self._columns,
            batch_size=self.batch_rows,
            use_threads=False,  # our own threads pack shards in parallel
        )
        at = 0
        with reading(self._groups[group].path, self._errors):
            for batch in (batch for table in tables for batch in table.to_batches()):
                first, last = max(start - at, 0), min(stop - at, batch.num_rows)
                at += batch.num_rows
                if first < last:
                    yield batch.slice(first, last - first)
                if at >= stop:
                    return

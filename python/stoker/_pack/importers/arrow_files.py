"""Arrow IPC: single files, and folders of Hugging Face's ``save_to_disk``."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stoker import _native
from stoker._common.plain_files import open_plain
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
from stoker._pack.importers.schemas import check_same

_FILE_MAGIC = b"ARROW1\0\0"
_METADATA_BYTES_MAX = 256 << 20
_SCHEMA, _DICTIONARY, _RECORD_BATCH = 1, 2, 3  # MessageHeader, in Arrow's Message.fbs


@dataclass
class _ArrowFile:
    """The offsets of the record batches of a file."""

    path: Path
    is_stream: bool
    offsets: list[int] = field(default_factory=list)  # of their messages
    rows: list[int] = field(default_factory=list)
    has_dictionaries: bool = False


def _table_field(metadata: bytes, table: int, slot: int) -> int | None:
    """Returns the offset of a field in a flatbuffer's table; None if it is omitted."""
    (to_vtable,) = struct.unpack_from("<i", metadata, table)
    vtable = table - to_vtable
    if vtable < 0:
        raise struct.error("a table without a vtable")
    (size,) = struct.unpack_from("<H", metadata, vtable)
    at = 4 + 2 * slot
    if at + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, vtable + at)
    return table + offset if offset else None


def _describe_message(metadata: bytes) -> tuple[int, int, int]:
    """Returns kind, body size, and rows of a record batch: three fields of Arrow's Message."""
    (root,) = struct.unpack_from("<I", metadata, 0)
    kind_at = _table_field(metadata, root, 1)
    header_at = _table_field(metadata, root, 2)
    body_at = _table_field(metadata, root, 3)
    kind = metadata[kind_at] if kind_at is not None else 0
    body = struct.unpack_from("<q", metadata, body_at)[0] if body_at is not None else 0
    rows = 0
    if kind == _RECORD_BATCH and header_at is not None:
        header = header_at + struct.unpack_from("<I", metadata, header_at)[0]
        rows_at = _table_field(metadata, header, 0)
        rows = struct.unpack_from("<q", metadata, rows_at)[0] if rows_at is not None else 0
    if body < 0 or rows < 0:
        raise struct.error("a negative length")
    return kind, body, rows


def _next_metadata(file: BinaryIO) -> bytes:
    """Returns the metadata of the message at the file's position; empty at the end."""
    prefix = file.read(8)
    if not prefix.strip(b"\0"):
        return b""
    if len(prefix) < 8:
        raise struct.error("it ends within a message")
    mark, size = struct.unpack("<Ii", prefix)
    if mark != 0xFFFFFFFF:  # no mark before Arrow 0.15
        file.seek(-4, 1)
        size = struct.unpack("<i", prefix[:4])[0]
    if not 0 <= size <= _METADATA_BYTES_MAX:
        raise struct.error(f"a message whose head has {size} bytes")
    metadata = file.read(size)
    if len(metadata) < size:
        raise struct.error("it ends within a message")
    return metadata


def scan(path: Path) -> _ArrowFile:
    """Finds the record batches by the heads of the messages alone, without mapping the file."""
    with open_plain(path) as file:
        size_bytes = file.seek(0, 2)
        file.seek(0)
        is_stream = file.read(8) != _FILE_MAGIC
        found = _ArrowFile(path, is_stream)
        file.seek(0 if is_stream else 8)
        try:
            while True:
                at = file.tell()
                metadata = _next_metadata(file)
                if not metadata:
                    return found
                kind, body, rows = _describe_message(metadata)
                if kind == _RECORD_BATCH:
                    found.offsets.append(at)
                    found.rows.append(rows)
                found.has_dictionaries |= kind == _DICTIONARY
                if file.tell() + body > size_bytes:
                    raise struct.error("it ends within a message")
                file.seek(body, 1)
        except (struct.error, IndexError) as error:
            message = f"{path}: not an Arrow file, or damaged near byte {file.tell()}: {error}"
            raise _native.CorruptError(message) from None


def _read_json(path: Path) -> Any:
    with open_plain(path) as file:
        return json.loads(file.read())


def find_files(path: Path) -> list[Path]:
    """Returns the file itself; for a folder the files in state.json, otherwise all, by name."""
    if not path.is_dir():
        return [path]
    splits = path / "dataset_dict.json"
    if splits.exists():
        names = list(map(str, _read_json(splits)["splits"]))
        one = path / (names[0] if names else "train")
        raise ValueError(f"{path}: holds the splits {', '.join(names)}; name one, as {one}")
    state = path / "state.json"
    if state.exists():
        files = _read_json(state)["_data_files"]
        found = [str(file["filename"]) for file in files]
    else:
        found = sorted(entry.name for entry in path.glob("*.arrow"))
    for name in found:
        if Path(name).name != name:
            raise ValueError(f"{state}: {name!r} is outside of the folder")
    if not found:
        raise FileNotFoundError(f"{path}: no .arrow files in it; name one split's folder")
    return [path / name for name in found]


def _others(path: Path, packed: list[Path]) -> list[str]:
    """Returns the other contents of a folder: other extensions, folders, hidden files."""
    if not path.is_dir():
        return []
    known = {file.name for file in packed} | {"state.json", "dataset_info.json"}
    return sorted(entry.name for entry in path.iterdir() if entry.name not in known)


class ArrowRows(RowInput):
    """The rows of Arrow files, in order."""

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
            path: A file, or the folder of one split.
            columns: Columns to read; None for all.
            where: As for Parquet; every batch is read once more, to count.
            key: The column with the keys.
            json_columns: Columns to store as JSON, regardless of their type.
        """
        arrow = need("pyarrow", "parquet")
        self._ipc = need("pyarrow.ipc", "parquet")
        self._errors = arrow.ArrowException
        self.path = path
        self._key = key
        paths = find_files(Path(path))
        self._left_out = _others(Path(path), paths)
        self._files = [scan(file) for file in paths]
        self._schema = self._common_schema()
        with reading(path, self._errors, UnicodeDecodeError):  # for damaged names
            self._columns = arrow_rows.choose_columns(self._schema, columns, key, path)
            self._readers = choose_readers(self._schema, self._columns, json_columns)
        self._filter = arrow_rows.make_filter(where, self._schema, path)
        # A batch is (file, number). One that needs dictionaries is read from the beginning of the
        # file.
        self._batches = [(f, b) for f in self._files for b in range(len(f.rows))]
        self._counts = [file.rows[number] for file, number in self._batches]
        total = sum(self._counts)
        if self._filter is not None:
            self._counts = [table.num_rows for table in self._tables(0)]
        self._first = np.cumsum([0, *self._counts])
        self.count = int(self._first[-1])
        self.starts = np.unique(
            [
                self._first[i]
                for i, (f, b) in enumerate(self._batches)
                if b == 0 or self._is_direct(f)
            ]
            or [0]
        )
        size_bytes = sum(file.stat().st_size for file in paths)
        self.size_bytes = size_bytes * self.count // max(1, total)
        self.fields = [name for name in self._columns if name != key]
        choices = (self._columns, str(self._filter), key, *json_columns)
        self.fingerprint = fingerprint_of(paths, "arrow", *choices)

    @staticmethod
    def _is_direct(file: _ArrowFile) -> bool:
        return not (file.is_stream and file.has_dictionaries)

    def _open(self, file: _ArrowFile) -> Any:
        opened = self._ipc.open_stream if file.is_stream else self._ipc.open_file
        return opened(need("pyarrow", "parquet").OSFile(str(file.path)))

    def _common_schema(self) -> Any:
        first = None
        for file in self._files:
            with reading(file.path, self._errors):
                schema = self._open(file).schema
            first = schema if first is None else first
            check_same(str(self._files[0].path), first, str(file.path), schema)
        return first

    def _tables(self, index: int) -> Iterator[Any]:
        """Yields the filtered rows of each batch, from ``index`` on."""
        arrow = need("pyarrow", "parquet")
        of_file: _ArrowFile | None = None
        for file, number in self._batches[index:]:
            with reading(f"{file.path}: batch {number}", self._errors):
                if not file.is_stream:
                    batch = self._open(file).get_batch(number)
                elif self._is_direct(file):
                    with arrow.OSFile(str(file.path)) as raw:
                        raw.seek(file.offsets[number])
                        message = self._ipc.read_message(raw)
                    batch = self._ipc.read_record_batch(message, self._schema)
                else:
                    if of_file is not file:
                        of_file, reader = file, self._open(file)
                        for _ in range(number):
                            reader.read_next_batch()
                    batch = reader.read_next_batch()
                table = arrow.Table.from_batches([batch])
                if self._filter is not None:
                    table = table.filter(self._filter)
                table = table.select(self._columns)
            yield table

    def notes(self) -> list[str]:
        """Returns what is left out of the folder."""
        return left_out_notes(self._left_out, ": only the folder's own *.arrow files are packed")

    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """Reads one record batch at a time."""
        assert isinstance(rows, range)
        at = rows.start
        index = int(np.searchsorted(self._first, at, side="right")) - 1
        for table in self._tables(index):
            begin = int(self._first[index])
            stop = min(begin + table.num_rows, rows.stop)
            if at < stop:
                part = table.slice(at - begin, stop - at)
                for batch in part.to_batches(max_chunksize=self.batch_rows):
                    yield arrow_rows.samples_of(batch, self._key, self._readers, at)
                    at += batch.num_rows
            index += 1
            if at >= rows.stop:
                return

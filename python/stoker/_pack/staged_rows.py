"""A copy, readable in any order, of rows that can only be read sequentially.

Reading a row of Parquet requires decoding its row group, a row of chunked HDF5 its chunk. To
shuffle such a source, its rows are decoded once, in order, into files beside the future shards; the
shards then read theirs from there, with one read per row.

A file contains a piece of the source: the concatenated records of its rows (``_encode``), then a
table (row numbers, ends of records, CRC-32 of records), then a tail with the length of the table.
It is renamed to its name when it is complete and durable, so a restart keeps it.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import io
from stoker._common.corrupt import corrupt_error
from stoker._common.plain_files import OwnFolder
from stoker._pack.importers.contract import BATCH_BYTES, BATCH_ROWS, RowInput
from stoker._pack.ingest import Field, to_sample

_PIECE_BYTES = 64 << 20  # approximate size of the rows in one file; at least a row group
_TAIL = struct.Struct("<8sQQ")  # mark, rows, CRC-32 of the table
_MARK = b"STKROWS1"
_ENTRY = np.dtype([("row", "<u8"), ("end", "<u8"), ("crc", "<u4")])

Packed: TypeAlias = tuple[str, list[Field]]


def _name_of(piece: int) -> str:
    return f"{piece:06d}.rows"


def _encode(sample: Packed) -> bytes:
    """Returns the length of a JSON header, the header, and the fields' bytes."""
    key, fields = sample
    head = json.dumps([key, [[*field[:4], len(field[4])] for field in fields]]).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, *(field[4] for field in fields)])


def _decode(record: bytes) -> Packed:
    at = 4 + int.from_bytes(record[:4], "little")
    key, heads = json.loads(record[4:at])
    fields: list[Field] = []
    for name, kind, dtype, shape, size in heads:
        fields.append((name, kind, dtype, tuple(shape), record[at : at + size]))
        at += size
    return key, fields


def _read_table(folder: OwnFolder, name: str) -> npt.NDArray[Any] | None:
    """Returns the table of a finished file; None if it is missing or something else."""
    try:
        with folder.open(name) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL.size))
            mark, count, crc = _TAIL.unpack(file.read(_TAIL.size))
            start = size - _TAIL.size - count * _ENTRY.itemsize
            if mark != _MARK or start < 0:
                return None
            file.seek(start)
            data = file.read(count * _ENTRY.itemsize)
    except struct.error:
        return None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EINVAL):
            return None
        raise
    table = np.frombuffer(data, _ENTRY)
    is_whole = zlib.crc32(data) == crc and (int(table["end"][-1]) if count else 0) == start
    return table if is_whole else None


class StagedRows:
    """The rows of a source that some shards need.

    Thread safety: stage() from any thread, each piece once; read() from any thread after load().
    """

    def __init__(
        self,
        source: RowInput,
        folder: OwnFolder,
        wanted: npt.NDArray[np.uint64],
        keep_arrays: bool,
    ) -> None:
        """Does not stage anything yet.

        Args:
            source: The source to read in order.
            folder: For the files; for one source and one selection of its rows.
            wanted: The rows to keep, ascending.
            keep_arrays: As for to_sample().
        """
        self._source = source
        self._folder = folder
        self._wanted = wanted
        self._keep_arrays = keep_arrays
        self._starts = self._cut()
        self._paths: list[Path] = []  # files with rows
        self._first: npt.NDArray[Any] = np.zeros(1, np.int64)  # their first entries in the table
        self._table = np.empty(0, _ENTRY)

    def _cut(self) -> npt.NDArray[np.int64]:
        """Returns the first row of each piece, and the end of the last."""
        mean = max(1, self._source.size_bytes // max(1, self._source.count))
        rows = max(1, _PIECE_BYTES // mean)
        count = self._source.count
        at: npt.NDArray[Any] = np.arange(0, count, rows)
        if self._source.starts is not None:  # where reading may begin
            starts = self._source.starts
            at = np.unique(starts[np.searchsorted(starts, at, side="right") - 1])
        return np.append(at, count)

    def _path(self, piece: int) -> Path:
        return self._folder.path / _name_of(piece)

    def rows_of(self, piece: int) -> npt.NDArray[np.uint64]:
        """Returns the wanted rows in the piece."""
        first, last = np.searchsorted(self._wanted, self._starts[piece : piece + 2])
        return self._wanted[first:last]

    def find_missing(self) -> list[int]:
        """Returns the pieces to stage; one is not missing if its file has all wanted rows."""
        missing = []
        for piece in range(len(self._starts) - 1):
            rows = self.rows_of(piece)
            if not len(rows):
                continue
            table = _read_table(self._folder, _name_of(piece))
            if table is None or not np.isin(rows, table["row"], assume_unique=True).all():
                missing.append(piece)
        return missing

    def stage(self, piece: int, count: Callable[[list[Packed]], None]) -> None:
        """Writes the file of a piece; calls ``count`` with what is written, which may raise."""
        part = f"{piece:06d}.part"
        entries: list[tuple[int, int, int]] = []
        try:
            with self._folder.create(part) as file:
                for row, sample in self._samples(piece, count):
                    record = _encode(sample)
                    file.write(record)
                    entries.append((row, file.tell(), zlib.crc32(record)))
                table = np.array(entries, _ENTRY).tobytes()
                file.write(table + _TAIL.pack(_MARK, len(entries), zlib.crc32(table)))
                file.flush()
                os.fsync(file.fileno())
            self._folder.rename(part, _name_of(piece))
        except BaseException:
            self._folder.remove(part)
            raise

    def _samples(
        self, piece: int, count: Callable[[list[Packed]], None]
    ) -> Iterator[tuple[int, Packed]]:
        wanted = self.rows_of(piece)
        at, stop = (int(row) for row in self._starts[piece : piece + 2])
        found = 0
        for batch in self._source.read(range(at, stop)):
            first, last = np.searchsorted(wanted, [at, at + len(batch)])
            rows = [int(row) for row in wanted[first:last]]
            samples = [to_sample(row, batch[row - at], self._keep_arrays) for row in rows]
            count(samples)
            yield from zip(rows, samples, strict=True)
            at += len(batch)
            found += len(rows)
        if found != len(wanted):
            raise OSError(
                f"{self._source.path}: fewer rows than were counted; pack it when no other "
                "process writes to it"
            )

    def load(self) -> None:
        """Loads the tables, once all pieces are staged."""
        pieces = [p for p in range(len(self._starts) - 1) if len(self.rows_of(p))]
        tables = []
        for piece in pieces:
            table = _read_table(self._folder, _name_of(piece))
            if table is None:
                raise OSError(f"{self._path(piece)}: lost while it was packed from; pack again")
            tables.append(table)
        self._paths = [self._path(piece) for piece in pieces]
        self._first = np.cumsum([0, *(len(table) for table in tables)])
        self._table = np.concatenate(tables)

    def read(self, rows: npt.NDArray[np.uint64]) -> Iterator[list[Packed]]:
        """Yields the rows in that order, in batches."""
        entries = np.searchsorted(self._table["row"], rows)
        files = np.searchsorted(self._first, entries, side="right") - 1
        starts = np.where(entries == self._first[files], 0, self._table["end"][entries - 1])
        sizes = self._table["end"][entries] - starts
        batch_ends = (np.cumsum(sizes) - 1) // BATCH_BYTES  # equal for rows of one batch
        at = 0
        while at < len(rows):
            end = int(np.searchsorted(batch_ends, batch_ends[at], side="right"))
            some = slice(at, min(end, at + BATCH_ROWS))
            yield self._fetch(
                files[some], starts[some], sizes[some], self._table["crc"][entries[some]]
            )
            at = some.stop

    def _fetch(self, *columns: npt.NDArray[Any]) -> list[Packed]:
        """Reads records by files, offsets, sizes and checksums."""
        files, starts, sizes, checksums = (column.tolist() for column in columns)
        paths = [self._paths[file] for file in files]
        samples = []
        records = io.read_many(zip(paths, starts, sizes, strict=True))
        for path, start, crc, record in zip(paths, starts, checksums, records, strict=True):
            data = record.tobytes()
            if zlib.crc32(data) != crc:
                message = (
                    f"{path}, offset {start}: not the row that was written there; remove "
                    f"{self._folder.path} and pack again"
                )
                raise corrupt_error(message, path, start)
            samples.append(_decode(data))
        return samples

"""LMDB: a sample for each key, in the order of the keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoker._importers.contract import (
    Rows,
    RowSource,
    Sample,
    check_plain,
    fingerprint_of,
    need,
    pieces,
    reading,
)

_KEPT = 64  # of the keys, one of so many is kept: a row is found from the nearest before it


class LmdbRows(RowSource):
    """The entries of an LMDB environment. Its keys are walked once when it is opened."""

    def __init__(self, path: str, *, field: str = "bin") -> None:
        """Opens the environment.

        Args:
            path: A folder, or a file.
            field: What the values are: "jpg".
        """
        lmdb = need("lmdb", "lmdb")
        self.path = path
        self._field = field
        self._error = lmdb.Error
        if Path(path).name == "data.mdb":
            path = str(Path(path).parent)
        is_folder = Path(path).is_dir()
        data = Path(path) / "data.mdb" if is_folder else Path(path)
        if not data.exists():
            raise FileNotFoundError(f"{data}: no such file, so this is no LMDB environment")
        check_plain(data)
        self.fingerprint = fingerprint_of([data], "lmdb", field)
        with reading(data, self._error):
            self._environment = lmdb.open(path, readonly=True, lock=False, subdir=is_folder)
            with self._environment.begin() as transaction:
                info = transaction.stat()
                keys = transaction.cursor().iternext(keys=True, values=False)
                self._keys: list[bytes] = []
                count = 0
                for count, key in enumerate(keys, start=1):
                    if count % _KEPT == 1:
                        self._keys.append(bytes(key))
        self.count = count
        self.size_bytes = (info["leaf_pages"] + info["overflow_pages"]) * info["psize"]

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()

    def _find(self, cursor: Any, row: int) -> bool:
        found = cursor.set_key(self._keys[row // _KEPT])
        for _ in range(row % _KEPT):
            found = found and cursor.next()
        return bool(found)

    def _sample(self, cursor: Any) -> Sample:
        key, value = cursor.item()
        try:
            return {"__key__": bytes(key).decode(), self._field: bytes(value)}
        except UnicodeDecodeError:
            raise ValueError(f"{self.path}: the key {bytes(key)!r} is not UTF-8") from None

    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """In a transaction for each batch, so that none stays open while shards are written."""
        for piece in pieces(rows, self.batch_rows):
            samples = []
            is_run = isinstance(piece, range)
            with reading(self.path, self._error), self._environment.begin(buffers=True) as reader:
                cursor = reader.cursor()
                found = is_run and self._find(cursor, piece[0])
                for row in piece:
                    if not (found if is_run else self._find(cursor, int(row))):
                        raise OSError("an entry has gone while it was packed")
                    samples.append(self._sample(cursor))
                    found = is_run and cursor.next()
            yield samples

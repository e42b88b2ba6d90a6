"""LMDB: a sample per key, in the order of the keys.

An environment may contain named databases. LMDB stores them as entries of the main database, whose
values (48 bytes) have a meaning only for LMDB: an environment with named databases is packed one
database at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoker._pack.importers.contract import (
    RowInput,
    Rows,
    Sample,
    check_plain,
    fingerprint_of,
    need,
    pieces,
    reading,
)

_NAMED_BYTES = 48  # of the entry of a named database: sizeof(MDB_db)
_NAMED_MAX = 64  # databases opened to be named in a message
_KEPT = 64  # one of this number of keys is kept: a row is found from the nearest before it


class LmdbRows(RowInput):
    """The entries of an LMDB environment. Opening it iterates over all keys once."""

    def __init__(self, path: str, *, field: str = "bin", database: str | None = None) -> None:
        """Opens the environment.

        Args:
            path: A folder, or a file.
            field: Name of the field for the values: "jpg".
            database: The name of the database, in an environment with named databases.
        """
        lmdb = need("lmdb", "lmdb")
        self.path = path
        self.fields = [field]
        self._field = field
        self._lmdb = lmdb
        if Path(path).name == "data.mdb":
            path = str(Path(path).parent)
        is_folder = Path(path).is_dir()
        data = Path(path) / "data.mdb" if is_folder else Path(path)
        if not data.exists():
            raise FileNotFoundError(f"{data}: no such file, so this is not an LMDB environment")
        check_plain(data)
        choices = (field,) if database is None else (field, database)
        self.fingerprint = fingerprint_of([data], "lmdb", *choices)
        with reading(data, lmdb.Error):
            self._environment = lmdb.open(
                path, readonly=True, lock=False, subdir=is_folder, max_dbs=_NAMED_MAX
            )
        try:
            with reading(data, lmdb.Error):
                self._database = self._open_database(database)
                with self._environment.begin(buffers=True) as transaction:
                    self._check(transaction)
                    self._walk(transaction, is_main=database is None)
        except BaseException:
            self.close()
            raise

    def _find_named(self, key: bytes, transaction: Any = None) -> Any:
        """Returns the named database of an entry in the main database; None if it is plain data.

        A database opened in a transaction is valid only in that transaction.
        """
        try:
            return self._environment.open_db(key, txn=transaction, create=False)
        except (self._lmdb.NotFoundError, self._lmdb.IncompatibleError):
            return None

    def _open_database(self, name: str | None) -> Any:
        found = self._environment.open_db() if name is None else self._find_named(name.encode())
        if found is None:
            with self._environment.begin(buffers=True) as transaction:
                names = self._named(transaction)
            has = f"it has {', '.join(names)}" if names else "it has no named databases"
            raise ValueError(f"{self.path}: no database {name!r}; {has}")
        return found

    def _check(self, transaction: Any) -> None:
        if self._database.flags(transaction)["dupsort"]:
            raise ValueError(
                f"{self.path}: the database holds several values for a key (dupsort), and a sample "
                "has a key of its own; copy it to one without"
            )

    def _named(self, transaction: Any) -> list[str]:
        """Returns the names of the first named databases, quoted."""
        names: list[str] = []
        with transaction.cursor() as cursor:
            for key, value in cursor.iternext():
                if len(names) == _NAMED_MAX - 1:  # LMDB opens no more than max_dbs
                    return [*names, "more"]
                if len(value) == _NAMED_BYTES and self._find_named(bytes(key), transaction):
                    names.append(repr(bytes(key).decode(errors="backslashreplace")))
        return names

    def _walk(self, transaction: Any, *, is_main: bool) -> None:
        """Counts the entries; ValueError for the entry of a named database."""
        info = transaction.stat(self._database)
        self._keys: list[bytes] = []
        count = 0
        with transaction.cursor(self._database) as cursor:
            for count, (key, value) in enumerate(cursor.iternext(), start=1):
                if count % _KEPT == 1:
                    self._keys.append(bytes(key))
                is_named = is_main and len(value) == _NAMED_BYTES
                if is_named and self._find_named(bytes(key), transaction):
                    names = self._named(transaction)
                    raise ValueError(
                        f"{self.path}: has named databases ({', '.join(names)}); choose one, "
                        "database= or --database"
                    )
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
            raise ValueError(
                f"{self.path}: the key {bytes(key)!r} is not UTF-8, which keys of samples are; "
                "copy the database to one with keys of text, such as key.hex(), or pass its "
                "entries to stoker.ingest"
            ) from None

    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """Reads in one transaction per batch, so that none is open while shards are written."""
        for piece in pieces(rows, self.batch_rows):
            samples = []
            is_run = isinstance(piece, range)
            begin = self._environment.begin
            with reading(self.path, self._lmdb.Error), begin(buffers=True) as reader:
                cursor = reader.cursor(self._database)
                found = is_run and self._find(cursor, piece[0])
                for row in piece:
                    if not (found if is_run else self._find(cursor, int(row))):
                        raise OSError("an entry has gone while it was packed")
                    samples.append(self._sample(cursor))
                    found = is_run and cursor.next()
            yield samples

"""Boards: short texts that the ranks of a job post for each other. A text never changes."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

_NONE = "-"  # what compare_set() returns for a missing name if that is expected


class Board(Protocol):
    """Texts by key, the same on all ranks. Used by one thread at a time.

    Every method may raise OSError if the others cannot be reached.
    """

    def post(self, key: str, text: str) -> str:
        """Posts a text, unless the key has one. Returns the text that the key has now."""

    def read_all(self, keys: Sequence[str]) -> list[str] | None:
        """Returns the texts of the keys; None if one of them is missing. Does not wait."""

    def close(self, rank: int, world_size: int) -> None:
        """Frees what the board uses, once every rank has called this."""


def mark_key(rank: int) -> str:
    """Returns the key of the mark of a rank's process: others see there that it has ended."""
    return f"process-{rank}"


class StoreBoard:
    """A board in torch.distributed's store.

    Uses a connection of its own where torch can make one: another thread may wait in the store for
    minutes, and a connection serves one call at a time.
    """

    def __init__(self, store: Any, prefix: str) -> None:
        with contextlib.suppress(AttributeError, NotImplementedError, RuntimeError):
            store = store.clone()
        self._store, self._prefix = store, prefix
        self._error = ""
        self._posted: list[str] = []

    def post(self, key: str, text: str) -> str:
        """As in Board."""
        with self._failing():
            found = _text(self._store.compare_set(self._prefix + key, "", text))
        if found == text:
            self._posted.append(key)
        return found

    def read_all(self, keys: Sequence[str]) -> list[str] | None:
        """As in Board."""
        names = [self._prefix + key for key in keys]
        with self._failing():
            if not self._store.check(names):
                return None
            return [_text(self._store.get(name)) for name in names]

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """A failure is final: torch does not connect again, and prints a page for each attempt."""
        if self._error:
            raise ConnectionError(f"torch.distributed's store has failed: {self._error}")
        try:
            yield
        except RuntimeError as error:
            self._error = str(error).partition("\n")[0]
            raise ConnectionError(f"torch.distributed's store has failed: {self._error}") from None

    def close(self, rank: int, world_size: int) -> None:
        """As in Board: the last rank removes what all have posted. If one has ended, all stays."""
        with contextlib.suppress(OSError):
            self.post(f"closed-{rank}", " ".join([*self._posted, f"closed-{rank}"]))
            names = [f"{self._prefix}closed-{other}" for other in range(world_size)]
            with self._failing():
                if not self._store.check(names):
                    return
                # Not get(), which would wait: two ranks may remove at once.
                told = [_text(self._store.compare_set(name, _NONE, _NONE)) for name in names]
                for key in " ".join(told).split():
                    self._store.delete_key(self._prefix + key)


class FileBoard:
    """A board of small files in a directory that all ranks can write to."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103
        self._directory = directory

    def post(self, key: str, text: str) -> str:
        """As in Board. Reads a text without its last newline as missing: it is being written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(f"{self._directory}/{key}", flags, 0o600)
        except FileExistsError:
            found = self._read(key)
            return "" if found is None else found
        try:
            os.write(file, f"{text}\n".encode())
        finally:
            os.close(file)
        return text

    def read_all(self, keys: Sequence[str]) -> list[str] | None:
        """As in Board."""
        # A listing: NFS may answer for half a minute that a single name does not exist.
        if not set(keys) <= set(os.listdir(self._directory)):  # noqa: PTH208 (names, no paths)
            return None
        texts = [found for key in keys if (found := self._read(key)) is not None]
        return texts if len(texts) == len(keys) else None

    def _read(self, key: str) -> str | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(f"{self._directory}/{key}", flags), encoding="utf-8") as file:  # noqa: PTH123
            text = file.read()
        return text[:-1] if text.endswith("\n") else None

    def close(self, rank: int, world_size: int) -> None:
        """As in Board: the last rank removes the directory."""
        with contextlib.suppress(OSError):
            self.post(f"closed-{rank}", "")
            if self.read_all([f"closed-{other}" for other in range(world_size)]) is not None:
                shutil.rmtree(self._directory, ignore_errors=True)


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "backslashreplace")

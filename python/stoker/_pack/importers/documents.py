"""Text files as numbered documents: one per file, per line, or per line of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._common.plain_files import open_plain
from stoker._pack.importers.contract import Rows

_BLOCK_BYTES = 8 << 20
_DOCUMENT_BYTES_MAX = 1 << 30
_READ_BYTES = 1 << 20  # of consecutive documents, in one read
_FIELDS_TOLD = 8
_BOM = b"\xef\xbb\xbf"
JSONL = (".jsonl", ".ndjson")


def scan_lines(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the offsets and lengths of lines that are not blank.

    Bytes up to the space are blank; UTF-8 has no such bytes in multibyte characters.
    """
    begins: list[npt.NDArray[np.int64]] = []
    sizes: list[npt.NDArray[np.int64]] = []
    position = line_begin = line_filled = 0
    with open_plain(path, buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            data = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero(data == ord("\n"))
            filled = data > ord(" ")
            if len(ends):
                edges = np.concatenate(([0], ends[:-1] + 1))
                in_line = np.add.reduceat(filled[: ends[-1] + 1], edges, dtype=np.int64)
                in_line[0] += line_filled
                begin = position + edges
                begin[0] = line_begin
                begins.append(begin[in_line > 0])
                sizes.append((position + ends - begin)[in_line > 0])
                line_begin = position + int(ends[-1]) + 1
                line_filled = 0
            line_filled += int(
                np.count_nonzero(filled[line_begin - position if len(ends) else 0 :])
            )
            position += len(data)
    if line_filled:
        begins.append(np.array([line_begin]))
        sizes.append(np.array([position - line_begin]))
    none = np.empty(0, np.int64)
    return np.concatenate([none, *begins]), np.concatenate([none, *sizes])


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there more than once")
    return made


def _is_document(file: Path, endings: tuple[str, ...]) -> bool:
    return file.suffix in endings and not file.name.startswith(".")


def _files_below(folder: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Path]:
    """Follows links to folders, except to one that contains the link (``above``)."""
    info = folder.stat()
    here = (info.st_dev, info.st_ino)
    if here in above:
        return
    for path in folder.iterdir():
        if path.is_dir():
            if not path.name.startswith("."):
                yield from _files_below(path, (*above, here))
        elif path.is_file():
            yield path


class Documents:
    """Documents by number.

    Thread safety: read() from any thread.

    Attributes:
        files: In the order of the documents.
        sizes: Size of each document in bytes.
        left_out: Other files of the folder.
    """

    def __init__(self, path: str, *, lines: bool, text_field: str, is_jsonl: bool | None) -> None:
        """Finds the documents.

        Args:
            path: A file, or a folder of .txt or .jsonl files.
            lines: A document per line of text, not per file.
            text_field: For JSONL, the field with the text.
            is_jsonl: None: detected by the extensions.
        """
        place = Path(path)
        below = sorted(_files_below(place, ()), key=os.fsencode) if place.is_dir() else None
        if is_jsonl is None and below is not None:
            kinds = [any(_is_document(file, e) for file in below) for e in ((".txt",), JSONL)]
            if all(kinds):
                raise ValueError(
                    f"{path}: holds both .txt and .jsonl files; name one kind by --from"
                )
            is_jsonl = kinds[1]
        self._is_jsonl = place.suffix in JSONL if is_jsonl is None else is_jsonl
        self._text_field = text_field
        self._has_lines = lines or self._is_jsonl
        endings = JSONL if self._is_jsonl else (".txt",)
        if below is None:
            place.stat()
            below, self.files = [], [place]
        else:
            self.files = [file for file in below if _is_document(file, endings)]
        self.left_out = [
            os.fsdecode(file.relative_to(place))
            for file in below
            if not _is_document(file, endings)
        ]
        counts, begins, sizes = [0], [], []
        for file in self.files:
            if self._has_lines:
                begin, size = scan_lines(file)
            else:
                begin, size = np.zeros(1, np.int64), np.array([file.stat().st_size])
            counts.append(len(begin))
            begins.append(begin)
            sizes.append(size)
            if len(size) and size.max() > _DOCUMENT_BYTES_MAX:
                raise ValueError(f"{file}: a document of more than 1 GiB; split it")
        none = np.empty(0, np.int64)
        self._first = np.cumsum(counts)
        self._begins = np.concatenate([none, *begins])
        self.sizes = np.concatenate([none, *sizes])

    def __len__(self) -> int:
        return len(self.sizes)

    def _file_of(self, document: int) -> Path:
        return self.files[int(np.searchsorted(self._first, document, side="right")) - 1]

    def describe(self, document: int) -> str:
        """Returns the file and the line, which is counted only on demand."""
        path = self._file_of(document)
        if not self._has_lines:
            return str(path)
        left = int(self._begins[document])
        line = 1
        with open_plain(path) as file:
            while left > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
                line += block.count(b"\n")
                left -= len(block)
        return f"{path}: line {line}"

    def read(self, documents: Rows) -> Iterator[tuple[list[int], list[str]]]:
        """Yields numbers and texts; one read of consecutive documents at a time."""
        at = 0
        while at < len(documents):
            run = self._neighbours(documents, at)
            yield run, self._read_run(run)
            at += len(run)

    def _neighbours(self, documents: Rows, at: int) -> list[int]:
        """Returns consecutive documents from ``at`` on, in one file or one per file."""
        first = int(documents[at])
        run = [first]
        size = int(self.sizes[first])
        end = int(np.searchsorted(self._first, first, side="right"))
        stop = int(self._first[end]) if self._has_lines else len(self)
        while at + len(run) < len(documents) and size < _READ_BYTES:
            following = int(documents[at + len(run)])
            if following != run[-1] + 1 or following >= stop:
                break
            run.append(following)
            size += int(self.sizes[following])
        return run

    def _read_run(self, run: list[int]) -> list[str]:
        if not self._has_lines:
            return [
                self._text(i, self._read_bytes(self._file_of(i), 0, int(self.sizes[i])))
                for i in run
            ]
        begin = int(self._begins[run[0]])
        end = int(self._begins[run[-1]] + self.sizes[run[-1]])
        data = memoryview(self._read_bytes(self._file_of(run[0]), begin, end - begin))
        return [self._text(i, bytes(data[self._begins[i] - begin :][: self.sizes[i]])) for i in run]

    @staticmethod
    def _read_bytes(path: Path, begin: int, size: int) -> bytes:
        with open_plain(path, buffering=0) as file:
            file.seek(begin)
            data = b""
            while len(data) < size and (more := file.read(size - len(data))):
                data += more
        if len(data) < size:
            raise OSError(f"{path}: shorter than when listed; pack it while no process writes it")
        return data

    def _text(self, document: int, data: bytes) -> str:
        if self._begins[document] == 0 and data.startswith(_BOM):
            data = data[len(_BOM) :]
        try:
            if not self._is_jsonl:
                return data.decode().removesuffix("\r") if self._has_lines else data.decode()
            value = json.loads(data, object_pairs_hook=_without_duplicates)
        except UnicodeDecodeError as error:
            what = f"not UTF-8: byte {error.start} of it is {data[error.start]:#04x}"
        except (ValueError, RecursionError) as error:
            what = f"not JSON: {error}"
        else:
            if isinstance(value, dict) and isinstance(value.get(self._text_field), str):
                return str(value[self._text_field])
            what = f"no text in a field {self._text_field!r}"
            what += _other_fields(value)
        raise _native.CorruptError(f"{self.describe(document)}: {what}")


def _other_fields(value: Any) -> str:
    """Returns which field may have been meant."""
    fields = value.items() if isinstance(value, dict) else ()
    names = [repr(name) for name, item in fields if isinstance(item, str)][:_FIELDS_TOLD]
    if not names:
        return ""
    return f"; there is text in {', '.join(names)}: name the field by --text-field, or text_field="

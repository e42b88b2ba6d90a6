"""Converts text to tokens with a tokenizer: one sequence per document."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stoker import _native
from stoker._pack.importers.contract import (
    RowInput,
    Rows,
    Sample,
    fingerprint_of,
    left_out_notes,
    need,
)
from stoker._pack.importers.documents import Documents

_DOCUMENTS_SEEN = 256  # to estimate tokens per byte
_BYTES_SEEN = 1 << 20
_UINT16_ENTRIES = 1 << 16


def _load_tokenizer(path: str) -> Any:
    """Loads the tokenizer, without truncation and padding."""
    tokenizers = need("tokenizers", "tokenizers")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError) as error:
        why = f"{error.strerror}: a tokenizer is given by the path of its tokenizer.json"
        raise type(error)(error.errno, why, path) from None
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # tokenizers raises Exception itself
        raise ValueError(f"{path}: not a tokenizer.json: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class TokenRows(RowInput):
    """Documents as arrays of tokens, each followed by the end-of-document token.

    uint16 if the vocabulary has at most 65,536 entries, otherwise int32. No other special tokens
    are added. A document without tokens is only the end-of-document token; blank lines are not
    documents.
    """

    def __init__(
        self,
        path: str,
        *,
        tokenizer: str,
        eod: int | None = None,
        lines: bool = False,
        text_field: str = "text",
        is_jsonl: bool | None = None,
    ) -> None:
        """Finds the documents.

        Args:
            path: A file or a folder of .txt or .jsonl.
            tokenizer: The tokenizer.json.
            eod: The token that ends a document.
            lines: A document per line of text, not per file.
            text_field: For JSONL, the field with the text.
            is_jsonl: None: detected by the extensions.
        """
        self.path = path
        self.fields = ["tokens"]
        self._tokenizer = _load_tokenizer(tokenizer)
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self._entries = max(len(vocabulary), 1 + max(vocabulary.values(), default=-1))
        if eod is None:
            raise ValueError("eod (--eod) is missing: the number of the token that ends a document")
        if not 0 <= eod < self._entries or self._tokenizer.id_to_token(eod) is None:
            raise ValueError(f"eod {eod}: no token of this vocabulary, which has {self._entries}")
        self._eod = eod
        self.dtype = np.dtype(np.uint16 if self._entries <= _UINT16_ENTRIES else np.int32)
        self.token_bytes = self.dtype.itemsize
        self._documents = Documents(path, lines=lines, text_field=text_field, is_jsonl=is_jsonl)
        self._lock = threading.Lock()
        self._empty: set[int] = set()
        self.count = len(self._documents)
        if self.count == 0:
            raise ValueError(f"{path}: no text in it (.txt, .jsonl)")
        tokens_per_byte = self._look()
        guess = np.ceil(self._documents.sizes * tokens_per_byte) + 1
        self.sizes = guess.astype(np.uint64) * np.uint64(self.dtype.itemsize)
        self.size_bytes = int(self.sizes.sum())
        choices = (eod, lines, text_field, is_jsonl, tokens_per_byte)
        sha256 = hashlib.sha256(Path(tokenizer).read_bytes()).hexdigest()
        version = need("tokenizers", "tokenizers").__version__
        self.fingerprint = fingerprint_of(
            self._documents.files, sha256, version, choices, folder=path
        )

    def _look(self) -> float:
        """Returns the tokens per byte, estimated from the first documents."""
        seen_bytes = seen_tokens = documents = 0
        for batch in self.read(range(min(self.count, _DOCUMENTS_SEEN))):
            seen_tokens += sum(len(sample["tokens"]) for sample in batch)
            seen_bytes += int(self._documents.sizes[documents : documents + len(batch)].sum())
            documents += len(batch)
            if seen_bytes >= _BYTES_SEEN:
                break
        self._empty = set()
        return seen_tokens / max(1, seen_bytes)

    def _encode(self, numbers: list[int], texts: list[str]) -> list[Any]:
        tokenizer = self._tokenizer
        encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        try:
            return list(encode(texts, add_special_tokens=False))
        except Exception as error:  # tokenizers raises Exception itself, TypeError for surrogates
            for number, text in zip(numbers, texts, strict=True):
                try:
                    tokenizer.encode(text, add_special_tokens=False)
                except Exception as of_one:
                    where = self._documents.describe(number)
                    raise _native.CorruptError(f"{where}: cannot be tokenized: {of_one}") from None
            raise _native.CorruptError(f"{self.path}: cannot be tokenized: {error}") from None

    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """Tokenizes the documents of one read at a time, on all cores."""
        for numbers, texts in self._documents.read(rows):
            encodings = self._encode(numbers, texts)
            samples = []
            empty = []
            for number, encoding in zip(numbers, encodings, strict=True):
                tokens = np.array([*encoding.ids, self._eod], np.int64)
                if int(tokens.max()) >= self._entries or int(tokens.min()) < 0:
                    where = self._documents.describe(number)
                    message = f"{where}: token {tokens.max()} of {self._entries}"
                    raise _native.CorruptError(message)
                if len(tokens) == 1:
                    empty.append(number)
                samples.append({"tokens": tokens.astype(self.dtype)})
            with self._lock:
                self._empty.update(empty)
            yield samples

    def notes(self) -> list[str]:
        """Returns what was left out, and how many documents were empty."""
        lines = left_out_notes(self._documents.left_out, ": no .txt or .jsonl files of this kind")
        if self._empty:
            count = len(self._empty)
            lines.append(f"empty documents, which are token {self._eod} alone: {count}")
        return lines

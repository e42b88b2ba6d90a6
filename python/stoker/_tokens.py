"""stoker.Tokens: windows over token arrays, as samples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._dataset import Dataset, Source
from stoker._fields import dtype_name
from stoker._sample_reader import Int64s, Sample


class _Cut(NamedTuple):
    """How the tokens are cut, and what they are given out as."""

    window: int
    stride: int
    extra: int
    dtype: str  # empty: as stored


class _WindowReader:
    """Reads windows one by one, for use as a map-style dataset."""

    def __init__(self, native: _native.Dataset, cut: _Cut) -> None:
        self.windows = _native.TokenWindows.make(native, cut.window, cut.stride, cut.extra)
        self.dtype = np.dtype(_storage_dtype(cut.dtype or self.windows.dtype))
        self._native = native

    def __len__(self) -> int:
        return len(self.windows)

    def _rows(self, samples: Int64s) -> npt.NDArray[Any]:
        shape = (len(samples), self.windows.tokens_per_row)
        rows = np.empty(shape, _storage_dtype(self.windows.dtype))
        self.windows.read(self._native, np.ascontiguousarray(samples, np.int64), rows)
        return rows.astype(self.dtype, copy=False)

    def read(self, sample: int) -> Sample:
        return self.read_many(np.array([sample], np.int64))[0]

    def read_many(self, samples: Int64s) -> list[Sample]:
        rows = self._rows(samples)
        return [
            {"__key__": str(int(sample)), "tokens": row}
            for sample, row in zip(samples, rows, strict=True)
        ]

    def keys(self, samples: Int64s) -> list[str]:
        return [str(int(sample)) for sample in samples]

    def gather(
        self, samples: Int64s, field: str, dtype: str, shape: Sequence[int], out: npt.NDArray[Any]
    ) -> None:
        out[...] = self._rows(samples)


def _storage_dtype(name: str) -> str:
    return "uint16" if name == "bfloat16" else name


class Tokens(Dataset):
    """Windows of a fixed length over token arrays; each is a sample with the field ``tokens``.

    Window w of a shard begins at its token ``w * stride``, whatever documents there are; none
    crosses from one shard to the next, and what is left at a shard's end is dropped. Windows are
    arithmetic: nothing is built or kept for them, whatever the number of tokens.

    It is a :class:`stoker.Dataset`: ``len``, ``tokens[i]``, slices, ``select``, ``split``.

    Args:
        source: As of Dataset: Megatron's ``.idx``, ``.npy``, LitData chunks and others; or a
            Dataset of them, which raw files need to say their dtype.
        window: Tokens in a window.
        stride: From the begin of one window to that of the next; ``window`` if not given.
        extra: Tokens more in each window: 1 for targets shifted by one.
        dtype: "int64" widens tokens, as embeddings want them; as stored if not given.

    Raises:
        ValueError: These are no tokens, or no shard has one window.
    """

    def __init__(
        self,
        source: Source | Sequence[Source] | Dataset,
        *,
        window: int,
        stride: int | None = None,
        extra: int = 0,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        if isinstance(source, Dataset):
            if isinstance(source, Tokens) or not source._is_whole():
                raise ValueError("Tokens are cut from a whole dataset: select windows instead")
            self._arguments, self._native = source._arguments, source._native
        else:
            super().__init__(source)
        stride = window if stride is None else stride
        if window < 1 or stride < 1 or extra < 0:
            raise ValueError(f"window={window}, stride={stride}, extra={extra}")
        self._make_windows(_Cut(window, stride, extra, "" if dtype is None else dtype_name(dtype)))
        self._ids = range(len(self._reader))

    def _make_windows(self, cut: _Cut) -> None:
        self._cut = cut
        reader = _WindowReader(self._native, cut)
        if cut.dtype not in ("", "int64", reader.windows.dtype):
            raise ValueError(
                f"dtype={cut.dtype!r}: tokens are given out as int64, or as stored, which is "
                f"{reader.windows.dtype}"
            )
        self._reader, self._windows = reader, reader.windows

    @property
    def token_count(self) -> int:
        """Tokens of all shards, those in no window included."""
        return self._windows.token_count

    def _whole_fingerprint(self) -> str:
        digest = hashlib.blake2b(bytes.fromhex(self._native.fingerprint), digest_size=16)
        digest.update(np.array(self._cut[:3], "<u8").tobytes())
        return digest.hexdigest()

    def __getstate__(self) -> Any:
        return super().__getstate__(), self._cut

    def __setstate__(self, state: Any) -> None:
        dataset, cut = state
        super().__setstate__(dataset)
        self._make_windows(cut)

    def __repr__(self) -> str:
        cut = f"window={self._cut.window}, stride={self._cut.stride}, extra={self._cut.extra}"
        return f"{super().__repr__()[:-1]}, {cut}, dtype={self._reader_dtype()!r})"

    def _reader_dtype(self) -> str:
        return self._cut.dtype or self._windows.dtype

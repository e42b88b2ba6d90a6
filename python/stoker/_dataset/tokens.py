"""stoker.Tokens: windows over token arrays, or packs of documents, as samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.unknown_arguments import refuse_arguments
from stoker._dataset.dataset import Dataset, Source, cache_directory
from stoker._dataset.fields import dtype_name
from stoker._dataset.sample_reader import Int64s, Sample

if TYPE_CHECKING:
    from typing_extensions import Never

POSITION_IDS, DOCUMENT_IDS, LENGTH = "position_ids", "document_ids", "tokens_length"


class _Cut(NamedTuple):
    """How tokens are divided into rows, and their output type."""

    window: int  # 0: packs
    stride: int
    extra: int
    pack: int  # 0: windows
    pad: int
    dtype: str  # empty: as stored


class _WindowReader:
    """Reads windows one by one, for use as a map-style dataset."""

    def __init__(self, native: _native.Dataset, cut: _Cut) -> None:
        self.windows = _native.TokenWindows.make(native, cut.window, cut.stride, cut.extra)
        self.stored, self.row_tokens = self.windows.dtype, self.windows.tokens_per_row
        self.dtype = np.dtype(_storage_dtype(cut.dtype or self.stored))
        self._native = native

    def __len__(self) -> int:
        return len(self.windows)

    def columns(self, samples: Int64s) -> dict[str, npt.NDArray[Any]]:
        """Returns the rows of these windows."""
        shape = (len(samples), self.windows.tokens_per_row)
        rows = np.empty(shape, _storage_dtype(self.windows.dtype))
        self.windows.read(self._native, np.ascontiguousarray(samples, np.int64), rows)
        return {"tokens": rows.astype(self.dtype, copy=False)}

    def read(self, sample: int) -> Sample:
        return self.read_many(np.array([sample], np.int64))[0]

    def read_many(self, samples: Int64s) -> list[Sample]:
        columns = self.columns(samples)
        return [
            {"__key__": str(int(sample)), **dict(zip(columns, row, strict=True))}
            for sample, *row in zip(samples, *columns.values(), strict=True)
        ]

    def keys(self, samples: Int64s) -> list[str]:
        return [str(int(sample)) for sample in samples]

    def gather(
        self, samples: Int64s, field: str, dtype: str, shape: Sequence[int], out: npt.NDArray[Any]
    ) -> None:
        out[...] = self.columns(samples)[field]


class _PackReader(_WindowReader):
    """The same for packs."""

    def __init__(self, native: _native.Dataset, cut: _Cut) -> None:
        self.packs = _native.TokenBins.open(native, cut.pack, cache_directory())
        self.stored, self.row_tokens = self.packs.dtype, self.packs.length
        self.dtype = np.dtype(_storage_dtype(cut.dtype or self.stored))
        self._pad = _exact(cut.pad, self.dtype)
        self._native = native

    def __len__(self) -> int:
        return len(self.packs)

    def columns(self, samples: Int64s) -> dict[str, npt.NDArray[Any]]:
        """Returns the rows of these packs, with position and document of each token."""
        shape = (len(samples), self.packs.length)
        rows = np.empty(shape, _storage_dtype(self.packs.dtype))
        positions, documents = np.empty(shape, np.int32), np.empty(shape, np.int32)
        units = np.ascontiguousarray(samples, np.int64)
        lengths = self.packs.read(self._native, units, rows, positions, documents)
        rows = rows.astype(self.dtype, copy=False)
        rows[documents < 0] = self._pad
        return {
            "tokens": rows,
            POSITION_IDS: positions,
            DOCUMENT_IDS: documents,
            LENGTH: lengths,
        }


def _storage_dtype(name: str) -> str:
    return "uint16" if name == "bfloat16" else name


def _exact(pad: int, dtype: np.dtype[Any]) -> int:
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= pad <= np.iinfo(dtype).max:
        raise ValueError(f'pad={pad} is no {dtype.name}; dtype="int64" has room for it')
    return pad


class Tokens(Dataset):
    """Token arrays as rows of fixed length; each is a sample with the field ``tokens``.

    With ``window=``, rows are windows over all tokens of a shard: window w begins at its token ``w
    * stride``, regardless of documents; windows do not cross shards, and the rest at the end of a
    shard is dropped. Windows are computed arithmetically: nothing is built or stored for them.

    With ``pack=``, rows are packs of whole documents, combined by best fit and padded with ``pad``.
    A document longer than a row is cut into rows and a rest. Samples then also have, for each
    token, ``position_ids`` (relative to the beginning of its document, or of its part of a long
    one) and ``document_ids`` (the number of its document in the row; padding has its own number,
    -1), both int32; and ``tokens_length``, the number of tokens without padding. The assignment of
    documents to packs is computed once and stored beside the index.

    It is a :class:`stoker.Dataset`: ``len``, ``tokens[i]``, slices, ``select``, ``split``.

    Args:
        source: As for Dataset: Megatron's ``.idx``, ``.npy``, LitData chunks and others; or a
            Dataset of them, which raw files need to state their dtype.
        window: Tokens in a window.
        stride: Tokens from the beginning of one window to the next; ``window`` if not given.
        extra: Additional tokens in each window: 1 for targets shifted by one.
        pack: Tokens in a pack, instead of a window.
        pad: The token that packs are padded with.
        dtype: "int64" widens tokens, as embeddings need; as stored if not given.

    Raises:
        ValueError: The data are not tokens, or no shard is as long as one window.
    """

    def __init__(
        self,
        source: Source | Sequence[Source] | Dataset,
        *,
        window: int | None = None,
        stride: int | None = None,
        extra: int = 0,
        pack: int | None = None,
        pad: int = 0,
        dtype: npt.DTypeLike | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(unknown, Tokens)
        cut = _checked_cut(window, stride, extra, pack, pad)
        if isinstance(source, Dataset):
            if isinstance(source, Tokens) or not source._is_whole():
                raise ValueError(
                    "Tokens are cut from a whole dataset. Select or split the Tokens instead: "
                    "train, val = Tokens(source, window=1024).split([0.9, 0.1])"
                )
            self._arguments, self._native = source._arguments, source._native
        else:
            super().__init__(source)
        self._make_reader(cut._replace(dtype="" if dtype is None else dtype_name(dtype)))
        self._ids = range(len(self._reader))

    def _make_reader(self, cut: _Cut) -> None:
        self._cut = cut
        self._reader = reader = (_PackReader if cut.pack else _WindowReader)(self._native, cut)
        if cut.dtype not in ("", "int64", reader.stored):
            raise ValueError(
                f"dtype={cut.dtype!r}: tokens are given out as int64, or as stored, which is "
                f"{reader.stored}"
            )
        self._windows = None if isinstance(reader, _PackReader) else reader.windows
        self._packs = reader.packs if isinstance(reader, _PackReader) else None
        self._pad = cut.pad % 2**64

    @property
    def token_count(self) -> int:
        """Number of tokens in all shards, including those in no window."""
        windows = self._windows or _native.TokenWindows.make(self._native, 1, 1, 0)
        return windows.token_count

    def __getstate__(self) -> Any:
        return super().__getstate__(), self._cut

    def __setstate__(self, state: Any) -> None:
        dataset, cut = state
        super().__setstate__(dataset)
        self._make_reader(cut)

    def __repr__(self) -> str:
        cut = self._cut
        how = (
            f"pack={cut.pack}, pad={cut.pad}"
            if cut.pack
            else f"window={cut.window}, stride={cut.stride}, extra={cut.extra}"
        )
        return f"{super().__repr__()[:-1]}, {how}, dtype={self._reader_dtype()!r})"

    def _stored_dtype(self) -> str:
        return (self._windows or self._packs).dtype  # type: ignore[union-attr]

    def _reader_dtype(self) -> str:
        return self._cut.dtype or self._stored_dtype()


def _checked_cut(
    window: int | None, stride: int | None, extra: int, pack: int | None, pad: int
) -> _Cut:
    if window is None and pack is None:
        raise ValueError("give window=, or pack= for whole documents")
    if window is not None and pack is not None:
        raise ValueError(
            f"window={window} and pack={pack} were both given: give window= for windows over all "
            "tokens, or pack= for rows of whole documents"
        )
    if pack is not None:
        if stride is not None or extra != 0:
            raise ValueError(f"pack={pack}: without stride= and extra=, which are for windows")
        length = whole_number("pack", pack, 1)
        return _Cut(0, 0, 0, length, whole_number("pad", pad, -(2**63)), "")
    if pad != 0:
        raise ValueError("pad= is for packs: windows are full")
    length = whole_number("window", window, 1)
    step = length if stride is None else whole_number("stride", stride, 1)
    return _Cut(length, step, whole_number("extra", extra), 0, 0, "")

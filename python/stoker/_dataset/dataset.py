"""stoker.Dataset: the samples of a set of shards, by number."""

from __future__ import annotations

import html
import operator
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._common.paths import has_scheme, path_text
from stoker._common.unknown_arguments import refuse_arguments
from stoker._dataset import manifest as _manifest
from stoker._dataset import select as _select
from stoker._dataset.cache import Cache
from stoker._dataset.filesystems import store_of
from stoker._dataset.sample_reader import Sample, SampleReader

if TYPE_CHECKING:
    from typing_extensions import Never, Self

Source: TypeAlias = str | os.PathLike[str]
ShardFormat: TypeAlias = Literal[
    "tar", "tfrecord", "mds", "litdata", "megatron", "npy", "raw", "counted", "shard001"
]
Ids: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Shard:
    """One file of a dataset."""

    name: str
    path: str
    size_bytes: int
    sample_count: int


def cache_directory() -> str:
    """Returns where to store an index that cannot be beside its shards; empty without a home."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return "" if home.startswith("~") else str(Path(home) / "stoker" / "index")


@dataclass(frozen=True)
class _Arguments:
    """The arguments of a dataset: enough to open it again in another process."""

    patterns: tuple[str, ...]
    format: str
    dtype: str
    checksums: bool
    manifest_sha256: str | None
    cache: Cache | None

    def open(self, policy: str = "auto") -> _native.Dataset:
        store, patterns = store_of(self.patterns)
        return _native.open_dataset(
            patterns,
            self.format,
            self.dtype,
            self.checksums,
            cache_directory(),
            policy,
            None if self.cache is None else self.cache._native,
            store,
        )


def _names(source: Source | Sequence[Source]) -> list[str]:
    several = [source] if isinstance(source, (str, os.PathLike)) else source
    try:
        names = [path_text(path) for path in several]
    except TypeError:
        names = None
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"source={source!r}: a path, or several: str or os.PathLike")
    if not all(names):
        raise ValueError('an empty name names no shards: "." is this directory')
    return names


def _absolute(pattern: str) -> str:
    """Makes a pattern absolute, so that it is valid after a chdir and in another process."""
    if has_scheme(pattern):
        return pattern
    here = str(Path.cwd())
    if pattern.startswith(("/", "{/")) or any(special in here for special in "{*?["):
        return pattern
    return os.path.join(here, pattern)  # noqa: PTH118 (keeps a trailing slash)


def are_paths(data: Any) -> bool:
    """Whether the data names shards: a path, or several."""
    if isinstance(data, (str, os.PathLike)):
        return True
    is_several = isinstance(data, Sequence) and not isinstance(data, (bytes, bytearray))
    return is_several and all(isinstance(path, (str, os.PathLike)) for path in data)


def _dtype_name(dtype: npt.DTypeLike | None) -> str:
    if dtype is None:
        return ""
    return "bfloat16" if dtype == "bfloat16" else np.dtype(dtype).name  # NumPy has no bfloat16


class Dataset:
    """The samples of shards in any readable format, by number.

    ``ds[i]`` is a dict: ``"__key__"`` is a str, text fields are str, JSON fields are the result of
    ``json.loads``. ``cls``, ``cls2``, ``id``, ``index`` and ``inx`` of a tar, also as the last part
    of a name, are int if they contain one. A single number of a typed format is a NumPy scalar. All
    other fields are read-only NumPy arrays, views of the bytes that were read: with the dtype and
    shape that the format states, otherwise uint8. A record stays in memory as long as one of its
    arrays does. A Loader gives the same types.

    ``ds[a:b]``, :meth:`select` and :meth:`split` return datasets of some of the samples, which
    share the open files. A dataset may be used from any thread and in forked children, and can be
    pickled: it is then opened again with its arguments, and raises if the shards have changed.

    Args:
        source: A path, ``s3://bucket/prefix`` or ``https://host/path``, or several. Each may
            contain ``{000..999}``, ``{a,b}``, ``*``, ``?`` and ``[...]``; a directory means the
            shards in it, several directories the shards of all, in order. A ``~`` at the beginning
            is the home directory. Settings and keys for S3 are those of the tools of AWS.
        format: "tar", "tfrecord", "mds", "litdata", "megatron", "npy", "raw", "counted" or
            "shard001"; detected from the content if not given. "raw" and "counted" must be named.
        dtype: Element type of token arrays that do not state theirs.
        checksums: Check every sample against a CRC32C. If the index has none yet, all shards are
            read once to compute them.
        verify: "manifest" compares sizes and SHA-256 of the shards with ``manifest.json`` now;
            "full" does so if there is one, compares MDS shards with the digests in their
            ``index.json``, and reads every sample.
        manifest_sha256: The required SHA-256 of ``manifest.json``.
        cache: Where to keep what is read of the shards, if they are far away. The index and
            ``verify`` are made from the shards themselves.

    Raises:
        FileNotFoundError: A name or a pattern matches nothing.
        ValueError: The shards cannot be opened as requested, or the manifest is a different one.
        CorruptError: A shard is damaged.
    """

    _windows: _native.TokenWindows | None = None  # rows of tokens instead of samples: see Tokens
    _packs: _native.TokenBins | None = None
    _pad = 0

    def __init__(
        self,
        source: Source | Sequence[Source],
        *,
        format: ShardFormat | None = None,  # noqa: A002 (as on the command line)
        dtype: npt.DTypeLike | None = None,
        checksums: bool = False,
        verify: Literal["manifest", "full"] | None = None,
        manifest_sha256: str | None = None,
        cache: Cache | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(unknown, Dataset)
        if cache is not None and not isinstance(cache, Cache):
            raise TypeError(f'cache={cache!r}: a stoker.Cache, as Cache("/nvme/cache", "200GiB")')
        if verify not in (None, "manifest", "full"):
            raise ValueError(f'verify={verify!r}: "manifest", "full" or None')
        patterns = tuple(_absolute(name) for name in _names(source))
        name = _dtype_name(dtype)
        arguments = _Arguments(patterns, format or "", name, checksums, manifest_sha256, cache)
        self._open(arguments)
        self._ids: range | npt.NDArray[np.int64] = range(len(self._reader))
        if not self._native.is_local and (verify is not None or manifest_sha256 is not None):
            raise ValueError(
                f"verify and manifest_sha256 compare local files: stoker verify {self.directory}"
            )
        if verify is not None:
            whole = self._native.whole_directories
            names = None if whole else [shard.name for shard in self.shards]
            for directory in map(Path, whole or [self.directory]):
                if verify == "manifest" or _manifest.is_in(directory):
                    _manifest.verify(directory, names)
        if verify == "full":
            self._native.check_digests()
            self._check_every_sample()

    def _open(self, arguments: _Arguments) -> None:
        self._arguments = arguments
        self._native = arguments.open()
        self._reader: SampleReader = self._native
        if self._native.index_refused:
            warnings.warn(
                f"{self.directory}: the index is kept in memory and made again by every process, "
                "because neither the dataset's directory nor the cache can be written to "
                f"({self._native.index_refused}); set XDG_CACHE_HOME to a directory that can",
                RuntimeWarning,
                stacklevel=3,
            )
        if arguments.manifest_sha256 is not None and self._native.is_local:
            _manifest.check_pin(Path(self.directory), arguments.manifest_sha256)

    def _check_every_sample(self) -> None:
        step = 4096  # Ctrl-C takes effect between two steps
        for start in range(0, len(self._native), step):
            stop = min(start + step, len(self._native))
            self._native.check(np.arange(start, stop, dtype=np.int64))

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Sample | Self:
        if isinstance(index, slice):
            return self._with_ids(self._ids[index])
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"sample {position} of a dataset of {len(self)}")
        return self._reader.read(int(self._ids[position]))

    def __getitems__(self, indexes: Ids) -> list[Sample]:
        """Reads several samples in parallel; called by torch's DataLoader."""
        return self._reader.read_many(_select.take(self._ids, indexes))

    def __iter__(self) -> Iterator[Sample]:
        for sample in self._ids:
            yield self._reader.read(int(sample))

    def keys(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Returns the keys of samples ``start`` to ``stop``, as in a slice.

        Reads their records: the keys are in the shards.
        """
        ids = self._ids[slice(start, stop)]
        return self._reader.keys(np.asarray(ids, dtype=np.int64))

    def gather(self, ids: Ids, out: Any = None, *, field: str | None = None) -> Any:
        """Returns one field of many samples as one array with a row per sample; reads in parallel.

        Args:
            ids: Positions in this dataset.
            out: The array to fill and return: C-contiguous, or anything that ``numpy.asarray``
                converts without a copy, such as a tensor in host memory. A new array if None.
            field: Name of the field; optional if samples have only one.

        Raises:
            ValueError: The dtype or shape of the field differs between samples, or the shape of
                ``out`` is not ``(len(ids), *shape)``.
        """
        samples = _select.take(self._ids, ids)
        if len(samples) == 0:
            if out is None:
                raise ValueError("gather() of no samples has no shape: give out=")
            return out
        first = self._reader.read(int(samples[0]))
        name, model = _select.only_array(first, field)
        shape = (len(samples), *model.shape)
        rows = np.empty(shape, model.dtype) if out is None else _select.writable(out)
        if rows.shape != shape or rows.dtype != model.dtype:
            raise ValueError(
                f"out is {rows.dtype} {rows.shape}, and field {name!r} needs {model.dtype} {shape}"
            )
        self._reader.gather(samples, name, model.dtype.str, model.shape, rows)
        return rows if out is None else out

    def select(self, ids: Ids) -> Self:
        """Returns a dataset of these samples, in this order; they may repeat."""
        return self._with_ids(_select.take(self._ids, ids))

    def split(self, parts: Sequence[float], *, seed: int | None = None) -> list[Self]:
        """Returns disjoint datasets that together have every sample.

        Args:
            parts: Fractions that sum to 1, or counts that sum to ``len(ds)``.
            seed: Distributes samples at random; the same seed gives the same parts on every machine
                and version. None cuts the dataset in order. In both cases a part keeps the order.
        """
        counts = _select.part_counts(parts, len(self))
        pieces = _select.split_ids(len(self), counts, seed)
        return [self._with_ids(_select.part_of(self._ids, piece)) for piece in pieces]

    def _with_ids(self, ids: range | npt.NDArray[np.int64]) -> Self:
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__, _ids=ids)
        return part

    @property
    def fingerprint(self) -> str:
        """Identifies the samples and their order, independent of machine and directory."""
        return self._part().fingerprint

    def _part(
        self, native: _native.Dataset | None = None, weight: float | None = None
    ) -> _native.LoaderPart:
        """Returns the dataset for the core; ``native``: opened again with another policy."""
        return _native.LoaderPart(
            self._native if native is None else native,
            self._windows,
            self._packs,
            self._pad,
            None if self._is_whole() else _select.selection_of(self._ids),
            weight,
        )

    def _is_whole(self) -> bool:
        return isinstance(self._ids, range) and self._ids == range(len(self._reader))

    @property
    def format(self) -> str:
        """The shards' format: "tar"."""
        return self._native.format

    @property
    def directory(self) -> str:
        """The directory that contains all shards."""
        return self._native.directory

    @property
    def shards(self) -> list[Shard]:
        """All files of the dataset, even if only some samples were selected."""
        return [Shard(*shard) for shard in self._native.shards]

    def __getstate__(self) -> tuple[_Arguments, str, range | npt.NDArray[np.int64]]:
        return self._arguments, self._native.fingerprint, self._ids

    def __setstate__(self, state: tuple[_Arguments, str, range | npt.NDArray[np.int64]]) -> None:
        arguments, fingerprint, self._ids = state
        self._open(arguments)
        if self._native.fingerprint != fingerprint:
            raise ValueError(
                f"{self.directory}: fingerprint {self._native.fingerprint}, and the pickled dataset"
                f" had {fingerprint}: the shards have changed, or differ on this machine"
            )

    def __repr__(self) -> str:
        source = ", ".join(repr(pattern) for pattern in self._arguments.patterns[:3])
        if len(self._arguments.patterns) > 3:
            source += ", ..."
        return (
            f"{type(self).__name__}({source}, format={self.format!r}, samples={len(self)}, "
            f"shards={len(self._native.shards)})"
        )

    def _repr_html_(self) -> str:
        rows = {
            "source": ", ".join(self._arguments.patterns[:3]),
            "format": self.format,
            "samples": f"{len(self):,}",
            "shards": f"{len(self.shards):,}",
            "bytes": f"{sum(shard.size_bytes for shard in self.shards):,}",
            "fingerprint": self.fingerprint,
        }
        cells = "".join(
            f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in rows.items()
        )
        return f"<table><caption>stoker.{type(self).__name__}</caption>{cells}</table>"

"""What a map function does to a batch: the same in a thread and in another process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._collate import stack_samples
from stoker._columns import ColumnMaker, RaggedColumn
from stoker._sample_reader import Sample

MapFunction: TypeAlias = Callable[[Sample, np.random.Generator], Any]
Collate: TypeAlias = Callable[[list[Any]], Any]

_KEY_TAG = 0x6D61702E73746F6B  # apart from other uses of a seed


class MapError(RuntimeError):
    """A ``map`` or ``collate`` function has raised: ``__cause__`` is what.

    Attributes:
        key: Of the sample; None if it was the batch's collation.
        epoch: Of the sample.
        position: Of the sample in its epoch: with the epoch and the seed, what its generator was
            made from.
        path: Of the shard that the sample lies in; None for a collation and for tokens.
        offset: Of the sample in its shard; likewise.
    """

    def __init__(
        self,
        message: str,
        key: str | None,
        epoch: int,
        position: int,
        path: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.key, self.epoch, self.position = key, epoch, position
        self.path, self.offset = path, offset

    def __reduce__(self) -> tuple[Any, ...]:
        return MapError, (
            str(self),
            self.key,
            self.epoch,
            self.position,
            self.path,
            self.offset,
        )

    def located(self, native: _native.Batch) -> MapError:
        """The same error with the place of its sample, which only the batch's owner knows."""
        slots = np.flatnonzero(native.positions == self.position)
        if self.key is None or len(slots) == 0:
            return self
        path, offset = native.place(int(slots[0]))
        if not path:
            return self
        message = f"{self}; the sample is in {path} at byte {offset}"
        error = MapError(message, self.key, self.epoch, self.position, path, offset)
        error.__cause__ = self.__cause__
        return error


class Stopped(Exception):  # noqa: N818 (nobody sees it)
    """The loader was closed in the middle of a batch."""


class SampleRng:
    """Random numbers for a sample, from (seed, epoch, position) alone.

    Philox is counter-based: each position of each epoch has 2**128 numbers of its own. One
    generator is set again for each sample, which is much cheaper than a new one.

    Thread safety: none.
    """

    def __init__(self, seed: int) -> None:
        self._philox = np.random.Philox(key=np.array([seed, _KEY_TAG], np.uint64))
        self._state: Any = self._philox.state
        self._generator = np.random.Generator(self._philox)

    def at(self, epoch: int, position: int) -> np.random.Generator:
        """Valid until the next call."""
        self._state["state"]["counter"][:] = (0, 0, position, epoch)
        self._philox.state = self._state
        return self._generator


class PackedBytes:
    """Byte fields one after the other: what a BytesColumn becomes on its way to another process."""

    def __init__(self, memory: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]) -> None:
        self._memory = memory
        self._sizes = sizes

    @staticmethod
    def of(column: _native.BytesColumn) -> PackedBytes:
        """Copies the column."""
        memory = np.empty(column.nbytes, np.uint8)
        column.copy_to(memory)
        return PackedBytes(memory, column.sizes)

    def __iter__(self) -> Iterator[npt.NDArray[np.uint8]]:
        ends = np.cumsum(self._sizes).tolist()
        view = self._memory.view()
        view.flags.writeable = False  # as in a thread
        return (view[start:end] for start, end in zip([0, *ends], ends, strict=False))


class Job(NamedTuple):
    """The samples of a batch, as columns."""

    epoch: int
    positions: npt.NDArray[np.int64]
    columns: dict[str, Any]

    @staticmethod
    def of(native: _native.Batch, maker: ColumnMaker) -> Job:
        """Looks into the batch's memory and keeps it."""
        columns = {name: maker.column(native, name) for name in maker.names(native)}
        return Job(native.epoch, native.positions, columns)

    def portable(self) -> Job:
        """The same in arrays that another process can be given."""
        columns = {
            name: PackedBytes.of(column) if isinstance(column, _native.BytesColumn) else column
            for name, column in self.columns.items()
        }
        return self._replace(columns=columns)

    def raw(self) -> frozenset[str]:
        """The columns that are bytes."""
        return frozenset(
            name
            for name, column in self.columns.items()
            if isinstance(column, (PackedBytes, _native.BytesColumn))
        )

    def samples(self) -> list[Sample]:
        """A dict for each sample: numbers, str, and arrays that look into the columns."""
        items = [_items(column) for column in self.columns.values()]
        names = list(self.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*items, strict=True)]


def _items(column: Any) -> Sequence[Any] | Iterator[Any]:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return column.tolist()  # type: ignore[no-any-return]
    if isinstance(column, RaggedColumn):
        return iter(column)
    return column  # type: ignore[no-any-return]


class JobRunner:
    """Runs jobs one after the other.

    Thread safety: none; one for each thread.
    """

    def __init__(self, function: MapFunction | None, collate: Collate | None, seed: int) -> None:
        self._function = function
        self._collate = collate
        self._rng = SampleRng(seed)

    def run(self, job: Job, is_stopped: Callable[[], bool] = lambda: False) -> Any:
        """The batch that the functions make of the samples; MapError names what they choke on."""
        samples: list[Any] = job.samples()
        if self._function is not None:
            for i, position in enumerate(job.positions.tolist()):
                if is_stopped():
                    raise Stopped
                samples[i] = self._map(self._function, samples[i], job.epoch, position)
        try:
            if self._collate is not None:
                return self._collate(samples)
            return stack_samples(samples, job.raw())
        except Exception as error:
            position = int(job.positions[0]) if len(job.positions) else 0
            where = f"epoch {job.epoch}, the batch at position {position}"
            raise MapError(
                f"collate: {where}: {_line(error)}", None, job.epoch, position
            ) from error

    def _map(self, function: MapFunction, sample: Sample, epoch: int, position: int) -> Any:
        key = str(sample["__key__"])
        try:
            return function(sample, self._rng.at(epoch, position))
        except Exception as error:
            where = f"sample {key!r} (epoch {epoch}, position {position})"
            raise MapError(f"map: {where}: {_line(error)}", key, epoch, position) from error


def _line(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()

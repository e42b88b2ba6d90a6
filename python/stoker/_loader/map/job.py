"""Applies a map function to a batch: the same in a thread and in another process."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._dataset.columns import ColumnMaker, RaggedColumn, emptied
from stoker._dataset.sample_reader import Sample
from stoker._loader.collate import stack_samples

MapFunction: TypeAlias = Callable[[Sample, np.random.Generator], Any]
Collate: TypeAlias = Callable[[list[Any]], Any]

REPLACEMENTS_MAX = 100  # samples that may replace one that map leaves out
_PYTHON_DTYPES = (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_))
_KEY_TAG = 0x6D61702E73746F6B  # separates this from other uses of a seed


class MapError(RuntimeError):
    """A ``map`` or ``collate`` function raised ``__cause__``.

    Attributes:
        key: Key of the sample; None if ``collate`` raised.
        epoch: Epoch of the sample.
        position: Position of the sample in its epoch: with the epoch and the seed, it determines
            the sample's generator.
        path: Path of the sample's shard; None for ``collate`` and for tokens.
        offset: Offset of the sample in its shard; None in the same cases.
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
        """Returns the error with the sample's place, which only the owner of the batch knows."""
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


class Stopped(Exception):  # noqa: N818 (internal)
    """The loader was closed during a batch."""


class SampleRng:
    """Random numbers for a sample, from (seed, epoch, position) alone.

    Philox is counter-based: each position of each epoch has its own 2**128 numbers, and each sample
    that replaces another there has 2**64 of them. One generator is set for each sample, which is
    much cheaper than creating a new one.

    Thread safety: none.
    """

    def __init__(self, seed: int) -> None:
        self._philox = np.random.Philox(key=np.array([seed, _KEY_TAG], np.uint64))
        self._state: Any = self._philox.state
        self._generator = np.random.Generator(self._philox)

    def at(self, epoch: int, position: int, attempt: int = 0) -> np.random.Generator:
        """Returns the generator, valid until the next call."""
        self._state["state"]["counter"][:] = (0, attempt, position, epoch)
        self._philox.state = self._state
        return self._generator


class PackedBytes:
    """Concatenated byte fields: a BytesColumn for another process."""

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
        view.flags.writeable = False  # same as in a thread
        return (view[start:end] for start, end in zip([0, *ends], ends, strict=False))


class Job(NamedTuple):
    """The samples of a batch, as columns."""

    epoch: int
    positions: npt.NDArray[np.int64]
    columns: dict[str, Any]
    presence: dict[str, list[bool]]  # for columns that some samples lack: which have it
    rows: tuple[int, ...] | None = None  # rows of the current batch that these samples replace
    attempt: int = 0  # how many samples these rows have had before
    is_stand_in: bool = False  # its one sample shows the types of the columns of an empty batch

    @staticmethod
    def of(native: _native.Batch, maker: ColumnMaker) -> Job:
        """Makes a job of views of the batch's memory, which it keeps alive."""
        names = maker.names(native)
        columns = {name: maker.items(native, name) for name in names}
        presence = {name: maker.presence(native, name) for name in names}
        lacking = {name: present for name, present in presence.items() if present is not None}
        return Job(native.epoch, native.positions, columns, lacking)

    def portable(self) -> Job:
        """Returns the job with arrays that can be sent to another process."""
        columns = {
            name: PackedBytes.of(column) if isinstance(column, _native.BytesColumn) else column
            for name, column in self.columns.items()
        }
        return self._replace(columns=columns)

    def raw(self) -> frozenset[str]:
        """Returns the columns that are bytes."""
        return frozenset(
            name
            for name, column in self.columns.items()
            if isinstance(column, (PackedBytes, _native.BytesColumn))
        )

    def samples(self) -> list[Sample]:
        """Returns a dict per sample: numbers, str, and arrays that are views of the columns."""
        items = [_items(column) for column in self.columns.values()]
        names = list(self.columns)
        samples = [dict(zip(names, row, strict=True)) for row in zip(*items, strict=True)]
        for name, presence in self.presence.items():
            for sample, is_there in zip(samples, presence, strict=True):
                if not is_there:
                    del sample[name]
        return samples


def _items(column: Any) -> Sequence[Any] | Iterator[Any]:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        # Python's own numbers if they stack to the same dtype again.
        return column.tolist() if column.dtype in _PYTHON_DTYPES else list(column)
    if isinstance(column, RaggedColumn):
        return iter(column)
    if isinstance(column, list):
        for value in column:
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # the same in a process and in a thread
    return column  # type: ignore[no-any-return]


class LeftOut(NamedTuple):
    """A runner's answer while ``map`` leaves samples out: the rows that need others."""

    rows: tuple[int, ...]


class JobRunner:
    """Runs jobs one after another.

    Thread safety: none; one for each thread.
    """

    def __init__(self, function: MapFunction | None, collate: Collate | None, seed: int) -> None:
        self._function = function
        self._collate = collate
        self._rng = SampleRng(seed)
        self._begun: Job | None = None  # its samples are in _samples, all but some rows mapped
        self._samples: list[Any] = []
        self._keys: list[str] = []  # of the samples of this batch, or of the last one
        self._places: tuple[int, list[int]] = (0, [])  # their epoch and positions

    def run(self, job: Job, is_stopped: Callable[[], bool] = lambda: False) -> Any:
        """Returns the batch that the functions make of the samples; MapError names the sample.

        Returns LeftOut if ``map`` returned None: the next job has other samples for these rows.
        """
        if job.rows is None:
            self._begun, self._samples = job, job.samples()
            self._keys = [str(sample.get("__key__", "?")) for sample in self._samples]
            self._places = job.epoch, job.positions.tolist()
            rows, samples = tuple(range(len(self._samples))), self._samples
        else:
            rows, samples = job.rows, job.samples()
            for row, sample in zip(rows, samples, strict=True):
                self._keys[row] = str(sample.get("__key__"))
        if self._function is not None:
            left_out = self._map_all(self._function, job, rows, samples, is_stopped)
            if left_out:
                return LeftOut(tuple(left_out))
        begun, self._begun = self._begun, None
        samples, self._samples = self._samples, []
        assert begun is not None
        return self._collated(begun, samples)

    def unsendable(self, batch: Any, error: Exception) -> MapError:
        """Returns what to raise if ``batch``, the answer of the last run(), cannot be pickled."""
        epoch, positions = self._places
        advice = "return arrays, tensors, numbers, text or bytes, or use map_in='thread'"
        for name, column in batch.items() if isinstance(batch, dict) else ():
            if not isinstance(column, list) or len(column) != len(positions):
                continue
            for value, key, position in zip(column, self._keys, positions, strict=True):
                if (reason := _why_not_pickled(value)) is not None:
                    message = (
                        f"map: sample {key!r} (epoch {epoch}, position {position}): field {name!r} "
                        f"cannot be sent to the loader's process: {_line(reason)}; {advice}"
                    )
                    return MapError(message, key, epoch, position)
        first = positions[0] if positions else 0
        message = (
            f"collate: epoch {epoch}, the batch at position {first} cannot be sent to the loader's "
            f"process: {_line(error)}; {advice}"
        )
        return MapError(message, None, epoch, first)

    def _map_all(
        self,
        function: MapFunction,
        job: Job,
        rows: Sequence[int],
        samples: list[Sample],
        is_stopped: Callable[[], bool],
    ) -> list[int]:
        """Maps samples into their rows; returns the rows of those that are left out."""
        left_out = []
        for row, sample, position in zip(rows, samples, job.positions.tolist(), strict=True):
            if is_stopped():
                raise Stopped
            self._keys[row] = str(sample["__key__"])  # map may remove it
            self._samples[row] = made = self._map(function, sample, job, position)
            if made is None:
                left_out.append(row)
        return left_out

    def _map(self, function: MapFunction, sample: Sample, job: Job, position: int) -> Any:
        key = str(sample["__key__"])
        where = f"sample {key!r} (epoch {job.epoch}, position {position})"
        try:
            made = function(sample, self._rng.at(job.epoch, position, job.attempt))
        except Exception as error:
            message = f"map: {where}: {_line(error)}"
            raise MapError(message, key, job.epoch, position) from error
        if made is None and job.attempt == REPLACEMENTS_MAX:
            raise MapError(
                f"map: {where}: it returned None, which leaves the sample out, for this one and for"
                f" {job.attempt} before it that were to stand in the same place. Does the function "
                "return the sample? To leave most samples out, use Dataset.select()",
                key,
                job.epoch,
                position,
            )
        return made

    def _collated(self, job: Job, samples: list[Any]) -> Any:
        try:
            if self._collate is not None and not job.is_stand_in:
                return self._collate(samples)
            if job.is_stand_in and not isinstance(samples[0], dict):
                return emptied(job.columns)
            columns = stack_samples(samples, job.raw(), self._keys)
            return emptied(columns) if job.is_stand_in else columns
        except Exception as error:
            position = int(job.positions[0]) if len(job.positions) else 0
            where = f"epoch {job.epoch}, the batch at position {position}"
            message = f"collate: {where}: {_line(error)}"
            raise MapError(message, None, job.epoch, position) from error


def _why_not_pickled(value: Any) -> Exception | None:
    try:
        pickle.dumps(value)
    except Exception as error:  # pickle raises exceptions of many types
        return error
    return None


def _line(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()

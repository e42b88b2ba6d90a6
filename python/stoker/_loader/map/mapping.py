"""A Loader's map and collate functions, and the workers that run them."""

from __future__ import annotations

import inspect
import os
from typing import Any, Literal

import numpy as np

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.torch import tensor_of
from stoker._dataset.columns import KEY, VALID, ColumnMaker, cloned, emptied
from stoker._loader.batch import Batch
from stoker._loader.extras import Extras
from stoker._loader.host_memory import FreshMemory
from stoker._loader.map.job import Collate, JobRunner, MapFunction
from stoker._loader.map.processes import MapProcess, pickled_functions
from stoker._loader.map.run import MapRun, Worker, process_worker, thread_worker

_WORKERS_MAX = 16


def _worker_count(given: int | None) -> int:
    if given is None:
        return min(len(os.sched_getaffinity(0)), _WORKERS_MAX)
    return whole_number("map_workers", given, 1)


def _check_parameters(function: MapFunction) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions in C have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise TypeError(
            f"map is called as map(sample, rng), with the random generator of the sample: {error}. "
            "Write map=lambda sample, rng: ..."
        ) from None


class Mapping:
    """Runs functions over batches, in threads of this process or in persistent processes."""

    def __init__(
        self,
        function: MapFunction | None,
        collate: Collate | None,
        where: Literal["thread", "process"],
        workers: int | None,
        seed: int,
        fresh: FreshMemory | None = None,
    ) -> None:
        for name, given in (("map", function), ("collate", collate)):
            if given is not None and not callable(given):
                raise TypeError(f"{name} is a function, not {given!r}")
        if function is not None:
            _check_parameters(function)
        self._functions = (function, collate, seed)
        self._fresh = fresh
        self._has_collate = collate is not None
        self._emptied: dict[str, Any] | None = None  # columns of the first batch that collate made
        self._count = _worker_count(workers)
        self._pickled = pickled_functions(*self._functions) if where == "process" else None
        self._processes: list[MapProcess] = []

    def start(self, options: _native.LoaderOptions, maker: ColumnMaker, extras: Extras) -> MapRun:
        """Starts a run of mapped batches. Samples have NumPy arrays, never tensors."""

        def finish(made: Any, native: _native.Batch, keys: list[str] | None) -> Any:
            return self._batch(made, native, maker, keys)

        return MapRun(
            options, maker.without_torch(), self._workers(), finish, extras, self._in_order
        )

    def _workers(self) -> list[Worker]:
        if self._pickled is None:
            return [thread_worker(JobRunner(*self._functions)) for _ in range(self._count)]
        if not self._processes:
            self._processes = [MapProcess(self._pickled) for _ in range(self._count)]
        return [process_worker(process) for process in self._processes]

    def _batch(
        self, made: Any, native: _native.Batch, maker: ColumnMaker, keys: list[str] | None
    ) -> Any:
        """Returns a Batch if a dict was made; anything else is returned unchanged.

        ``keys``: if they differ from those of the core's batch.
        """
        if not isinstance(made, dict):
            return made
        is_collated = self._has_collate and len(native) > 0
        torch = None if is_collated else maker.torch
        batch = Batch({name: _tensors(value, torch) for name, value in made.items()})
        for name in (KEY, VALID):
            if name in maker.names(native) and name not in batch:
                batch[name] = maker.column(native, name)
        if keys is not None and KEY not in made:
            batch[KEY] = keys
        if self._fresh is not None:
            batch.update(self._fresh.moved(batch))
        batch.cursor, batch.size, batch.last = native.cursor, len(native), native.last
        return batch

    def _in_order(self, batch: Any, size: int) -> Any:
        """Gives an empty part, for which collate is not called, the columns that collate makes.

        They are known from an earlier batch. Called with each batch in order, so that the answer
        does not depend on which worker is faster.
        """
        if not self._has_collate or not isinstance(batch, Batch):
            return batch
        if size > 0:
            if self._emptied is None:  # cloned, because the caller may change the batch
                self._emptied = {name: cloned(emptied(value)) for name, value in batch.items()}
            return batch
        return batch if self._emptied is None else batch._with(cloned(self._emptied))

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.close()
        self._processes = []


def mapping_of(
    function: MapFunction | None,
    collate: Collate | None,
    where: Literal["thread", "process"],
    workers: int | None,
    seed: int,
    fresh: FreshMemory | None,
) -> Mapping | None:
    """Returns the mapping for a Loader's arguments; None if there is no function."""
    if where not in ("thread", "process"):
        raise ValueError(f'map_in={where!r}: "thread" or "process"')
    if function is not None or collate is not None:
        return Mapping(function, collate, where, workers, seed, fresh)
    if workers is not None:
        raise ValueError(f"map_workers={workers} are for map= or collate=: there is none")
    return None


def _tensors(value: Any, torch: Any) -> Any:
    """Converts arrays to tensors, if there is torch; also in nested dicts."""
    if torch is None:
        return value
    if isinstance(value, dict):
        return {name: _tensors(item, torch) for name, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return tensor_of(value, torch)
    return value

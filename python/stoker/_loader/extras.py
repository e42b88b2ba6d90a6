"""Samples that a run reads in addition to its own, to replace others."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from stoker import _native
from stoker._dataset.select import Selection


class Extras:
    """Selects and reads them by (seed, epoch, position) alone: the same in every run and rank.

    Args:
        options: Options of the run.
        order: Order of the run.
        seed: Seed of the loader.
        selections: The samples of each dataset to choose from; None: those of a given order.
        show_columns: Whether the types of columns are known only from samples.

    Thread safety: every method from any thread.
    """

    def __init__(
        self,
        options: _native.LoaderOptions,
        order: _native.Order,
        seed: int,
        selections: Sequence[Selection] | None,
        *,
        show_columns: bool,
    ) -> None:
        self._options = options
        self._order = order
        self._seed = seed
        self._selections = selections
        self.show_columns = show_columns
        self._lock = threading.Lock()
        self._reader: _native.ExtraSamples | None = None

    def stand_in(self, empty: _native.Batch) -> _native.Batch:
        """Returns the first sample of the global batch if this rank's part of it is empty.

        It shows the types of the columns.
        """
        datasets, samples = self._order.fill(empty.epoch, empty.position, 1)
        return self._read(empty.epoch, [empty.position], datasets.tolist(), samples.tolist())

    def replacements(
        self, batch: _native.Batch, rows: Sequence[int], attempt: int
    ) -> _native.Batch:
        """Returns other samples of the same datasets, for these rows of the batch."""
        positions = batch.positions[list(rows)].tolist()
        sources = batch.samples[0][list(rows)].tolist()
        chosen = [
            self._choice(dataset, batch.epoch, position, attempt)
            for dataset, position in zip(sources, positions, strict=True)
        ]
        return self._read(batch.epoch, positions, [d for d, _ in chosen], [s for _, s in chosen])

    def _choice(self, dataset: int, epoch: int, position: int, attempt: int) -> tuple[int, int]:
        if self._selections is None:
            other = self._number(epoch, position, attempt, self._order.epoch_samples)
            datasets, samples = self._order.fill(epoch, other, 1)
            return int(datasets[0]), int(samples[0])
        selection = self._selections[dataset]
        if isinstance(selection, tuple):
            start, step, count = selection
            return dataset, start + step * self._number(epoch, position, attempt, count)
        return dataset, int(selection[self._number(epoch, position, attempt, len(selection))])

    def _number(self, epoch: int, position: int, attempt: int, count: int) -> int:
        return _native.replacement_sample(self._seed, epoch, position, attempt, count)

    def _read(
        self, epoch: int, positions: list[int], datasets: list[int], samples: list[int]
    ) -> _native.Batch:
        with self._lock:
            if self._reader is None:
                self._reader = _native.extra_samples(self._options)
            reader = self._reader
        return reader.read(epoch, positions, datasets, samples)

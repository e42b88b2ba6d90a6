"""Samples that a run reads beside its own: they stand in for others."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from stoker import _native
from stoker._dataset.select import Selection


class Extras:
    """Chooses and reads them, by (seed, epoch, position) alone: every run and rank chooses alike.

    Args:
        options: Of the run.
        order: Its order.
        seed: The loader's.
        selections: The samples of each dataset to choose from; None: those of the order, which was
            given.
        show_columns: Whether only samples show what columns are.

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
        """The first sample of the global batch of which a rank has an empty part.

        It shows what columns look like.
        """
        datasets, samples = self._order.fill(empty.epoch, empty.position, 1)
        return self._read(empty.epoch, [empty.position], datasets.tolist(), samples.tolist())

    def replacements(
        self, batch: _native.Batch, rows: Sequence[int], attempt: int
    ) -> _native.Batch:
        """Other samples of the same datasets, for these rows of the batch."""
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

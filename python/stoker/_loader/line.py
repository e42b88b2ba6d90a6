"""The order of a Loader's samples: a line of positions for each epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._dataset.dataset import Dataset
from stoker._dataset.mixture import Mixture
from stoker._dataset.shuffle import BlockShuffle, order_options, shuffle_of
from stoker._dataset.sources import Parts


class Line(Protocol):
    """The line of positions of a loader's epochs."""

    fingerprint: str  # of the data and, if that is given, of the order
    sample_count: int  # positions in an epoch; 0: to be resolved
    is_given: bool  # and not computed
    is_per_epoch: bool  # whether another epoch may have another line
    is_mixed: bool  # of a Mixture, which deals no lanes, be it one of one dataset

    @property
    def old_fingerprint(self) -> str:
        """As version 0.1 made it."""

    def resolve(self, options: _native.OrderOptions) -> _native.OrderOptions:
        """Puts defaults in."""

    def make(self, options: _native.OrderOptions) -> _native.Order:
        """The order for resolved options."""

    def at_epoch(self, epoch: int) -> Line:
        """The line of this epoch."""


class ComputedLine:
    """Computed from a seed: the same function for every epoch."""

    is_given = False
    is_per_epoch = False

    def __init__(self, data: Dataset | Mixture, parts: Parts) -> None:
        self._data = data
        self._parts = parts
        self.is_mixed = isinstance(data, Mixture)
        self.sample_count = data._epoch_samples if isinstance(data, Mixture) else len(data)
        self.fingerprint = data.fingerprint

    @property
    def old_fingerprint(self) -> str:
        """As version 0.1 made it."""
        return self._data._old_fingerprint

    def resolve(self, options: _native.OrderOptions) -> _native.OrderOptions:
        """Puts defaults in."""
        return (
            self._data._options(options) if isinstance(self._data, Mixture) else options.resolve()
        )

    def make(self, options: _native.OrderOptions) -> _native.Order:
        """The order for resolved options."""
        if isinstance(self._data, Mixture):
            return self._parts.selected(self._data._make_order(options))
        return self._parts.selected(_native.make_order(options))

    def at_epoch(self, epoch: int) -> ComputedLine:
        """The same."""
        return self


class GivenLine:
    """A list of samples: an array, the same for every epoch, or what a sampler gave for one."""

    is_given = True
    is_mixed = False

    def __init__(self, data: Dataset | Mixture, parts: Parts, order: Any) -> None:
        if isinstance(data, Mixture):
            raise ValueError("order= is one of a single dataset: a Mixture has an order of its own")
        self._data = data
        self._parts = parts
        self._given = order
        self.is_per_epoch = not isinstance(order, (Sequence, np.ndarray)) and not hasattr(
            order, "__array__"
        )
        if self.is_per_epoch and hasattr(order, "num_replicas"):
            raise ValueError(
                "order= is a sampler that has already divided samples among ranks, and the loader "
                "divides them too: give one for all ranks, such as RandomSampler"
            )
        self._epoch = 0
        self._items = self._list(0)

    def _list(self, epoch: int) -> npt.NDArray[np.uint64]:
        if self.is_per_epoch and hasattr(self._given, "set_epoch"):
            self._given.set_epoch(epoch)
        items = _numbers(list(self._given) if self.is_per_epoch else self._given)
        self.sample_count = len(items)
        self.fingerprint = _native.explicit_order_fingerprint(self._data.fingerprint, items)
        return items

    @property
    def old_fingerprint(self) -> str:
        """As version 0.1 made it."""
        return _native.explicit_order_fingerprint(self._data._old_fingerprint, self._items)

    def resolve(self, options: _native.OrderOptions) -> _native.OrderOptions:
        """Nothing is left open."""
        return options.resolve()

    def make(self, options: _native.OrderOptions) -> _native.Order:
        """The list as an order."""
        order = _native.make_explicit_order(self._items, len(self._data))
        return self._parts.selected(order)

    def at_epoch(self, epoch: int) -> GivenLine:
        """Asks a sampler for the list of another epoch than the one it has."""
        if self.is_per_epoch and epoch != self._epoch:
            self._items = self._list(epoch)
            self._epoch = epoch
        return self


def _numbers(items: Iterable[Any]) -> npt.NDArray[np.uint64]:
    try:
        numbers = np.asarray(items)
    except ValueError:  # lists of different lengths
        numbers = np.empty((0, 0))
    if numbers.ndim != 1 or (numbers.size > 0 and numbers.dtype.kind not in "iu"):
        raise TypeError(
            "order= gives integers one by one, the numbers of samples; of a batch sampler, give "
            "the sampler: the loader makes the batches"
        )
    if numbers.size == 0:
        raise ValueError("order= is empty")
    if int(numbers.min()) < 0:
        raise ValueError(f"order= has sample {int(numbers.min())}: samples count from 0")
    return np.ascontiguousarray(numbers).astype(np.uint64)


def line_of(
    data: Dataset | Mixture,
    parts: Parts,
    shuffle: str | bool | BlockShuffle | None,
    seed: int,
    order: Any,
) -> tuple[Line, _native.OrderOptions]:
    """The line, and the options that were asked for."""
    wanted = shuffle_of(shuffle)
    if order is None:
        line: Line = ComputedLine(data, parts)
        return line, order_options(wanted, seed, line.sample_count)
    if shuffle is not None and wanted != "off":
        raise ValueError("order= or shuffle=: not both")
    line = GivenLine(data, parts, order)
    return line, order_options("off", seed, line.sample_count)

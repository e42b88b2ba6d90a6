"""stoker.Mixture: several datasets in one order, by weight."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, SupportsIndex

from stoker import _native
from stoker._dataset import Dataset, Ids
from stoker._sample_reader import Sample
from stoker._select import take
from stoker._tokens import Tokens


class Mixture:
    """Several datasets as one, each with its share of the samples.

    Positions run in cycles of 65,536, in each of which every dataset has its share exactly. A
    dataset is gone through completely before it begins again, at its own pace, with an order of its
    own.

    ``mix[i]`` is what stands at position i with nothing shuffled inside the datasets; a Loader
    shuffles.

    Args:
        parts: Datasets and their weights, which need not sum to 1. All of them samples of shards,
            or all Tokens of one length.
        epoch_samples: What counts as an epoch; all samples together if not given.

    Raises:
        ValueError: A weight that is not a positive number, or too small for a share.
    """

    def __init__(
        self, parts: Sequence[tuple[Dataset, float]], *, epoch_samples: int | None = None
    ) -> None:
        self.datasets = tuple(dataset for dataset, _ in parts)
        self.weights = tuple(float(weight) for _, weight in parts)
        for dataset in self.datasets:
            if not isinstance(dataset, Dataset):
                raise TypeError(f"a mixture is one of Datasets, not of {type(dataset).__name__}")
        if len({isinstance(dataset, Tokens) for dataset in self.datasets}) > 1:
            raise ValueError("a mixture is one of samples or one of Tokens, not of both")
        if epoch_samples is not None and epoch_samples < 1:
            raise ValueError(f"epoch_samples={epoch_samples}")
        self._epoch_samples = epoch_samples or 0
        self._length = self._order.epoch_samples

    def _counts(self) -> list[int]:
        return [len(dataset) for dataset in self.datasets]

    def _options(self, options: _native.OrderOptions) -> _native.OrderOptions:
        """With defaults put in."""
        return _native.resolve_mixture(options, self._counts(), self.weights)

    def _make_order(self, options: _native.OrderOptions) -> _native.Order:
        return _native.make_mixture_order(options, self._counts(), self.weights)

    @cached_property
    def _order(self) -> _native.Order:
        return self._make_order(_native.OrderOptions("off", 0, self._epoch_samples))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> Sample:
        return self.__getitems__([operator.index(index)])[0]

    def __getitems__(self, indexes: Ids) -> list[Sample]:
        """Several samples at once; torch's DataLoader calls it."""
        samples: list[Sample] = []
        for position in take(range(len(self)), indexes).tolist():
            dataset, sample = self._order.fill(0, position, 1)
            samples.append(self.datasets[int(dataset[0])][int(sample[0])])
        return samples

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    @property
    def fingerprint(self) -> str:
        """Identifies the datasets, their samples, and their shares."""
        fingerprints = [dataset.fingerprint for dataset in self.datasets]
        return _native.mixture_fingerprint(fingerprints, self._counts(), self.weights)

    @property
    def shares(self) -> tuple[float, ...]:
        """The part of all samples that each dataset has."""
        return tuple(weight / sum(self.weights) for weight in self.weights)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_order"}

    def __repr__(self) -> str:
        parts = ", ".join(
            f"({dataset!r}, {weight:g})"
            for dataset, weight in zip(self.datasets, self.weights, strict=True)
        )
        return f"Mixture([{parts}], epoch_samples={len(self)})"

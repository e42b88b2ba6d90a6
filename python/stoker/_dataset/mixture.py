"""stoker.Mixture: several datasets in one order, by weight."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.unknown_arguments import refuse_arguments
from stoker._dataset.dataset import Dataset, Ids, Source, are_paths
from stoker._dataset.sample_reader import Sample
from stoker._dataset.select import take
from stoker._dataset.tokens import Tokens

if TYPE_CHECKING:
    from typing_extensions import Never


def _dataset(given: Any) -> Dataset:
    if isinstance(given, Dataset):
        return given
    if not are_paths(given):
        raise TypeError(f"a mixture is one of Datasets, not of {type(given).__name__}")
    return Dataset(given)


def _weight(given: Any) -> float:
    try:
        if isinstance(given, (bool, str, bytes, bytearray)):
            raise TypeError
        return float(given)
    except (TypeError, ValueError):
        raise TypeError(f"a weight is a number, not {given!r}") from None


def _dtype_cure(one: Tokens, other: Tokens) -> str:
    stored = one._stored_dtype(), other._stored_dtype()
    if stored[0] == stored[1]:
        return '; give each the same, such as dtype="int64"'
    return (
        f"; they are stored as {stored[0]} and {stored[1]}: give each of them "
        'Tokens(..., dtype="int64")'
    )


def _check_alike(tokens: Sequence[Tokens]) -> None:
    """Raises ValueError if the datasets cut or convert tokens differently."""
    for number, one in enumerate(tokens):
        for name in ("pack", "window", "extra", "pad", "dtype"):
            here, first = (
                each._reader_dtype() if name == "dtype" else getattr(each._cut, name)
                for each in (one, tokens[0])
            )
            if here != first:
                raise ValueError(
                    f"a mixture is one of Tokens that are cut alike: {name} is {here!r} in dataset "
                    f"{number} and {first!r} in dataset 0"
                    + (_dtype_cure(one, tokens[0]) if name == "dtype" else "")
                )


class Mixture:
    """Several datasets as one, each with its share of the samples.

    Positions are in cycles of 65,536, in each of which every dataset has exactly its share. Over
    whole cycles all samples of a dataset are used equally often, give or take one. A part of a
    cycle repeats samples of a dataset that is smaller than its share, and leaves others out.

    ``mix[i]`` is the sample at position i, without shuffling inside the datasets; a Loader
    shuffles.

    Args:
        parts: Datasets, or paths of shards, and their weights, which need not sum to 1. Either all
            are samples of shards, or all are Tokens that differ only in their stride.
        epoch_samples: Number of samples in an epoch; all samples together if not given.

    Raises:
        ValueError: A weight is not a positive number, or too small for a share; or Tokens differ in
            length, dtype or pad.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Dataset | Source | Sequence[Source], float]],
        *,
        epoch_samples: int | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(unknown, Mixture)
        for part in parts:
            if not isinstance(part, (tuple, list)) or len(part) != 2:
                raise TypeError(f"a mixture is a list of (dataset, weight), not {part!r}")
        self.datasets = tuple(_dataset(data) for data, _ in parts)
        self.weights = tuple(_weight(weight) for _, weight in parts)
        if len({isinstance(dataset, Tokens) for dataset in self.datasets}) > 1:
            raise ValueError("a mixture is one of samples or one of Tokens, not of both")
        _check_alike([one for one in self.datasets if isinstance(one, Tokens)])
        self._epoch_samples = 0
        if epoch_samples is not None:
            self._epoch_samples = whole_number("epoch_samples", epoch_samples, 1)
        self._length = self._order.epoch_samples

    def _counts(self) -> list[int]:
        return [len(dataset) for dataset in self.datasets]

    @cached_property
    def _order(self) -> _native.Order:
        options = _native.OrderOptions("off", 0, self._epoch_samples)
        return _native.make_mixture_order(options, self._counts(), self.weights)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> Sample:
        return self.__getitems__([operator.index(index)])[0]

    def __getitems__(self, indexes: Ids) -> list[Sample]:
        """Reads several samples; called by torch's DataLoader."""
        samples: list[Sample] = []
        for position in take(range(len(self)), indexes).tolist():
            dataset, sample = self._order.fill(0, position, 1)
            samples.append(self.datasets[int(dataset[0])][int(sample[0])])
        return samples

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def select(self, ids: Ids) -> NoReturn:
        """Raises TypeError: positions of a mixture repeat samples. Select in its datasets."""
        raise TypeError("a Mixture has no select(): select in the datasets, then mix them")

    def split(self, parts: Sequence[float], *, seed: int | None = None) -> NoReturn:
        """Raises TypeError: parts of a mixture would share samples. Split its datasets."""
        raise TypeError("a Mixture has no split(): split the datasets, then mix them")

    @property
    def fingerprint(self) -> str:
        """Identifies the datasets, their samples, and their shares."""
        fingerprints = [dataset.fingerprint for dataset in self.datasets]
        return _native.mixture_fingerprint(fingerprints, self._counts(), self.weights)

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of each dataset in all samples."""
        return tuple(weight / sum(self.weights) for weight in self.weights)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_order"}

    def __repr__(self) -> str:
        parts = ", ".join(
            f"({dataset!r}, {weight:g})"
            for dataset, weight in zip(self.datasets, self.weights, strict=True)
        )
        return f"Mixture([{parts}], epoch_samples={len(self)})"

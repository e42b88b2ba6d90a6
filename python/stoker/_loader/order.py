"""The order of a Loader's samples: computed, or given as a list for each epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._dataset.dataset import Dataset
from stoker._dataset.mixture import Mixture
from stoker._dataset.shuffle import BlockShuffle, order_options, shuffle_of

_SAME_GENERATOR = "generator=torch.Generator().manual_seed(SEED)"


class GivenOrder:
    """A list of samples: an array, the same for every epoch, or a sampler's list for one.

    Attributes:
        is_per_epoch: Whether each epoch may have a different list.
    """

    def __init__(self, order: Any, world_size: int) -> None:
        self._given = order
        self.is_per_epoch = not isinstance(order, (Sequence, np.ndarray)) and not hasattr(
            order, "__array__"
        )
        if self.is_per_epoch and hasattr(order, "num_replicas"):
            raise ValueError(
                "order= is a sampler that has already divided samples among ranks, and the loader "
                "divides them too: give a sampler of all samples that returns the same order on "
                f"every rank, such as RandomSampler(data, {_SAME_GENERATOR})"
            )
        if self.is_per_epoch and world_size > 1 and getattr(order, "generator", order) is None:
            raise ValueError(
                f"order= is a {type(order).__name__} without a generator, which returns another "
                f"order on each of the {world_size} ranks: samples would be lost, and others come "
                f"more than once. Give it {_SAME_GENERATOR}, with the same SEED on every rank"
            )

    def items(self, epoch: int) -> npt.NDArray[np.uint64]:
        """Returns the samples of this epoch; asks a sampler for them."""
        if self.is_per_epoch and hasattr(self._given, "set_epoch"):
            self._given.set_epoch(epoch)
        return _numbers(list(self._given) if self.is_per_epoch else self._given)


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


def order_of(
    data: Dataset | Mixture,
    shuffle: str | bool | BlockShuffle | None,
    seed: int,
    order: Any,
    world_size: int,
) -> tuple[_native.OrderOptions, GivenOrder | None]:
    """Returns the requested options, and the list if there is one."""
    wanted = shuffle_of(shuffle)
    if order is None:
        epoch = data._epoch_samples if isinstance(data, Mixture) else 0
        return order_options(wanted, seed, epoch), None
    if shuffle is not None and wanted != "off":
        raise ValueError("order= or shuffle=: not both")
    if isinstance(data, Mixture):
        raise ValueError("order= is one of a single dataset: a Mixture has an order of its own")
    return order_options("off", seed, 0), GivenOrder(order, world_size)

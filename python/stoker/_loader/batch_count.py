"""Counts the bytes and samples of a batch of any loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

_DEPTH_MAX = 32  # limit for a batch that contains itself
_KEY = "__key__"
_nbytes = attrgetter("nbytes")


def count_bytes(value: Any, depth: int = 0) -> int:
    """Returns the bytes of all arrays, tensors, bytes and strings in ``value``, without keys."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    if depth == _DEPTH_MAX:
        return 0
    if isinstance(value, Mapping):  # by name: our own batches create columns on access
        return sum(count_bytes(value[name], depth + 1) for name in value if name != _KEY)
    if isinstance(value, (list, tuple)):
        if value and all(type(item) is np.ndarray for item in value):
            return sum(map(_nbytes, value))  # the most frequent case must be fast
        return sum(count_bytes(item, depth + 1) for item in value)
    size = getattr(value, "nbytes", 0)  # tensors, memoryviews, our own columns
    return size if isinstance(size, int) else 0


def _length(value: Any) -> int | None:
    """Returns the first dimension of an array or a tensor; None for anything else or a scalar."""
    shape = getattr(value, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and len(shape) > 0 else None


def count_samples(batch: Any) -> int:
    """Returns the number of samples in ``batch``: a guess that knows the usual types.

    For an array, its first dimension; for a dict, its ``size``, the length of its ``__key__``, or
    of its first value that has one; a tuple or list that begins with an array is treated as
    columns, of which the first counts, as torch collates them; any other sequence as a list of
    samples.
    """
    if (length := _length(batch)) is not None:
        return length
    if isinstance(batch, Mapping):
        if isinstance(size := getattr(batch, "size", None), int):
            return size
        if _KEY in batch and not isinstance(batch[_KEY], (str, bytes)):
            return len(batch[_KEY])
        for value in batch.values():
            if (length := _length(value)) is not None:
                return length
            if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
                return len(value)
        return 1
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes, bytearray)):
        first = _length(batch[0]) if batch else None
        return len(batch) if first is None else first
    return 1

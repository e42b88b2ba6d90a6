"""How many bytes and samples a batch has, whatever loader it is from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

_DEPTH_MAX = 32  # a batch that contains itself ends there
_KEY = "__key__"
_nbytes = attrgetter("nbytes")


def count_bytes(value: Any, depth: int = 0) -> int:
    """The bytes of all arrays, tensors, bytes and strings in ``value``, keys apart; else 0."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    if depth == _DEPTH_MAX:
        return 0
    if isinstance(value, Mapping):  # by name: our own batches make a column when it is asked for
        return sum(count_bytes(value[name], depth + 1) for name in value if name != _KEY)
    if isinstance(value, (list, tuple)):
        if value and all(type(item) is np.ndarray for item in value):
            return sum(map(_nbytes, value))  # by far the most frequent, and it must cost nothing
        return sum(count_bytes(item, depth + 1) for item in value)
    size = getattr(value, "nbytes", 0)  # tensors, memoryviews, our own columns
    return size if isinstance(size, int) else 0


def _length(value: Any) -> int | None:
    """The first dimension of an array or a tensor; None for anything else, and for a scalar."""
    shape = getattr(value, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and len(shape) > 0 else None


def count_samples(batch: Any) -> int:
    """How many samples ``batch`` has: a guess that knows the usual kinds.

    An array has as many as its first dimension; a dict as its ``size`` says, its ``__key__``, or
    its first value that has a length; a tuple or list that begins with an array is taken for
    columns of which the first counts, as torch collates them, and any other sequence for a list of
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

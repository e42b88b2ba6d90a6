"""Samples into columns: what happens after a ``map`` without a ``collate``."""

from __future__ import annotations

from typing import Any

import numpy as np

from stoker._torch import is_tensor


def stack_samples(samples: list[Any], raw: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Columns of the samples' fields.

    Numbers become an array, arrays of one shape are stacked, tensors too; dicts are taken apart.
    All else stays a list, and so do the fields named in ``raw`` while they are bytes: that they
    happen to have one length in a batch must not make them another thing.

    Raises:
        TypeError: A sample that is not a dict.
        ValueError: Samples with different fields, or arrays of different shapes.
    """
    columns: dict[str, Any] = {}
    if not samples:
        return columns
    for sample in samples:
        if not isinstance(sample, dict):
            raise TypeError(
                f"map returned {type(sample).__name__}, not a dict: give collate= to make batches "
                "of that"
            )
        if sample.keys() != samples[0].keys():
            raise ValueError(
                f"sample {_key(sample)} has the fields {sorted(sample)}, and {_key(samples[0])} "
                f"has {sorted(samples[0])}"
            )
    for name in samples[0]:
        values = [sample[name] for sample in samples]
        if name in raw and all(_is_bytes(value) for value in values):
            columns[name] = values
        else:
            columns[name] = _stacked(name, values, samples)
    return columns


def _is_bytes(value: Any) -> bool:
    return value is None or (
        isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1
    )


def _key(sample: dict[str, Any]) -> str:
    return repr(sample.get("__key__", "?"))


def _stacked(name: str, values: list[Any], samples: list[dict[str, Any]]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return stack_samples(values)
    if isinstance(first, np.ndarray) or is_tensor(first):
        for value, sample in zip(values, samples, strict=True):
            if getattr(value, "shape", None) != first.shape or type(value) is not type(first):
                raise ValueError(
                    f"field {name!r} is {_describe(first)} in sample {_key(samples[0])} and "
                    f"{_describe(value)} in {_key(sample)}: make them alike, or give collate="
                )
    if isinstance(first, np.ndarray):
        return np.stack(values)
    if is_tensor(first):
        import torch

        return torch.stack(values)
    if isinstance(first, (bool, int, float, np.generic)):
        return np.asarray(values)
    return values


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {tuple(shape)}"

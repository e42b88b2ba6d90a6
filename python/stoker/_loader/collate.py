"""Stacks samples into columns after a ``map`` without a ``collate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._common.torch import is_tensor


def stack_samples(
    samples: list[Any], raw: frozenset[str] = frozenset(), keys: Sequence[str] | None = None
) -> dict[str, Any]:
    """Returns columns of the samples' fields.

    Numbers become an array, arrays and tensors of one shape are stacked, dicts are processed
    recursively. All else becomes a list, and so do the fields in ``raw`` while they are bytes:
    equal lengths by chance in one batch must not change their type. ``keys`` are those of the
    samples, for messages, because a ``map`` may have removed them.

    Raises:
        TypeError: A sample is not a dict.
        ValueError: Samples have different fields, or arrays of different shapes.
    """
    columns: dict[str, Any] = {}
    if not samples:
        return columns
    if keys is None:
        keys = [_key(sample) for sample in samples]
    for key, sample in zip(keys, samples, strict=True):
        if not isinstance(sample, dict):
            raise TypeError(
                f"map returned {type(sample).__name__}, not a dict: give collate= to make batches "
                "of that"
            )
        if sample.keys() != samples[0].keys():
            raise ValueError(
                f"sample {key!r} has the fields {sorted(sample)}, and {keys[0]!r} "
                f"has {sorted(samples[0])}: give them the same fields, or give collate="
            )
    for name in samples[0]:
        values = [sample[name] for sample in samples]
        if name in raw and all(_is_bytes(value) for value in values):
            columns[name] = values
        else:
            columns[name] = _stacked(name, values, keys)
    return columns


def _is_bytes(value: Any) -> bool:
    return value is None or (
        isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1
    )


def _key(sample: Any) -> str:
    return str(sample.get("__key__", "?")) if isinstance(sample, dict) else "?"


def _stacked(name: str, values: list[Any], keys: Sequence[str]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return stack_samples(values, keys=keys)
    if isinstance(first, np.ndarray) or is_tensor(first):
        for value, key in zip(values, keys, strict=True):
            if (
                type(value) is not type(first)
                or value.shape != first.shape
                or value.dtype != first.dtype
            ):
                raise _differing(name, (keys[0], first), (key, value))
    if isinstance(first, np.ndarray):
        return np.stack(values)
    if is_tensor(first):
        import torch

        return torch.stack(values)
    if isinstance(first, (bool, int, float, np.generic)):
        array = np.asarray(values)
        others = [i for i, value in enumerate(values) if type(value) is not type(first)]
        if others:
            for value, made in zip(values, array.tolist(), strict=True):
                said = value.item() if isinstance(value, np.generic) else value
                if not isinstance(said, (int, float)) or (made != said and said == said):
                    # It became text, or was rounded.
                    other = others[0]
                    raise _differing(name, (keys[0], first), (keys[other], values[other]))
        return array
    return values


def _differing(name: str, one: tuple[str, Any], other: tuple[str, Any]) -> ValueError:
    return ValueError(
        f"field {name!r} is {_describe(one[1])} in sample {one[0]!r} and {_describe(other[1])} in "
        f"{other[0]!r}: give them one shape and type in map=, or give collate="
    )


def _describe(value: Any) -> str:
    if not isinstance(value, np.ndarray) and not is_tensor(value):
        return f"{type(value).__name__} {value!r:.40}"
    return f"{type(value).__name__} {tuple(value.shape)} of {value.dtype}"


def stack_numbers(name: str, values: list[Any], keys: list[str]) -> npt.NDArray[Any]:
    """Returns the column of a field whose values are numbers or arrays.

    Raises:
        ValueError: Their types or shapes differ. The result never becomes a list: a column has the
            same type in every batch.
    """
    first = _form(values[0])
    for value, key in zip(values, keys, strict=True):
        if _form(value) != first:
            raise ValueError(
                f"field {name!r} is {_form_text(values[0])} in sample {keys[0]!r} and "
                f"{_form_text(value)} in {key!r}: a column has one dtype and shape. Say in fields= "
                "what it is to be (stoker.Ragged, stoker.Pad, str), leave it out there, or give "
                "map="
            )
    dtype, shape = first
    return np.stack(values) if shape else np.array(values, dtype)


def _form(value: Any) -> tuple[Any, tuple[int, ...]]:
    """Returns dtype and shape, or the type of a value without them."""
    if isinstance(value, int):
        return np.dtype(np.int64), ()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype, value.shape
    return type(value), ()


def _form_text(value: Any) -> str:
    if value is None:
        return "missing"
    form, shape = _form(value)
    return form.__name__ if isinstance(form, type) else f"{form} {shape}"

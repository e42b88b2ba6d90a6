"""Selection of samples: positions, splits, and arrays to gather into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Selection: TypeAlias = tuple[int, int, int] | npt.NDArray[np.uint64]


def take(ids: range | Int64s, positions: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Int64s:
    """Returns the ids at ``positions``, which may be negative; IndexError if out of range."""
    wanted = np.asarray(positions)
    if wanted.size == 0:
        return np.empty(0, np.int64)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
        raise TypeError(f"sample numbers are integers in one dimension, not {wanted.dtype}")
    if int(wanted.max()) >= len(ids) or int(wanted.min()) < -len(ids):
        bad = next(int(i) for i in wanted if not -len(ids) <= int(i) < len(ids))
        raise IndexError(f"sample {bad} of a dataset of {len(ids)}")
    wanted = wanted.astype(np.int64, copy=False)
    wanted = np.where(wanted < 0, wanted + len(ids), wanted)
    if isinstance(ids, range):
        return np.ascontiguousarray(ids.start + wanted * ids.step)
    return np.ascontiguousarray(ids[wanted])


def part_of(ids: range | Int64s, piece: range | Int64s) -> range | Int64s:
    """Returns the ids at the positions of one piece of split_ids()."""
    return ids[piece.start : piece.stop] if isinstance(piece, range) else take(ids, piece)


def part_counts(parts: Sequence[float], total: int) -> list[int]:
    """Returns the number of samples of each part; ValueError unless they sum to the whole."""
    if not parts or not all(0 <= part < math.inf for part in parts):  # also rejects NaN
        raise ValueError(f"parts are fractions or counts, none negative, not {list(parts)}")
    if all(isinstance(part, (int, np.integer)) for part in parts) and sum(parts) == total:
        return [int(part) for part in parts]
    if abs(sum(parts) - 1) > 1e-6:
        raise ValueError(
            f"parts sum to {sum(parts)}: fractions sum to 1, counts to the dataset's {total}"
        )
    ends = np.floor(np.cumsum(parts) * total + 0.5).astype(np.int64).clip(0, total)
    ends[-1] = total
    return [int(count) for count in np.diff(ends, prepend=0)]


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finalizer: it never changes, unlike NumPy's generators."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def split_ids(total: int, counts: Sequence[int], seed: int | None) -> list[range | Int64s]:
    """Returns ascending positions for each part: in order, or distributed by ``seed``."""
    ends = np.cumsum(counts).tolist()
    starts = [0, *ends[:-1]]
    if seed is None:
        return [range(start, end) for start, end in zip(starts, ends, strict=True)]
    start_value = _mix(np.array([seed % 2**64], np.uint64))
    gaps = np.arange(total, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    order = np.argsort(_mix(start_value + gaps), kind="stable")
    return [np.sort(order[start:end]) for start, end in zip(starts, ends, strict=True)]


def selection_of(ids: range | Int64s) -> Selection:
    """Returns the ids in the form of the core: (first, step, count), or an array."""
    if isinstance(ids, range):
        return (ids.start if len(ids) > 0 else 0), ids.step, len(ids)
    return np.ascontiguousarray(ids).astype(np.uint64)


def only_array(sample: dict[str, Any], field: str | None) -> tuple[str, npt.NDArray[Any]]:
    """Returns the field of that name, or the only field, if it is an array."""
    names = [name for name in sample if name != "__key__"]
    if field is None:
        if len(names) != 1:
            raise ValueError(f"say which field to gather: field= one of {names}")
        field = names[0]
    if field not in names:
        raise ValueError(f"no field {field!r}: there are {names}")
    value = sample[field]
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise ValueError(f"field {field!r} is {type(value).__name__}: only arrays can be gathered")
    return field, value


def writable(out: Any) -> npt.NDArray[Any]:
    """Returns ``out`` as an array over the same memory."""
    rows = np.asarray(out)
    if not (rows.flags.c_contiguous and rows.flags.writeable):
        raise ValueError("out must be C-contiguous and writable")
    if rows is not out and not np.shares_memory(rows, np.asarray(out)):
        raise ValueError(f"out: a {type(out).__name__} has no memory that can be filled")
    return rows

"""The data of a Loader: shards, windows, selections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stoker import _native
from stoker._common.policies import policy_name
from stoker._dataset.cache import Cache
from stoker._dataset.columns import KEY
from stoker._dataset.dataset import Dataset, Source, are_paths
from stoker._dataset.fields import Columns
from stoker._dataset.mixture import Mixture
from stoker._dataset.sample_reader import Sample
from stoker._dataset.select import Selection, selection_of
from stoker._dataset.tokens import Tokens

Data: TypeAlias = Dataset | Mixture | Source | Sequence[Source]


def dataset_of(data: Data, cache: Cache | None = None) -> Dataset | Mixture:
    """Returns the dataset itself, or the one that a path names, read through the cache."""
    if isinstance(data, (Dataset, Mixture)):
        if cache is not None:
            raise ValueError("cache= is for paths: give it to the Dataset, Dataset(..., cache=)")
        return data
    if not are_paths(data):
        raise TypeError(
            f"data is a Dataset, Tokens or Mixture, or the paths of shards, not {_kind(data)}"
        )
    return Dataset(data, cache=cache)


def _kind(data: object) -> str:
    name = type(data).__name__
    return f"{name} of {type(data[0]).__name__}" if isinstance(data, (list, tuple)) else name


def check_fields(data: Dataset | Mixture, names: Sequence[str]) -> None:
    """Checks that samples have these fields, to report a misspelt name before the first batch.

    Reads the first sample of each dataset, and the last one if the first lacks a field: a single
    sample may be damaged, which its batch reports.

    Raises:
        ValueError: Samples lack a field; lists the fields that exist.
    """
    for dataset in data.datasets if isinstance(data, Mixture) else (data,):
        first = _sample(dataset, 0)
        if first is None:
            continue
        name = next((name for name in names if not _has_field(first, name)), None)
        last = None if name is None else _sample(dataset, -1)
        if name is not None and last is not None and not _has_field(last, name):
            there = ", ".join(field for field in first if field != KEY)
            raise ValueError(f"fields: no {name!r} in sample {first[KEY]!r}; it has {there}")


def _has_field(sample: Sample, name: str) -> bool:
    """Whether the sample has the field, or one of the alternatives in its name."""
    return name in sample or any(one in sample for one in name.split(";"))


def _sample(dataset: Dataset, index: int) -> Sample | None:
    """Returns a sample; None if it cannot be read or does not exist."""
    try:
        return dataset[index]
    except (IndexError, OSError, ValueError):
        return None


def is_packed(data: Dataset | Mixture) -> bool:
    """Whether samples are packs of documents."""
    first = data.datasets[0] if isinstance(data, Mixture) else data
    return isinstance(first, Tokens) and first._packs is not None


def _tokens_column(tokens: Tokens) -> _native.FieldSpec:
    spec = _native.FieldSpec("tokens", "tokens")
    spec.pad_value = tokens._cut.pad
    if tokens._cut.dtype:
        spec.dtype = tokens._cut.dtype
    return spec


@dataclass(frozen=True)
class Parts:
    """The datasets of a loader, in the form of the core."""

    natives: list[_native.LoaderPart]
    selections: list[Selection]
    is_mixed: bool
    has_key_field: bool
    tokens: _native.FieldSpec | None  # the column of Tokens

    @staticmethod
    def of(data: Dataset | Mixture, policy: str) -> Parts:
        """Opens datasets again if ``policy`` is not the automatic one."""
        is_mixed = isinstance(data, Mixture)
        datasets = data.datasets if isinstance(data, Mixture) else (data,)
        weights = data.weights if isinstance(data, Mixture) else (None,)
        name = policy_name(policy)
        opened = [one._native if name == "auto" else one._arguments.open(name) for one in datasets]
        return Parts(
            natives=[
                dataset._part(native, weight)
                for dataset, native, weight in zip(datasets, opened, weights, strict=True)
            ],
            selections=[selection_of(dataset._ids) for dataset in datasets],
            is_mixed=is_mixed,
            has_key_field=all(native.has_key_field for native in opened),
            tokens=_tokens_column(datasets[0]) if isinstance(datasets[0], Tokens) else None,
        )

    def fields(self, columns: Columns) -> list[_native.FieldSpec]:
        """Returns the columns to read."""
        if self.tokens is not None:
            if columns.specs:
                raise ValueError("Tokens have one column, tokens: leave fields out; Tokens(dtype=)")
            return [self.tokens]
        specs = list(columns.specs)
        if specs and self.has_key_field:
            specs.append(_native.FieldSpec("__key__", "text"))
        return specs

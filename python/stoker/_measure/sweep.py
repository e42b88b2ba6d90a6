"""stoker.sweep_workers: how many worker processes a torch DataLoader needs."""

from __future__ import annotations

import dataclasses
import html
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stoker._common.paths import path_text
from stoker._dataset.dataset import Dataset
from stoker._measure.profile import Profile, profile

_GOOD_ENOUGH = 0.95  # of the best rate: more workers must bring at least a twentieth
_BAR_WIDTH = 40


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The result of :func:`stoker.sweep_workers`; ``print`` it for a table and bars."""

    profiles: dict[int, Profile]
    """By number of workers."""

    @property
    def best_samples_per_s(self) -> float:
        """The highest rate of all worker counts."""
        return max(found.samples_per_s for found in self.profiles.values())

    @property
    def recommended(self) -> int:
        """The smallest count within 5 % of the best rate: workers cost memory and CPU."""
        enough = _GOOD_ENOUGH * self.best_samples_per_s
        return min(count for count, p in self.profiles.items() if p.samples_per_s >= enough)

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures, for JSON."""
        rows = [{"workers": count, **p.to_dict()} for count, p in self.profiles.items()]
        return {"recommended": self.recommended, "profiles": rows}

    _HEAD = ("workers", "samples/s", "MB/s", "wait p50", "wait p99", "first batch", "CPU cores")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(count),
                f"{p.samples_per_s:,.0f}",
                f"{p.bytes_per_s / 1e6:,.1f}",
                f"{p.wait_p50_ms:.2f} ms",
                f"{p.wait_p99_ms:.2f} ms",
                f"{p.first_batch_ms:.0f} ms",
                p.cpu_text,
            )
            for count, p in self.profiles.items()
        ]

    def bars(self) -> str:
        """Returns a bar chart of the rates as text."""
        lines = []
        for count, p in self.profiles.items():
            bar = "#" * max(1, round(_BAR_WIDTH * p.samples_per_s / self.best_samples_per_s))
            mark = "  <- recommended" if count == self.recommended else ""
            lines.append(f"{count:>3} |{bar:<{_BAR_WIDTH}} {p.samples_per_s:,.0f}/s{mark}")
        return "\n".join(lines)

    def __str__(self) -> str:
        rows = [self._HEAD, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self._HEAD))]
        table = [
            "  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join([*table, "", self.bars()])

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = row(self._HEAD, "th") + "".join(row(cells, "td") for cells in self._rows())
        return f"<table><caption>num_workers={self.recommended}</caption>{body}</table>"

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws the rates into an image, whose format is determined by the file extension.

        Raises:
            ImportError: matplotlib is not installed; :meth:`bars` does not need it.
        """
        try:
            module = importlib.import_module("matplotlib.figure")
        except ImportError:
            raise ImportError(
                "plot() needs matplotlib: pip install matplotlib; bars() is a plot of text"
            ) from None
        figure = module.Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        labels = [str(count) for count in self.profiles]
        rates = [p.samples_per_s for p in self.profiles.values()]
        colours = ["C1" if count == self.recommended else "C0" for count in self.profiles]
        axes.bar(labels, rates, color=colours)
        axes.set_xlabel("num_workers")
        axes.set_ylabel("samples/s")
        axes.set_title(f"recommended: {self.recommended}")
        figure.savefig(path_text(path))


def as_list(samples: list[Any]) -> list[Any]:
    """Returns the samples as a list: samples of different sizes cannot be stacked."""
    return samples


def _positions(count: int, total: int, shuffle: bool, seed: int) -> list[int]:
    """Returns which samples to read: as many as needed, even from a small dataset."""
    if shuffle:
        return [int(i) for i in np.random.default_rng(seed).integers(total, size=count)]
    return [i % total for i in range(count)]


def sweep_workers(
    dataset: Any,
    workers: Sequence[int] = (0, 1, 2, 4),
    batch_size: int = 64,
    batches: int = 50,
    *,
    step_ms: float | None = None,
    warmup: int = 5,
    shuffle: bool = True,
    seed: int = 0,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    **loader_options: Any,
) -> Sweep:
    """Runs a torch DataLoader with several numbers of workers and recommends one.

    >>> print(stoker.sweep_workers(dataset, batch_size=256))

    Every count reads the same samples, drawn at random with replacement (``shuffle=False``: in
    order), after one run that is not counted, so that the state of the page cache is the same for
    all.

    Args:
        dataset: A :class:`stoker.Dataset`, or any map-style dataset.
        workers: The counts to try.
        batch_size: Samples in a batch.
        batches: Batches to measure for each count.
        step_ms: As in :func:`stoker.profile`.
        warmup: As in :func:`stoker.profile`.
        shuffle: Read random samples, or in order.
        seed: Seed of the random samples.
        collate_fn: As in torch. Default: torch's own; for a :class:`stoker.Dataset`, whose samples
            may differ in size, the list of samples.
        **loader_options: Further arguments of ``torch.utils.data.DataLoader``.

    Raises:
        ImportError: torch is not installed.
        ValueError: No counts, or a dataset without samples.
    """
    try:
        data = importlib.import_module("torch.utils.data")
    except ImportError:
        raise ImportError(
            "sweep_workers() measures torch's DataLoader: pip install torch"
        ) from None
    counts = list(dict.fromkeys(workers))
    if not counts or min(counts) < 0:
        raise ValueError(f"workers={tuple(workers)}: counts of 0 or more")
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"{type(dataset).__name__} is not map-style: it has no len() or no [i]")
    if len(dataset) == 0:
        raise ValueError("the dataset has no samples")
    if collate_fn is None and isinstance(dataset, Dataset):
        collate_fn = as_list
    wanted = _positions((max(warmup, 1) + batches) * batch_size, len(dataset), shuffle, seed)

    def run(count: int) -> Profile:
        loader = data.DataLoader(
            dataset,
            batch_size=batch_size,
            sampler=wanted,
            num_workers=count,
            collate_fn=collate_fn,
            **loader_options,
        )
        return profile(loader, batches, step_ms, warmup, samples=batch_size)

    run(max(counts))
    return Sweep({count: run(count) for count in counts})

"""stoker.profile: measures how well any loader feeds a consumer."""

from __future__ import annotations

import dataclasses
import html
import math
import numbers
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from stoker._common.numbers import whole_number
from stoker._loader.batch_count import count_bytes, count_samples
from stoker._loader.stats import LoaderStats
from stoker._measure.gpu import gpu_share
from stoker._measure.processes import CpuUse, cpu_use

_GPU_LOOK_S = 0.1  # the driver does not sample more often
_CPU_SECONDS_MIN = 0.2  # the kernel counts other processes' time in ticks of a hundredth
_STALL_SHARE_NONE = 0.01  # below this, a stall is not noticeable

# What is too slow, by the stage of a stoker.Loader with the longest wait.
_SHORT = {
    "store": "the object store is",
    "read": "storage is",
    "decode": "decoding in the loader's threads is",
    "collate": "making batches in the loader's threads is",
    "map": "the Python functions map= and collate= are",
    "copy": "copying batches is",
    "memory": "the loader's memory is",
}


class Meter(Protocol):
    """The clock, the consumer and the CPU; tests replace it."""

    def now(self) -> float:
        """Returns seconds."""

    def compute(self, seconds: float) -> None:
        """Simulates a computation of this duration."""

    def cpu(self) -> CpuUse:
        """Returns the CPU time of this process and its children so far."""

    def gpu(self) -> float | None:
        """Returns the share of the last moment in which the GPU computed, if one is in use."""


class SystemMeter:
    """The real meter. It computes like an accelerator: without using the CPU."""

    def now(self) -> float:
        """Returns seconds of a monotonic clock."""
        return time.perf_counter()

    def compute(self, seconds: float) -> None:
        """Sleeps."""
        time.sleep(seconds)

    def cpu(self) -> CpuUse:
        """Reads /proc."""
        return cpu_use()

    def gpu(self) -> float | None:
        """Asks the driver."""
        return gpu_share()


@dataclasses.dataclass(frozen=True)
class Profile:
    """The result of :func:`stoker.profile`; ``print`` it for a table."""

    source: str
    """The type of the iterable."""
    batches: int
    warmup_batches: int
    samples: int
    size_bytes: int
    elapsed_s: float
    first_batch_ms: float
    """From the call of ``iter()``: includes the start of worker processes."""
    wait_mean_ms: float
    wait_p50_ms: float
    wait_p99_ms: float
    wait_max_ms: float
    step_ms: float | None
    stall_share: float | None
    """The share of time in which the consumer waited; None without a step."""
    cpu_cores: float | None
    """CPU seconds per second, of this process and its children; None for runs shorter than 0.2 s,
    which the kernel's ticks cannot resolve."""
    processes: int
    gpu_share: float | None
    """The share of time in which torch's GPU computed; None if torch uses no GPU."""
    limit: str
    """What limits the rate, in words."""

    @property
    def samples_per_s(self) -> float:
        """Samples per second."""
        return self.samples / self.elapsed_s if self.elapsed_s > 0 else math.inf

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second, as counted in the batches."""
        return self.size_bytes / self.elapsed_s if self.elapsed_s > 0 else math.inf

    @property
    def cpu_text(self) -> str:
        """The cores for a table; a dash if unknown."""
        return "-" if self.cpu_cores is None else f"{self.cpu_cores:.2f}"

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures by name, for JSON."""
        rates = {"samples_per_s": self.samples_per_s, "bytes_per_s": self.bytes_per_s}
        return dataclasses.asdict(self) | rates

    def _cpu_row(self) -> str:
        cores = "not known" if self.cpu_cores is None else f"{self.cpu_text} cores"
        return f"{cores}, {self.processes} process{'' if self.processes == 1 else 'es'}"

    def _rows(self) -> list[tuple[str, str]]:
        wait = f"p50 {self.wait_p50_ms:.2f} ms, p99 {self.wait_p99_ms:.2f} ms"
        rows = [
            ("batches", f"{self.batches:,} after {self.warmup_batches:,} to warm up"),
            ("first batch", f"{self.first_batch_ms:.1f} ms"),
            ("wait", f"{wait}, most {self.wait_max_ms:.2f} ms"),
            ("samples", f"{self.samples_per_s:,.0f}/s"),
            ("bytes", f"{self.bytes_per_s / 1e6:,.1f} MB/s"),
            ("CPU", self._cpu_row()),
        ]
        if self.step_ms is not None and self.stall_share is not None:
            stalled = f"{100 * self.stall_share:.1f} % of the time, with steps of"
            rows.append(("stalled", f"{stalled} {self.step_ms:g} ms"))
        if self.gpu_share is not None:
            rows.append(("GPU", f"{100 * self.gpu_share:.0f} % busy"))
        return [*rows, ("limit", self.limit)]

    def __str__(self) -> str:
        lines = [f"  {name:<12}{text}" for name, text in self._rows()]
        return "\n".join([f"{self.source}:", *lines])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in self._rows()
        )
        return f"<table><caption>{html.escape(self.source)}</caption>{cells}</table>"


def _waited_in(iterable: Any) -> dict[str, float]:
    """Returns seconds by stage for a stoker.Loader; empty for other loaders."""
    stats = iterable.stats() if callable(getattr(iterable, "stats", None)) else None
    return stats.waited_in_s if isinstance(stats, LoaderStats) else {}


def _limit(
    step_ms: float | None, stall_share: float | None, wait_mean_ms: float, stage: str
) -> str:
    if step_ms is None or stall_share is None:
        return f"a batch every {wait_mean_ms:.2f} ms: steps that take longer need not wait"
    if stall_share < _STALL_SHARE_NONE:
        return "the loader is ahead of the consumer"
    short = _SHORT.get(stage, "the loader is")
    return (
        f"{short} {wait_mean_ms:.2f} ms short for each batch: steps of {step_ms:g} ms take "
        f"{step_ms + wait_mean_ms:.2f} ms"
    )


class _Run:
    """The measurements of one call of profile()."""

    def __init__(self, meter: Meter, step_s: float, samples: Callable[[Any], int]) -> None:
        self.meter, self.step_s, self.count_samples = meter, step_s, samples
        self.waits_s: list[float] = []
        self.samples = self.size_bytes = 0
        self.first_s = self.began = self.ended = self.looked = 0.0
        self.gpu_shares: list[float] = []
        self.after = CpuUse(0, 0)
        self.stage = ""  # the stage with the longest wait, if known

    def take(self, iterable: Iterable[Any], warmup: int, batches: int) -> CpuUse:
        """Takes the batches; returns the CPU use at the end of the warm-up."""
        meter = self.meter
        asked = meter.now()
        iterator = iter(iterable)
        before = CpuUse(0, 0)
        waited_before: dict[str, float] = {}
        for number in range(warmup + batches):
            if number == warmup:
                before = meter.cpu()
                waited_before = _waited_in(iterable)
                asked = self.began = meter.now()
            try:
                batch = next(iterator)
            except StopIteration:
                break
            got = meter.now()
            if number == 0:
                self.first_s = got - asked
            if number >= warmup:
                self.waits_s.append(got - asked)
                self.samples += self.count_samples(batch)
                self.size_bytes += count_bytes(batch)
                self._look_at_gpu(got)
            del batch  # letting go of it is a part of the step, and no wait for the next one
            # Counting is a part of the step, or of the time between two batches.
            left = self.step_s - (meter.now() - got)
            if left > 0:
                meter.compute(left)
            asked = self.ended = meter.now()
        self.after = meter.cpu()  # while the worker processes still exist
        waited = {
            name: s - waited_before.get(name, 0.0) for name, s in _waited_in(iterable).items()
        }
        self.stage = max(waited, key=waited.__getitem__, default="")
        if hasattr(iterator, "close"):
            iterator.close()
        return before

    def _look_at_gpu(self, now: float) -> None:
        if now - self.looked < _GPU_LOOK_S:
            return
        self.looked = now
        share = self.meter.gpu()
        if share is not None:
            self.gpu_shares.append(share)


def profile(
    iterable: Iterable[Any],
    batches: int = 100,
    step_ms: float | None = None,
    warmup: int = 5,
    *,
    samples: int | None = None,
    meter: Meter | None = None,
) -> Profile:
    """Measures how fast a loader, ours or any other, produces batches.

    >>> print(stoker.profile(loader, batches=200, step_ms=12))

    Args:
        iterable: A :class:`stoker.Loader`, a torch DataLoader, or any iterable of batches. It is
            iterated anew and left after ``batches``.
        batches: Number of batches to measure; fewer if the iterable ends before.
        step_ms: Simulated time of a training step between two batches. None takes batches as fast
            as possible.
        warmup: Batches before the measurement, at least one. The time of the first batch is
            reported separately.
        samples: Samples in a batch, if they cannot be guessed from the first dimension of its
            arrays or its length.
        meter: The clock, for tests.

    Raises:
        ValueError: The iterable ended during the warm-up, or an argument is out of range.
        TypeError: It is not an iterable, or an argument is not a number.
    """
    if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
        raise TypeError(f"profile() measures what gives batches, not {iterable!r}")
    batches = whole_number("batches", batches, 1)
    warmup = max(whole_number("warmup", warmup), 1)
    size = None if samples is None else whole_number("samples", samples)
    if step_ms is not None:
        if isinstance(step_ms, bool) or not isinstance(step_ms, numbers.Real):
            raise TypeError(f"step_ms={step_ms!r}: milliseconds, or None")
        if not (math.isfinite(step_ms) and step_ms >= 0):
            raise ValueError(f"step_ms={step_ms}: a time of 0 or more, or None")
    meter = meter or SystemMeter()
    counter = count_samples if size is None else lambda _: size
    run = _Run(meter, (step_ms or 0) / 1e3, counter)
    before = run.take(iterable, warmup, batches)
    if not run.waits_s:
        raise ValueError(
            f"{type(iterable).__name__} has no more than {warmup} batches, and those are for the "
            "warm-up: give it more, or lower warmup"
        )
    elapsed = run.ended - run.began
    waits_ms = np.array(run.waits_s) * 1e3
    stalled = sum(run.waits_s) / elapsed if step_ms is not None and elapsed > 0 else None
    return Profile(
        source=type(iterable).__name__,
        batches=len(run.waits_s),
        warmup_batches=warmup,
        samples=run.samples,
        size_bytes=run.size_bytes,
        elapsed_s=elapsed,
        first_batch_ms=run.first_s * 1e3,
        wait_mean_ms=float(waits_ms.mean()),
        wait_p50_ms=float(np.percentile(waits_ms, 50)),
        wait_p99_ms=float(np.percentile(waits_ms, 99)),
        wait_max_ms=float(waits_ms.max()),
        step_ms=step_ms,
        stall_share=stalled,
        cpu_cores=(
            (run.after.seconds - before.seconds) / elapsed if elapsed >= _CPU_SECONDS_MIN else None
        ),
        processes=run.after.processes,
        gpu_share=sum(run.gpu_shares) / len(run.gpu_shares) if run.gpu_shares else None,
        limit=_limit(step_ms, stalled, float(waits_ms.mean()), run.stage),
    )

"""Counters of a Loader, and what its caller waited for."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import numpy as np

from stoker._loader.native_run import Got
from stoker._measure.gpu import gpu_share

_WAITS_KEPT = 4096


@dataclasses.dataclass(frozen=True)
class LoaderStats:
    """Figures of one iteration of a Loader, so far.

    Attributes:
        batches: Received.
        samples: In them.
        bytes: Of their records, as read for them and for those that are ready.
        seconds: From the first call to the last batch.
        samples_per_s: Over these seconds.
        bytes_per_s: Likewise.
        first_wait_s: What the first batch was waited for, while the threads started. No other wait
            includes it.
        wait_p50_s: What half of the batches were waited for at most, of the last 4,096.
        wait_p99_s: What 99 of 100 were.
        stall_share: The part of the time after the first batch that the caller spent in ``next()``.
        gpu_share: The part of the last moment in which torch's GPU computed, as the driver tells it
            when the statistics are asked for, or when the iteration ended; None where torch uses
            none.
        waited_in_s: Its waiting by what the batch was doing meanwhile: "queue" (no thread had begun
            it), "memory" (batches before it, or those that the caller holds, had the memory),
            "store" (for bytes of an object store; with a cache, for those it did not have),
            "read" (other reads), "decode", "collate", "map" (in a Python function, or waiting for
            the GIL that it holds), and "copy" (into page-locked memory, to ``device`` or into
            ``out``, or beginning copies to it ahead, in the caller's thread).
        device_copy_s: Time in which batches were being copied ahead to a CUDA device, beside
            everything else: a wait for it is a wait of the device.
        device_bytes: Copied in that time.
        unchecked: Samples whose bytes nothing could check: their index has no checksums.
        replaced: Samples that others stand for: they could not be read (``on_error="skip"``), or
            ``map`` left them out.
        held_warnings: Times that the caller's own batches made it wait for a second.
        threads: Of the core, working now.
        depth: Batches that may be under way or ready in the core.
        memory_bytes: The core's memory.
        leased_bytes: The part of it used by batches in progress, ready, or kept by the caller.
        fetch: How records were read since the run began: reads and bytes by path, and times.
    """

    batches: int = 0
    samples: int = 0
    bytes: int = 0
    seconds: float = 0.0
    samples_per_s: float = 0.0
    bytes_per_s: float = 0.0
    first_wait_s: float = 0.0
    wait_p50_s: float = 0.0
    wait_p99_s: float = 0.0
    stall_share: float = 0.0
    gpu_share: float | None = None
    waited_in_s: dict[str, float] = dataclasses.field(default_factory=dict)
    device_copy_s: float = 0.0
    device_bytes: int = 0
    unchecked: int = 0
    replaced: int = 0
    held_warnings: int = 0
    threads: int = 0
    depth: int = 0
    memory_bytes: int = 0
    leased_bytes: int = 0
    fetch: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def worst_stage(self) -> str:
        """The stage with the longest wait in waited_in_s."""
        return max(self.waited_in_s, key=self.waited_in_s.__getitem__, default="")

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict for logs: numbers, dicts of numbers, and None for unknown values."""
        return dataclasses.asdict(self)

    def _repr_html_(self) -> str:
        rows = {
            "samples": f"{self.samples:,} in {self.batches:,} batches, {self.seconds:.2f} s",
            "rate": f"{self.samples_per_s:,.0f} samples/s, {self.bytes_per_s / 1e6:,.1f} MB/s",
            "waited": f"{self.stall_share:.1%} of the time (p50 {self.wait_p50_s * 1e3:.2f} ms, "
            f"p99 {self.wait_p99_s * 1e3:.2f} ms), after {self.first_wait_s * 1e3:.1f} ms for the "
            "first batch",
            **{f"waited in {name}": f"{s:.3f} s" for name, s in self.waited_in_s.items()},
            "copied ahead": f"{self.device_bytes / 1e6:,.1f} MB in {self.device_copy_s:.3f} s",
            "GPU": "not known" if self.gpu_share is None else f"{self.gpu_share:.0%} busy",
            "replaced": f"{self.replaced:,}",
            "unchecked": f"{self.unchecked:,}",
            "threads, depth": f"{self.threads}, {self.depth}",
            "memory": f"{self.leased_bytes:,} of {self.memory_bytes:,} bytes in use",
        }
        cells = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
        return f"<table><caption>stoker.LoaderStats</caption>{cells}</table>"

    def __str__(self) -> str:
        where = f", most of it in {self.worst_stage!r}" if self.stall_share > 0.005 else ""
        gpu = "" if self.gpu_share is None else f"; GPU {self.gpu_share:.0%} busy"
        return (
            f"{self.samples:,} samples in {self.seconds:.2f} s: {self.samples_per_s:,.0f}/s, "
            f"{self.bytes_per_s / 1e6:,.1f} MB/s; waited {self.stall_share:.1%} of the time{where} "
            f"(p50 {self.wait_p50_s * 1e3:.2f} ms, p99 {self.wait_p99_s * 1e3:.2f} ms; first batch "
            f"{self.first_wait_s * 1e3:.1f} ms){gpu}"
        )


class StatsCounter:
    """Counts one iteration. ``before`` are the core's counters at its beginning."""

    def __init__(self, before: dict[str, Any]) -> None:
        self._before = before
        self._waits: deque[float] = deque(maxlen=_WAITS_KEPT)
        self._waited_before: dict[str, float] = before["waited_in_s"]
        self.batches = self._samples = 0
        self._waited = self._in_core = self._mapped = self._copied = 0.0
        self._first = self._last = self._first_wait = 0.0

    def count(self, called: float, returned: float, got: Got) -> None:
        """One batch, asked for and handed out at these times."""
        if self.batches == 0:
            self._first = called
        self._last = returned
        self.batches += 1
        self._samples += got.size
        waited = returned - called
        rest = max(0.0, waited - got.copied_s)
        in_core = rest if got.core_s is None else min(rest, got.core_s)
        self._waits.append(waited)
        self._waited += waited
        self._in_core += in_core
        self._mapped += rest - in_core
        self._copied += got.copied_s

    def count_first(self, called: float, returned: float, got: Got, core: dict[str, Any]) -> None:
        """The first one: threads and processes start in its wait, which is told apart."""
        self.count(called, returned, got)
        self._first_wait = returned - called
        self._waits.clear()
        self._waited = self._in_core = self._mapped = self._copied = 0.0
        self._waited_before = core["waited_in_s"]

    def waited_in(self, core: dict[str, Any]) -> dict[str, float]:
        """All but maps and copies is shared out as the core saw its own caller wait."""
        before, left = self._waited_before, self._in_core
        stages = {name: s - before[name] for name, s in core["waited_in_s"].items()}
        total = sum(stages.values())
        shares = {name: left * s / total if total > 0 else 0.0 for name, s in stages.items()}
        return {**shares, "map": self._mapped, "copy": self._copied}

    def _since_before(self, core: dict[str, Any], name: str) -> float:
        return float(core.get(name, 0) - self._before.get(name, 0))

    def stats(self, core: dict[str, Any]) -> LoaderStats:
        """Returns statistics with the core's current counters."""
        seconds = self._last - self._first
        after_first = seconds - self._first_wait
        read = core["bytes"] - self._before["bytes"]
        p50, p99 = np.quantile(self._waits, [0.5, 0.99]).tolist() if self._waits else (0.0, 0.0)
        same = ("held_warnings", "threads", "depth", "memory_bytes", "leased_bytes", "fetch")
        return LoaderStats(
            batches=self.batches,
            samples=self._samples,
            bytes=read,
            seconds=seconds,
            samples_per_s=self._samples / seconds if seconds > 0 else 0.0,
            bytes_per_s=read / seconds if seconds > 0 else 0.0,
            first_wait_s=self._first_wait,
            wait_p50_s=p50,
            wait_p99_s=p99,
            stall_share=min(1.0, self._waited / after_first) if after_first > 0 else 0.0,
            gpu_share=gpu_share(),
            waited_in_s=self.waited_in(core),
            unchecked=core["unchecked"] - self._before["unchecked"],
            replaced=core["replaced"] - self._before["replaced"],
            device_copy_s=self._since_before(core, "device_copy_s"),
            device_bytes=int(self._since_before(core, "device_bytes")),
            **{name: core[name] for name in same},
        )

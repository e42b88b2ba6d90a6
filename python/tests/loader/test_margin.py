"""The warning when storage no longer keeps ahead, and how busy the GPU is."""

from __future__ import annotations

import itertools
import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import stoker
from stoker._loader import iteration as _iteration
from stoker._loader import native_run as _native_run
from stoker._loader.iteration import Iteration
from stoker._loader.margin import MarginWatch
from stoker._measure import gpu as _gpu


class Waits:
    """A consumer with steps of a second, in the watch's own time."""

    def __init__(self) -> None:
        self.watch = MarginWatch()
        self.now = 50.0

    def of(self, seconds: float, batches: int = 256) -> list[float]:
        """What is said while each batch is waited for so long."""
        told = []
        for _ in range(batches):
            share = self.watch.saw(self.now, self.now + seconds)
            self.now += seconds + 1
            if share is not None:
                told.append(share)
        return told


def test_a_margin_that_is_lost_is_told_once() -> None:
    waits = Waits()
    assert waits.of(0.001, 512) == []
    assert waits.of(0.03) == [], "more than before, and still no loss"
    assert waits.of(0.25) == [pytest.approx(0.2, rel=0.01)]
    assert waits.of(0.001) == []
    assert waits.of(0.25, 512) == [], "once"


def test_who_never_kept_ahead_has_none_to_lose() -> None:
    waits = Waits()
    assert waits.of(0.5) == []
    assert waits.of(2.0, 1024) == []


def test_less_than_a_window_says_nothing() -> None:
    waits = Waits()
    waits.of(0.0)
    assert waits.of(1.0, 255) == []
    assert waits.of(1.0, 1) == [pytest.approx(0.5, rel=0.01)]


def slow_after(batches: int) -> Callable[[], float]:
    """A clock of steps of a second, in which later batches are waited for half a second."""
    asked = 0
    now = 0.0

    def clock() -> float:  # called before and after each batch, and before it is copied
        nonlocal asked, now
        asked += 1
        now += (1.0, 0.5 if asked > 3 * batches else 0.0, 0.0)[(asked - 1) % 3]
        return now

    return clock


def test_a_copy_is_no_wait_for_storage(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.count(0.0, 10.0)  # ten seconds for every copy
    monkeypatch.setattr(_native_run, "perf_counter", lambda: next(times))
    waits = itertools.cycle((1.0, 10.0, 2.0))  # work, the copy in host memory, the one to a device
    now = itertools.accumulate(waits)
    monkeypatch.setattr(_iteration, "perf_counter", lambda: next(now))
    loader = stoker.Loader(shards, batch_size=5, torch=False)
    list(loader)
    stats = loader.stats()
    assert stats.worst_stage == "copy"
    assert stats.waited_in_s.pop("copy") == pytest.approx(9 * 12.0)  # all but the first
    assert sum(stats.waited_in_s.values()) == 0.0

    watch = MarginWatch()
    assert [watch.saw(at, at) for at in range(256)] == [None] * 256
    assert [watch.saw(at, at + 0.5, 0.5) for at in range(256, 512)] == [None] * 256


def test_the_wait_for_the_first_batch_is_told_apart(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of each batch: when it is asked for, when it is there, and when it is handed out.
    steps = itertools.chain((1.0, 50.0, 0.0), itertools.cycle((1.0, 0.25, 0.0)))
    now = itertools.accumulate(steps)
    monkeypatch.setattr(_iteration, "perf_counter", lambda: next(now))
    loader = stoker.Loader(shards, batch_size=5, torch=False)
    list(loader)
    stats = loader.stats()
    assert stats.first_wait_s == 50.0
    assert stats.stall_share == pytest.approx(0.2)
    assert stats.wait_p99_s == pytest.approx(0.25)
    assert sum(stats.waited_in_s.values()) == pytest.approx(9 * 0.25)
    assert "first batch 50000.0 ms" in str(stats)


def test_the_loader_says_so_in_the_log(
    shards: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_iteration, "perf_counter", slow_after(300))
    loader = stoker.Loader(shards, batch_size=4, epochs=None, torch=False)
    stream = iter(loader)
    with caplog.at_level(logging.WARNING, "stoker"):
        for _ in range(512):
            next(stream)
        (message,) = caplog.messages
        assert "batches used to be ready, and now 29 % of the time" in message
        for _ in range(512):
            next(stream)
    assert len(caplog.messages) == 1
    loader.close()


def test_short_epochs_are_looked_at_together(
    shards: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_iteration, "perf_counter", slow_after(300))
    with stoker.Loader(shards, batch_size=5, torch=False) as loader:
        for _ in range(60):
            assert len(list(loader)) == 10
    assert ["batches used to be ready" in message for message in caplog.messages] == [True]


class Scripted:
    """A run whose batches were waited for in one stage, and in another after 256 of them."""

    def __init__(self, first: str, then: str) -> None:
        self.waited = dict.fromkeys(("queue", "memory", "read", "decode", "collate"), 0.0)
        self.stages = itertools.chain([first] * 256, itertools.repeat(then))
        self.seconds = itertools.chain([10.0] * 256, itertools.repeat(1.0))

    def next(self, hand: _native_run.Hand) -> bool:
        """One more."""
        self.waited[next(self.stages)] += next(self.seconds)
        hand.got = _native_run.Got(None, None, 1)  # type: ignore[arg-type]
        return True

    def stats(self) -> dict[str, Any]:
        """Only these are asked for."""
        return {"waited_in_s": dict(self.waited)}

    def close(self) -> None:
        """There is nothing to end."""


@pytest.mark.parametrize(("stage", "has_doctor"), [("read", True), ("decode", False)])
def test_the_stage_that_is_named_is_that_of_the_last_batches(
    stage: str,
    has_doctor: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_iteration, "perf_counter", slow_after(256))
    run, nothing = Scripted("collate", stage), MagicMock()
    stream = Iteration(None, run, None, nothing, MarginWatch(), nothing, nothing)
    for _ in range(512):
        next(stream)
    stream._run = None
    (message,) = caplog.messages
    assert f"most of it in {stage!r}: they no longer keep ahead of training" in message
    assert ("stoker doctor" in message) == has_doctor


def test_statistics_are_there_while_another_thread_ends_the_iteration(
    shards: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loader = stoker.Loader(shards, batch_size=5, torch=False)
    stream = iter(loader)
    next(stream)
    live = loader._runs.live()
    assert live is not None
    monkeypatch.setattr(loader._runs, "live", lambda: live)
    live.close()  # after stats() has found it
    assert loader.stats().batches == 1

    def saw(*_: float) -> float:
        loader.close()
        return 0.5

    loader = stoker.Loader(shards, batch_size=5, torch=False)
    monkeypatch.setattr(loader._runs._margin, "saw", saw)
    next(iter(loader))
    assert "50 % of the time" in caplog.text


def test_no_gpu_in_use_is_none(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert _gpu.gpu_share() is None
    loader = stoker.Loader(shards, batch_size=4, torch=False)
    next(iter(loader))
    assert loader.stats().gpu_share is None
    assert "GPU" not in str(loader.stats())
    assert "GPU 93% busy" in str(stoker.LoaderStats(gpu_share=0.93))


@pytest.mark.parametrize("refused", ["nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUtilizationRates"])
def test_a_driver_that_refuses_is_none(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def answer(name: str) -> Any:
        def call(*_: Any) -> int:
            calls.append(name)
            return 3 if name == refused else 0

        return call

    names = ("nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUtilizationRates")
    driver = types.SimpleNamespace(**{name: answer(name) for name in names})
    cuda = types.SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: 0,
        get_device_properties=lambda _: types.SimpleNamespace(uuid="a-b"),
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(_gpu, "_driver", lambda: driver)
    assert _gpu.gpu_share() is None
    assert calls[-1] == refused
    monkeypatch.setattr(_gpu, "_driver", lambda: None)
    assert _gpu.gpu_share() is None


def test_with_a_gpu_its_share_is_one() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    a = torch.rand(4096, 4096, device="cuda")
    share = None
    for _ in range(2000):
        a = (a @ a).clamp(0, 1)
        torch.cuda.synchronize()
        share = _gpu.gpu_share()
        assert share is not None
        assert 0 <= share <= 1
        if share > 0.5:
            return
    pytest.fail(f"the GPU is busy, and its share is {share}")

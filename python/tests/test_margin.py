"""The warning when storage no longer keeps ahead, and how busy the GPU is."""

from __future__ import annotations

import itertools
import logging
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker import _gpu, _iteration, _native_run
from stoker._margin import MarginWatch


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
    assert stats.waited_in_s.pop("copy") == pytest.approx(10 * 12.0)
    assert sum(stats.waited_in_s.values()) == 0.0

    watch = MarginWatch()
    assert [watch.saw(at, at) for at in range(256)] == [None] * 256
    assert [watch.saw(at, at + 0.5, 0.5) for at in range(256, 512)] == [None] * 256


def test_the_loader_says_so_in_the_log(
    shards: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = 0
    now = 0.0

    def clock() -> float:  # called before and after each batch, and before it is copied
        nonlocal asked, now
        asked += 1
        now += (1.0, 0.5 if asked > 3 * 300 else 0.0, 0.0)[(asked - 1) % 3]
        return now

    monkeypatch.setattr(_iteration, "perf_counter", clock)
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

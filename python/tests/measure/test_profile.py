"""stoker.profile with a clock of its own, and what it counts in batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._loader.batch_count import count_bytes, count_samples
from stoker._measure.processes import CpuUse, cpu_use


class FakeMeter:
    """Time passes only where a test says so."""

    def __init__(self) -> None:
        self.time_s = 1000.0
        self.steps_s: list[float] = []
        self.cpu_uses = [CpuUse(10.0, 1), CpuUse(11.5, 3)]
        self.gpu_shares: list[float | None] = [None]

    def now(self) -> float:
        """The time that has passed so far."""
        return self.time_s

    def compute(self, seconds: float) -> None:
        """Lets it pass."""
        self.steps_s.append(seconds)
        self.time_s += seconds

    def cpu(self) -> CpuUse:
        """Before, then after."""
        return self.cpu_uses.pop(0)

    def gpu(self) -> float | None:
        """One look after the other, the last one for good."""
        return self.gpu_shares.pop(0) if len(self.gpu_shares) > 1 else self.gpu_shares[0]


class Loader:
    """Batches of 10 samples of 8 bytes, each after its wait."""

    def __init__(self, meter: FakeMeter, waits_ms: list[float]) -> None:
        self.meter, self.waits_ms = meter, waits_ms
        self.given = 0
        self.was_closed = False

    def __iter__(self) -> Iterator[Any]:
        try:
            for wait in self.waits_ms:
                self.meter.time_s += wait / 1e3
                self.given += 1
                yield {"x": np.zeros((10, 2), np.float32)}
        finally:
            self.was_closed = True


def test_waits_are_those_after_the_warm_up_and_the_first_is_told_apart() -> None:
    meter = FakeMeter()
    loader = Loader(meter, [500, 40, *range(1, 101), 7000])
    found = stoker.profile(loader, batches=100, warmup=2, meter=meter)
    assert (found.batches, found.warmup_batches, loader.given) == (100, 2, 102)
    assert found.first_batch_ms == pytest.approx(500)
    assert found.wait_p50_ms == pytest.approx(50.5)
    assert found.wait_p99_ms == pytest.approx(99.01)
    assert found.wait_max_ms == pytest.approx(100)
    assert found.elapsed_s == pytest.approx(5.05)
    assert found.samples == 1000
    assert found.size_bytes == 80 * 100
    assert found.samples_per_s == pytest.approx(1000 / 5.05)
    assert found.bytes_per_s == pytest.approx(8000 / 5.05)
    assert found.stall_share is None
    assert meter.steps_s == []
    assert loader.was_closed


def test_a_step_is_pretended_and_the_stall_share_follows() -> None:
    meter = FakeMeter()
    found = stoker.profile(
        Loader(meter, [100, *[5.0] * 20]), batches=20, step_ms=15, warmup=1, meter=meter
    )
    assert meter.steps_s == [pytest.approx(0.015)] * 21, "the warm-up has steps, too"
    assert found.stall_share == pytest.approx(0.25)
    assert found.elapsed_s == pytest.approx(0.4)
    assert found.limit.startswith("the loader is 5.00 ms short for each batch")
    assert "20.00 ms" in found.limit
    assert found.cpu_cores == pytest.approx(1.5 / 0.4)
    assert found.processes == 3


def test_letting_go_of_a_batch_is_no_wait_for_the_next() -> None:
    meter = FakeMeter()

    class Released(list[int]):
        def __del__(self) -> None:
            meter.time_s += 0.005

    def batches() -> Iterator[list[int]]:
        for _ in range(20):
            meter.time_s += 0.001
            yield Released([0])

    found = stoker.profile(batches(), batches=10, step_ms=9, warmup=1, meter=meter)
    assert found.wait_max_ms == pytest.approx(1)
    assert found.stall_share == pytest.approx(0.1)


def test_the_gpu_is_looked_at_ten_times_a_second() -> None:
    meter = FakeMeter()
    meter.gpu_shares = [0.5, 0.7, 0.9, 9.9]
    found = stoker.profile(
        Loader(meter, [100, *[5.0] * 20]), batches=20, step_ms=10, warmup=1, meter=meter
    )
    assert found.gpu_share == pytest.approx(0.7), "three looks in 0.3 s"
    assert "GPU         70 % busy" in str(found)
    meter = FakeMeter()
    found = stoker.profile(Loader(meter, [100, *[5.0] * 20]), 20, warmup=1, meter=meter)
    assert found.gpu_share is None
    assert "GPU" not in str(found)


def test_of_a_short_time_no_cpu_is_told() -> None:
    meter = FakeMeter()
    found = stoker.profile(Loader(meter, [9, *[5.0] * 10]), 10, warmup=1, meter=meter)
    assert found.cpu_cores is None
    assert "CPU         not known, 3 processes" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["cpu_cores"] is None
    assert stoker.Sweep({2: found})._rows()[0][-1] == "-"


def test_a_storage_that_is_ahead_is_said_to_be() -> None:
    meter = FakeMeter()
    found = stoker.profile(Loader(meter, [90, *[0.1] * 20]), 20, step_ms=50, warmup=1, meter=meter)
    assert found.limit == "the loader is ahead of the consumer"
    assert found.stall_share == pytest.approx(0.1 / 50.1)


def test_the_first_batch_never_counts() -> None:
    meter = FakeMeter()
    found = stoker.profile(Loader(meter, [500, 2, 2]), batches=5, warmup=0, meter=meter)
    assert (found.batches, found.warmup_batches) == (2, 1)
    assert found.wait_max_ms == pytest.approx(2)


def test_an_iterable_that_ends_too_soon_says_so() -> None:
    with pytest.raises(ValueError, match=r"list has no more than 5 batches.*lower warmup"):
        stoker.profile([1, 2, 3])
    with pytest.raises(ValueError, match="no more than 1 batches"):
        stoker.profile([], warmup=0)


@pytest.mark.parametrize(
    "arguments",
    [{"batches": 0}, {"warmup": -1}, {"step_ms": -1.0}, {"step_ms": float("nan")}, {"samples": -1}],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        stoker.profile([1, 2, 3], **arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"batches": 1.5}, {"warmup": "a"}, {"step_ms": "a"}, {"step_ms": True}, {"samples": 2.5}],
)
def test_arguments_that_are_no_numbers_are_refused_in_words(arguments: dict[str, Any]) -> None:
    ((name, given),) = arguments.items()
    with pytest.raises(TypeError, match=rf"{name}={given!r}: (must be a whole|milliseconds)"):
        stoker.profile([1, 2, 3], **arguments)


def test_what_gives_no_batches_is_refused() -> None:
    with pytest.raises(TypeError, match=r"profile\(\) measures what gives batches, not 3"):
        stoker.profile(3)  # type: ignore[arg-type]


def test_an_error_of_the_loader_comes_through() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("shard 3 is gone")

    with pytest.raises(OSError, match="shard 3"):
        stoker.profile(broken(), warmup=0)


def test_the_result_is_a_table_json_and_html() -> None:
    meter = FakeMeter()
    found = stoker.profile(Loader(meter, [9, 5, 5]), 2, step_ms=5, warmup=1, meter=meter)
    text = str(found)
    for part in (
        "Loader:",
        "p50 5.00 ms",
        "50.0 % of the time",
        "1,000/s",
        "first batch",
        "3 proc",
    ):
        assert part in text
    fields = json.loads(json.dumps(found.to_dict()))
    assert fields["samples_per_s"] == pytest.approx(1000)
    assert fields["batches"] == 2
    html = found._repr_html_()
    assert html.startswith("<table>")
    assert "the loader is 5.00 ms short" in html


def test_real_time_is_measured_without_a_meter() -> None:
    found = stoker.profile(([bytes(10)] * 4 for _ in range(20)), batches=10)
    assert (found.source, found.batches, found.samples, found.size_bytes) == (
        "generator",
        10,
        40,
        400,
    )
    assert found.elapsed_s > 0
    assert found.processes >= 1


def test_bytes_are_counted_in_nested_batches() -> None:
    assert count_bytes(np.zeros((3, 4), np.float64)) == 96
    assert count_bytes([np.zeros(3, np.uint8), np.zeros(2, np.int16)]) == 7
    assert count_bytes({"a": b"abc", "b": [bytearray(2), (memoryview(b"12345"), "xy")]}) == 12
    assert count_bytes({"__key__": ["key"], "x": b"1"}) == 1, "keys are no data"
    assert count_bytes([1, 2.0, None, object()]) == 0
    endless: list[Any] = [b"x"]
    endless.append(endless)
    assert count_bytes(endless) < 100


def test_tensors_are_counted() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    batch = [torch.zeros((4, 3), dtype=torch.bfloat16), {"y": torch.zeros(4, dtype=torch.int64)}]
    assert count_bytes(batch) == 24 + 32
    assert count_samples(batch) == 4


class Sized(dict[str, Any]):
    """A batch that knows."""

    size = 9


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (Sized(x=1), 9),
        (np.zeros((7, 2)), 7),
        ((np.zeros((7, 2)), np.zeros(7)), 7),
        ({"x": np.zeros((7, 2)), "y": np.zeros(7)}, 7),
        ({"__key__": ["a", "b"], "jpg": [b"1", b"2"]}, 2),
        ({"meta": "all of it", "jpg": [b"1", b"2", b"3"]}, 3),
        ([{"x": 1}, {"x": 2}], 2),
        ([b"1", b"2"], 2),
        ([np.float32(1), np.float32(2)], 2),
        ([], 0),
        (b"one", 1),
        ({"x": 1}, 1),
    ],
)
def test_samples_are_counted_in_the_usual_batches(batch: Any, count: int) -> None:
    assert count_samples(batch) == count


def write_stat(proc: Path, pid: int, parent: int, ticks: tuple[int, int, int, int]) -> None:
    (proc / str(pid)).mkdir(parents=True)
    numbers = ["S", str(parent), *["0"] * 9, *map(str, ticks), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} (a) b (c)) {' '.join(numbers)}\n")


def test_cpu_time_is_that_of_all_descendants(tmp_path: Path) -> None:
    for pid, parent, ticks in (
        (5, 1, (100, 10, 1000, 7)),
        (6, 5, (200, 20, 0, 0)),
        (7, 6, (300, 30, 0, 0)),
        (8, 1, (9999, 0, 0, 0)),
    ):
        write_stat(tmp_path, pid, parent, ticks)
    (tmp_path / "self").mkdir()
    (tmp_path / "9").mkdir()  # ended while we looked
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    assert cpu_use(5, tmp_path) == CpuUse(1667 / ticks_per_s, 3)


def test_of_this_process_less_than_a_tick_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stat(tmp_path, os.getpid(), 1, (100, 10, 1000, 7))
    monkeypatch.setattr("time.process_time", lambda: 1.2345)
    children_s = 1007 / os.sysconf("SC_CLK_TCK")
    assert cpu_use(proc=tmp_path).seconds == pytest.approx(1.2345 + children_s)


def test_a_child_that_has_ended_still_counts() -> None:
    before = cpu_use()
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    assert cpu_use().seconds > before.seconds


def slow_map(sample: dict[str, Any], _: Any) -> dict[str, Any]:
    """Takes longer than any read, by counting."""
    return {"sum": sum(range(200_000)), "cls": sample["cls"]}


def test_a_slow_map_is_not_called_storage(shards: Path) -> None:
    loader = stoker.Loader(
        shards, batch_size=5, epochs=None, fields={"cls": int}, map=slow_map, torch=False
    )
    found = stoker.profile(loader, batches=10, step_ms=0)
    assert loader.stats().worst_stage == "map"
    assert found.limit.startswith("the Python functions map= and collate= are ")
    assert "storage" not in found.limit

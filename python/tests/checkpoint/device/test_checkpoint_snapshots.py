"""How much of a device's memory a save may take for a snapshot, and the settings for it.

The saves themselves need a GPU: test_checkpoint_cuda.py; without one, tests/checkpoint/device.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import stoker
from stoker._checkpoint.device import cuda
from stoker._checkpoint.save import pending as pending_module
from stoker._checkpoint.save import writer as writer_module
from stoker._checkpoint.save.pending import LentMemory, free_released

_GB = 10**9


class Device:
    """Stands for torch, with one device of 100 GB. Sizes are in GB."""

    uint8 = "uint8"

    def __init__(self, *, has_pools: bool = True) -> None:
        self.made: list[int] = []
        self.is_full = False
        self.training = self.peak = 30  # what torch has reserved for it, and for all
        self.tensors = 20  # of that, used
        self.pool = 0  # what our pool has: one block
        self.is_lent = False
        self.in_pool = False
        self.cuda = SimpleNamespace(
            is_initialized=lambda: True,
            mem_get_info=lambda device: ((100 - self.reserved) * _GB, 100 * _GB),
            memory_reserved=lambda device: self.reserved * _GB,
            memory_allocated=lambda device: (self.tensors + self.is_lent * self.pool) * _GB,
            max_memory_reserved=lambda device: self.peak * _GB,
            current_stream=lambda device: SimpleNamespace(cuda_stream=7),
        )
        if has_pools:
            self.cuda.MemPool = self.new_pool
            self.cuda.use_mem_pool = self.use_mem_pool

    @property
    def reserved(self) -> int:
        """By torch."""
        return self.training + self.pool

    def device(self, name: str) -> Any:
        """As torch."""
        return SimpleNamespace(index=int(name.removeprefix("cuda:")))

    def new_pool(self, *, use_on_oom: bool) -> Any:
        """As torch.cuda.MemPool."""
        assert use_on_oom
        return SimpleNamespace(snapshot=self.snapshot)

    def snapshot(self) -> list[dict[str, Any]]:
        """The segments of the pool, and of the same on another device."""
        blocks = [{"size": self.pool * _GB, "state": "used" if self.is_lent else "inactive"}]
        segment = {"total_size": self.pool * _GB, "stream": 7, "device": 3, "blocks": blocks}
        return [segment, segment | {"device": 4}, segment | {"stream": 8, "total_size": 0}]

    @contextlib.contextmanager
    def use_mem_pool(self, pool: Any, device: str) -> Iterator[None]:
        """As torch."""
        self.in_pool = True
        yield
        self.in_pool = False

    def empty(self, size: int, *, dtype: str, device: str) -> Any:
        """Allocates."""
        if self.is_full:
            raise RuntimeError("CUDA out of memory")
        assert device == "cuda:3"
        self.made.append(size)
        if self.in_pool:
            self.pool = max(self.pool, size // _GB)
        self.grow(self.training)
        return SimpleNamespace(numel=lambda: size, data_ptr=lambda: 4096)

    def grow(self, training: int) -> None:
        """The training has reserved that much."""
        self.training = training
        self.peak = max(self.peak, self.reserved)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    stand_for_torch(found, monkeypatch)
    return found


def stand_for_torch(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_torch", lambda: device)
    monkeypatch.setattr(cuda, "_has_driver", lambda: True)
    monkeypatch.setitem(sys.modules, "torch", device)
    monkeypatch.setattr(cuda, "_pool_on", functools.cache(cuda._pool_on.__wrapped__))


def lend(snapshots: cuda.SnapshotMemory, gigabytes: int) -> int:
    """Returns what a save gets, in GB."""
    kept: list[Any] = []
    lender = snapshots.lender(kept.append)
    if lender is None:
        return 0
    lent = lender(3, gigabytes * _GB)
    assert lent is None or (lent[0], kept[0].numel()) == (4096, lent[1])
    assert len(kept) == (lent is not None)
    return 0 if lent is None else lent[1] // _GB


def third_save(snapshots: cuda.SnapshotMemory, gigabytes: int) -> int:
    assert [lend(snapshots, 1), lend(snapshots, 1)] == [0, 0]
    return lend(snapshots, gigabytes)


def test_auto_waits_for_two_saves_and_leaves_what_the_training_has_needed(device: Device) -> None:
    device.peak = 60
    snapshots = cuda.SnapshotMemory("auto", None)
    assert third_save(snapshots, 100) == 35  # 100, less 60, less 5
    assert lend(snapshots, 30) == 30  # in the same memory
    assert lend(snapshots, 100) == 35
    device.is_lent = True  # by a save that still drains
    assert lend(snapshots, 100) == 0


def test_what_a_longer_batch_needs_is_left_to_the_training(device: Device) -> None:
    """Also if it has had that between two saves only."""
    snapshots = cuda.SnapshotMemory("auto", None)
    assert third_save(snapshots, 20) == 20
    device.grow(60)
    device.grow(30)  # its cache was emptied
    assert lend(snapshots, 100) == 20  # in the same memory; with more it were 100, less 60, less 5
    device.grow(80)
    assert lend(snapshots, 100) == 15  # 100, less 80, less 5


def test_without_a_pool_the_last_snapshot_counts_as_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its memory is in torch's cache, and a longer batch may have taken it."""
    device = Device(has_pools=False)
    stand_for_torch(device, monkeypatch)
    snapshots = cuda.SnapshotMemory("auto", None)
    assert third_save(snapshots, 40) == 40
    device.grow(70)
    assert lend(snapshots, 100) == 25


def test_on_the_device_takes_what_is_free_up_to_the_limit(device: Device) -> None:
    assert lend(cuda.SnapshotMemory("device", None), 100) == 80
    device.pool = 0
    assert lend(cuda.SnapshotMemory("device", 5 * _GB), 100) == 5
    assert lend(cuda.SnapshotMemory("device", None), 1) == 1


def test_no_snapshot_is_taken_on_the_host_or_for_a_small_part_or_without_memory(
    device: Device,
) -> None:
    assert cuda.SnapshotMemory("host", None).lender(print) is None
    assert lend(cuda.SnapshotMemory("device", 1000), 1) == 0
    assert lend(cuda.SnapshotMemory("device", None), 0) == 0
    device.is_full = True
    assert lend(cuda.SnapshotMemory("device", None), 1) == 0
    assert device.made == []


def test_lent_memory_is_kept_until_the_save_has_released_it() -> None:
    class Kept:
        def __del__(self) -> None:
            freed.append(1)

    freed: list[int] = []
    native = SimpleNamespace(is_released=False)
    lent = LentMemory([Kept()])
    lent.begin_call()
    free_released()  # it has not begun
    lent.native = native  # type: ignore[assignment]
    lent.end_call()
    del lent
    free_released()
    assert freed == []
    native.is_released = True
    free_released()
    assert freed == [1]


def test_a_save_that_ctrl_c_ends_before_it_has_begun_keeps_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it comes: at each line of save() until the core has it."""
    code = writer_module.Writer.save.__code__
    lines = sorted({line for _, _, line in code.co_lines() if line is not None})
    interrupted: list[int] = []
    steps = itertools.count(2)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno == lines[0]:
            interrupted.append(lines.pop(0))
            raise KeyboardInterrupt
        return trace

    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=[1.5]).wait()
        while lines:
            before = sys.gettrace()
            sys.settrace(lambda frame, *_: trace if frame.f_code is code else None)
            try:
                saver.save(next(steps), state=[1.5])
                lines.pop(0)  # not reached
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            saver.wait()
            free_released()
            assert not pending_module._lent, interrupted[-1]
    assert len(interrupted) > 10


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='stage=\'gpu\': it is "auto", "host" or "device"'):
        stoker.Checkpointer(tmp_path, stage="gpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="device_memory= is for snapshots"):
        stoker.Checkpointer(tmp_path, stage="host", device_memory="1GB")
    with pytest.raises(ValueError, match="device_memory"):
        stoker.Checkpointer(tmp_path, device_memory="much")
    with (
        stoker.Checkpointer(tmp_path, stage="device", device_memory="1GB") as saver,
        pytest.raises(TypeError, match=r"streams: torch\.cuda\.Stream, not int"),
    ):
        saver.save(1, state=1, streams=[3])

"""How much of a device's memory a save may take for a snapshot, and the settings for it.

The saves themselves need a GPU: test_checkpoint_cuda.py; without one, tests/checkpoint/device.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import stoker
from stoker._checkpoint import cuda
from stoker._checkpoint.memory import Memory
from stoker._checkpoint.pending import LentMemory, free_released

_GB = 10**9


class Device:
    """Stands for torch, with one device of 100 GB."""

    uint8 = "uint8"

    def __init__(self, *, free: int = 80, reserved: int = 20, allocated: int = 20, peak: int = 30):
        self.made: list[int] = []
        self.is_full = False
        self.cuda = SimpleNamespace(
            is_initialized=lambda: True,
            mem_get_info=lambda device: (free * _GB, 100 * _GB),
            memory_reserved=lambda device: reserved * _GB,
            memory_allocated=lambda device: allocated * _GB,
            max_memory_reserved=lambda device: peak * _GB,
        )

    def empty(self, size: int, *, dtype: str, device: str) -> Any:
        """Allocates."""
        if self.is_full:
            raise RuntimeError("CUDA out of memory")
        self.made.append(size)
        return SimpleNamespace(numel=lambda: size, data_ptr=lambda: 4096, get_device=lambda: 3)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    monkeypatch.setattr(cuda, "_torch", lambda: found)
    monkeypatch.setattr(cuda, "_has_driver", lambda: True)
    return found


def tensor(gigabytes: int) -> Memory:
    return Memory("U8", (gigabytes * _GB,), None, 1, None, None, "cuda:3")


def test_auto_waits_for_two_saves_and_leaves_what_the_training_has_needed(device: Device) -> None:
    snapshots = cuda.SnapshotMemory("auto", None)
    for _ in range(2):
        assert snapshots.lend([tensor(10)]) == []
    lent = snapshots.lend([tensor(10), tensor(20)])
    assert cuda.places_of(lent) == {3: (4096, 30 * _GB)}
    snapshots.lend([tensor(100)])  # 100, less 5, less a peak of 30, of which 30 are the last one
    assert device.made[-1] == 80 * _GB  # what is free
    snapshots._own["cuda:3"] = 0
    snapshots.lend([tensor(100)])
    assert device.made[-1] == 65 * _GB


def test_on_the_device_takes_what_is_free_up_to_the_limit(device: Device) -> None:
    cuda.SnapshotMemory("device", None).lend([tensor(100)])
    cuda.SnapshotMemory("device", 5 * _GB).lend([tensor(100)])
    cuda.SnapshotMemory("device", None).lend([tensor(1)])
    assert device.made == [80 * _GB, 5 * _GB, _GB]


def test_no_snapshot_is_taken_on_the_host_or_for_a_small_part_or_without_memory(
    device: Device,
) -> None:
    assert cuda.SnapshotMemory("host", None).lend([tensor(1)]) == []
    assert cuda.SnapshotMemory("device", 1000).lend([tensor(1)]) == []
    assert cuda.SnapshotMemory("device", None).lend([tensor(0)]) == []
    assert cuda.SnapshotMemory("device", None).lend([tensor(1)._replace(device=None)]) == []
    device.is_full = True
    assert cuda.SnapshotMemory("device", None).lend([tensor(1)]) == []
    assert device.made == []


def test_lent_memory_is_kept_until_the_save_has_released_it() -> None:
    class Kept:
        def __del__(self) -> None:
            freed.append(1)

    freed: list[int] = []
    native = SimpleNamespace(is_released=False)
    lent = LentMemory([Kept()])
    free_released()  # it has not begun
    lent.native = native  # type: ignore[assignment]
    lent.end_call()
    del lent
    free_released()
    assert freed == []
    native.is_released = True
    free_released()
    assert freed == [1]


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

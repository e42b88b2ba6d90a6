"""The memory of a Loader: what it needs, what holds it, what it leaves behind."""

from __future__ import annotations

import gc
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def load(shards: Path, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 8, "torch": False, "fields": {"bin": bytes}}
    return stoker.Loader(shards, **(settings | options))


def test_too_little_memory_is_refused_at_once_with_the_figure(shards: Path) -> None:
    with pytest.raises(
        ValueError, match=r"memory_bytes is 4,096, and ([\d,]+) are needed"
    ) as raised:
        load(shards, memory_bytes=4096)
    match = re.search(r"and ([\d,]+) are needed", str(raised.value))
    assert match is not None
    needed = int(match[1].replace(",", ""))
    assert load(shards, memory_bytes=needed).stats().batches == 0
    with pytest.raises(ValueError, match="are needed"):
        load(shards, memory_bytes=needed - 1)


def test_the_figure_is_for_all_ranks_of_the_machine(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = load(shards, rank=0, world_size=4)._plan.memory_needed
    load(shards, memory_bytes=needed, rank=0, world_size=4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    load(shards, memory_bytes=4 * needed, rank=0, world_size=4)
    with pytest.raises(ValueError, match=r" for each of 4 processes, .*, 4 times"):
        load(shards, memory_bytes=4 * needed - 4, rank=0, world_size=4)


def test_without_a_figure_there_is_always_enough(tmp_path: Path, write_tar: Any) -> None:
    write_tar(tmp_path / "big.tar", {f"k{i}": {"bin": bytes(1 << 20)} for i in range(4)})
    loader = load(tmp_path / "big.tar", batch_size=4)
    assert [batch.size for batch in loader] == [4]
    assert loader.stats().memory_bytes == 512 << 20
    huge = load(tmp_path / "big.tar", batch_size=300, tail="wrap")
    next(iter(huge))
    assert huge.stats().memory_bytes > 900 << 20


@pytest.mark.parametrize("size", ["64 MiB", "64MiB", 64 << 20])
def test_sizes_are_numbers_or_words(shards: Path, size: Any) -> None:
    loader = load(shards, memory_bytes=size)
    list(loader)
    assert loader.stats().memory_bytes == 64 << 20


def test_other_settings_that_make_no_sense_are_refused(shards: Path) -> None:
    for options in ({"threads": 0}, {"depth": "many"}, {"memory_bytes": "64 M"}):
        with pytest.raises(ValueError, match=r"threads=|depth=|64 M"):
            load(shards, **options)
    with pytest.raises(ValueError, match="drop_behind"):
        load(shards, policy="never")
    with pytest.raises(ValueError, match="on_error"):
        load(shards, on_error="ignore")


def test_held_batches_are_warned_of_and_then_an_error_that_says_the_cure(
    shards: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stoker.Loader, "_held_limits_s", (0.01, 0.2))
    loader = load(shards, epochs=None, memory_bytes="1MiB")
    stream = iter(loader)
    held: list[Any] = []
    with caplog.at_level(logging.WARNING, "stoker"), pytest.raises(BufferError) as raised:
        held.extend(stream)
    assert "memory_bytes" in str(raised.value)
    assert "clone" in caplog.text
    assert loader.stats().held_warnings >= 1
    before = loader.cursor
    with pytest.raises(BufferError):  # still
        next(stream)
    assert len(held) >= 3
    held.clear()
    after = next(stream).cursor  # it continues where it was
    assert after.epoch * 48 + after.position == before.epoch * 48 + before.position + 8


def test_one_view_is_enough_to_hold_a_batch(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stoker.Loader, "_held_limits_s", (0.01, 0.05))
    loader = load(shards, epochs=None, memory_bytes="1MiB")
    views: list[Any] = []

    def take_views() -> None:
        for batch in loader:
            views.append(batch["bin"][0])

    with pytest.raises(BufferError):
        take_views()
    copies = [bytes(view) for view in views]
    assert all(len(set(copy)) == 1 and len(copy) == 8 for copy in copies)
    for batch, _ in zip(loader, range(200), strict=False):
        views = [bytes(view) for view in batch["bin"]]  # copies hold nothing


def test_a_loop_over_batches_holds_no_more_than_one(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stoker.Loader, "_held_limits_s", (0.01, 0.05))
    loader = load(shards, epochs=20)
    needed = loader._plan.memory_needed
    tight = load(shards, epochs=20, memory_bytes=needed)
    assert sum(1 for _ in tight) == 120
    assert sum(1 for _ in tight.steps()) == 120
    assert tight.stats().held_warnings == 0


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize("how", ["continue", "new loader", "broken off", "map", "process"])
def test_a_hundred_epochs_leave_nothing_behind(tmp_path: Path, write_tar: Any, how: str) -> None:
    samples = {
        f"k{i:03}": {"bin": np.full(16 << 10, i % 256, np.uint8).tobytes()} for i in range(64)
    }
    path = write_tar(tmp_path / "data.tar", samples)
    dataset = stoker.Dataset(path)
    options: dict[str, Any] = {"memory_bytes": "16MiB"}
    if how == "map":
        options["map"] = lambda sample, rng: {"n": int(sample["bin"][0]), "bin": sample["bin"]}
    if how == "process":
        options |= {"map": _as_it_is, "map_in": "process", "map_workers": 1}
    loader = load(path, **options)

    def epoch() -> None:
        nonlocal loader
        if how == "new loader":
            loader = stoker.Loader(
                dataset, batch_size=8, torch=False, fields={"bin": bytes}, **options
            )
        count = 0
        for batch in loader:
            count += sum(int(view[0]) >= 0 for view in batch["bin"])
            if how == "broken off" and count == 24:
                break
        assert count == (24 if how == "broken off" else 64)

    for _ in range(10):
        epoch()
    gc.collect()
    before = resident_bytes(), descriptors(), threading.active_count()
    for _ in range(100):
        epoch()
    gc.collect()
    after = resident_bytes(), descriptors(), threading.active_count()
    # Its 16 MiB may be touched late; a hundred epochs are 100 MiB, and a hundred loaders 1.6 GiB.
    assert after[0] < before[0] + (32 << 20)
    assert after[1] <= before[1] + 4
    assert after[2] <= before[2]
    loader.close()


def test_shared_memory_has_no_name_that_could_be_left_behind(shards: Path) -> None:
    with load(shards, map=_first_byte, map_in="process", map_workers=1) as loader:
        list(loader)
        mappings = Path("/proc/self/maps").read_text().splitlines()
    named = [line for line in mappings if "/dev/shm/" in line and not line.endswith("(deleted)")]
    assert named == []


def _as_it_is(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    return sample


def _first_byte(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"n": int(sample["bin"][0])}


_KEEPS_A_SLICE = """
import sys
import stoker
loader = stoker.Loader(sys.argv[1], batch_size=8, fields={"cls": int})
for batch in loader:
    break
kept = batch["cls"][1:]
if sys.argv[2] == "raise":
    raise RuntimeError("on purpose")
"""


@pytest.mark.parametrize("how", ["end", "raise"])
def test_what_is_alive_at_exit_is_not_called_a_leak(shards: Path, how: str) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-c", _KEEPS_A_SLICE, str(shards), how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ("on purpose" in ran.stderr) == (how == "raise")
    assert "leaked" not in ran.stderr

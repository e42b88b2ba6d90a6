"""Saving in the background: futures, late writers, errors, retention, notes, the end."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def save_all(saver: stoker.Checkpointer, *steps: int) -> None:
    for step in steps:
        saver.save(step, state={"w": np.full(100, step)})
    saver.wait()


def slow(folder: Path, **options: Any) -> stoker.Checkpointer:
    """The first 8 MiB are free, and each MiB more takes a quarter of a second."""
    return stoker.Checkpointer(folder, rate_limit="4MiB/s", dedup=False, **options)


def big(step: int) -> dict[str, Any]:
    return {"w": np.full(3 << 19, step, np.float64)}  # 12 MiB


def test_a_pending_save_is_a_future(tmp_path: Path) -> None:
    called: list[tuple[str, str]] = []
    over = threading.Event()

    def callback(pending: Any) -> None:
        called.append((pending.result(), threading.current_thread().name))
        over.set()

    with stoker.Checkpointer(tmp_path) as saver:
        state = {"w": np.zeros(1000)}
        pending = saver.save(1, state=state)
        assert pending.staged
        state["w"][:] = 1  # it was copied
        pending.add_done_callback(callback)
        assert pending.wait() is True
        assert pending.result(timeout=0) == "committed"
        assert pending.exception() is None
        assert (pending.done(), pending.durable, pending.skipped) == (True, True, False)
        assert (pending.step, pending.generation, pending.cancel()) == (1, 1, False)
        assert over.wait(60)
        assert called[0][0] == "committed"
        assert asyncio.run(await_twice(saver)) == ["committed", "committed"]
        assert saver.restore(1, state=state) == 1
    assert state["w"].tolist() == [0] * 1000


async def await_twice(saver: stoker.Checkpointer) -> list[str]:
    first = saver.save(2, state=1)
    return [await first, await first]


def test_one_line_is_logged_for_each_save(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "stoker"), stoker.Checkpointer(tmp_path) as saver:
        saver.save(5, state=np.zeros(1 << 18)).wait()
    [record] = caplog.records
    number = r"\d+\.\d\d"
    assert re.fullmatch(
        rf"saved step 5: 2\.10 MB, blocked {number} s, written in {number} s \(.* .?B/s\)",
        record.getMessage(),
    )


def test_only_rank_0_logs_the_saves_of_several(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "stoker"), ThreadPoolExecutor(2) as pool:
        ranks = [
            stoker.Checkpointer(tmp_path, rank=rank, world_size=2, job="one") for rank in (0, 1)
        ]
        for pending in pool.map(lambda saver: saver.save(7, state=np.zeros(9)), ranks):
            pending.wait()
        list(pool.map(stoker.Checkpointer.close, ranks))
    lines = [r.getMessage() for r in caplog.records if "step 7" in r.getMessage()]
    assert [line.split(",")[0] for line in lines] == ["saved step 7: 72 bytes"]


def test_late_saves_are_skipped(tmp_path: Path) -> None:
    with slow(tmp_path, late="skip") as saver:
        first, second = saver.save(1, state=big(1)), saver.save(2, state=big(2))
        assert second.done()
        assert (second.skipped, second.durable, second.result()) == (True, False, "skipped")
        assert first.wait()
        assert saver.save(3, state=1).wait()
        assert saver.steps() == [1, 3]


def test_late_saves_replace_the_one_that_waits(tmp_path: Path) -> None:
    with slow(tmp_path, late="replace", in_flight=2) as saver:
        pendings = [saver.save(step, state=big(step)) for step in (1, 2, 3)]
        assert [pending.result() for pending in pendings] == ["committed", "replaced", "committed"]
        assert pendings[1].skipped
        assert saver.steps() == [1, 3]


def test_late_saves_wait(tmp_path: Path) -> None:
    with slow(tmp_path) as saver:
        first = saver.save(1, state=big(1))
        assert not first.done()
        with pytest.raises(TimeoutError):
            first.result(timeout=0)
        progress = saver.progress()
        assert (progress.step, progress.in_flight) == (1, 1)
        assert progress.staged_bytes == progress.size_bytes > 12 << 20
        with pytest.raises(stoker.LateError, match="still in flight"):
            saver.wait(timeout=0)
        with pytest.raises(stoker.LateError, match="not over"):
            first.wait(timeout=0)
        second = saver.save(2, state=1)
        assert first.durable
        saver.wait()
        assert second.durable


def test_states_larger_than_the_memory_pass_through(tmp_path: Path) -> None:
    state = {"w": np.random.default_rng(1).random(5 << 19)}  # 20 MiB
    with stoker.Checkpointer(tmp_path, memory_bytes="8MiB") as saver:
        saver.save(1, state=state)
        back = {"w": np.zeros_like(state["w"])}
        assert saver.restore(state=back) == 1
    assert np.array_equal(back["w"], state["w"])


def break_staging(folder: Path) -> Path:
    """As a takeover does: the writer can publish nothing any more."""
    (owner,) = folder.glob("owner-*")
    shutil.rmtree(owner)
    return owner


def test_an_error_is_raised_once_and_saving_goes_on(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        save_all(saver, 1)
        break_staging(tmp_path)
        failed = saver.save(2, state=1)
        with pytest.raises(stoker.LateError, match="save step 2"):
            saver.save(3, state=1)
        for _ in range(2):  # its own pending raises it always
            with pytest.raises(
                stoker.LateError, match="save step 2: another writer has taken over"
            ):
                failed.result()
        assert isinstance(failed.exception(), stoker.LateError)
        assert (failed.done(), failed.durable, failed.outcome) == (True, False, "failed")
        save_all(saver, 3)  # and the lock is taken again
        assert saver.steps() == [1, 3]
        break_staging(tmp_path)
        saver.save(4, state=1)
        with pytest.raises(stoker.LateError, match="save step 4"):
            saver.wait()
        saver.wait()
        save_all(saver, 4)
        break_staging(tmp_path)
        saver.save(5, state=1)
        with pytest.raises(stoker.LateError, match="save step 5"):
            saver.close()
        saver.close()
        with pytest.raises(ValueError, match="closed"):
            saver.save(6, state=1)


def test_an_error_that_its_pending_has_told_does_not_cost_the_next_save(tmp_path: Path) -> None:
    async def awaited(pending: stoker.Pending) -> None:
        await pending

    def asked(pending: stoker.Pending) -> None:
        error = pending.exception()
        assert error is not None
        raise error

    ways: list[Callable[[stoker.Pending], object]] = [
        stoker.Pending.wait,
        stoker.Pending.result,
        asked,
        lambda p: asyncio.run(awaited(p)),
    ]
    with stoker.Checkpointer(tmp_path) as saver:
        for step, ask in enumerate(ways):
            save_all(saver, 10 * step)
            break_staging(tmp_path)
            with pytest.raises(stoker.LateError, match=f"save step {10 * step + 1}: another"):
                ask(saver.save(10 * step + 1, state=1))
        saver.wait()
        assert saver.save(50, state=1).wait()
        break_staging(tmp_path)
        failed = saver.save(51, state=1)
        saver.restore(10, state=None)  # ends the writer, which had the error
        with pytest.raises(stoker.LateError, match="save step 51"):
            failed.wait()
        assert saver.save(52, state=1).wait()
        assert saver.steps() == [0, 10, 20, 30, 50, 52]


_UNREAD = """
import glob, shutil, sys, stoker
saver = stoker.Checkpointer(sys.argv[1])
saver.save(1, state=1).wait()
shutil.rmtree(glob.glob(sys.argv[1] + "/owner-*")[0])
pending = saver.save(2, state=1)
if sys.argv[2] == "read":
    pending.exception()
if sys.argv[2] == "collected":
    del saver
    print("collected", file=sys.stderr)
"""


@pytest.mark.parametrize("how", ["exit", "read", "collected"])
def test_an_error_that_nobody_read_is_printed_at_the_end(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", _UNREAD, str(tmp_path), how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    message = f"stoker.Checkpointer('{tmp_path}'): "
    assert (message in ran.stderr) == (how != "read"), ran.stderr
    assert ("save step 2" in ran.stderr) == (how != "read")
    if how == "collected":
        assert ran.stderr.endswith("collected\n")


_LEFT = """
import sys, numpy, stoker
saver = stoker.Checkpointer(sys.argv[1], rate_limit="8MiB/s")
saver.save(1, state={"w": numpy.zeros(5 << 19)})
"""


def test_a_program_that_ends_finishes_its_saves(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LEFT, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert stoker.load(tmp_path)["state.w"].shape == (5 << 19,)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *(".catalog", ".lock", ".lock-1", "latest", "step-000000000001")
    ]


def test_retention_keeps_what_the_rules_want(tmp_path: Path) -> None:
    rules: Any = {"keep_last": 2, "keep_every": 10, "keep_best": ("loss", "min", 1)}
    with stoker.Checkpointer(tmp_path, **rules) as saver:
        for step in range(1, 16):
            saver.save(step, state={"w": np.full(100, step)})
            if step in (4, 5, 6):
                saver.annotate(step, loss=abs(step - 5))
            if step == 7:
                saver.pin(7)
        saver.wait()
        assert saver.steps() == [5, 7, 10, 14, 15]
        saver.pin(7, pinned=False)
        save_all(saver, 16)
        assert saver.steps() == [5, 10, 15, 16]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith((".trash", "owner"))]


def test_notes_wait_for_their_checkpoint_and_need_one(tmp_path: Path) -> None:
    with slow(tmp_path) as saver:
        pending = saver.save(1, state=big(1))
        saver.annotate(1, val_loss=np.float32(0.5))
        assert pending.durable
        assert "val_loss" in (tmp_path / "notes" / "step-000000000001.json").read_text()
        with pytest.raises(FileNotFoundError, match="no step 9"):
            saver.annotate(9, x=1)
        with pytest.raises(FileNotFoundError, match="no step 9"):
            saver.pin(9)
        with pytest.raises(TypeError, match="x: a number, not str"):
            saver.annotate(1, x="high")


def test_due_counts_steps_and_time(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        assert [s for s in range(7) if saver.due(s, every_steps=3)] == [3, 6]
        assert saver.due(1, every="0s")
        assert not saver.due(1, every="2h")
        assert saver.due(4, every_steps=3, every="0s")
        saver.save(3, state=1)
        assert not saver.due(3, every_steps=3, every="0s")
        with pytest.raises(ValueError, match="for a number of steps, give every_steps=500"):
            saver.due(3, every=500)
        with pytest.raises(ValueError, match="every_steps=1000"):
            saver.due(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"late": "never"}, "late='never': it is \"block\""),
        ({"late": "replace"}, "in_flight=1: must be at least 2 with"),
        ({"in_flight": 0}, "in_flight=0"),
        ({"lock_ttl": "soon"}, "lock_ttl: 'soon' is not a time"),
        ({"lock": "maybe"}, "lock='maybe': "),
        ({"deadline": -1}, "deadline: -1 is not a time"),
        ({"keep_best": ("loss", "least", 1)}, "keep_best"),
        ({"memory_bytes": "much"}, "much"),
    ],
)
def test_settings_that_say_nothing_are_refused(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stoker.Checkpointer(tmp_path, **options)


def test_a_cell_that_is_run_again_does_not_wait_for_itself(tmp_path: Path) -> None:
    old = stoker.Checkpointer(tmp_path, lock="fail")
    save_all(old, 1)
    new = stoker.Checkpointer(tmp_path, lock="fail")
    assert new.restore() == 1
    save_all(new, 2)
    save_all(old, 3)
    new.close()
    old.close()
    assert new.steps() == [1, 2, 3]


def test_several_checkpointers_work_at_once(tmp_path: Path) -> None:
    savers = [stoker.Checkpointer(tmp_path / str(i)) for i in range(3)]
    pendings = [saver.save(i, state=i) for i, saver in enumerate(savers)]
    assert all(pending.wait() for pending in pendings)
    for i, saver in enumerate(savers):
        saver.close()
        assert saver.steps() == [i]


def test_relative_paths_stay_what_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with stoker.Checkpointer("run/checkpoints") as saver:
        (tmp_path / "elsewhere").mkdir()
        os.chdir("elsewhere")
        save_all(saver, 1)
        assert saver.latest == 1
        assert saver.restore() == 1
    assert (tmp_path / "run/checkpoints/latest/manifest.json").exists()

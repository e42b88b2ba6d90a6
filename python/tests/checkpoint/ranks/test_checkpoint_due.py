"""Saves by the clock on several ranks: at the same steps, whatever their speeds and clocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

import stoker
from stoker._checkpoint.ranks import due as _due
from stoker._checkpoint.ranks.due import DueTime
from stoker._common import agreed_step as _agreed_step
from stoker._common.boards import FileBoard
from stoker._common.ranks import Ranks

Start: TypeAlias = Callable[..., "subprocess.Popen[str]"]
_PATIENCE_S = 60.0

_LOOP = """
import json, sys, threading
import stoker

folder, rank, job, meeting = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
every = "0.2s" if rank == 0 else "1000h"  # only rank 0's clock counts
steps, wait = [], threading.Event()
with stoker.Checkpointer(folder, rank=rank, world_size=2, job=job, meeting=meeting) as saver:
    for step in range(1, 10**9):
        wait.wait(0.001 * (1 + 3 * rank))
        if saver.due(step, every=every, every_steps=1000):
            saver.save(step, state={"rank": rank})
            steps.append(step)
            assert not saver.due(step, every=every)
            if len(steps) == 4:
                break
print(json.dumps(steps))
"""


def test_ranks_save_at_the_same_steps_by_the_clock_of_rank_0(tmp_path: Path, start: Start) -> None:
    job = uuid.uuid4().hex
    command = [sys.executable, "-c", _LOOP, tmp_path / "c"]
    ranks = [start([*command, rank, job, tmp_path]) for rank in range(2)]
    ended = [rank.communicate(timeout=_PATIENCE_S) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], ended
    steps = json.loads(ended[0][0])
    assert json.loads(ended[1][0]) == steps
    assert sorted(steps) == steps
    with stoker.Checkpointer(tmp_path / "c", rank=0, world_size=1) as saver:
        assert saver.steps() == steps
    assert not list(tmp_path.glob("due-*")), "nothing is left"


def test_ranks_that_do_not_ask_delay_no_training_and_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_due, "_WITHIN_SECONDS", 0.1)
    monkeypatch.setattr(_agreed_step, "_LOOK_SECONDS", 0.02)
    board = FileBoard(str(tmp_path / "board"))
    due = DueTime(Ranks(0, 2, 2, "test"), lambda: board)
    step, wait = 0, threading.Event()
    while "no step agreed" not in caplog.text:
        step += 1
        assert not due.is_due(step, 0.0, 0.0)
        wait.wait(0.001)
    assert "rank 1 did not answer within 0.1 s. Every rank must call due(every=)" in caplog.text
    caplog.clear()
    for later in range(1, 100):  # it asks again in a minute
        assert not due.is_due(step + later, 0.0, 0.0)
    assert caplog.text == ""
    due.close()


def test_a_forked_child_is_refused_and_ends_nothing_of_its_parent(tmp_path: Path) -> None:
    saver = stoker.Checkpointer(tmp_path / "c", rank=0, world_size=2, job="x", meeting=tmp_path)
    assert not saver.due(1, every="1h")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            saver.due(2, every="1h")
        except RuntimeError as error:
            os.write(write, str(error).encode())
        saver._due.close()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert "of which this is a fork" in pipe.read()
    os.waitpid(child, 0)
    agreement = saver._due._agreement
    assert agreement is not None
    assert agreement._thread.is_alive()
    saver.close()
    assert not agreement._thread.is_alive()


def test_ranks_on_several_machines_are_told_what_to_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        *(("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "1")),
        *(("MASTER_ADDR", "node7"), ("MASTER_PORT", "29500"), ("TORCHELASTIC_RUN_ID", "a")),
    ):
        monkeypatch.setenv(name, value)
    with (
        stoker.Checkpointer(tmp_path) as saver,
        pytest.raises(ValueError, match=r"init_process_group.*meeting="),
    ):
        saver.due(1, every="30min")

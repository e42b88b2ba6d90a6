"""Several ranks, real processes and real signals: all stop at one step, or the signal has its way.

The ranks find each other as children of one process, without torch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import stoker

Start: TypeAlias = Callable[..., "subprocess.Popen[str]"]
_PATIENCE_S = 60.0

# Ranks of different speeds. Each line that is printed is a message to the test.
_LOOP = """
import json, logging, signal, sys, threading, time
import numpy as np
import stoker

folder, rank, world, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
settings = json.loads(settings)
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
before = settings.pop("before", None)
if before:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(before))
stuck = settings.pop("stuck", False)
ranks = {"rank": rank, "world_size": world, "job": settings.pop("job")}
with (
    stoker.Checkpointer(folder, **ranks) as saver,
    stoker.Preemption(**ranks, meeting=folder + "-meeting", **settings) as stop,
):
    step, wait = 0, threading.Event()
    while True:
        step += 1
        if stop.requested(step):
            saver.save(step, state={"step": step}).wait(stop.remaining)
            break
        if step == 3:
            print("running", flush=True)
            if stuck:
                sys.stdin.read()
        wait.wait(0.001 * (1 + 2 * rank))
print(json.dumps([step, stop.reason, stop.remaining > 60]), flush=True)
"""


class Job:
    """Ranks of one job, that run."""

    def __init__(self, start: Start, folder: Path, world: int, *own: Any, **settings: Any) -> None:
        settings["job"] = uuid.uuid4().hex
        command = [sys.executable, "-c", _LOOP, folder / "c"]
        self.ranks = []
        for rank in range(world):
            given = json.dumps(settings | (own[rank] if own else {}))
            self.ranks.append(start([*command, rank, world, given]))
        for process in self.ranks:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"

    def ends(self, number: int = 0) -> tuple[Any, str, str]:
        """Waits for a rank: exit status, what it printed, what it logged."""
        out, err = self.ranks[number].communicate(timeout=_PATIENCE_S)
        return self.ranks[number].returncode, out, err


@pytest.mark.parametrize(("world", "signalled"), [(2, [1]), (3, [0, 1, 2])])
def test_all_ranks_save_at_one_step_and_end(
    tmp_path: Path, start: Start, world: int, signalled: list[int]
) -> None:
    job = Job(start, tmp_path, world)
    for rank in signalled:
        job.ranks[rank].send_signal(signal.SIGTERM)
    ended = [job.ends(rank) for rank in range(world)]
    assert [status for status, _, _ in ended] == [0] * world, ended
    steps = [json.loads(out)[0] for _, out, _ in ended]
    assert len(set(steps)) == 1
    assert {json.loads(out)[1] for _, out, _ in ended} <= {
        f"SIGTERM on rank {rank}" for rank in signalled
    }
    assert all(json.loads(out)[2] for _, out, _ in ended), "most of the grace is left"
    assert stoker.load(tmp_path / "c").step == steps[0]
    assert f"stop after step {steps[0]}" in ended[0][2]
    assert not list((tmp_path / "c-meeting").iterdir()), "nothing is left"


def test_rank_0_looks_for_the_file(tmp_path: Path, start: Start) -> None:
    job = Job(start, tmp_path, 2, file=str(tmp_path / "stop"))
    (tmp_path / "stop").touch()
    ended = [job.ends(rank) for rank in range(2)]
    assert ended[0][:2] == ended[1][:2]
    assert f"file {tmp_path / 'stop'}" in ended[1][1]


def test_slurms_end_time_stops_all_ranks_at_one_step(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 3600))
    given = json.dumps({"job": uuid.uuid4().hex, "grace": "2h"})
    ranks = [start([sys.executable, "-c", _LOOP, tmp_path / "c", r, 2, given]) for r in range(2)]
    ended = [rank.communicate(timeout=_PATIENCE_S) for rank in ranks]
    (step, reason, _), other = [json.loads(out.splitlines()[-1]) for out, _ in ended]
    assert other[0] == step
    assert reason.startswith("SLURM_JOB_END_TIME")
    assert stoker.load(tmp_path / "c").step == step


@pytest.mark.parametrize(("killed", "signalled"), [(0, 1), (1, 0)])
def test_without_a_peer_nothing_is_saved_and_the_signal_ends_the_process(
    tmp_path: Path, start: Start, killed: int, signalled: int
) -> None:
    job = Job(start, tmp_path, 2)
    job.ranks[killed].kill()
    job.ends(killed)
    job.ranks[signalled].send_signal(signal.SIGTERM)
    status, out, err = job.ends(signalled)
    assert (status, out) == (-signal.SIGTERM, "")
    assert f"no step agreed, no save: rank {killed} has ended; SIGTERM takes its course" in err
    assert not list((tmp_path / "c").glob("step-*"))


def test_a_peer_that_does_not_answer_is_named_and_waited_for_so_long(
    tmp_path: Path, start: Start
) -> None:
    job = Job(start, tmp_path, 2, agree_within=0.5)
    job.ranks[1].send_signal(signal.SIGSTOP)
    job.ranks[0].send_signal(signal.SIGTERM)
    status, out, err = job.ends(0)
    assert (status, out) == (-signal.SIGTERM, "")
    assert "rank 1 did not answer within 0.5 s; SIGTERM takes its course" in err


def test_the_handler_of_before_gets_the_signal(tmp_path: Path, start: Start) -> None:
    job = Job(start, tmp_path, 2, before=7)
    job.ranks[1].kill()
    job.ends(1)
    job.ranks[0].send_signal(signal.SIGTERM)
    assert job.ends(0)[:2] == (7, "")


def test_a_main_thread_that_is_stuck_is_ended_all_the_same(tmp_path: Path, start: Start) -> None:
    """As in a collective that waits for the peer that is gone."""
    job = Job(start, tmp_path, 2, {"stuck": True}, {})
    job.ranks[1].kill()
    job.ends(1)
    job.ranks[0].send_signal(signal.SIGTERM)
    # Not by communicate(), which would end what it is stuck in.
    assert job.ranks[0].wait(_PATIENCE_S) == -signal.SIGTERM


def test_ranks_of_one_launcher_need_no_directory(tmp_path: Path) -> None:
    """They are known to be on this machine: files in the directory of the user."""
    program = """
import sys, stoker
with stoker.Preemption(rank=int(sys.argv[1]), world_size=2) as stop:
    if sys.argv[1] == "1":
        stop.request()
    step = 0
    while not stop.requested(step):
        step += 1
"""
    launcher = f"""
import subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", {program!r}, str(rank)]) for rank in (0, 1)]
sys.exit(any([rank.wait() for rank in ranks]))
"""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    }
    subprocess.run(
        [sys.executable, "-c", launcher],
        check=True,
        timeout=_PATIENCE_S,
        env={**environment, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert list((tmp_path / "stoker").iterdir()) == []

"""Two jobs in one directory at once: kept apart, or refused with both named; never mixed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import stoker
from fork_server import ForkedPython

_PAIRS = int(os.environ.get("STOKER_JOB_PAIRS", "10"))  # more in `make crash`

# A rank saves who it is, asks for the step again, and says how both went. It waits for a line
# before it begins, so that all begin at once.
_RANK = r"""
import json, sys
import numpy as np
import stoker

folder, number, rank, world, step, settings = sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6]
said = {"job": number, "rank": rank, "saved": False, "restored": None, "errors": []}
sys.stdin.readline()
try:
    saver = stoker.Checkpointer(folder, rank=rank, world_size=world, **json.loads(settings))
    state = {"job": np.array([number]), "rank": np.array([rank])}
    said["saved"] = saver.save(step, state=state).wait()
except Exception as error:
    said["errors"].append(f"{type(error).__name__}: {error}")
try:
    found = {"job": np.array([-1]), "rank": np.array([-1])}
    done = saver.restore(step, state=found)
    said["restored"] = [done, int(found["job"][0]), int(found["rank"][0])]
    saver.close()
except Exception as error:
    said["errors"].append(f"{type(error).__name__}: {error}")
print(json.dumps(said), flush=True)
"""

# Starts the ranks of a job as torchrun does: itself their parent, the rank in the environment.
_LAUNCHER = r"""
import json, os, sys
program, commands, variables = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
ranks, lines = [], []
for rank, arguments in enumerate(commands):
    line = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(line[0], 0)
        for end in (*line, *lines):
            os.close(end)
        if variables is not None:
            os.environ.update(variables, RANK=str(rank), WORLD_SIZE=str(len(commands)))
        sys.argv = ["-c", *arguments]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        sys.exit()
    os.close(line[0])
    ranks.append(child)
    lines.append(line[1])
sys.stdin.readline()
for line in lines:
    os.write(line, b"begin\n")
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks))
"""

_TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
_CLUSTER = {**_TORCHRUN, "MASTER_ADDR": "node7"}


@dataclass(frozen=True)
class Pair:
    """Two jobs of so many ranks each, with the step that each saves."""

    folder: Path
    world: int
    steps: tuple[int, int]

    def arguments(self, job: int, settings: dict[str, Any]) -> list[list[str]]:
        """Of each rank of a job."""
        words = [str(self.steps[job]), json.dumps(settings)]
        return [
            [str(self.folder), str(job), str(rank), str(self.world), *words]
            for rank in range(self.world)
        ]


def _spawn(command: list[str]) -> subprocess.Popen[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")}
    return ForkedPython(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean
    )


def _run(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("begin\n")
        process.stdin.flush()
    return [
        json.loads(line)
        for process in processes
        for line in process.communicate(timeout=120)[0].splitlines()
    ]


def run_launched(
    pair: Pair, settings: dict[str, Any], variables: dict[str, str] | None
) -> list[dict[str, Any]]:
    """Two jobs, each with a launcher of its own."""
    command = [sys.executable, "-c", _LAUNCHER, _RANK]
    jobs = [
        [*command, json.dumps(pair.arguments(job, settings)), json.dumps(variables)]
        for job in (0, 1)
    ]
    return _run([_spawn(job) for job in jobs])


def run_beside(pair: Pair, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The ranks of two jobs, all started by this process."""
    commands = [a for job in (0, 1) for a in pair.arguments(job, settings)]
    return _run([_spawn([sys.executable, "-c", _RANK, *arguments]) for arguments in commands])


def _jobs_in(checkpoint: Path) -> list[int]:
    """Whose ranks have saved it. Equal numbers are one tensor; those of two jobs are two."""
    loaded = stoker.load(checkpoint)
    return [int(tensor[0]) for name, tensor in loaded.items() if name.endswith(".job")]


def check(pair: Pair, said: list[dict[str, Any]], end: str) -> None:
    """The oracle: no checkpoint of both jobs, nothing acknowledged that is not there.

    ``end``: the jobs are "apart"; or "refused", both named.
    """
    is_apart = end == "apart"
    assert len(said) == 2 * pair.world, said
    has_saved = []
    for job, step in enumerate(pair.steps):
        ranks = [one for one in said if one["job"] == job]
        saved = {one["saved"] for one in ranks}
        assert len(saved) == 1, f"a save succeeded on some ranks of a job only: {ranks}"
        if is_apart:
            assert saved == {True}, ranks
        has_saved += [job] if saved == {True} else []
        # A job that was refused may find what the other one has saved as this step: all of it.
        found = {one["restored"][1] for one in ranks if one["restored"] is not None}
        assert found <= ({job} if saved == {True} or pair.steps[0] != pair.steps[1] else {0, 1})
        assert len(found) <= 1, f"a restore of two jobs' states: {ranks}"
        for one in ranks:
            if one["restored"] is not None:
                assert one["restored"] == [step, *found, one["rank"]], one
            elif is_apart:
                raise AssertionError(one)
            if one["restored"] is None or not one["saved"]:
                assert any("JobConflict" in error for error in one["errors"]), one
    # A step that both have saved: the second supersedes the first.
    found_in = {path.name: _jobs_in(path) for path in pair.folder.glob("step-*")}
    assert all(len(jobs) == 1 for jobs in found_in.values()), f"both in one: {found_in}"
    assert sorted(job for [job] in found_in.values()) == has_saved, (found_in, said)
    for job in has_saved:
        names = [name for name, [found] in found_in.items() if found == job]
        assert all(name.startswith(f"step-{pair.steps[job]:012}") for name in names), found_in
    # On a busy machine one may be done before the other begins: then there is nothing to refuse.
    were_apart = all(one["saved"] and one["restored"] is not None for one in said)
    if not is_apart and not were_apart:
        named = [error for one in said for error in one["errors"] if "JobConflict" in error]
        assert named, said
        assert all(error.count("pid ") >= 2 for error in named), "both are named"


_LIMITS = {"deadline": 20, "lock": 60}
_JOB = {**_LIMITS, "job": "a"}
_CASES: dict[str, tuple[Callable[[Pair], list[dict[str, Any]]], str]] = {
    "no variables, two launchers": (lambda pair: run_launched(pair, _LIMITS, None), "apart"),
    "equal variables, one machine": (lambda pair: run_launched(pair, _LIMITS, _TORCHRUN), "apart"),
    "equal variables, a cluster": (lambda pair: run_launched(pair, _LIMITS, _CLUSTER), "refused"),
    "no variables, one parent": (lambda pair: run_beside(pair, _LIMITS), "refused"),
    "one job= for both": (lambda pair: run_launched(pair, _JOB, None), "refused"),
}
# If both save the same step, ranks of two jobs that met would agree on it, and only what they have
# saved shows that.
_STEPS = ((5, 5), (5, 9))


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", list(_CASES))
def test_two_jobs_never_share_a_checkpoint(tmp_path: Path, case: str, world: int) -> None:
    run, end = _CASES[case]
    for number in range(max(1, _PAIRS // (2 * len(_CASES)))):
        pair = Pair(tmp_path / str(number), world, _STEPS[(world + number) % len(_STEPS)])
        check(pair, run(pair), end)

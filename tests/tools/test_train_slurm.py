"""docs/slurm.md and examples/train_slurm.sh, with stand-ins for Slurm, and real signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stoker

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "slurm.md"

# Starts the tasks, passes signals on to them, and ends with the worst status, as srun does.
SRUN = f"""#!{sys.executable}
import os, signal, subprocess, sys
assert sys.argv[1] == "--kill-on-bad-exit=1", sys.argv
tasks = []
for number in range(int(os.environ["SLURM_NTASKS"])):
    own = {{"SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)}}
    tasks.append(subprocess.Popen(sys.argv[2:], env=os.environ | own))
for one in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(one, lambda number, _: [task.send_signal(number) for task in tasks])
sys.exit(max(abs(task.wait()) for task in tasks))
"""

SCONTROL = """#!/bin/bash
case $1 in
  show) printf '127.0.0.1\\nnode2\\nnode3\\n' ;;
  requeue) echo "$2" >> requeued ;;
esac
"""


def run_and_signal(folder: Path, number: signal.Signals, starts: int) -> int:
    """Runs the job until all tasks train, signals it, and returns the step it began after."""
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    environment |= {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "node[1-3]", "SLURM_NTASKS": "2"}
    environment |= {"SLURM_RESTART_COUNT": str(starts), "STOKER_PYTHON": sys.executable}
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    with subprocess.Popen(
        [ROOT / "examples" / "train_slurm.sh", "train.py"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdout is not None
        begun = [job.stdout.readline() for _ in range(2)]
        job.send_signal(number)
        _, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    assert begun[0] == begun[1]
    return int(begun[0].removeprefix("after step "))


@pytest.mark.parametrize(
    ("number", "requeued"), [(signal.SIGUSR1, ["4711"] * 2), (signal.SIGTERM, [])]
)
def test_a_job_that_is_signalled_saves_is_requeued_and_continues(
    tmp_path: Path, number: signal.Signals, requeued: list[str]
) -> None:
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text(program)
    samples = ({"x": np.full(4, i, np.float32)} for i in range(64))
    stoker.ingest(samples, tmp_path / "shards")
    assert run_and_signal(tmp_path, number, starts=0) == 0
    saved = stoker.load(tmp_path / "run").step
    assert saved is not None
    assert saved > 0
    assert run_and_signal(tmp_path, number, starts=1) == saved
    found = stoker.load(tmp_path / "run")
    assert found.step is not None
    assert found.step > saved
    assert found["state.w"][0] == found.step * (found.step + 1) // 2, "no step is lost or repeated"
    note = tmp_path / "requeued"
    assert (note.read_text().split() if note.exists() else []) == requeued


def test_the_table_has_every_setting_of_the_script() -> None:
    script = (ROOT / "examples" / "train_slurm.sh").read_text()
    page = PAGE.read_text()
    settings = set(re.findall(r"^#SBATCH (--\S+)", script, re.M)) - {
        "--job-name=stoker-train",
        "--time=24:00:00",
    }
    assert {one for one in settings if f"`{one}`" not in page} == set()

"""examples/pack_slurm.sh as Slurm would run it: a task for each number, then the merge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STOKER = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))
TASKS = 4
OPTIONS = ("--shuffle-seed", "7", "--samples-per-shard", "9")

pytestmark = pytest.mark.skipif(not STOKER.exists(), reason=f"{STOKER} is not built")


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{STOKER.parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        env=os.environ | {"PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def visible_files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name[0] != "."}


def run_task(task: int, source: Path, shards: Path) -> subprocess.CompletedProcess[str]:
    return run(
        ROOT / "examples" / "pack_slurm.sh",
        source,
        shards,
        *OPTIONS,
        SLURM_ARRAY_TASK_ID=str(task),
        SLURM_ARRAY_TASK_COUNT=str(TASKS),
        SLURM_CPUS_PER_TASK="2",
    )


def test_an_array_of_tasks_and_a_merge_equal_one_run(tmp_path: Path) -> None:
    source = tmp_path / "images"
    for i in range(60):
        (source / f"class{i % 3}").mkdir(parents=True, exist_ok=True)
        (source / f"class{i % 3}" / f"{i:04}.jpg").write_bytes(bytes([i]) * 500)
    shards = tmp_path / "shards"
    for task in (3, 1, 0):
        ran = run_task(task, source, shards)
        assert ran.returncode == 0, ran.stderr
    early = run("stoker", "pack", "--merge", shards)
    assert early.returncode == 1
    assert "not packed yet" in early.stderr
    assert run_task(2, source, shards).returncode == 0
    assert "there already" in run_task(2, source, shards).stdout  # as after a requeue
    merged = run("stoker", "pack", "--merge", shards)
    assert "60 samples in 7 shards (tar)" in merged.stdout, merged.stderr
    whole = tmp_path / "whole"
    assert run("stoker", "pack", source, whole, *OPTIONS).returncode == 0
    assert visible_files(shards) == visible_files(whole)
    assert run("stoker", "verify", shards).returncode == 0

"""Several runs with the same step and generation numbers: retention tells them apart."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

_STOKER = Path(__file__).parents[3] / "build" / "release" / "stoker"


def state(value: float) -> dict[str, Any]:
    return {"w": np.full(10, value)}


def run(directory: Path, *steps: int) -> None:
    with stoker.Checkpointer(directory) as saver:
        for step in steps:
            saver.save(step, state=state(step)).wait()


def steps_in(directory: Path) -> list[int]:
    with stoker.Checkpointer(directory) as saver:
        return saver.steps()


def stoker_command(*arguments: object) -> str:
    command = [str(_STOKER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def step_name(step: int) -> str:
    return f"step-{step:012}"


def test_a_link_that_leads_to_another_run_by_now(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(tmp_path / name, 10, 20, 30)
    link = tmp_path / "current"
    link.symlink_to("one")
    with stoker.Checkpointer(link, keep_last=1) as saver:
        assert saver.restore(state=state(0)) == 30
        link.unlink()
        link.symlink_to("two")
        saver.save(40, state=state(40)).wait()
    assert steps_in(tmp_path / "two") == [10, 20, 30, 40]


def test_a_directory_that_was_exchanged(tmp_path: Path) -> None:
    run(tmp_path / "other", 10, 20, 30)
    with stoker.Checkpointer(tmp_path / "run", keep_last=3) as saver:
        for step in (10, 20, 30):
            saver.save(step, state=state(step)).wait()
        (tmp_path / "run").rename(tmp_path / "old")
        (tmp_path / "other").rename(tmp_path / "run")
        saver.save(40, state=state(40)).wait()
    assert steps_in(tmp_path / "run") == [10, 20, 30, 40]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_generation_that_was_given_again(tmp_path: Path, is_gone: bool) -> None:
    """The newest was damaged or lost, and another run has counted from there."""
    run(tmp_path, 10, 20, 30)
    with stoker.Checkpointer(tmp_path, keep_last=1) as first:
        assert first.restore(state=state(0)) == 30
        if is_gone:
            shutil.rmtree(tmp_path / step_name(30))
        else:
            manifest = tmp_path / step_name(30) / "manifest.json"
            manifest.chmod(0o644)
            manifest.write_bytes(manifest.read_bytes().replace(b"stoker", b"stokes"))
        (tmp_path / ".catalog").unlink()
        with stoker.Checkpointer(tmp_path) as second:
            assert second.restore(state=state(0)) == 20
            second.save(41, state=state(41)).wait()
        first.save(50, state=state(50)).wait()
    assert {41, 50} <= set(steps_in(tmp_path))


@pytest.mark.parametrize("before", [True, False])
def test_a_copied_checkpoint_of_another_run(tmp_path: Path, before: bool) -> None:
    run(tmp_path / "own", 10, 20, 30, 40)
    run(tmp_path / "other", 11, 21, 31)
    source, copy = tmp_path / "other" / step_name(21), tmp_path / "own" / step_name(21)
    if before:
        shutil.copytree(source, copy)
    with stoker.Checkpointer(tmp_path / "own", keep_last=2) as saver:
        assert saver.restore(state=state(0)) == 40
        if not before:
            shutil.copytree(source, copy)
        saver.save(50, state=state(50)).wait()
    assert steps_in(tmp_path / "own") == [21, 40, 50]


def test_what_lies_beside_a_copied_checkpoint_that_is_continued(tmp_path: Path) -> None:
    run(tmp_path / "own", 10)
    run(tmp_path / "other", 11, 21, 31)
    shutil.copytree(tmp_path / "other" / step_name(31), tmp_path / "own" / step_name(31))
    with stoker.Checkpointer(tmp_path / "own", keep_last=1) as saver:
        assert saver.restore(state=state(0)) == 31
        saver.save(41, state=state(41)).wait()
    assert steps_in(tmp_path / "own") == [10, 41]


def test_a_copy_of_a_whole_run_is_continued_as_the_run(tmp_path: Path) -> None:
    run(tmp_path / "run", 10, 20, 30)
    shutil.copytree(tmp_path / "run", tmp_path / "copy", symlinks=True)
    with stoker.Checkpointer(tmp_path / "copy", keep_last=2) as saver:
        assert saver.restore(state=state(0)) == 30
        for step in (40, 50):
            saver.save(step, state=state(step)).wait()
    assert steps_in(tmp_path / "copy") == [40, 50]


def test_retention_of_a_run_that_was_restarted_often(tmp_path: Path) -> None:
    for step in range(1, 12):
        with stoker.Checkpointer(tmp_path, keep_last=2, keep_every=4) as saver:
            saver.restore(state=state(0))
            saver.save(step, state=state(step)).wait()
    assert steps_in(tmp_path) == [4, 8, 10, 11]


def test_what_a_successor_has_saved_stays_though_this_run_has_restored_nothing(
    tmp_path: Path,
) -> None:
    with stoker.Checkpointer(tmp_path, keep_last=1) as first:
        assert first.restore(state=state(0)) is None
        first.save(1, state=state(1)).wait()
        with stoker.Checkpointer(tmp_path) as second:
            assert second.restore(state=state(0)) == 1
            second.save(2, state=state(2)).wait()
        first.save(3, state=state(3)).wait()
    assert steps_in(tmp_path) == [2, 3]


def test_the_best_of_a_run_is_not_ranked_with_those_of_others(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state(1), reference={"loss": 0.1}).wait()
    with stoker.Checkpointer(tmp_path, keep_best=("loss", "min", 1), keep_last=1) as saver:
        for step, loss in ((11, 0.5), (12, 0.7), (13, 0.9)):
            saver.save(step, state=state(step), reference={"loss": loss}).wait()
    assert steps_in(tmp_path) == [1, 11, 13]


def test_the_newest_finite_one_of_a_run_stays(tmp_path: Path) -> None:
    run(tmp_path, 9)
    run(tmp_path, 1000)
    with stoker.Checkpointer(tmp_path, keep_last=1) as saver:
        assert saver.restore(9, state=state(0)) == 9
        for step in (10, 11):
            saver.save(step, state=state(np.nan)).wait()
        assert saver.restore(finite=True, state=state(0)) == 9
    assert sorted(steps_in(tmp_path)) == [9, 11, 1000]


def with_foreign_copy(tmp_path: Path) -> Path:
    """Step 10 was annotated, pinned and removed, and has another run's in its place by now."""
    own = tmp_path / "own"
    run(tmp_path / "other", 10)
    with stoker.Checkpointer(tmp_path / "other") as other:
        assert other.restore(state=state(0)) == 10
        other.save(20, state=state(20), reference={"v": 0.5}).wait()
    with stoker.Checkpointer(own) as saver:
        saver.save(10, state=state(10)).wait()
        saver.save(20, state=state(20)).wait()
        saver.annotate(20, v=9.0)
        saver.save(30, state=state(30), reference={"v": 1.0}).wait()
    shutil.rmtree(own / step_name(20))
    shutil.copytree(tmp_path / "other" / step_name(20), own / step_name(20))
    return own


def test_the_values_of_a_note_are_those_of_its_own_line(tmp_path: Path) -> None:
    own = with_foreign_copy(tmp_path)
    listed = json.loads(stoker_command("checkpoint", "ls", own, "--json"))
    assert [one["annotations"] for one in listed["checkpoints"]] == [{}, {}, {}]
    dry = stoker_command("checkpoint", "prune", own, "--keep-best", "v:min:1", "--dry-run")
    assert "step-000000000020" not in dry
    with stoker.Checkpointer(own) as saver:
        saver.annotate(20, w=2.0)  # the note is that of the copy from here on
    listed = json.loads(stoker_command("checkpoint", "ls", own, "--json"))
    assert {"w": 2.0} in [one["annotations"] for one in listed["checkpoints"]]


def test_the_pin_of_another_line_protects_until_it_is_removed(tmp_path: Path) -> None:
    own = with_foreign_copy(tmp_path)
    run(tmp_path / "third", 5, 20)  # the same step and generation once more
    with stoker.Checkpointer(own) as saver:
        saver.pin(20)
    shutil.rmtree(own / step_name(20))
    shutil.copytree(tmp_path / "third" / step_name(20), own / step_name(20))
    rule = ("--keep-last", "1", "--dry-run")
    assert "step-000000000020" not in stoker_command("checkpoint", "prune", own, *rule)
    stoker_command("checkpoint", "unpin", own, "20")
    assert "step-000000000020" in stoker_command("checkpoint", "prune", own, *rule)

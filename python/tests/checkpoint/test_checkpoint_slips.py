"""Slips of a new user that must not cost a checkpoint, and what the log says of a run."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import stoker

_STOKER = Path(__file__).parents[3] / "build" / "release" / "stoker"


def told(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> str:
    return "\n".join(r.getMessage() for r in caplog.records if r.levelno == level)


def spoil(folder: Path, step: int) -> None:
    """Other bytes in a checkpoint's data."""
    path = folder / f"step-{step:012}" / "rank-00000.safetensors"
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\xff\xff\xff\xff")


def save_all(folder: Path, *steps: int, **settings: int) -> None:
    with stoker.Checkpointer(folder, **settings) as saver:  # type: ignore[arg-type]
        for step in steps:
            saver.save(step, state={"w": np.full(100, step)}).wait()


@pytest.mark.parametrize("name", ["latest", "step-000000000005"])
def test_a_checkpoint_is_no_directory_of_checkpoints(tmp_path: Path, name: str) -> None:
    save_all(tmp_path, 5)
    with pytest.raises(ValueError, match=f"it is a checkpoint.*{tmp_path}, and the step"):
        stoker.Checkpointer(tmp_path / name)
    assert stoker.load(tmp_path / name).step == 5


@pytest.mark.parametrize("name", ["old.pt", "model.safetensors", "notes.txt", "data.npy"])
def test_a_file_is_no_directory_of_checkpoints(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\x93NUMPY" if name == "data.npy" else b"what it is called")
    with pytest.raises(NotADirectoryError) as raised:
        stoker.Checkpointer(file)
    said = f"{file} is a file, and a Checkpointer takes a directory of checkpoints"
    advice = {"notes.txt": "", "data.npy": ". It is a NumPy array: numpy.load() reads it"}
    command = f"stoker checkpoint import DIR {file} --step N"
    imported = f". It is a file of tensors: `{command}` makes a checkpoint of it"
    assert raised.value.strerror == said + advice.get(name, imported)


def test_a_run_that_did_not_restore_removes_nothing_of_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_all(tmp_path, 5000, 6000, 7000, keep_last=3)
    with stoker.Checkpointer(tmp_path, keep_last=2) as saver:
        for step in (1000, 2000, 3000, 4000, 5000):
            saver.save(step, state={"w": np.full(100, step)}).wait()
        assert sorted(saver.steps()) == [4000, 5000, 6000, 7000]
    assert "an earlier run has saved 3 checkpoints here, the newest step-000000007000" in told(
        caplog
    )
    assert "call restore() first" in told(caplog)
    names = sorted(p.name for p in tmp_path.glob("step-*"))
    assert "step-000000005000.superseded-1" in names
    # And neither does the next one, which continues the second.
    with stoker.Checkpointer(tmp_path, keep_last=1) as saver:
        assert saver.restore(state={"w": np.zeros(100, np.int64)}) == 5000
        saver.save(8000, state={"w": np.zeros(100)}).wait()
        assert sorted(saver.steps()) == [6000, 7000, 8000]
    # A person who prunes means all of them.
    subprocess.run(
        [_STOKER, "checkpoint", "prune", tmp_path, "--keep-last", "1"],
        check=True,
        capture_output=True,
    )
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-000000008000"]


def test_keep_best_takes_reference_values_where_nothing_was_annotated(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path, keep_last=1, keep_best=("loss", "min", 1)) as saver:
        for step, loss in ((70, 7.35), (80, 4.83), (90, 6.04)):
            saver.save(step, state={"n": step}, reference={"loss": loss}).wait()
        assert saver.steps() == [80, 90]


def test_keep_best_waits_for_values_that_are_annotated_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stoker.Checkpointer(tmp_path, keep_best=("val_loss", "min", 1)) as saver:
        for step in (10, 20):
            saver.save(step, state={"n": step}).wait()
        saver.annotate(10, val_loss=1.0)  # the validation of 10 ends now
        saver.save(30, state={"n": 30}).wait()
        assert saver.steps() == [10, 20, 30]
        saver.annotate(20, val_loss=2.0)
        saver.annotate(30, val_loss=3.0)
        saver.save(40, state={"n": 40}).wait()
        assert saver.steps() == [10, 40]
    assert "keep_best" not in told(caplog)


def test_keep_best_by_a_value_that_no_checkpoint_has_removes_nothing_and_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stoker.Checkpointer(tmp_path, keep_best=("val_los", "min", 1)) as saver:
        for step in range(1, 8):
            saver.save(step, state={"n": step}).wait()
            saver.annotate(step, val_loss=1.0 / step)
        assert saver.steps() == list(range(1, 8))
    text = "keep_best: no checkpoint has a value 'val_los', so nothing is removed; existing values"
    assert told(caplog).count(f"{text}: val_loss") == 1


def test_what_a_restore_found_damaged_does_not_push_out_what_it_restored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_all(tmp_path, 10, 20, 30)
    spoil(tmp_path, 30)
    with stoker.Checkpointer(tmp_path, keep_last=2) as saver:
        state = {"w": np.zeros(100, np.int64)}
        assert saver.restore(state=state) == 20
        saver.save(40, state=state).wait()
        assert sorted(saver.steps()) == [20, 30, 40]
        saver.save(50, state=state).wait()
        assert sorted(saver.steps()) == [30, 40, 50], "30 is kept for those who can repair it"
    assert "passed over step-000000000030" in told(caplog)


def test_the_log_tells_the_story_of_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stoker")
    with stoker.Checkpointer(tmp_path / "run") as saver:
        assert saver.restore(state={}) is None
        saver.save(1, state={"n": 1}).wait()
        assert saver.restore(state={"n": 0}) == 1
    info = told(caplog, logging.INFO)
    assert f"no checkpoints in {tmp_path}/run: nothing was restored" in info
    assert f"restored step 1 from {tmp_path}/run/step-000000000001" in info
    assert "saved step 1: 0 bytes, blocked " in info


def test_a_failed_save_is_in_the_log_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stoker")
    saver = stoker.Checkpointer(tmp_path)
    saver.save(1, state={"n": 1}).wait()
    pending = saver.save(2, state={"w": np.zeros(1 << 20)})
    for owner in tmp_path.glob("owner-*"):  # as a takeover does
        owner.rename(tmp_path / "gone")
    error = pending.exception()
    if error is None:  # it was faster
        pending = saver.save(3, state={"n": 3})
        error = pending.exception()
    assert error is not None
    failed = [line for line in told(caplog, logging.INFO).splitlines() if "failed after" in line]
    assert [line.count(f"step {pending.step}") for line in failed] == [1]
    saver.close()  # its pending has told it


def test_the_log_tells_the_end_before_anyone_can_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    class Witness(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("saved step"):
                order.append("told")

    def set_result(pending: stoker.Pending, outcome: str) -> None:
        order.append("seen")
        concurrent.futures.Future.set_result(pending, outcome)

    monkeypatch.setattr(stoker.Pending, "set_result", set_result)
    log, witness = logging.getLogger("stoker"), Witness(logging.INFO)
    monkeypatch.setattr(log, "level", logging.INFO)
    monkeypatch.setattr(log, "handlers", [*log.handlers, witness])
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"n": 1}).wait()
    assert order[:2] == ["told", "seen"]
    assert order.count("told") == 1


def test_the_state_dict_of_an_optimizer_is_a_copy_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=optimizer).wait()
        saver.restore(model=model, optimizer=optimizer)
        assert "state_dict" not in told(caplog)
        saver.restore(model=model.state_dict(), optimizer=optimizer.state_dict())
    assert "optimizer: this looks like the state_dict() of an optimizer" in told(caplog)


def test_load_says_what_it_has_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_all(tmp_path, 1, 2)
    manifest = tmp_path / "step-000000000002" / "manifest.json"
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes().replace(b'"step"', b'"stop"'))
    assert stoker.load(tmp_path).step == 1
    assert "passed over step-000000000002" in told(caplog)


def test_a_script_that_was_started_twice_removes_nothing_of_the_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_all(tmp_path, 10, 20)
    state = {"w": np.zeros(100, np.int64)}
    first = stoker.Checkpointer(tmp_path, keep_last=2)
    second = stoker.Checkpointer(tmp_path, keep_last=2)
    assert (first.restore(state=state), second.restore(state=state)) == (20, 20)
    for step in (30, 40, 50, 60):
        first.save(step, state=state).wait()
    assert sorted(first.steps()) == [50, 60]
    for step in (30, 40, 50):
        second.save(step, state=state).wait()
    names = sorted(p.name for p in tmp_path.glob("step-*"))
    assert [n for n in names if "superseded" in n] == ["step-000000000050.superseded-5"]
    assert sorted(second.steps()) == [40, 50, 60]
    assert "another run has saved" in told(caplog)
    assert "the newest step-000000000060" in told(caplog)
    second.close()
    first.close()


def test_going_back_keeps_what_is_continued_and_not_what_was_abandoned(tmp_path: Path) -> None:
    save_all(tmp_path, 10, 20, 30)
    state = {"w": np.zeros(100, np.int64)}
    with stoker.Checkpointer(tmp_path, keep_last=2) as saver:
        assert saver.restore(10, state=state) == 10
        saver.save(15, state={"w": np.full(100, 15)}).wait()
        assert sorted(saver.steps()) == [10, 15]


def test_after_damage_a_restore_turns_to_what_was_continued(tmp_path: Path) -> None:
    save_all(tmp_path, 10, 20, 30)
    state = {"w": np.zeros(100, np.int64)}
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.restore(10, state=state) == 10
        saver.save(15, state={"w": np.full(100, 15)}).wait()
        spoil(tmp_path, 15)
        assert saver.restore(state=state) == 10


_FORKS = """
import multiprocessing, sys
import numpy as np, stoker
def child(folder):
    global saver
    saver = stoker.Checkpointer(folder)
    saver.save(1, state={"w": np.ones(5_000_000)})
process = multiprocessing.get_context("fork").Process(target=child, args=(sys.argv[1],))
process.start()
process.join()
sys.exit(process.exitcode)
"""


def test_a_forked_worker_waits_for_its_saves_when_it_ends(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORKS, tmp_path], check=True)
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-000000000001"]


class Two(NamedTuple):
    """As it was saved."""

    a: int
    b: int


class Three(NamedTuple):
    """As it is now."""

    a: int
    b: int
    c: int


def test_a_namedtuple_with_other_fields_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": np.ones(3), "p": Two(1, 2)}).wait()
        have = {"w": np.zeros(3), "p": Three(5, 6, 7)}
        with pytest.raises(
            ValueError, match=r"state\['p'\]: Three has 3 fields, but 2 are in step 1"
        ):
            saver.restore(state=have)
    assert have["w"].tolist() == [0, 0, 0]  # type: ignore[attr-defined]


def test_a_planted_epoch_that_has_no_next_one_is_named(tmp_path: Path) -> None:
    (tmp_path / f".lock-{2**53}").touch()
    with pytest.raises(ValueError, match=f"lock-{2**53} has the largest possible number"):
        stoker.Checkpointer(tmp_path, lock="20s", lock_ttl=0.5).save(1, state={"n": 1})


def test_the_catalog_does_not_grow_with_checkpoints_that_are_gone(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path, keep_last=2) as saver:
        for step in range(300):
            saver.save(step, state={"n": step}).wait()
        lines = (tmp_path / ".catalog").read_bytes().count(b"\n")
        assert 2 <= lines <= 100
        assert saver.steps() == [298, 299]


def test_what_others_save_while_a_restore_runs_stays_as_well(tmp_path: Path) -> None:
    other = stoker.Checkpointer(tmp_path)
    for step in (10, 20):
        other.save(step, state={"w": np.zeros(3)}, tardy={"n": 1}).wait()

    class Late:
        """Is asked in the middle of the restore."""

        def state_dict(self) -> dict[str, int]:
            if other.latest == 20:
                other.save(30, state={"w": np.ones(3)}, tardy={"n": 2}).wait()
            return {"n": 0}

        def load_state_dict(self, state: dict[str, int]) -> None:
            assert state == {"n": 1}

    with stoker.Checkpointer(tmp_path, keep_last=1) as saver:
        assert saver.restore(20, state={"w": np.zeros(3)}, tardy=Late()) == 20
        saver.save(21, state={"w": np.zeros(3)}, tardy={"n": 3}).wait()
        assert sorted(saver.steps()) == [21, 30]
    other.close()


_CELL = """
saver = stoker.Checkpointer(folder, keep_last=2, rate_limit="4MB")
kept.append(saver)  # as the outputs of cells
state = {"w": np.zeros(1 << 17)}
first = saver.restore(state=state) or 0
for step in range(first + 1, first + 3):
    state["w"] += 1
    saver.save(step, state=state)
"""


def test_a_cell_of_a_notebook_that_runs_again_continues_after_its_last_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It took the save before, because the last one was still being written."""
    names: dict[str, Any] = {"stoker": stoker, "np": np, "folder": tmp_path, "kept": []}
    for first in (0, 2, 4):
        exec(_CELL, names)
        assert (names["first"], names["step"]) == (first, first + 2)
        assert (names["state"]["w"] == first + 2).all()
    names["saver"].close()
    assert names["saver"].steps() == [5, 6]
    assert told(caplog) == ""

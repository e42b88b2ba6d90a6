"""What version 0.1 has left on a disk: restored, verified, continued, and read in place."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

_GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "version_0_1"
_COMMAND = Path(__file__).parents[2] / "build" / "release" / "stoker"


def _maker() -> Any:
    """The script that has made the files: it knows what was saved."""
    spec = importlib.util.spec_from_file_location("make_golden_0_1", _GOLDEN / "make_golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _copied(tmp_path: Path, name: str) -> Path:
    shutil.copytree(_GOLDEN / name, tmp_path / name, symlinks=True)
    return tmp_path / name


def _check(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
        elif name == "tied":
            for array in found[name]:
                np.testing.assert_array_equal(array, value[0])
        else:
            assert found[name] == value
            assert type(found[name]) is type(value)


def _verify(directory: Path) -> subprocess.CompletedProcess[str]:
    if not _COMMAND.exists():
        pytest.skip("the command is not built")
    command = [str(_COMMAND), "checkpoint", "verify", str(directory), "--all"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("step", "saved"),
    [("latest", 1040), (10, 10), (20, 20), (30, 1030), ("step-000000000040.superseded-4", 40)],
)
def test_checkpoints_are_restored(tmp_path: Path, step: Any, saved: int) -> None:
    with stoker.Checkpointer(_copied(tmp_path, "single")) as saver:
        done = saver.restore(step, state=None)
    assert done is not None
    _check(done.trees["state"], _maker().state_of(saved))


def test_checkpoints_are_verified(tmp_path: Path) -> None:
    for name in ("single", "ranks"):
        ran = _verify(_copied(tmp_path, name))
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_run_is_continued(tmp_path: Path) -> None:
    directory = _copied(tmp_path, "single")
    maker = _maker()
    with stoker.Checkpointer(directory, keep_last=2, keep_best=("val_loss", "min", 1)) as saver:
        state = maker.state_of(0)
        assert saver.restore(state=state) == 40
        with pytest.raises(FileExistsError):
            saver.save(40, state=state)
        for step in (50, 60):
            saver.save(step, state=maker.state_of(step)).wait()
        saver.wait()
        # 20 was pinned and 10 is the best by what 0.1 has annotated.
        assert saver.steps() == [10, 20, 50, 60]
    left = {path.name for path in directory.iterdir()}
    assert not [name for name in left if name.startswith(("owner-", ".trash-"))], "swept"
    assert _verify(directory).returncode == 0
    again = stoker.Checkpointer(directory)
    found = again.restore(state=None)
    assert found is not None
    _check(found.trees["state"], maker.state_of(60))


def test_a_rewound_run_of_0_1_can_be_rewound_again(tmp_path: Path) -> None:
    directory = _copied(tmp_path, "single")
    maker = _maker()
    with stoker.Checkpointer(directory) as saver:
        assert saver.restore(20, state=maker.state_of(0)) == 20
        saver.save(30, state=maker.state_of(2030)).wait()
        names = {path.name for path in directory.glob("step-000000000030*")}
        assert len(names) == 3, names
        found = saver.restore(state=None)
    assert found is not None
    _check(found.trees["state"], maker.state_of(2030))


def test_what_two_ranks_had_equal_goes_to_one(tmp_path: Path) -> None:
    """Its manifests have no digests of tensors: they are computed."""
    whole = np.arange(12.0).reshape(6, 2)
    part = stoker.Slice(np.zeros((6, 2)), global_shape=(6, 2), offsets=(0, 0))
    state = {"part": part, "same": np.zeros(5, np.int64), "lr": 0.0}
    with stoker.Checkpointer(_copied(tmp_path, "ranks"), rank=0, world_size=1) as saver:
        with pytest.raises(ValueError, match=r"state\['own'\].*each of the 2 ranks"):
            saver.restore(state=state)
        loaded = stoker.load(tmp_path / "ranks" / "latest")
        np.testing.assert_array_equal(np.asarray(loaded["state.part"]), whole)
        np.testing.assert_array_equal(np.asarray(loaded["rank-00001.state.same"]), np.arange(5))


def test_an_index_and_a_cursor_are_taken_up(tmp_path: Path) -> None:
    dataset = _copied(tmp_path, "dataset")
    told = json.loads((_GOLDEN / "cursor.json").read_text())
    for name, time_ns in told["mtimes_ns"].items():
        os.utime(dataset / name, ns=(time_ns, time_ns))
    (index,) = (dataset / ".stoker").glob("index-*")
    before = index.stat()
    loader = _maker().make_loader(dataset)
    loader.load_state_dict(told["cursor"])
    batches = iter(loader)
    keys = [list(map(str, next(batches)["__key__"])) for _ in told["next_keys"]]
    assert keys == told["next_keys"]
    assert index.stat().st_ino == before.st_ino, "it was read, not built again"

"""examples/cpp/libtorch, built as a user does: with the CMake packages of torch and of Stoker."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import stoker  # noqa: E402

ROOT = Path(__file__).parents[2]
PREFIX = os.environ.get("STOKER_PREFIX", "")  # where it is installed


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("libtorch")
    found = f"-DCMAKE_PREFIX_PATH={PREFIX};{torch.utils.cmake_prefix_path}"
    source = ROOT / "examples" / "cpp" / "libtorch"
    subprocess.run(["cmake", "-S", source, "-B", build, found], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    return build / "train_torch"


def test_a_killed_training_continues_with_the_same_losses(program: Path, tmp_path: Path) -> None:
    def train(run: str, *more: str) -> int:
        command = [program, tmp_path / run, tmp_path / f"{run}.losses", *more]
        return subprocess.run(command, check=False).returncode

    assert train("whole") == 0
    assert train("killed", "--die-at", "17") == -signal.SIGKILL
    assert train("killed") == 0
    losses = (tmp_path / "whole.losses").read_text()
    assert len(losses.splitlines()) == 40
    assert (tmp_path / "killed.losses").read_text() == losses
    assert float.fromhex(losses.splitlines()[-1]) < float.fromhex(losses.splitlines()[0])


def test_python_reads_what_libtorch_has_saved(program: Path, tmp_path: Path) -> None:
    subprocess.run([program, tmp_path / "run", tmp_path / "losses"], check=True)
    model = torch.nn.ModuleDict({"hidden": torch.nn.Linear(8, 16), "out": torch.nn.Linear(16, 1)})
    with stoker.Checkpointer(tmp_path / "run") as saver:
        done = saver.restore(model=dict(model.state_dict()), optimizer=None, losses=None)
    assert done == 40
    assert len(done.trees["losses"]) == 40
    momentum = done.trees["optimizer"]["hidden.weight"]
    assert isinstance(momentum, torch.Tensor)
    assert momentum.shape == (16, 8)
    loaded = stoker.load(tmp_path / "run")
    assert loaded["model.hidden.weight"][...].tolist() == model.hidden.weight.tolist()

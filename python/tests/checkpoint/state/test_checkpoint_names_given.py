"""Names and numbers as people write them, and files of torch's as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._commands import torch as _torch_command


def test_a_step_may_be_given_as_text(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        for step in (80, 90):
            saver.save(step, state={"w": np.full(2, step)}).wait()
        assert saver.restore("80", state=None) == 80
        for given in (85, "85", "step-000000000085"):
            with pytest.raises(
                FileNotFoundError, match=r"step-000000000085.*existing steps: 80, 90"
            ):
                saver.restore(given, state=None)
    assert stoker.load(tmp_path / "80").step == 80
    assert stoker.load(f"{tmp_path}/80/").step == 80
    with pytest.raises(FileNotFoundError, match="step-000000000085"):
        stoker.load(tmp_path / "85")
    (tmp_path / "90").touch()
    with pytest.raises(stoker.CorruptError):
        stoker.load(tmp_path / "90")  # the file that has this name


@pytest.mark.parametrize(
    "setting", [{"memory_bytes": "8 gigs"}, {"rate_limit": "fast"}, {"rate_limit": "2 gigs/s"}]
)
def test_a_size_that_is_none_names_its_argument(tmp_path: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(setting))}: .*size"):
        stoker.Checkpointer(tmp_path, **setting)


def _train(torch: Any, model: Any, optimizer: Any, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(4, 3, generator=generator)).square().sum().backward()
        optimizer.step()


def _new(torch: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


@pytest.mark.filterwarnings("ignore")
def test_an_optimizer_continues_from_a_distributed_checkpoint_of_torch(tmp_path: Path) -> None:
    """Its moments lay under "0", and it began anew without a word."""
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    model, optimizer = _new(torch)
    _train(torch, model, optimizer, range(3))
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    dcp.save(state, checkpoint_id=tmp_path / "dcp")
    _train(torch, model, optimizer, range(3, 4))

    run = tmp_path / "run"
    assert _torch_command.main(["import", str(run), str(tmp_path / "dcp"), "--step", "3"]) == 0
    again, other = _new(torch)
    with stoker.Checkpointer(run) as saver:
        done = saver.restore(model=again, optimizer=other, partial=True)
    assert done is not None
    assert list(other.state_dict()["state"]) == [0, 1, 2, 3]
    _train(torch, again, other, range(3, 4))
    assert other.state_dict()["state"][0]["step"] == 4
    for one, two in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)


_EXPORT = """
import resource, sys
from stoker._commands import torch as _torch_command
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.exit(_torch_command.main(["export", *sys.argv[1:]]))
"""


def test_an_export_without_room_is_one_clear_line(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, state={"w": np.zeros(1 << 17)}).wait()
    step, out = tmp_path / "run" / "step-000000000001", tmp_path / "out.pt"
    ran = subprocess.run(
        [sys.executable, "-c", _EXPORT, str(step), str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("stoker checkpoint export: ")
    assert ran.stderr.count("\n") == 1
    assert "File too large" in ran.stderr
    assert str(out) in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

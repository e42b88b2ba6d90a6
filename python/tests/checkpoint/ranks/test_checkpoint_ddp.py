"""Ordinary DDP scripts: what two ranks have saved one restores, and who waits is told for whom."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from fork_server import ForkedPython

torch = pytest.importorskip("torch")

_TRAIN = """
import logging, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import stoker
from stoker._checkpoint.ranks import job as _checkpoint_job

logging.basicConfig(level=logging.WARNING, format="%(message)s")
folder, what = sys.argv[1:3]
dist.init_process_group("gloo")
rank = dist.get_rank()

def make():
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    return net, torch.optim.AdamW(net.parameters(), lr=0.01)

def train(model, optimizer, steps):
    for step in range(steps):
        # The same on both ranks, so that buffers are as well.
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""

_SAVE = (
    _TRAIN
    + """
net, optimizer = make()
train(DDP(net), optimizer, 5)
if rank == 0:
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()["state"]}
    torch.save(state, folder + ".pt")
with stoker.Checkpointer(folder, deadline=60) as saver:
    if what == "all":
        saver.save(5, model=net, optimizer=optimizer).wait()
    elif rank == 0:
        _checkpoint_job._TOLD_AFTER_SECONDS = 0.2
        late = stoker.Checkpointer(folder, deadline=3)
        try:
            late.save(5, model=net, optimizer=optimizer)
        except stoker.LateError as error:
            print("LateError", error)
        late.close()
        alone = stoker.Checkpointer(folder, rank=0, world_size=1)
        alone.save(5, model=net, optimizer=optimizer).wait()
        alone.close()
dist.barrier()
dist.destroy_process_group()
"""
)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(program: str, folder: Path, what: str, world: int = 2) -> list[str]:
    port = str(_free_port())
    ranks = [
        ForkedPython(
            [sys.executable, "-c", program, folder, what],
            torch=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            },
        )
        for rank in range(world)
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world, said
    return said


def _restore_alone(folder: Path) -> None:
    """By one process, into fresh objects: to the bit what rank 0 had."""
    expected = torch.load(f"{folder}.pt", weights_only=True)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.5)
    with stoker.Checkpointer(folder, rank=0, world_size=1) as saver:
        assert saver.restore(model=net, optimizer=optimizer) == 5
    assert optimizer.param_groups[0]["lr"] == 0.01
    found = {"model": net.state_dict(), "optimizer": optimizer.state_dict()["state"]}
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_what_two_ranks_have_saved_one_restores(tmp_path: Path) -> None:
    _run(_SAVE, tmp_path / "c", "all")
    _restore_alone(tmp_path / "c")


def test_rank_0_that_saves_alone_is_told_for_whom_it_waits_and_what_to_do(tmp_path: Path) -> None:
    first, other = _run(_SAVE, tmp_path / "c", "rank 0")
    assert "rank 0 of 2 waits for rank 1" in first, first
    assert "every rank must make the same calls" in first
    assert "world_size=1" in first
    assert "LateError" in first
    assert other == "", other
    _restore_alone(tmp_path / "c")


def test_who_waits_for_the_lock_is_told_who_holds_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
import sys
import numpy as np, stoker
saver = stoker.Checkpointer(sys.argv[1])
saver.save(1, state={"w": np.zeros(3)}).wait()
print("holds", flush=True)
sys.stdin.readline()
saver.close()
"""
    command = [sys.executable, "-c", program, str(tmp_path / "c")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        monkeypatch.setattr("stoker._checkpoint.ranks.job._TOLD_AFTER_SECONDS", 0.1)
        with (
            stoker.Checkpointer(tmp_path / "c", lock=1.0) as saver,
            pytest.raises(stoker.LateError, match=f"pid {holder.pid} on"),
        ):
            saver.save(2, state={})
        assert f"which pid {holder.pid} on" in caplog.text, caplog.text
        holder.communicate("end\n")

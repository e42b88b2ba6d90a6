"""Optimizers of which every rank has another share, or other settings: FSDP1, rates that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

import stoker
from fork_server import torchrun

torch = pytest.importorskip("torch", reason="torch is not installed")

_PROGRAM = r"""
import sys
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
import stoker

dist.init_process_group("gloo")
rank = dist.get_rank()
saver = stoker.Checkpointer(sys.argv[1], deadline=60)


# FSDP1: of some parameters one rank has all elements, and the other one has none.
def make(is_flat):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 7))
    model = FullyShardedDataParallel(
        model, use_orig_params=not is_flat, device_id=torch.device("cpu")
    )
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def train(model, optimizer, value):
    optimizer.zero_grad()
    model(torch.full((2, 5), value)).square().sum().backward()
    optimizer.step()


def all_of(model, optimizer):
    with FullyShardedDataParallel.summon_full_params(model):
        weights = [one.detach().clone() for one in model.parameters()]
    states = [state for state in optimizer.state.values()]
    return weights + [tensor.clone() for state in states for tensor in state.values()]


for step, is_flat in ((1, False), (2, True)):
    model, optimizer = make(is_flat)
    train(model, optimizer, 1.0)
    saver.save(step, model=model, optimizer=optimizer).wait()
    wanted = all_of(model, optimizer)
    train(model, optimizer, 2.0)
    again = make(is_flat)  # an optimizer that has made no step
    for into in ((model, optimizer), again):
        assert saver.restore(step, model=into[0], optimizer=into[1]) == step
        found = all_of(*into)
        assert len(found) == len(wanted) and all(map(torch.equal, found, wanted))
    both = [(model, optimizer), again]
    for one in both:
        train(*one, 3.0)
    assert all(map(torch.equal, all_of(*both[0]), all_of(*both[1])))

# Rates that a scheduler has set by the loss of each rank alone.
torch.manual_seed(1)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias]}], lr=0.1)
optimizer.param_groups[1]["lr"] = 0.1 * (rank + 1)
saver.save(3, model=model, optimizer=optimizer).wait()
for group in optimizer.param_groups:
    group["lr"] = 9
saver.restore(3, model=model, optimizer=optimizer)
assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1 * (rank + 1)]
saver.close()
dist.destroy_process_group()
print("all is well")
"""


def test_each_rank_gets_its_own_share_and_settings(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    run = tmp_path / "run"
    status, out, errors = torchrun(
        "--standalone", "--nproc-per-node=2", tmp_path / "program.py", run
    )
    assert status == 0, errors[-6000:]
    assert out.count("all is well") == 2
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    with stoker.Checkpointer(run, rank=0, world_size=1) as saver:
        with pytest.raises(
            ValueError, match=r"optimizer\['param_groups'\]: each of the 2 ranks has saved another"
        ):
            saver.restore(3, model=model, optimizer=optimizer)
        assert optimizer.param_groups[0]["lr"] == 5.0
        assert saver.restore(3, model=model, partial=True) == 3
    assert "model.0.weight" in stoker.load(run / "step-000000000001"), "the whole model"

"""dcp.async_save in processes, and two-dimensional meshes on four ranks, through DcpWriter.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
pytest.importorskip("torch.distributed.fsdp")

_PROGRAM = r"""
import os, sys, warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from stoker.torch import DcpReader, DcpWriter


def build(seed, size, kind):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 6))
    if size == 4 and kind == "tensor":
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
        fully_shard(model, mesh=mesh["dp"])
    elif size == 4:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh)
    else:
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(4, 6)).square().sum().backward()
    optimizer.step()
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optim": moments, "epoch": seed}


def whole(tree):
    if isinstance(tree, dict):
        return {key: whole(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [whole(item) for item in tree]
    tensor = tree.full_tensor() if isinstance(tree, DTensor) else tree
    return tensor.tolist() if isinstance(tensor, torch.Tensor) else tensor


def main():
    dist.init_process_group("gloo")
    size, run, does = dist.get_world_size(), sys.argv[1], sys.argv[2]
    for step, kind in enumerate(("tensor", "hybrid")):
        place = dict(checkpoint_id=f"{run}/step-{step}")
        if does == "save":
            state = build(1, size, kind)
            for again in range(2):  # the second one with cached plans
                planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
                planner._cached_plans_key = kind
                place = dict(checkpoint_id=f"{run}/step-{step + 10 * again}")
                writer = DcpWriter(run, deadline=120)
                dcp.save(state, storage_writer=writer, planner=planner, **place)
            for again in range(2, 4):
                place = dict(checkpoint_id=f"{run}/step-{step + 10 * again}")
                future = dcp.async_save(
                    state, storage_writer=DcpWriter(run, deadline=120), **place,
                    async_checkpointer_type=AsyncCheckpointerType.PROCESS,
                )
                future.result()
            saved = whole(state)
            for again in range(4):
                found = build(2, size, kind)
                place = dict(checkpoint_id=f"{run}/step-{step + 10 * again}")
                dcp.load(found, storage_reader=DcpReader(run), **place)
                assert whole(found) == saved, (step, again)
        else:
            found = build(2, size, kind)
            dcp.load(found, storage_reader=DcpReader(run), **place)
        if dist.get_rank() == 0:
            print("state", repr(whole(found if does != "save" else state)))
        else:
            whole(found if does != "save" else state)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


def run_ranks(size: int, folder: Path, does: str) -> list[str]:
    (folder / "program.py").write_text(_PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={size}", "program.py", "run", does]
    ended = subprocess.run(
        command,
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr[-6000:]
    return [line for line in ended.stdout.splitlines() if line.startswith("state ")]


def test_four_ranks_save_by_every_way_and_two_and_one_load(tmp_path: Path) -> None:
    saved = run_ranks(4, tmp_path, "save")
    assert len(saved) == 2
    for size in (2, 1):
        assert run_ranks(size, tmp_path, "load") == saved
    with stoker.Checkpointer(tmp_path / "run", rank=0, world_size=1) as saver:
        assert sorted(saver.steps()) == [0, 1, 10, 11, 20, 21, 30, 31]

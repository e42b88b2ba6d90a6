"""A training that test_elastic_interop.py stops and continues on other numbers of ranks.

`torchrun ... elastic.py SHARDS CHECKPOINTS NOTES ddp|fsdp exact|usual STEPS [--killed-at STEP]
[--held-at STEP:RANKS]...`. NOTES gets a line of JSON for each step, with the keys of the global
batch and the loss. "exact": all numbers are integers in float64, so that no order of additions
changes a bit. "held": with so many ranks the last one waits at the step, until it is ended.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import signal
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import stoker


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    for name in ("shards", "checkpoints", "notes", "layout", "kind"):
        parser.add_argument(name)
    parser.add_argument("steps", type=int)
    parser.add_argument("--killed-at", type=int, default=0)
    parser.add_argument("--held-at", action="append", default=[])
    return parser.parse_args()


def make_model(is_exact: bool) -> nn.Module:
    """A model of 8 inputs and an output; the norm has buffers, except in the exact one."""
    torch.manual_seed(5)
    if not is_exact:
        return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    model = nn.Sequential(nn.Linear(8, 1).double())
    for parameter in model.parameters():
        parameter.data.copy_(torch.arange(parameter.numel()).reshape(parameter.shape))
    return model


def loss_of(output: torch.Tensor, batch: Any, is_exact: bool) -> torch.Tensor:
    """In the exact model linear in the output: the gradients are sums of integers."""
    target = batch["y.npy"][:, 0].to(output.dtype)
    if is_exact:
        return (output[:, 0] * target).sum() * dist.get_world_size()  # gradients are averaged
    return nn.functional.mse_loss(output[:, 0], target)


def digest_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """A digest of all parameters and their state, whole: the same on every rank."""
    found = hashlib.sha256()
    for parameter in model.parameters():
        state = optimizer.state.get(parameter, {})
        for tensor in (parameter, *(state[name] for name in sorted(state))):
            if isinstance(tensor, torch.Tensor):
                whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
                found.update(whole.detach().numpy().tobytes())
    return found.hexdigest()


def main() -> None:
    """Trains until a step."""
    asked = arguments()
    is_exact = asked.kind == "exact"
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = make_model(is_exact)
    if asked.layout == "fsdp":
        model = fully_shard(model, mesh=dist.init_device_mesh("cpu", (world,)))
    else:
        model = DistributedDataParallel(model)
    settings = {"lr": 0.25} if is_exact else {"lr": 0.01, "momentum": 0.9}
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    loader = stoker.Loader(
        asked.shards,
        global_batch_size=8,
        seed=3,
        epochs=None,
        fields={"x.npy": "float32", "y.npy": "float32"},
    )
    saver = stoker.Checkpointer(asked.checkpoints, keep_last=3, deadline=120)
    restored = saver.restore(model=model, optimizer=optimizer, loader=loader, rng=True)
    state = digest_of(model, optimizer)
    if restored is not None:
        assert restored.extra["state"] == state, "not what was saved"
    for step, batch in loader.steps():
        if step == asked.killed_at and rank == world - 1:
            os.kill(os.getpid(), 9)
        if f"{step}:{world}" in asked.held_at and rank == world - 1:
            signal.pause()
        inputs = batch["x.npy"].double() if is_exact else batch["x.npy"]
        loss = loss_of(model(inputs), batch, is_exact)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        keys: list[Any] = [None] * world
        dist.all_gather_object(keys, list(batch["__key__"]))
        state = digest_of(model, optimizer)
        if rank == 0:
            line = {
                "step": step,
                "keys": list(itertools.chain(*keys)),
                "loss": float(total) / world,
            }
            with open(asked.notes, "a") as notes:  # noqa: PTH123
                notes.write(json.dumps({**line, "state": state, "ranks": world}) + "\n")
            print(f"step {step}", flush=True)
        if step % 5 == 0:
            trees = {"model": model, "optimizer": optimizer, "loader": loader, "rng": True}
            saver.save(step, **trees, extra={"state": state})
        if step == asked.steps:
            break
    saver.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""One model in several layouts over the ranks of a job: what test_layouts_interop.py runs.

`torchrun ... layouts.py DIRECTORY save|restore LAYOUT...`: saves one checkpoint for each layout, or
restores each checkpoint in the directory into each layout and compares every bit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import stoker

WIDTH = 12


class Block(nn.Module):
    """A part of the model, with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("seen", torch.zeros(3))


class Experts(nn.Module):
    """The weights of all experts in one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 5, WIDTH))


class Model(nn.ModuleDict):
    """A model that is never called."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Nothing: fully_shard() wants one."""
        raise NotImplementedError


def whole_model() -> Model:
    """Every parameter has values that its name decides; some do not divide by the ranks."""
    model = Model({"embedding": nn.Embedding(7, WIDTH)})
    for number in range(3):
        model[f"block{number}"] = Block()
    model["experts"] = Experts()
    for name, tensor in model.state_dict().items():
        tensor.copy_(expected(name, tensor.shape))
    return model


def expected(name: str, shape: torch.Size) -> torch.Tensor:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def plain() -> nn.Module:
    return whole_model()


def pipeline() -> nn.Module:
    """The first half of the ranks has the first stage, the second half the second."""
    model = whole_model()
    stages = [["embedding", "block0"], ["block1", "block2", "experts"]]
    mine = stages[2 * dist.get_rank() // dist.get_world_size()]
    return Model({name: model[name] for name in mine})


def interleaved() -> list[nn.Module]:
    """Two stages on each half of the ranks, as in an interleaved schedule."""
    model = whole_model()
    stages = [["embedding"], ["block0"], ["block1", "block2"], ["experts"]]
    half = 2 * dist.get_rank() // dist.get_world_size()
    return [Model({name: model[name] for name in stages[number]}) for number in (half, half + 2)]


def sharded() -> nn.Module:
    model = whole_model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for number in range(3):
        fully_shard(model[f"block{number}"], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def hybrid() -> nn.Module:
    model = whole_model()
    names = ("replicate", "shard")
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=names))
    return model


def tensor_parallel() -> nn.Module:
    """FSDP2 over tensor parallel: the placements are _StridedShard."""
    model = whole_model()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for number in range(3):
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(model[f"block{number}"], mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])
    return model


def expert_parallel() -> nn.Module:
    """Experts are distributed over two of the ranks; the rest has nothing of them."""
    model = whole_model()
    mesh = DeviceMesh("cpu", [0, dist.get_world_size() - 1])
    weight = model["experts"].weight.detach()
    model["experts"].weight = nn.Parameter(
        distribute_tensor(weight, mesh, [Shard(0)], src_data_rank=None)
    )
    everywhere = init_device_mesh("cpu", (dist.get_world_size(),))
    for number in range(3):
        fully_shard(model[f"block{number}"], mesh=everywhere)
    return model


LAYOUTS: dict[str, Callable[[], nn.Module | list[nn.Module]]] = {
    "plain": plain,
    "pipeline": pipeline,
    "interleaved": interleaved,
    "sharded": sharded,
    "hybrid": hybrid,
    "tensor_parallel": tensor_parallel,
    "expert_parallel": expert_parallel,
}


def parts_of(model: nn.Module | list[nn.Module]) -> list[nn.Module]:
    return model if isinstance(model, list) else [model]


def named_parameters(model: nn.Module | list[nn.Module]) -> list[tuple[str, nn.Parameter]]:
    return [pair for part in parts_of(model) for pair in part.named_parameters()]


def named_tensors(model: nn.Module | list[nn.Module]) -> list[tuple[str, torch.Tensor]]:
    return [pair for part in parts_of(model) for pair in part.state_dict().items()]


def optimizer_of(model: nn.Module | list[nn.Module]) -> torch.optim.Optimizer:
    named = named_parameters(model)
    groups = [
        {"params": [p for n, p in named if "norm" in n], "weight_decay": 0.0},
        {"params": [p for n, p in named if "norm" not in n]},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.25)


def train(model: nn.Module | list[nn.Module], optimizer: torch.optim.Optimizer) -> None:
    """Sets the state that a step would make, exactly."""
    for _, parameter in named_parameters(model):
        value = parameter.detach()
        optimizer.state[parameter] = {
            "step": torch.tensor(3.0),
            "exp_avg": value * 2,
            "exp_avg_sq": value * 4,
        }


def check(model: nn.Module | list[nn.Module], optimizer: torch.optim.Optimizer, what: str) -> None:
    for name, tensor in named_tensors(model):
        shape = tensor.shape
        assert _equal(tensor, expected(name, shape)), f"{what}: {name}"
    for name, parameter in named_parameters(model):
        state = optimizer.state[parameter]
        value = expected(name, parameter.shape)
        assert float(state["step"]) == 3.0, f"{what}: step of {name}"
        for key, factor in (("exp_avg", 2), ("exp_avg_sq", 4)):
            assert type(state[key]) is type(parameter.data), f"{what}: {key} of {name}"
            assert _equal(state[key], value * factor), f"{what}: {key} of {name}"
    assert {group["lr"] for group in optimizer.param_groups} == {0.25}


def _equal(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    if not isinstance(tensor, DTensor):
        return torch.equal(tensor, value)
    if tensor.device_mesh.get_coordinate() is None:
        return tensor.to_local().numel() == 0
    (chunk,) = tensor.__create_chunk_list__()
    for dimension, (begin, size) in enumerate(zip(chunk.offsets, chunk.sizes, strict=True)):
        value = value.narrow(dimension, min(begin, value.shape[dimension]), size)
    return torch.equal(tensor.to_local().reshape(value.shape), value)


def empty(model: nn.Module | list[nn.Module]) -> None:
    for _, tensor in named_tensors(model):
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        local.fill_(float("nan"))


def main() -> None:
    directory, action, *names = sys.argv[1:]
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    for name in names:
        folders = (
            [Path(directory) / name] if action == "save" else sorted(Path(directory).iterdir())
        )
        for folder in folders:
            model = LAYOUTS[name]()
            if action == "restore":
                empty(model)
            optimizer = optimizer_of(model)
            with stoker.Checkpointer(folder, deadline=60) as saver:
                if action == "save":
                    for step in (1, 2):  # the second follows the decision of the first
                        train(model, optimizer)
                        saver.save(step, model=model, optimizer=optimizer).wait()
                else:
                    optimizer.param_groups[0]["lr"] = 7.0
                    assert saver.restore(model=model, optimizer=optimizer) == 2
                    check(model, optimizer, f"{folder.name} restored as {name}")
    if dist.is_initialized():
        dist.destroy_process_group()
    print("all is well")


if __name__ == "__main__":
    main()

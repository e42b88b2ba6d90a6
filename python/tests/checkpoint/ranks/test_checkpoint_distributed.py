"""Two ranks of torch.distributed: buffers of DDP, DTensors, tensors that say where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

import stoker
from fork_server import torchrun

_PROGRAM = r"""
import sys
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
import stoker

dist.init_process_group("gloo")
rank, mesh = dist.get_rank(), dist.init_device_mesh("cpu", (2,))
saver = stoker.Checkpointer(sys.argv[1], deadline=60)

# Each rank has seen other samples: the running means differ, until rank 0's are broadcast.
model = DistributedDataParallel(torch.nn.BatchNorm1d(3))
model(torch.full((4, 3), float(rank)) + torch.arange(4.0)[:, None])
means = [torch.zeros(3), torch.zeros(3)]
dist.all_gather(means, model.module.running_mean)
assert not torch.equal(*means)
saver.save(1, model=model).wait()
model.module.running_mean.fill_(7)
saver.restore(1, model=model)
assert torch.equal(model.module.running_mean, means[0])

# One buffer of two modules, which is in another tree as well.
mask = torch.zeros(3)
masked = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)})
for part in masked.values():
    part.register_buffer("mask", mask)
masked = DistributedDataParallel(masked)
mask.fill_(rank + 1)
saver.save(17, model=masked, own={"mask": mask}).wait()
mask.fill_(7)
saver.restore(17, model=masked, own={"mask": mask})
assert mask.tolist() == [1] * 3

# Without the broadcast, they belong to the ranks.
apart = DistributedDataParallel(torch.nn.BatchNorm1d(3), broadcast_buffers=False)
apart.module.running_mean.fill_(rank)
saver.save(2, model=apart).wait()
apart.module.running_mean.fill_(7)
saver.restore(2, model=apart)
assert apart.module.running_mean.tolist() == [rank] * 3

# DTensors: sharded unevenly, replicated, and with sums pending.
whole = torch.arange(15.0).reshape(5, 3)
state = {"rows": distribute_tensor(whole, mesh, [Shard(0)]),
         "same": distribute_tensor(whole, mesh, [Replicate()])}
state["tied"] = state["rows"]
saver.save(3, state=state).wait()
for value in state.values():
    value.to_local().fill_(-1)
saver.restore(3, state=state)
assert torch.equal(state["rows"].full_tensor(), whole) and state["tied"] is state["rows"]
assert torch.equal(state["same"].to_local(), whole)
try:
    saver.save(4, state={"sum": DTensor.from_local(whole, mesh, [Partial()])})
    raise SystemExit("it was saved")
except (TypeError, ValueError) as error:
    assert "pending sums (Partial)" in str(error), error


class Placed(torch.Tensor):
    '''As CheckpointableTensor of newer versions: a plain tensor, with margins, of a larger one.'''


def placed(values):
    part = torch.full((4, 3), float("nan")).as_subclass(Placed)
    part.global_shape, part.global_offsets = (4, 3), (2 * rank, 0)
    part.local_offsets, part.local_sizes = (1, 0), (2, 3)
    part[1:3] = values
    return part


wanted = torch.arange(12.0).reshape(4, 3)
saver.save(5, state={"w": placed(wanted[2 * rank : 2 * rank + 2])}).wait()
found = placed(torch.zeros(2, 3))
saver.restore(5, state={"w": found})
assert torch.equal(torch.Tensor(found[1:3]), wanted[2 * rank : 2 * rank + 2])
assert torch.isnan(found[0]).all() and torch.isnan(found[3]).all(), "the margins stay"

# A frozen part, sharded.
from torch.distributed.fsdp import fully_shard

torch.manual_seed(rank)
adapted = torch.nn.Sequential(torch.nn.Linear(4, 4).requires_grad_(False), torch.nn.Linear(4, 4))
fully_shard(adapted, mesh=mesh)
trained = adapted[1].weight.full_tensor()
saver.save(7, model=adapted, only="trainable").wait()
adapted[1].weight.detach().to_local().zero_()
saver.restore(7, model=adapted)
assert torch.equal(adapted[1].weight.full_tensor(), trained)



# Built on meta and sharded: the shards get memory as they are read.
def build(device):
    with torch.device(device):
        model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def train(model, optimizer):
    loss = model(torch.ones(4, 6)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


model, optimizer = build("cpu")
train(model, optimizer)
saver.save(9, model=model, optimizer=optimizer).wait()
empty, again = build("meta")
before = list(empty.parameters())
saver.restore(9, model=empty, optimizer=again, device="cpu")
assert all(one is other for one, other in zip(before, empty.parameters(), strict=True))
for _ in range(3):
    assert train(model, optimizer) == train(empty, again)
for one, other in zip(model.parameters(), empty.parameters(), strict=True):
    assert torch.equal(one.to_local(), other.to_local())

# After an evaluation FSDP2 may still have whole parameters, which no optimizer has.
model, optimizer = build("cpu")
train(model, optimizer)
moments = optimizer.state[model[2].weight]["exp_avg"].to_local().clone()
with torch.no_grad():
    model(torch.ones(4, 6))
assert not isinstance(model[2].weight, DTensor)
saver.save(18, optimizer=optimizer, model=model).wait()
fresh, again = build("cpu")
with torch.no_grad():
    fresh(torch.ones(4, 6))
saver.restore(18, optimizer=again, model=fresh)
assert torch.equal(again.state[fresh[2].weight]["exp_avg"].to_local(), moments)

# A parameter without elements, and its optimizer.
class Hollow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.full, self.empty = (torch.nn.Parameter(torch.ones(n, 4)) for n in (3, 0))


def hollow():
    module = fully_shard(Hollow(), mesh=mesh)
    return module, torch.optim.AdamW(module.parameters())


model, optimizer = hollow()
for parameter in model.parameters():
    parameter.grad = torch.ones_like(parameter)
optimizer.step()
saver.save(11, model=model, optimizer=optimizer).wait()
for into, its in ((model, optimizer), hollow()):
    assert saver.restore(11, model=into, optimizer=its) == 11
    assert its.state[into.empty]["exp_avg"].shape == (0, 4)
    averages = [one.state[m.full]["exp_avg"] for one, m in ((its, into), (optimizer, model))]
    assert torch.equal(*(average.to_local() for average in averages))
assert saver.restore(11, model=None, optimizer=None).trees["model"]["empty"].shape == (0, 4)


# Subclasses made of other tensors, as torchao's 8-bit states: each rank has its own.
class Int8(torch.Tensor):
    @staticmethod
    def __new__(cls, values, scale):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=torch.float32)

    def __init__(self, values, scale):
        self.values, self.scale = values, scale

    def __tensor_flatten__(self):
        return ["values", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Int8(inner["values"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args, kwargs=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.view.default):
            return Int8(args[0].values, args[0].scale)
        raise NotImplementedError(f"{function}")


def int8(value, placement):
    part = Int8(torch.full((2, 4), value, dtype=torch.int8), torch.full((2,), float(value)))
    rows = 4 if placement.is_shard() else 2
    return DTensor.from_local(
        part, mesh, [placement], run_check=False, shape=torch.Size((rows, 4)), stride=(4, 1)
    )


state = {"own": int8(rank + 1, Shard(0)), "same": int8(3, Replicate())}
saver.save(12, state=state).wait()
parts = [one.to_local() for one in state.values()]
inner = [tensor for one in parts for tensor in (one.values, one.scale)]
kept = [tensor.clone() for tensor in inner]
for tensor in inner:
    tensor.zero_()
saver.restore(12, state=state)
assert all(map(torch.equal, inner, kept))
try:
    saver.restore(12, state={"own": int8(1, Replicate()), "same": int8(1, Shard(0))})
    raise SystemExit("another layout was filled")
except ValueError as error:
    assert "state['own']: a Int8 with" in str(error), error


# A fresh optimizer with lists of DTensors, and one with DTensors of other shapes.
class Lists(torch.optim.Optimizer):
    def __init__(self, parameters, make):
        super().__init__(parameters, {"lr": 0.1})
        self.make = make

    def step(self, closure=None):
        for one in self.param_groups[0]["params"]:
            self.state[one] = self.make(one)


sharded = [torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)])) for _ in range(2)]
make = lambda one: {"m": [one.detach() + 1, torch.ones(2)], "n": {"v": one.detach()}}
lists = Lists(sharded, make)
lists.step()
saver.save(13, lists=lists).wait()
fresh = Lists(sharded, None)
saver.restore(13, lists=fresh)
for one in sharded:
    moments, inner = fresh.state[one]["m"], fresh.state[one]["n"]["v"]
    assert isinstance(moments[0], DTensor) and moments[0].placements == one.placements
    assert torch.equal(moments[0].to_local(), one.to_local() + 1)
    assert type(moments[1]) is torch.Tensor and moments[1].tolist() == [1, 1]
    assert torch.equal(inner.to_local(), one.to_local())
rows = Lists(sharded, lambda one: {"row": distribute_tensor(torch.ones(5), mesh, [Shard(0)])})
rows.step()
saver.save(14, rows=rows).wait()
try:
    saver.restore(14, rows=Lists(sharded, None))
    raise SystemExit("a whole tensor was made")
except ValueError as error:
    assert "make one before restore()" in str(error), error
rows.state[sharded[0]]["row"].to_local().zero_()
saver.restore(14, rows=rows)
assert rows.state[sharded[0]]["row"].full_tensor().tolist() == [1] * 5


# Tensor parallel and hybrid sharding, built on meta.
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def parallel(device):
    with torch.device(device):
        model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 6))
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})


def hybrid(device):
    with torch.device(device):
        model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 6))
    both = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    return fully_shard(model, mesh=both)


torch.manual_seed(1)
made = parallel("cpu")
saver.save(15, model=made).wait()
for build in (parallel, hybrid):
    empty = build("meta")
    saver.restore(15, model=empty, device="cpu")
    for one, two in zip(made.parameters(), empty.parameters(), strict=True):
        wholes = [p.full_tensor() if isinstance(p, DTensor) else p for p in (one, two)]
        assert not two.is_meta and torch.equal(*wholes)

saver.save(16, state={"w": wanted})
dist.destroy_process_group()  # before close()
saver.close()
print("all is well")
"""


def test_what_torch_distributes_is_saved_once_and_restored(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text(_PROGRAM)
    run = tmp_path / "run"
    status, out, errors = torchrun(
        "--standalone", "--nproc-per-node=2", tmp_path / "program.py", run
    )
    assert status == 0, errors[-6000:]
    assert out.count("all is well") == 2
    buffers = stoker.load(run / "step-000000000001")
    assert "model.running_mean" in buffers, "one for all ranks"
    assert "optimizer.state.model.2.weight.exp_avg" in stoker.load(run / "step-000000000018")
    apart = stoker.load(run / "step-000000000002")
    assert apart["rank-00001.model.running_mean"][...].tolist() == [1, 1, 1]
    tensors = stoker.load(run / "step-000000000003")
    assert sorted(tensors) == ["state.rows", "state.same", "state.tied"]
    assert tensors["state.rows"][...].tolist() == tensors["state.same"][...].tolist()
    placed = stoker.load(run / "step-000000000005")["state.w"][...]
    assert placed.reshape(-1).tolist() == list(range(12))
    with stoker.Checkpointer(run, rank=0, world_size=1) as saver:
        assert sorted(saver.steps()) == [1, 2, 3, 5, 7, 9, 11, 12, 13, 14, 15, 16, 17, 18]
    inner = stoker.load(run / "step-000000000012")
    names = [f"rank-0000{rank}.state.own.{name}" for rank in (0, 1) for name in ("scale", "values")]
    names += ["state.same.scale", "state.same.values"]
    assert set(names) <= set(inner)
    assert sorted(stoker.load(run / "step-000000000007")) == ["model.1.bias", "model.1.weight"]

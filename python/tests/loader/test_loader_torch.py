"""Batches of tensors, and torch's own classes beside a Loader. Skipped without torch."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed (tools/requirements-torch.txt)")


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.fixture
def arrays(tmp_path: Path, write_tar: Any) -> Path:
    samples = {
        f"k{i}": {
            "x.npy": npy(np.full((2, 3), i, np.float32)),
            "r.npy": npy(np.arange(i % 3, dtype=np.int64)),
            "half": np.array([i, 1.5 * i], np.float32).astype(np.float32).tobytes(),
            "b16": (np.array([i, 2 * i], np.float32).view(np.uint32) >> 16).astype("<u2").tobytes(),
        }
        for i in range(8)
    }
    return write_tar(tmp_path / "arrays.tar", samples)  # type: ignore[no-any-return]


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 4, "shuffle": "off"}
    return stoker.Loader(data, **(settings | options))


def test_where_torch_is_installed_batches_have_tensors(shards: Path) -> None:
    batch = next(iter(load(shards, fields={"cls": int, "bin": bytes, "json": str})))
    assert isinstance(batch["cls"], torch.Tensor)
    assert batch["cls"].dtype == torch.int64
    assert isinstance(batch["bin"], stoker.BytesColumn)
    assert isinstance(batch["json"], list)
    assert isinstance(next(iter(load(shards, torch=False, fields={"cls": int})))["cls"], np.ndarray)


def test_tensors_look_into_the_batch_without_a_copy(arrays: Path) -> None:
    fields = {"x.npy": stoker.Npy(), "r.npy": stoker.Ragged()}
    loader = load(arrays, fields=fields, pin_memory=False)
    batch = next(iter(loader))
    source = batch._source
    assert source is not None
    where = source.column("x.npy").__array_interface__["data"][0]
    assert batch["x.npy"].data_ptr() == where
    assert batch["x.npy"].shape == (4, 2, 3)
    ragged = batch["r.npy"]
    assert ragged.values.dtype == ragged.offsets.dtype == torch.int64
    assert ragged.offsets.tolist() == [0, 0, 1, 3, 3]
    assert ragged[2].tolist() == [0, 1]
    batch["x.npy"].add_(1)  # the memory is the batch's own
    assert batch["x.npy"][0, 0, 0] == 1


def test_bfloat16_is_bfloat16(arrays: Path) -> None:
    batch = next(iter(load(arrays, fields={"b16": stoker.Array("bfloat16")})))
    assert batch["b16"].dtype == torch.bfloat16
    assert batch["b16"][3].tolist() == [3.0, 6.0]
    torch_named = load(arrays, fields={"b16": stoker.Array(torch.bfloat16)})
    assert next(iter(torch_named))["b16"].dtype == torch.bfloat16
    plain = next(iter(load(arrays, fields={"b16": stoker.Array("bfloat16")}, torch=False)))
    assert plain["b16"].dtype == np.uint16


def test_a_batch_moves_and_clones(arrays: Path) -> None:
    fields = {"x.npy": stoker.Npy(), "r.npy": stoker.Ragged(), "half": bytes}
    batch = next(iter(load(arrays, fields=fields)))
    moved = batch.to("meta")
    assert isinstance(moved, stoker.Batch)
    assert moved["x.npy"].device.type == "meta"
    assert moved["r.npy"].values.device.type == "meta"
    assert moved["half"] is batch["half"]
    assert moved.cursor == batch.cursor
    assert batch.to(torch.float64)["x.npy"].dtype == torch.float64
    clone = batch.clone()
    assert clone["x.npy"].data_ptr() != batch["x.npy"].data_ptr()
    assert torch.equal(clone["x.npy"], batch["x.npy"])
    assert torch.equal(clone["r.npy"].values, batch["r.npy"].values)


def test_out_fills_tensors(shards: Path) -> None:
    room = {"cls": torch.zeros(4, dtype=torch.int64)}
    for number, batch in enumerate(load(shards, fields={"cls": int}, out=room, tail="drop")):
        assert batch["cls"] is room["cls"]
        assert room["cls"].tolist() == list(range(4 * number, 4 * number + 4))
    wide = {"cls": torch.zeros(4, dtype=torch.int32)}
    with pytest.raises(ValueError, match=r"is int32 \(4,\), and the batch has int64 \(4,\)"):
        next(iter(load(shards, fields={"cls": int}, out=wide)))


def to_tensor(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"t": torch.tensor([sample["cls"], 1]), "b": torch.ones(2, dtype=torch.bfloat16)}


def pair(samples: list[dict[str, Any]]) -> tuple[Any, Any]:
    return torch.tensor([s["cls"] for s in samples]), [s["__key__"] for s in samples]


@pytest.mark.parametrize("where", ["thread", "process"])
def test_maps_may_return_arrays_or_tensors(shards: Path, where: Any) -> None:
    options: dict[str, Any] = {"fields": {"cls": int}, "map_in": where, "map_workers": 1}
    with load(shards, map=to_tensor, **options) as loader:
        batch = next(iter(loader))
    assert batch["t"].tolist() == [[0, 1], [1, 1], [2, 1], [3, 1]]
    assert batch["b"].dtype == torch.bfloat16
    with load(shards, collate=pair, **options) as loader:
        numbers, keys = next(iter(loader))
    assert isinstance(numbers, torch.Tensor)
    assert (numbers.tolist(), keys) == ([0, 1, 2, 3], ["s000", "s001", "s002", "s003"])


def test_a_sampler_of_torch_orders_samples(shards: Path) -> None:
    data = stoker.Dataset(shards)

    def sampler() -> Any:
        return torch.utils.data.RandomSampler(data, generator=torch.Generator().manual_seed(5))

    loader = load(data, order=sampler(), fields={"cls": int})
    assert [n for b in loader for n in b["cls"].tolist()] == list(sampler())
    with pytest.raises(ValueError, match="already divided"):
        load(data, order=torch.utils.data.DistributedSampler(data, num_replicas=2, rank=0))
    batches = torch.utils.data.BatchSampler(sampler(), 3, drop_last=False)
    with pytest.raises(TypeError, match="one by one"):
        load(data, order=batches)


def test_a_sampler_that_differs_between_ranks_is_refused(shards: Path) -> None:
    data = stoker.Dataset(shards)

    def sampler_of(generator: Any = None) -> list[Any]:
        samplers = torch.utils.data
        return [
            samplers.RandomSampler(data, generator=generator),
            samplers.SubsetRandomSampler(range(50), generator=generator),
            samplers.WeightedRandomSampler([1.0] * 50, 50, generator=generator),
        ]

    for sampler in sampler_of():
        load(data, order=sampler, world_size=1, rank=0)
        with pytest.raises(ValueError, match=rf"{type(sampler).__name__}.*2 ranks.*manual_seed"):
            load(data, order=sampler, world_size=2, rank=0)
    seen: list[int] = []
    for rank in range(2):
        sampler = sampler_of(torch.Generator().manual_seed(5))[0]
        loader = load(data, order=sampler, world_size=2, rank=rank, fields={"cls": int})
        seen += [n for batch in loader for n in batch["cls"].tolist()]
    assert sorted(seen) == list(range(50))
    sequential = torch.utils.data.SequentialSampler(data)
    load(data, order=sequential, world_size=2, rank=0)


class Wrapped(torch.utils.data.IterableDataset):  # type: ignore[name-defined, misc]
    """A Loader where people put one first."""

    def __init__(self, loader: stoker.Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Any:
        return iter(self.loader)


def test_in_the_main_process_a_dataloader_may_wrap_it(shards: Path) -> None:
    loader = load(shards, fields={"cls": int})
    wrapped = torch.utils.data.DataLoader(Wrapped(loader), batch_size=None)
    assert [n for batch in wrapped for n in batch["cls"].tolist()] == list(range(50))


@pytest.mark.filterwarnings("ignore:Got pickle error")
def test_a_worker_that_inherits_a_live_loader_gets_a_clear_error(shards: Path) -> None:
    loader = load(shards, fields={"cls": int})
    stream = iter(loader)
    next(stream)
    wrapped = torch.utils.data.DataLoader(
        Wrapped(loader), batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    with pytest.raises(RuntimeError, match="cannot be used in its fork"):
        list(wrapped)
    assert len(list(stream)) == 12  # nothing was harmed
    spawned = torch.utils.data.DataLoader(
        Wrapped(loader), batch_size=None, num_workers=1, multiprocessing_context="spawn"
    )
    with pytest.raises(TypeError, match=r"state_dict\(\)"):
        list(spawned)


def test_states_are_kept_by_torch_save(shards: Path, tmp_path: Path) -> None:
    loader = load(shards, fields={"cls": int})
    stream = iter(loader)
    next(stream)
    torch.save({"loader": loader.state_dict()}, tmp_path / "state.pt")
    again = load(shards, fields={"cls": int})
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True)["loader"])
    assert next(iter(again))["cls"].tolist() == [4, 5, 6, 7]


_DISTRIBUTED = """
import sys, torch.distributed as dist, stoker

def refuse(*_, **__):
    raise AssertionError("a loader calls no collectives: they would hang where ranks differ")

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = dist.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
for name in ("all_reduce", "all_gather", "all_gather_object", "barrier", "broadcast",
             "broadcast_object_list", "gather", "init_process_group", "new_group"):
    setattr(dist, name, refuse)
loader = stoker.Loader(sys.argv[1], batch_size=4)
print(loader._plan.ranks.source, loader._plan.ranks.world_size, len(list(loader)))
loader.load_state_dict(loader.state_dict())
print(stoker.Loader(sys.argv[1], batch_size=4, mesh=mesh["dp"])._plan.ranks.source)
dist.destroy_process_group()
"""


def test_ranks_come_from_torch_distributed_and_nothing_else_does(shards: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DISTRIBUTED, str(shards)],
        capture_output=True,
        text=True,
        env=os.environ | {"RANK": "1", "WORLD_SIZE": "2"},
        timeout=120,
    )
    assert done.stdout.split() == ["torch.distributed", "1", "12", "mesh"], done.stderr


def test_without_torch_there_are_arrays_and_asking_for_tensors_fails(shards: Path) -> None:
    program = """
import sys
sys.modules["torch"] = None   # as if it were not installed
import stoker
batch = next(iter(stoker.Loader(sys.argv[1], batch_size=2, fields={"cls": int})))
print(type(batch["cls"]).__name__)
try:
    stoker.Loader(sys.argv[1], batch_size=2, torch=True)
except ImportError as error:
    print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(shards)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["ndarray", "refused"], done.stderr

"""Data-parallel ranks from a DeviceMesh of torch, of one or several dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import stoker
from stoker._common.ranks import find_ranks

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")
fake_pg = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
device_mesh = pytest.importorskip("torch.distributed.device_mesh")

NAMES = ("pp", "dp_replicate", "dp_shard", "tp")
DATA = ("dp_replicate", "dp_shard")
WORLD = 16  # two in each dimension
MakeMesh: TypeAlias = Callable[..., Any]


@pytest.fixture
def mesh_at() -> Iterator[MakeMesh]:
    """Makes the mesh as a rank of a world that exists only in name: nothing is ever sent."""

    def make(rank: int, names: tuple[str, ...] | None = NAMES) -> Any:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        distributed.init_process_group(
            "fake", rank=rank, world_size=WORLD, store=fake_pg.FakeStore()
        )
        return device_mesh.init_device_mesh("cpu", (2, 2, 2, 2), mesh_dim_names=names)

    yield make
    if distributed.is_initialized():
        distributed.destroy_process_group()


@pytest.mark.parametrize("rank", range(WORLD))
def test_several_dimensions_are_one_in_row_major_order(mesh_at: MakeMesh, rank: int) -> None:
    mesh = mesh_at(rank)
    _, replica, shard, tensor = (rank >> 3 & 1, rank >> 2 & 1, rank >> 1 & 1, rank & 1)
    part = mesh[DATA]
    groups = len(distributed.distributed_c10d._world.pg_map)
    for given in ((mesh, DATA), (mesh, list(DATA)), part):
        found = find_ranks(mesh=given)
        assert (found.rank, found.world_size, found.source) == (2 * replica + shard, 4, "mesh")
    for given in (mesh["tp"], (mesh, "tp"), (mesh, ("tp",))):
        assert (find_ranks(mesh=given).rank, find_ranks(mesh=given).world_size) == (tensor, 2)
    assert len(distributed.distributed_c10d._world.pg_map) == groups  # none was created


def test_peers_in_other_dimensions_get_the_same_batches(mesh_at: MakeMesh, shards: Path) -> None:
    seen: dict[tuple[int, int], list[list[int]]] = {}
    for rank in range(WORLD):
        mesh = mesh_at(rank)
        loader = stoker.Loader(
            shards,
            global_batch_size=16,
            micro_batch_size=2,
            mesh=(mesh, DATA),
            fields={"cls": int},
            torch=False,
        )
        batches = [batch["cls"].tolist() for batch in loader]
        place = tuple(mesh.get_coordinate()[1:3])
        assert seen.setdefault(place, batches) == batches
    assert len(seen) == 4
    whole = [n for batches in seen.values() for batch in batches for n in batch]
    assert len(whole) == len(set(whole)) == 48


def test_all_processes_of_the_machine_share_its_memory(mesh_at: MakeMesh) -> None:
    mesh = mesh_at(0)
    found = find_ranks(mesh=(mesh, DATA), environment={"LOCAL_WORLD_SIZE": "8"})
    assert (found.world_size, found.local_world_size) == (4, 8)  # tensor-parallel peers read, too


def test_dimensions_that_may_not_be_data_parallel_have_to_be_named(mesh_at: MakeMesh) -> None:
    mesh = mesh_at(0)
    text = r"say which of them are data-parallel, mesh=\(mesh, \('dp_replicate', 'dp_shard'\)\)"
    with pytest.raises(ValueError, match=text):
        find_ranks(mesh=mesh)
    with pytest.raises(ValueError, match=r"mesh=\(mesh, \('dp_shard',\)\)"):
        find_ranks(mesh=mesh["dp_shard", "tp"])
    for wrong in (("dp",), (), ("tp", "tp")):
        with pytest.raises(ValueError, match="the dimensions of this mesh are"):
            find_ranks(mesh=(mesh, wrong))
    with pytest.raises(ValueError, match="mesh has the dimensions 4: say which"):
        find_ranks(mesh=mesh_at(0, names=None))
    with pytest.raises(TypeError, match=r"DeviceMesh.*not int"):
        find_ranks(mesh=(3, DATA))


def test_a_process_outside_of_the_mesh_is_refused(mesh_at: MakeMesh) -> None:
    mesh_at(5)
    part = device_mesh.DeviceMesh("cpu", torch.arange(4).reshape(2, 2), mesh_dim_names=DATA)
    with pytest.raises(ValueError, match="not part of the mesh"):
        find_ranks(mesh=part)

"""Which rank a Loader is of, and who says so."""

from __future__ import annotations

import logging
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._common import ranks as _ranks
from stoker._common.ranks import find_ranks

SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}
OMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "6"}


class Mesh:
    """As torch's DeviceMesh answers."""

    mesh_dim_names = ("dp", "tp")

    def __init__(self, rank: int, size: int, ndim: int = 1) -> None:
        self._rank, self._size, self.ndim = rank, size, ndim

    def get_local_rank(self) -> int:
        """Of this process."""
        return self._rank

    def size(self) -> int:
        """Of the dimension."""
        return self._size


@pytest.fixture(autouse=True)
def outside_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.delitem(sys.modules, "torch.utils.data", raising=False)
    monkeypatch.setattr(_ranks, "_logged", set())


def found(environment: dict[str, str], **arguments: Any) -> tuple[int, int, str]:
    ranks = find_ranks(environment=environment, **arguments)
    return ranks.rank, ranks.world_size, ranks.source


def pretend_distributed(monkeypatch: pytest.MonkeyPatch, initialized: bool) -> None:
    module = types.ModuleType("torch.distributed")
    module.is_available = lambda: True  # type: ignore[attr-defined]
    module.is_initialized = lambda: initialized  # type: ignore[attr-defined]
    module.get_rank = lambda: 7  # type: ignore[attr-defined]
    module.get_world_size = lambda: 9  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.distributed", module)


def test_the_first_that_knows_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = TORCHRUN | SLURM | OMPI
    assert found({}) == (0, 1, "default")
    assert found(OMPI) == (1, 4, "Open MPI")
    assert found(SLURM | OMPI) == (3, 8, "SLURM")
    assert found(everybody) == (5, 6, "RANK and WORLD_SIZE")
    pretend_distributed(monkeypatch, initialized=False)
    assert found(everybody) == (5, 6, "RANK and WORLD_SIZE")
    pretend_distributed(monkeypatch, initialized=True)
    assert found(everybody) == (7, 9, "torch.distributed")
    assert found(everybody, mesh=Mesh(1, 2)) == (1, 2, "mesh")
    assert found(everybody, rank=0, world_size=3) == (0, 3, "arguments")


def test_half_a_pair_of_variables_is_no_answer() -> None:
    assert found({"RANK": "5"} | SLURM) == (3, 8, "SLURM")
    assert found({"WORLD_SIZE": "1"}) == (0, 1, "default")
    assert found({"SLURM_NTASKS": "8"}) == (0, 1, "default")  # in the shell that starts the tasks
    with pytest.raises(ValueError, match="WORLD_SIZE=5 is set and RANK is not: set both"):
        found({"WORLD_SIZE": "5"})
    with pytest.raises(ValueError, match="RANK=0 is set and WORLD_SIZE is not: set both"):
        found({"RANK": "0"})
    assert found({"WORLD_SIZE": "5"}, rank=0, world_size=2) == (0, 2, "arguments")


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="belong together"):
        found({}, rank=1)
    with pytest.raises(ValueError, match="not both"):
        found({}, rank=1, world_size=2, mesh=Mesh(0, 1))
    with pytest.raises(ValueError, match=r"rank 2 of 2 \(arguments\)"):
        found({}, rank=2, world_size=2)
    with pytest.raises(ValueError, match="RANK='first' is not a number"):
        found({"RANK": "first", "WORLD_SIZE": "2"})
    with pytest.raises(
        ValueError, match=r"which of them are data-parallel, mesh=\(mesh, \('dp',\)"
    ):
        found({}, mesh=Mesh(0, 2, ndim=2))
    with pytest.raises(TypeError, match=r"DeviceMesh.*not str"):
        found({}, mesh="dp")


def test_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "stoker"):
        for _ in range(3):
            found(SLURM)
    assert [record.getMessage() for record in caplog.records] == ["loader: rank 3 of 8 (SLURM)"]


@pytest.mark.parametrize(
    ("environment", "local"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "4"}, 4),
        ({"SLURM_TASKS_PER_NODE": "4(x2),3"}, 4),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 2),
        ({"LOCAL_WORLD_SIZE": "64"}, 8),
    ],
)
def test_memory_is_shared_among_the_ranks_of_a_machine(
    environment: dict[str, str], local: int
) -> None:
    assert find_ranks(environment=SLURM | environment).local_world_size == local


def test_a_loader_takes_its_share_of_memory(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    loader = stoker.Loader(
        shards, batch_size=2, memory_bytes="64MiB", rank=0, world_size=2, torch=False
    )
    assert next(iter(loader)).size == 2
    assert loader.stats().memory_bytes == 32 << 20


def test_ranks_from_the_environment_reach_the_batches(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "4")
        loader = stoker.Loader(
            shards, global_batch_size=8, seed=3, torch=False, fields={"cls": int}
        )
        assert len(loader) == 6
        seen += [n for batch in loader for n in batch["cls"].tolist()]
    assert len(seen) == len(set(seen)) == 48


def test_in_a_worker_of_a_dataloader_a_loader_without_ranks_is_refused(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("torch.utils.data")
    module.get_worker_info = lambda: types.SimpleNamespace(id=1, num_workers=2)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.data", module)
    with pytest.raises(RuntimeError, match=r"worker 1 of 2 .*each would give the same samples"):
        stoker.Loader(shards, batch_size=2, torch=False)
    assert len(stoker.Loader(shards, batch_size=2, rank=1, world_size=2, torch=False)) == 12

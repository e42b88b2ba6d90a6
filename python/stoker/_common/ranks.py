"""Determines which part of every global batch this process has."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker._common.numbers import whole_number

_log = logging.getLogger("stoker")
_logged: set[tuple[str, Ranks]] = set()
_warned: set[tuple[tuple[int, int], Ranks]] = set()

# Launchers, and the variables that contain the rank and the world size.
LAUNCHERS = (
    ("RANK and WORLD_SIZE", "RANK", "WORLD_SIZE"),
    ("SLURM", "SLURM_PROCID", "SLURM_NTASKS"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
# Words in the names of dimensions in which ranks train on different samples. In others, such as
# "tp", they must not, so a mesh that has both is refused.
_DATA_PARALLEL = {"dp", "ddp", "fsdp", "hsdp", "data", "parallel", "replicate", "shard"}
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_TASKS_PER_NODE")


@dataclass(frozen=True)
class Ranks:
    """A process among those that train together.

    Attributes:
        rank: Its number, in data-parallel coordinates.
        world_size: Number of processes.
        local_world_size: How many of them share this machine's memory.
        source: Where the numbers are from.
    """

    rank: int
    world_size: int
    local_world_size: int
    source: str

    def warn_if_outdated(self) -> None:
        """Warns if torch.distributed has several ranks by now, but none were found before.

        That may be intended, if all ranks train on the same samples.
        """
        now = _from_distributed() if self.source == "default" else None
        if now is None or now[1] == 1 or (now, self) in _warned:
            return
        _warned.add((now, self))
        _log.warning(
            "loader: it was built before torch.distributed was initialized, so it is rank 0 of 1 "
            "and gives this process, which is rank %d of %d, every sample. Build it after "
            "init_process_group(), under Lightning in train_dataloader(); or give rank= and "
            "world_size=",
            *now,
        )


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except ValueError:
        raise ValueError(f"{name}={environment[name]!r} is not a number") from None


def _from_mesh(given: Any) -> tuple[int, int]:
    """Returns rank and size in a mesh, or in some dimensions of it: ``(mesh, names)``.

    Counts the coordinates, in row-major order; no process group is created.
    """
    mesh, wanted = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if not hasattr(mesh, "get_local_rank"):
        raise TypeError(
            'mesh is a DeviceMesh, or a pair (mesh, ("dp_replicate", "dp_shard")), not '
            f"{type(mesh).__name__}"
        )
    if wanted is None and mesh.ndim == 1:
        return int(mesh.get_local_rank()), int(mesh.size())
    dimensions = _dimensions(mesh, wanted)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ValueError("this process is not part of the mesh")
    rank, size = 0, 1
    for dimension in dimensions:
        rank = rank * int(mesh.shape[dimension]) + int(coordinate[dimension])
        size *= int(mesh.shape[dimension])
    return rank, size


def _dimensions(mesh: Any, wanted: Any) -> list[int]:
    """Returns the numbers of the named dimensions; of all if they are data-parallel by name."""
    names = tuple(mesh.mesh_dim_names or ())
    if wanted is None:
        parallel = tuple(name for name in names if set(name.split("_")) <= _DATA_PARALLEL)
        if names and parallel == names:
            return list(range(len(names)))
        raise ValueError(
            f"mesh has the dimensions {names or mesh.ndim}: say which of them are data-parallel, "
            f"mesh=(mesh, {parallel or ('dp_replicate', 'dp_shard')})"
        )
    chosen = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(names):
        raise ValueError(f"mesh=(mesh, {chosen}): the dimensions of this mesh are {names}")
    return [names.index(name) for name in chosen]


def _from_distributed() -> tuple[int, int] | None:
    """Uses torch.distributed only if it is imported; initializes nothing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _discover(environment: Mapping[str, str]) -> tuple[int, int, str]:
    if (found := _from_distributed()) is not None:
        return (*found, "torch.distributed")
    for launcher, rank, world_size in LAUNCHERS:
        if rank in environment and world_size in environment:
            return _number(environment, rank), _number(environment, world_size), launcher
    _refuse_half_a_pair(environment)
    return 0, 1, "default"


def _refuse_half_a_pair(environment: Mapping[str, str]) -> None:
    """A missing variable must not let every rank train on the same data.

    Only for RANK and WORLD_SIZE: SLURM also sets the number of tasks in the process that starts
    them.
    """
    for there, missing in (("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")):
        if there in environment and missing not in environment:
            if there == "WORLD_SIZE" and _number(environment, there) == 1:
                return
            # Lightning sets WORLD_SIZE for its processes, and initializes torch.distributed in
            # fit().
            lightning = (
                ". Under Lightning, build it in train_dataloader(), where the ranks are known"
                if there == "WORLD_SIZE" and "LOCAL_RANK" in environment
                else ""
            )
            raise ValueError(
                f"{there}={environment[there]} is set and {missing} is not: set both, or neither, "
                f"or give rank= and world_size={lightning}"
            )


def _local_world_size(environment: Mapping[str, str], world_size: int | None) -> int:
    for name in _LOCAL_SIZES:
        match = re.match(r"\d+", environment.get(name, ""))  # SLURM's may be "4(x2),3"
        if match is not None and int(match[0]) > 0:
            return int(match[0]) if world_size is None else min(int(match[0]), world_size)
    return 1


def _refuse_in_dataloader_worker() -> None:
    """Each worker of a DataLoader would read the same samples."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data is not None else None
    if worker is not None and worker.num_workers > 1:
        raise RuntimeError(
            f"this is worker {worker.id} of {worker.num_workers} of a torch DataLoader, and each "
            "would give the same samples. A stoker.Loader needs no workers: iterate over it in the "
            "main process; or give the DataLoader a stoker.Dataset; or say rank= and world_size="
        )


def find_ranks(
    rank: int | None = None,
    world_size: int | None = None,
    mesh: Any = None,
    environment: Mapping[str, str] = os.environ,
    who: str = "loader",
) -> Ranks:
    """Uses explicit numbers; or the mesh's, torch.distributed's or a launcher's; or 0 of 1.

    Logs the result, once.
    """
    if (rank is None) != (world_size is None):
        raise ValueError("rank= and world_size= belong together: give both, or neither")
    if rank is not None and world_size is not None:
        if mesh is not None:
            raise ValueError("rank= and world_size=, or mesh=: not both")
        size = whole_number("world_size", world_size, 1)
        found = whole_number("rank", rank), size, "arguments"
    elif mesh is not None:
        found = (*_from_mesh(mesh), "mesh")
    else:
        if who == "loader":
            _refuse_in_dataloader_worker()
        found = _discover(environment)
    if not 0 <= found[0] < found[1]:
        raise ValueError(f"rank {found[0]} of {found[1]} ({found[2]}): ranks count from 0")
    # A mesh may have processes beside those that are counted, with the same batches.
    others = None if mesh is not None else found[1]
    ranks = Ranks(found[0], found[1], _local_world_size(environment, others), found[2])
    if (who, ranks) not in _logged:
        _logged.add((who, ranks))
        _log.info("%s: rank %d of %d (%s)", who, ranks.rank, ranks.world_size, ranks.source)
    return ranks

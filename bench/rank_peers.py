#!/usr/bin/env python3
"""Compares saves by several ranks, and of many small tensors, with DCP and torch.save.

The ranks are processes of this machine under torchrun, with gloo. Three states: one that is sharded
over the ranks (DTensors), one that is the same on every rank, and in one process 100,000 tensors of
256 bytes. All change between two saves. A save counts as done when its files and their names are
durable. The sides take turns; the first round is not measured. Run it with PYTHONPATH=python:

    torchrun --standalone --nproc-per-node=4 bench/rank_peers.py PATH
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import DTensor, Shard

import stoker

Timed = tuple[float, float]  # seconds until it is durable, and for which the caller was blocked


def sync_all(folder: Path) -> None:
    """Makes the files of a peer and their names durable."""
    for path in [*folder.rglob("*"), folder, folder.parent]:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


class Sides:
    """How each side saves a state."""

    def __init__(self, folder: Path, state: dict[str, Any]) -> None:
        self.folder, self.state, self.step = folder, state, 0
        self.saver = stoker.Checkpointer(folder / "stoker", keep_last=1, dedup=False)

    def stoker(self) -> Timed:
        """stoker.Checkpointer."""
        self.step += 1
        begin = time.perf_counter()
        pending = self.saver.save(self.step, state=self.state)
        blocked = time.perf_counter() - begin
        pending.wait()
        return time.perf_counter() - begin, blocked

    def dcp(self) -> Timed:
        """DCP, which syncs its files; then the names."""
        begin = time.perf_counter()
        dcp.save(self.state, checkpoint_id=str(self.folder / "dcp"))
        if not dist.is_initialized() or dist.get_rank() == 0:
            sync_all(self.folder / "dcp")
        barrier()
        seconds = time.perf_counter() - begin
        return seconds, seconds

    def torch(self) -> Timed:
        """torch.save, then fsync."""
        begin = time.perf_counter()
        (self.folder / "torch").mkdir(exist_ok=True)
        torch.save(self.state, self.folder / "torch" / "state.pt")
        sync_all(self.folder / "torch")
        seconds = time.perf_counter() - begin
        return seconds, seconds


def barrier() -> None:
    """Waits for all ranks."""
    if dist.is_initialized():
        dist.barrier()


def is_first() -> bool:
    """Whether this is rank 0."""
    return not dist.is_initialized() or dist.get_rank() == 0


def compare(what: str, folder: Path, state: dict[str, Any], names: list[str], rounds: int) -> None:
    """Prints a line for each side: the median of each round's ratio to stoker."""
    sides = Sides(folder, state)
    found: dict[str, list[Timed]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            for tensor in state.values():
                (tensor.to_local() if isinstance(tensor, DTensor) else tensor).add_(1)
            if is_first() and name != "stoker":
                shutil.rmtree(folder / name, ignore_errors=True)
            barrier()
            side: Callable[[], Timed] = getattr(sides, name)
            timed = side()
            if number > 0:
                found[name].append(timed)
    sides.saver.close()
    barrier()
    if not is_first():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for name, times in found.items():
        durable, blocked = ([one[i] for one in times] for i in (0, 1))
        ratios = [one[0] / ours[0] for one, ours in zip(times, found["stoker"], strict=True)]
        print(
            f"{what}: {name}: durable after {statistics.median(durable):.3f} s, blocked "
            f"{statistics.median(blocked):.3f} s, {statistics.median(ratios):.2f} times stoker's "
            f"({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


def main() -> None:
    """Runs the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--mib", type=int, default=1024, help="size of the whole state")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if "RANK" not in os.environ:
        small = {f"layer{i:06}": torch.rand(64) for i in range(100_000)}
        compare(
            "100,000 tensors", args.path / "small", small, ["stoker", "torch", "dcp"], args.rounds
        )
        return
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (world,))
    rows = args.mib // 16 * 1024  # of 4 KiB, in each of 4 tensors
    sharded = {
        f"layer{i}": DTensor.from_local(torch.rand(rows // world, 1024), mesh, [Shard(0)])
        for i in range(4)
    }
    compare("sharded", args.path / "sharded", sharded, ["stoker", "dcp"], args.rounds)
    del sharded
    torch.manual_seed(1)
    same = {f"layer{i}": torch.rand(rows // 4, 1024) for i in range(16)}
    compare("the same on all ranks", args.path / "same", same, ["stoker", "dcp"], args.rounds)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())

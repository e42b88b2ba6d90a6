#!/usr/bin/env python3
"""Compares saves by several ranks, and of many small tensors, with DCP, torch.save and safetensors.

The ranks are processes of this machine under torchrun, with gloo. Their states: one that is sharded
over the ranks (DTensors), one that is the same on every rank, and 100,000 tensors of 256 bytes,
again the same on every rank. Without torchrun: those 100,000 tensors in one process. All change
between two saves. A save counts as done when its files and their names are durable; torch.save is
called by rank 0 alone. The sides take turns; the first round is not measured. Run it with
PYTHONPATH=python, with torchrun or without:

    torchrun --standalone --nproc-per-node=4 bench/rank_peers.py PATH
    python bench/rank_peers.py PATH
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
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor, Shard

import stoker

PEERS = ["torch", "safetensors", "dcp"]
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
        return self.by_first("torch", lambda path: torch.save(self.state, path))

    def safetensors(self) -> Timed:
        """save_file, then fsync."""
        return self.by_first("safetensors", lambda path: save_file(self.state, path))

    def by_first(self, name: str, save: Callable[[Path], None]) -> Timed:
        """Rank 0 saves one file and syncs it; the others wait."""
        begin = time.perf_counter()
        if is_first():
            (self.folder / name).mkdir(exist_ok=True)
            save(self.folder / name / "state")
            sync_all(self.folder / name)
        barrier()
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
        ours = found["stoker"]
        ratios = [[one[i] / own[i] for one, own in zip(times, ours, strict=True)] for i in (0, 1)]
        durable_text, blocked_text = (
            f"{statistics.median(one):.2f} times stoker's ({min(one):.2f} to {max(one):.2f})"
            for one in ratios
        )
        print(
            f"{what}: {name}: durable after {statistics.median(durable):.3f} s, {durable_text}; "
            f"blocked {statistics.median(blocked):.3f} s, {blocked_text}",
            flush=True,
        )


def main() -> None:
    """Runs the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--mib", type=int, default=1024, help="size of the whole state")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--peers", nargs="+", default=PEERS, choices=PEERS, help="those to save small tensors with"
    )
    parser.add_argument("--only", choices=["large", "small"], help="only states of such tensors")
    args = parser.parse_args()
    if "RANK" not in os.environ:
        compare_small(args)
        return
    dist.init_process_group("gloo")
    if args.only != "small":
        compare_large(args)
    if args.only != "large":
        compare_small(args)
    dist.destroy_process_group()


def compare_small(args: argparse.Namespace) -> None:
    """Compares saves of many small tensors, the same on every rank."""
    torch.manual_seed(1)
    small = {f"layer{i:06}": torch.rand(64) for i in range(100_000)}
    names = ["stoker", *args.peers]
    compare("100,000 tensors", args.path / "small", small, names, args.rounds)


def compare_large(args: argparse.Namespace) -> None:
    """Compares saves of a few large tensors by several ranks."""
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


if __name__ == "__main__":
    sys.exit(main())

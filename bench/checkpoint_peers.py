#!/usr/bin/env python3
"""Compares stoker.Checkpointer with torch.save, DCP and safetensors: figures P10 to P12.

The state is a dict of tensors in host memory, all of which change between two saves. A save counts
as done when its files and their names are durable: if a peer leaves a sync to the caller, it is
done and counted here. A restore fills existing tensors. fio writes and reads the same number of
bytes with direct I/O. All sides run in one process, in turns, as in loader_peers.py. Run it with
the interpreter of build/peers (tools/setup_peers.sh) and PYTHONPATH=python.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from peers import data, report  # noqa: E402
from peers.command import make_parser, publish  # noqa: E402
from peers.data import fsync  # noqa: E402
from peers.report import Row  # noqa: E402
from peers.turns import Answer, CallSide, Side, in_turns  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions  # noqa: E402

import stoker  # noqa: E402
from bench_fio import parse_size, run_json, size_text  # noqa: E402

OURS, TORCH, DCP, SAFETENSORS, FIO = "stoker", "torch.save", "DCP", "safetensors", "fio, direct"
DCP_ASYNC = "DCP async_save"
TENSOR_BYTES = 64 << 20


class Bench:
    """The state, and how each side saves and restores it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.size_bytes = args.size
        self.folder = Path(args.path)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        count = max(1, args.size // TENSOR_BYTES)
        self.state = {f"layer{i:03}": torch.rand(TENSOR_BYTES // 4) for i in range(count)}
        self.saver = stoker.Checkpointer(self.folder / "stoker", keep_last=1)
        self.step = 0
        # Keeps its buffers from save to save. Pinned memory needs a GPU.
        pins = torch.cuda.is_available()
        self.stager = DefaultStager(
            StagingOptions(use_pinned_memory=pins, use_non_blocking_copy=pins)
        )

    def change(self) -> None:
        """Runs before every save: changes the state, removes old files and waits for writeback."""
        for name in ("torch.pt", "dcp", "dcp-async", "fio"):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for tensor in self.state.values():
            tensor.add_(1)
        data.settle()

    def rate(self, seconds: float, blocked: float | None = None) -> Answer:
        """Returns the answer of one run."""
        return {
            "gb_per_s": self.size_bytes / seconds / 1e9,
            "blocked_ms": (seconds if blocked is None else blocked) * 1e3,
        }

    # Saving:

    def save_ours(self) -> Answer:
        """stoker: times the copy, which blocks, and the whole save."""
        self.step += 1
        begin = time.perf_counter()
        pending = self.saver.save(self.step, state=self.state)
        blocked = time.perf_counter() - begin
        pending.wait()
        return self.rate(time.perf_counter() - begin, blocked)

    def save_torch(self) -> Answer:
        """torch.save, then fsync."""
        begin = time.perf_counter()
        torch.save(self.state, self.folder / "torch.pt")
        fsync(self.folder / "torch.pt")
        fsync(self.folder)
        return self.rate(time.perf_counter() - begin)

    def save_dcp(self) -> Answer:
        """DCP, which syncs its files, then the directories."""
        begin = time.perf_counter()
        dcp.save(self.state, checkpoint_id=self.folder / "dcp", no_dist=True)
        fsync(self.folder / "dcp")
        fsync(self.folder)
        return self.rate(time.perf_counter() - begin)

    def save_dcp_async(self) -> Answer:
        """DCP in the background, then the directories; the state may change once it is staged."""
        begin = time.perf_counter()
        response: Any = dcp.async_save(
            self.state,
            checkpoint_id=self.folder / "dcp-async",
            no_dist=True,
            async_stager=self.stager,
        )
        response.staging_completion.result()
        blocked = time.perf_counter() - begin
        response.upload_completion.result()
        fsync(self.folder / "dcp-async")
        fsync(self.folder)
        return self.rate(time.perf_counter() - begin, blocked)

    def save_safetensors(self) -> Answer:
        """save_file, then fsync."""
        path = self.folder / "state.safetensors"
        path.unlink(missing_ok=True)
        begin = time.perf_counter()
        save_file(self.state, path)
        fsync(path)
        fsync(self.folder)
        return self.rate(time.perf_counter() - begin)

    def fio(self, direction: str) -> Answer:
        """fio: one file in blocks of 4 MiB, eight in flight."""
        found = run_json(
            [
                *("fio", "--name=bench", f"--rw={direction}", "--bs=4M", "--iodepth=8"),
                *("--direct=1", "--ioengine=io_uring", "--end_fsync=1", "--output-format=json"),
                *(f"--size={self.size_bytes}", f"--filename={self.folder / 'fio'}"),
            ]
        )
        job = found["jobs"][0][direction]
        return self.rate(job["runtime"] / 1e3)

    # Restoring:

    def restore_ours(self) -> Answer:
        """stoker, into the tensors of the state."""
        begin = time.perf_counter()
        self.saver.restore(state=self.state)
        return self.rate(time.perf_counter() - begin)

    def restore_safetensors(self) -> Answer:
        """load_file, then a copy into the tensors of the state."""
        begin = time.perf_counter()
        for name, tensor in load_file(self.folder / "state.safetensors").items():
            self.state[name].copy_(tensor)
        return self.rate(time.perf_counter() - begin)

    def restore_dcp(self) -> Answer:
        """DCP, which loads in place."""
        begin = time.perf_counter()
        dcp.load(self.state, checkpoint_id=self.folder / "dcp", no_dist=True)
        return self.rate(time.perf_counter() - begin)


def compare(bench: Bench, rounds: int) -> list[Row]:
    """Saves in turns, then restores in turns, cold and warm."""
    calls: dict[str, Callable[[], Answer]] = {
        OURS: bench.save_ours,
        TORCH: bench.save_torch,
        DCP: bench.save_dcp,
        SAFETENSORS: bench.save_safetensors,
        DCP_ASYNC: bench.save_dcp_async,
        FIO: functools.partial(bench.fio, "write"),
    }
    if not prepare_async(bench):
        del calls[DCP_ASYNC]
    found = run(bench, calls, rounds, bench.change)
    size = size_text(bench.size_bytes)
    rates = {label: [answer["gb_per_s"] for answer in found[label]] for label in calls}
    blocked = {label: [answer["blocked_ms"] for answer in found[label]] for label in calls}
    work = f"durable save of {size}, all tensors changed"
    rows = [
        Row("P10", work, peer, "GB/s", rates[OURS], rates[peer], durable_target(rates, peer))
        for peer in (TORCH, DCP, SAFETENSORS)
    ]
    rows.append(Row("P10", work, FIO, "GB/s", rates[OURS], rates[FIO], at_least=0.95))
    held = f"training is held up by a save of {size}"
    if DCP_ASYNC in calls:
        ours, theirs = blocked[OURS], blocked[DCP_ASYNC]
        rows.append(Row("P11", held, DCP_ASYNC, "ms", ours, theirs, at_most=1 / 3))

    bench.change()  # one save of each side, for the restores below
    for save in (bench.save_ours, bench.save_dcp, bench.save_safetensors):
        save()
    bench.fio("write")
    restores: dict[str, Callable[[], Answer]] = {
        OURS: bench.restore_ours,
        DCP: bench.restore_dcp,
        SAFETENSORS: bench.restore_safetensors,
    }
    for cache, prepare in (("cold", data.evict), ("warm", data.warm)):
        if cache == "cold":
            restores[FIO] = functools.partial(bench.fio, "read")
        else:
            del restores[FIO]
        found = run(bench, restores, rounds, functools.partial(prepare, bench.folder))
        rates = {label: [answer["gb_per_s"] for answer in found[label]] for label in restores}
        work = f"restore of {size} into tensors, {cache}"
        targets = {FIO: 0.95} if cache == "cold" else {DCP: 5.0, SAFETENSORS: 1.0}
        for peer in restores:
            if peer != OURS:
                least = targets.get(peer)
                rows.append(Row("P12", work, peer, "GB/s", rates[OURS], rates[peer], least))
    return rows


def durable_target(rates: dict[str, list[float]], peer: str) -> float:
    """Returns 5 if the disk writes five times as fast as the peer, and otherwise 2.

    No save is faster than the disk, which the row of fio compares with.
    """
    disk = Row("", "", FIO, "", rates[FIO], rates[peer], at_least=5.0)
    return 5.0 if disk.reached == "yes" else 2.0


def prepare_async(bench: Bench) -> bool:
    """Saves twice by async_save, which is at its best from the third save on. False if it fails.

    The stager of torch 2.11 raises a KeyError when it stages for the second time.
    """
    for number in (1, 2):
        bench.change()
        try:
            bench.save_dcp_async()
        except Exception as error:
            why = f"save {number} failed with torch {torch.__version__}: {error!r}"
            print(f"checkpoint_peers: {DCP_ASYNC} is left out: {why}", file=sys.stderr)
            return False
    return True


def run(
    bench: Bench, calls: dict[str, Callable[[], Answer]], rounds: int, before: Callable[[], None]
) -> dict[str, list[Answer]]:
    """Runs all sides in turns; the first round is not measured and touches the memory."""
    sides: dict[str, Callable[[], Side]] = {
        label: functools.partial(CallSide, call) for label, call in calls.items()
    }
    found = in_turns(sides, rounds, before=before, warm_up=True)
    for label, answers in found.items():
        print(f"checkpoint_peers: {label}: {answers[-1]['gb_per_s']:.2f} GB/s", file=sys.stderr)
    return found


def facts_of(args: argparse.Namespace) -> dict[str, str]:
    """Returns where and how the figures were measured."""
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("torch", "safetensors"))
    return {
        **report.machine_facts(Path(args.path)),
        "against": ", ".join(versions),
        "command": f"bench/checkpoint_peers.py --size {size_text(args.size)} "
        f"--rounds {args.rounds}",
        "cache": "cold: all files evicted before each run; warm: read once",
        "rounds": f"{args.rounds}, interleaved, after one that is not counted",
    }


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__, "checkpoint", "2 rounds of 256 MiB")
    parser.add_argument(
        "--size", type=parse_size, default=4 << 30, help="size of the state, default 4GiB"
    )
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.size = 2, 256 << 20
    return args


def main() -> None:
    """Runs the comparison."""
    args = parse_args()
    bench = Bench(args)
    try:
        rows = compare(bench, args.rounds)
    finally:
        bench.saver.close()
        bench.stager.close()
        shutil.rmtree(bench.folder, ignore_errors=True)
    publish("checkpoint_peers", args, facts_of(args), rows)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Saves of a state on a GPU, beside DCP's async_save and a raw direct write.

"Blocked" is the larger of the time in save() and the delay on the caller's stream, by events, from
the second save on; the first is reported apart. The state changes before every save. Every part
runs by itself: one that fails prints its error, and the others continue. The table comes last; with
--json the figures are also written to a file. Run it with PYTHONPATH=python, on a disk of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from raw_disk import write_direct

import stoker
from stoker._checkpoint import checkpointer as checkpointer_module
from stoker._checkpoint.device.cuda import has_cuda
from stoker._checkpoint.state.tree import TreeEncoder

SMALL_COUNT, SMALL_BYTES = 20_000, 64 << 10
SAVES = 4


class Bench:
    """The state on the GPU, and the figures by name."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.folder = Path(args.path)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.json = args.json
        self.figures: dict[str, Any] = {}
        each = args.size // args.tensors // 2
        self.state = {
            f"layer{i:03}": torch.randn(each, device="cuda", dtype=torch.bfloat16)
            for i in range(args.tensors)
        }
        self.size_bytes = sum(t.numel() * t.element_size() for t in self.state.values())
        self.figures["size_bytes"] = self.size_bytes

    def fresh(self, name: str) -> Path:
        """Returns a folder that does not exist."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def change(self) -> None:
        """Runs before every save."""
        torch._foreach_add_(list(self.state.values()), 1.0)
        torch.cuda.synchronize()

    def part(self, name: str, run: Callable[[], None]) -> None:
        """Runs one part; prints its error if it fails."""
        began = time.monotonic()
        try:
            run()
        except Exception:
            self.figures.setdefault("failed", []).append(name)
            print(f"--- {name} has failed:\n{traceback.format_exc()}", flush=True)
        print(f"... {name}: {time.monotonic() - began:.1f} s", flush=True)
        if self.json:  # after every part: a later one may be ended by its time limit
            Path(self.json).write_text(json.dumps(self.figures, indent=1), encoding="utf-8")
        torch.cuda.synchronize()


def blocked(save: Callable[[], Any]) -> tuple[float, float, Any]:
    """Returns the time in the call and the delay of the current stream, in seconds."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    before.record()
    began = time.perf_counter()
    pending = save()
    host = time.perf_counter() - began
    after.record()
    after.synchronize()
    return host, before.elapsed_time(after) / 1000, pending


def ours(bench: Bench, stage: Any) -> None:
    """Blocked and durable, for one way of staging, in turns with raw writes; and the last bytes."""
    folder, others = bench.fresh(f"stoker-{stage}"), bench.fresh("raw")
    others.mkdir()
    rows = []
    with stoker.Checkpointer(folder, stage=stage) as saver:
        for step in range(SAVES):
            limit = write_direct(others / str(step), bench.size_bytes)
            bench.change()
            began = time.perf_counter()
            host, stream, pending = blocked(lambda step=step: saver.save(step, state=bench.state))
            drained = None
            while not pending.done():
                if drained is None and pending._native.is_released:
                    drained = time.perf_counter() - began
                time.sleep(0.001)
            pending.wait()
            durable = time.perf_counter() - began
            rows.append({"host": host, "stream": stream, "durable": durable, "drained": drained})
            rows[-1]["raw"] = limit
            print(f"    {stage} {step}: " + _text(rows[-1]), flush=True)
        problem = saver._writer._native.pin_problem if saver._writer._native else "no writer"
        if problem:
            print(f"    the staging memory is not pinned: {problem}")
        back = saver.restore(state=None)
        assert back is not None
        for name, tensor in back.trees["state"].items():
            wanted = bench.state[name].cpu().view(torch.int16)
            assert torch.equal(tensor.view(torch.int16), wanted), name
    bench.figures[stage] = rows
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(others, ignore_errors=True)


def _text(row: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {'-' if v is None else f'{v:.4f}'} s" for name, v in row.items())


def peer(bench: Bench) -> None:
    """DCP's async_save, with its default stager."""
    import torch.distributed.checkpoint as dcp

    rows = []
    for step in range(SAVES):
        folder = bench.fresh("dcp")
        bench.change()
        began = time.perf_counter()
        host, stream, future = blocked(
            lambda folder=folder: dcp.async_save(bench.state, checkpoint_id=str(folder))
        )
        future.result() if hasattr(future, "result") else future.upload_completion.result()
        rows.append({"host": host, "stream": stream, "complete": time.perf_counter() - began})
        print(f"    DCP {step}: " + _text(rows[-1]), flush=True)
    bench.figures["dcp"] = rows
    bench.fresh("dcp")


def small(bench: Bench, gather: bool) -> None:
    """20,000 tensors of 64 KiB, staged on the host: native time, and Python's enumeration."""
    state = {
        f"t{i:05}": torch.full((SMALL_BYTES // 2,), i % 97, device="cuda", dtype=torch.bfloat16)
        for i in range(SMALL_COUNT)
    }
    folder = bench.fresh("small")
    checkpointer_module._gather = gather
    rows = []
    try:
        with stoker.Checkpointer(folder, stage="host", keep_last=1) as saver:
            native_save = saver._writer.save
            taken: list[float] = []

            def timed(*args: Any) -> Any:
                began = time.perf_counter()
                try:
                    return native_save(*args)
                finally:
                    taken.append(time.perf_counter() - began)

            saver._writer.save = timed  # type: ignore[method-assign]
            for step in range(3):
                torch._foreach_add_(list(state.values()), 1.0)
                host, _, pending = blocked(lambda step=step: saver.save(step, state=state))
                pending.wait()
                began = time.perf_counter()
                TreeEncoder(has_cuda=has_cuda()).encode_all({"state": state})
                enumeration = time.perf_counter() - began
                rate = SMALL_COUNT * SMALL_BYTES / taken[-1] / 1e9
                rows.append({"save": host, "native": taken[-1], "enumeration": enumeration})
                print(f"    gather={gather} {step}: {_text(rows[-1])}: {rate:.1f} GB/s", flush=True)
            native = saver._writer._native
            if native is not None and native.gather_problem:
                print(f"    not gathered: {native.gather_problem}")
            back = saver.restore(state=None)
            assert back is not None
            for name, tensor in back.trees["state"].items():
                assert torch.equal(tensor, state[name].cpu()), name
    finally:
        checkpointer_module._gather = True
        shutil.rmtree(folder, ignore_errors=True)
    bench.figures["small_gather" if gather else "small_one_by_one"] = rows


def steps(bench: Bench) -> None:
    """The time of a matmul while a save drains and is written, against none."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)

    def run(is_running: Callable[[], bool], count_min: int) -> list[float]:
        marks = [torch.cuda.Event(enable_timing=True)]
        marks[0].record()
        while is_running() or len(marks) <= count_min:
            for _ in range(4):
                torch.matmul(a, b, out=out)
            marks.append(torch.cuda.Event(enable_timing=True))
            marks[-1].record()
            marks[max(0, len(marks) - 4)].synchronize()  # as a training, a few steps ahead
        torch.cuda.synchronize()
        return [x.elapsed_time(y) for x, y in itertools.pairwise(marks)]

    folder = bench.fresh("steps")
    with stoker.Checkpointer(folder, stage="device", keep_last=1) as saver:
        saver.save(0, state=bench.state).wait()
        run(lambda: False, 100)  # warms up
        alone, draining, writing = [], [], []
        for step in range(1, 4):
            alone += run(lambda: False, 100)
            bench.change()
            pending = saver.save(step, state=bench.state)
            draining += run(lambda p=pending: not p._native.is_released, 1)
            writing += run(lambda p=pending: not p.done(), 1)
            pending.wait()
    means = {
        name: statistics.fmean(times)
        for name, times in (("alone", alone), ("draining", draining), ("writing", writing))
    }
    bench.figures["step_ms"] = means
    print("    " + ", ".join(f"{k} {v:.3f} ms" for k, v in means.items()), flush=True)
    shutil.rmtree(folder, ignore_errors=True)


def _later(rows: list[dict[str, float]]) -> float:
    """The worst blocked time from the second save on."""
    return max(max(row["host"], row["stream"]) for row in rows[1:])


def table(f: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Returns what, figure, and target, of what was measured."""
    rows = []
    third = max(f["dcp"][2]["host"], f["dcp"][2]["stream"]) if "dcp" in f else None
    for stage, limit, ratio in (("host", 0.10, 3), ("device", 0.010, 25)):
        if stage not in f:
            continue
        first = max(f[stage][0]["host"], f[stage][0]["stream"])
        text = f"{_later(f[stage]):.4f} s (the first {first:.3f})"
        if third is not None:
            text += f", 1/{third / _later(f[stage]):.0f} of DCP's"
        rows.append((f"save blocked, {stage}", text, f"<= {limit} s, <= 1/{ratio} of DCP's"))
    if third is not None:
        done = ", ".join(f"{row['complete']:.2f}" for row in f["dcp"])
        rows.append(("DCP blocked, third save", f"{third:.3f} s (complete after {done})", "-"))
    for name in ("small_gather", "small_one_by_one"):
        if name in f:
            native = min(row["native"] for row in f[name][1:])
            other = min(row["enumeration"] for row in f[name][1:])
            rate = SMALL_COUNT * SMALL_BYTES / native / 1e9
            text = f"{rate:.1f} GB/s ({native:.3f} s, enumeration {other:.3f} s)"
            rows.append((f"20,000 x 64 KiB, {name[6:]}", text, ">= 25 GB/s"))
    for stage in ("host", "device"):
        if stage in f:
            ratios = sorted(row["raw"] / row["durable"] for row in f[stage][1:])
            durable = statistics.median(row["durable"] for row in f[stage][1:])
            spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}; {durable:.2f} s"
            text = f"{statistics.median(ratios):.3f} ({spread})"
            rows.append((f"durable, {stage}, of the raw direct write", text, ">= 0.95"))
    if "step_ms" in f:
        for name in ("draining", "writing"):
            text = f"{f['step_ms'][name] / f['step_ms']['alone']:.3f}"
            rows.append((f"step time while {name}", text, "<= 1.02"))
    return rows


def main() -> None:
    """Runs all parts, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("path", help="a folder on the disk to measure")
    parser.add_argument("--size", type=int, default=4_294_967_296, help="bytes of the state")
    parser.add_argument("--tensors", type=int, default=300)
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--only", nargs="*", help="host device dcp small steps")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gpu_save: there is no GPU")
    bench = Bench(args)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {bench.size_bytes} bytes")
    print(f"CUDA tensors are copied by the core: {has_cuda()}")
    parts: dict[str, Callable[[], None]] = {
        "host": lambda: ours(bench, "host"),
        "device": lambda: ours(bench, "device"),
        "small": lambda: small(bench, gather=True),
        "small one by one": lambda: small(bench, gather=False),
        "steps": lambda: steps(bench),
        "dcp": lambda: peer(bench),
    }
    for name, run in parts.items():
        if not args.only or name.split()[0] in args.only:
            bench.part(name, run)
    print()
    for what, figure, target in table(bench.figures):
        print(f"{what:42} {figure:58} {target}")
    if "failed" in bench.figures:
        sys.exit("failed: " + ", ".join(bench.figures["failed"]))


if __name__ == "__main__":
    main()

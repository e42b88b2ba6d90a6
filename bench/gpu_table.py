#!/usr/bin/env python3
"""Fills the table of docs/benchmarks.md "To and from the GPU": ``gpu_table.py FOLDER --json PATH``.

Runs gpu_save.py, gpu_load.py and gpu_feed.py in turn, each with a time limit, ten minutes in all,
and prints each figure with its target and whether it was reached. FOLDER is on the disk to measure.
What a part had measured before it failed, or before its limit, counts; a figure that is missing, or
a peer that is not installed, leaves "not known" where it decides. The exit status is 1 if a part
has failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Figures = dict[str, Any]

HERE = Path(__file__).parent
SMALL_BYTES = 20_000 * (64 << 10)
PEERS = ("safetensors", "fastsafetensors", "InstantTensor", "run:ai streamer")


class Row(NamedTuple):
    """A line of the table; ``reached`` is None if something for it is missing."""

    work: str
    measured: str
    target: str
    reached: bool | None


def all_of(*conditions: bool | None) -> bool | None:
    """False if one is false; None if one is not known."""
    if any(one is False for one in conditions):
        return False
    return None if None in conditions else True


def any_of(*conditions: bool | None) -> bool | None:
    """True if one is true; None if one is not known."""
    if any(conditions):
        return True
    return None if None in conditions else False


def at_most(value: float | None, limit: float) -> bool | None:
    """Whether it is not greater."""
    return None if value is None else value <= limit


def at_least(value: float | None, limit: float) -> bool | None:
    """Whether it is not smaller."""
    return None if value is None else value >= limit


def quotient(value: float | None, other: float | None) -> float | None:
    """None if one of them is missing."""
    return value / other if value is not None and other else None


# --- The rows -----------------------------------------------------------------------------------


def blocked(figures: Figures, stage: str) -> float | None:
    """The worst blocked time from the second save on."""
    rows = figures.get(stage, [])[1:]
    return max(max(row["host"], row["stream"]) for row in rows) if rows else None


def dcp_third(figures: Figures) -> float | None:
    """How long DCP's third save blocks."""
    rows = figures.get("dcp", [])
    return max(rows[2]["host"], rows[2]["stream"]) if len(rows) > 2 else None


def save_rows(figures: Figures) -> list[Row]:
    """From gpu_save.py."""
    rows = []
    theirs = dcp_third(figures)
    for stage, name, limit, part in (
        ("host", "staged on the host", 0.10, 3),
        ("device", "snapshot on the device", 0.010, 25),
    ):
        took = blocked(figures, stage)
        times = quotient(theirs, took)
        text = "-"
        if took is not None:
            first = figures[stage][0]
            text = f"{took:.4f} s (the first {max(first['host'], first['stream']):.2f})"
            text += ", DCP is missing" if times is None else f", 1/{times:.1f} of DCP's third save"
        reached = all_of(at_most(took, limit), at_least(times, part))
        rows.append(Row(f"`save` blocked, {name}", text, f"<= {limit} s, <= 1/{part}", reached))

    natives = [row["native"] for row in figures.get("small_gather", [])[1:]]
    rate = SMALL_BYTES / min(natives) / 1e9 if natives else None
    text = "-" if rate is None else f"{rate:.1f} GB/s native"
    if rate is not None:
        text += f", enumeration {min(r['enumeration'] for r in figures['small_gather'][1:]):.2f} s"
    rows.append(Row("20,000 tensors of 64 KiB, staged on the host", text, ">= 25 GB/s",
                    at_least(rate, 25)))  # fmt: skip

    shares = {
        stage: statistics.median(row["raw"] / row["durable"] for row in figures[stage][1:])
        for stage in ("host", "device")
        if figures.get(stage, [])[1:]
    }
    text = ", ".join(f"{share:.2f} {stage}" for stage, share in shares.items()) or "-"
    reached = all_of(*(at_least(shares.get(stage), 0.95) for stage in ("host", "device")))
    rows.append(Row("durable, of the raw direct write", text, ">= 0.95", reached))

    step = figures.get("step_ms", {})
    shares = {
        name: step[name] / step["alone"] for name in ("draining", "writing") if "alone" in step
    }
    text = ", ".join(f"{share:.3f} {name}" for name, share in shares.items()) or "-"
    rows.append(Row("step time of a matmul loop while a save drains", text, "<= 1.02",
                    at_most(shares.get("draining"), 1.02)))  # fmt: skip
    return rows


def median_of(figures: Figures, name: str) -> float | None:
    """The median rate of a part of gpu_load.py."""
    found = figures.get(name)
    return None if found is None else float(found["median"])


def load_rows(figures: Figures) -> list[Row]:
    """From gpu_load.py."""
    limit = median_of(figures, "pread + XXH3, all cores")
    peers = {
        name: rate
        for name in PEERS
        if (rate := median_of(figures, f"{name}, warm")) is not None
    }  # fmt: skip
    best = max(peers, key=lambda name: peers[name], default=None)
    rows = []
    for what, name in (
        ("`restore` into tensors", "restore in place, warm, verified"),
        ("`stoker.load`", "stoker.load, warm, verified"),
    ):
        rate = median_of(figures, name)
        share, times = quotient(rate, limit), quotient(rate, peers[best] if best else None)
        text = "-"
        if rate is not None:
            text = f"{rate:.1f} GB/s"
            text += "" if share is None else f", {share:.2f} of pread plus XXH3"
            text += ", no peer" if times is None else f", {times:.1f} times {best}"
            text += "".join(f"; {one} is missing" for one in PEERS if best and one not in peers)
        # A peer that is missing may be better than those that are there.
        is_best = at_least(times, 4)
        if is_best and len(peers) < len(PEERS):
            is_best = None
        reached = all_of(any_of(at_least(rate, 35), at_least(share, 0.85)), is_best)
        rows.append(Row(f"warm load, verified: {what}", text, "(>= 35 GB/s or >= 0.85) and >= 4x",
                        reached))  # fmt: skip
    cold = quotient(
        median_of(figures, "stoker.load, cold, verified"), median_of(figures, "raw O_DIRECT read")
    )
    text = "-" if cold is None else f"{cold:.2f}"
    rows.append(Row("cold load, of the raw direct read", text, ">= 0.95", at_least(cold, 0.95)))
    return rows


def feed_rows(figures: Figures) -> list[Row]:
    """From gpu_feed.py."""
    times = figures.get("p6_times")
    text = "-" if times is None else f"{times:.1f} times"
    row = Row('token windows (P6) with `device="cuda"`, of memmap in a DataLoader, pinned', text,
              ">= 20x", at_least(times, 20))  # fmt: skip
    rate = figures.get("tar", {}).get("bytes_per_s")
    text = "-" if rate is None else f"{rate / 1e9:.1f} GB/s"
    reached = None if rate is None else rate >= 15e9
    return [row, Row("tar of 110 KiB to the GPU, warm", text, ">= 15 GB/s", reached)]


# --- The parts ----------------------------------------------------------------------------------


class Part(NamedTuple):
    """A program with its own time limit; ``command`` gets a folder and the file for its figures."""

    name: str
    limit_s: float
    command: Callable[[Path, Path], list[str]]
    rows: Callable[[Figures], list[Row]]


def program(name: str, *options: str) -> list[str]:
    """The command of a program beside this one."""
    return [sys.executable, str(HERE / name), *options]


PARTS = (
    Part("save", 210, lambda folder, file: program("gpu_save.py", str(folder), "--json", str(file)),
         save_rows),
    Part("load", 250,
         lambda folder, file: program("gpu_load.py", "--path", str(folder), "--json", str(file)),
         load_rows),
    Part("feed", 200,
         lambda folder, file: program("gpu_feed.py", str(folder), "--json", str(file),
                                      "--rounds", "2"),
         feed_rows),
)  # fmt: skip


def run_part(command: list[str], limit_s: float) -> str:
    """Runs a part; returns "ok", or why not. Its output is passed through."""
    if limit_s <= 0:
        return "left out: no time was left"
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"ended by its limit of {limit_s:.0f} s"
        finally:  # with what it has started, also after Ctrl-C
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return "ok" if status == 0 else f"failed: exit status {status}"


def figures_in(file: Path) -> Figures:
    """What a part has written; nothing if there is no such file, or half of one."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def table(rows: list[Row]) -> str:
    """As in docs/benchmarks.md."""
    words = {True: "yes", False: "no", None: "not known"}
    lines = ["| work | measured | target | reached |", "|---|---|---|---|"]
    lines += [f"| {r.work} | {r.measured} | {r.target} | {words[r.reached]} |" for r in rows]
    return "\n".join(lines)


def run(folder: Path, limit_s: float, parts: tuple[Part, ...] = PARTS) -> dict[str, Any]:
    """Runs the parts and returns everything that is known."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    results: dict[str, Any] = {"parts": {}, "rows": [], "figures": {}}
    for part in parts:
        file = folder / f"{part.name}.json"
        file.unlink(missing_ok=True)
        part_began = time.monotonic()
        limit = min(part.limit_s, limit_s - (part_began - began))
        print(f"=== {part.name}, at most {max(limit, 0):.0f} s", flush=True)
        end = run_part(part.command(folder / part.name, file), limit)
        took = time.monotonic() - part_began
        figures = figures_in(file)
        failed = [f"{name} has failed" for name in figures.get("failed", [])]
        if failed and end == "ok":
            end = "failed: " + ", ".join(failed)
        print(f"=== {part.name}: {end}, {took:.0f} s", flush=True)
        results["parts"][part.name] = {"end": end, "seconds": took}
        results["figures"][part.name] = figures
        results["rows"] += part.rows(figures)
    results["seconds"] = time.monotonic() - began
    return results


def find_gpu() -> str | None:
    """The name of the GPU and of what is used with it; None if there is none."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    return (
        f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, torch {torch.__version__}, "
        f"CUDA {torch.version.cuda}"
    )


def main() -> int:
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder on the disk to measure")
    parser.add_argument("--json", type=Path, help="where to write the rows and all figures")
    parser.add_argument("--limit", type=float, default=600, help="seconds for all parts")
    args = parser.parse_args()
    gpu = find_gpu()
    if gpu is None:
        sys.exit("gpu_table: there is no GPU that torch can use")
    results = run(args.folder, args.limit)
    results["machine"] = gpu
    if args.json:
        rows = [row._asdict() for row in results["rows"]]
        text = json.dumps({**results, "rows": rows}, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    print(f"\n{gpu}; {results['seconds']:.0f} s\n\n{table(results['rows'])}")
    ends = {name: part["end"] for name, part in results["parts"].items() if part["end"] != "ok"}
    for name, end in ends.items():
        print(f"{name}: {end}")
    return 1 if ends else 0


if __name__ == "__main__":
    sys.exit(main())

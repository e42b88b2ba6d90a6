#!/usr/bin/env python3
"""Compares stoker.load with safetensors on the CPU: one process cold and warm, and four at once.

The model is a checkpoint of ours, whose file is a safetensors file at the same time: stoker.load
verifies it, and safetensors reads it under another name. A load counts as done when every page of
every tensor was read once, because load_file only maps the file. Each side has its own processes,
which have loaded before the clock starts. Run it with the interpreter of build/peers
(tools/setup_peers.sh) and PYTHONPATH=python.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

import torch  # noqa: E402
from peers import data, report  # noqa: E402
from peers.command import make_parser, publish  # noqa: E402
from peers.report import Row  # noqa: E402
from peers.turns import Answer, Side, in_turns  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import stoker  # noqa: E402
from bench_fio import parse_size, size_text  # noqa: E402

OURS, SAFETENSORS = "stoker", "safetensors"
SERVERS = 4
TENSOR_BYTES = 64 << 20


def touch(tensors: dict[str, Any]) -> None:
    """Reads a byte of every page, so that no part of a mapped file is left on the disk."""
    for tensor in tensors.values():
        tensor.view(-1).view(torch.uint8)[::4096].sum()


def read_bytes() -> int:
    """What the disk has delivered to this process."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"])


def serve(side: str, path: str, small: str, *, in_place: bool) -> None:
    """The child process: loads a small model first, then waits, loads, and prints an answer."""
    load: Callable[[str], Any] = load_file
    if side == OURS:
        load = functools.partial(stoker.load, device="cpu")
    existing: dict[str, Any] = {}
    if in_place:
        existing = {name: torch.ones_like(one) for name, one in load(path).items()}
    touch(load(small))
    print("ready", flush=True)
    for _ in sys.stdin:
        before, begin = read_bytes(), time.perf_counter()
        if in_place and side == OURS:
            stoker.load(path, into=existing)
        elif in_place:
            for name, tensor in load_file(path).items():
                existing[name].copy_(tensor)
        else:
            touch(load(path))
        answer = {"seconds": time.perf_counter() - begin, "read_bytes": read_bytes() - before}
        print(json.dumps(answer), flush=True)


class Servers:
    """The processes of a side. With ``evict``, files leave the page cache before each run."""

    def __init__(
        self, files: dict[str, str], side: str, count: int, evict: bool, place: str
    ) -> None:
        command = [sys.executable, __file__, "--serve", side, files[side], files["small"], place]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.folder, self.evict = Path(files["folder"]), evict
        self.children = [subprocess.Popen(command, **pipes) for _ in range(count)]
        for child in self.children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"

    def run(self) -> Answer:
        """All load at the same time: the time of the slowest, and what all have read."""
        (data.evict if self.evict else data.warm)(self.folder)
        for child in self.children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        answers = [json.loads(child.stdout.readline()) for child in self.children if child.stdout]
        seconds = max(answer["seconds"] for answer in answers)
        return {"seconds": seconds, "read_bytes": sum(answer["read_bytes"] for answer in answers)}

    def close(self) -> None:
        """Ends the processes."""
        for child in self.children:
            child.communicate()


def make_model(folder: Path, size_bytes: int) -> dict[str, str]:
    """Saves the model, and a small one, and gives their files names for each side."""
    shutil.rmtree(folder, ignore_errors=True)
    count = max(1, size_bytes // TENSOR_BYTES)
    state = {f"layer{i:03}": torch.rand(TENSOR_BYTES // 4) for i in range(count)}
    for name, tensors in (("model", state), ("small", {"w": torch.rand(1 << 20)})):
        with stoker.Checkpointer(folder / name) as saver:
            saver.save(1, state=tensors)
        (file,) = (folder / name / "latest").glob("*.safetensors")
        os.link(file, folder / f"{name}.safetensors")
    return {
        "folder": str(folder),
        OURS: str(folder / "model"),
        SAFETENSORS: str(folder / "model.safetensors"),
        "small": str(folder / "small.safetensors"),
    }


def compare(files: dict[str, str], size_bytes: int, rounds: int) -> list[Row]:
    """All cases, the two sides in turns."""
    size = size_text(size_bytes)
    cases = [
        (f"{size} into new tensors, cold", 1, True, "new"),
        (f"{size} into new tensors, warm", 1, False, "new"),
        (f"{size} into existing tensors, cold", 1, True, "in-place"),
        (f"{size} into existing tensors, warm", 1, False, "in-place"),
        (f"{size} by {SERVERS} processes at once, cold", SERVERS, True, "new"),
    ]
    rows = []
    for work, servers, evict, place in cases:
        sides: dict[str, Callable[[], Side]] = {
            side: functools.partial(Servers, files, side, servers, evict, place)
            for side in (OURS, SAFETENSORS)
        }
        found = in_turns(sides, rounds)
        rates = {s: [size_bytes / a["seconds"] / 1e9 for a in found[s]] for s in found}
        rows.append(Row("S1", work, SAFETENSORS, "GB/s", rates[OURS], rates[SAFETENSORS]))
        if servers > 1:
            read = {s: [a["read_bytes"] / (1 << 20) for a in found[s]] for s in found}
            work = f"read from the disk by {servers} processes that load {size}"
            rows.append(Row("S2", work, SAFETENSORS, "MiB", read[OURS], read[SAFETENSORS]))
        print(f"serve_peers: {work}: done", file=sys.stderr)
    return rows


def main() -> None:
    """Runs the comparison."""
    if sys.argv[1:2] == ["--serve"]:
        side, path, small, place = sys.argv[2:]
        serve(side, path, small, in_place=place == "in-place")
        return
    parser = make_parser(__doc__, "serve", "2 rounds of 256 MiB")
    parser.add_argument("--size", type=parse_size, default=1 << 30, help="default 1GiB")
    args: argparse.Namespace = parser.parse_args()
    if args.quick:
        args.rounds, args.size = 2, 256 << 20
    folder = Path(args.path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        rows = compare(make_model(folder, args.size), args.size, args.rounds)
        versions = (
            f"{name} {importlib.metadata.version(name)}" for name in ("torch", "safetensors")
        )
        facts = {
            **report.machine_facts(folder),
            "against": ", ".join(versions),
            "command": f"bench/serve_peers.py --size {size_text(args.size)} --rounds {args.rounds}",
            "cache": "cold: the file evicted before each run; warm: read once",
            "rounds": f"{args.rounds}, interleaved, after one that is not counted",
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    publish("serve_peers", args, facts, rows)


if __name__ == "__main__":
    main()

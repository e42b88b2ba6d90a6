#!/usr/bin/env python3
"""Measures how existing checkpoints slow down the next save and listing: figure P16.

Uses two directories, one with many checkpoints and one with few, each of 1,000 small tensors. All
but the first checkpoint of each are copies of it: hard links to its data, and its manifest with
another step and generation. Saves to the two directories alternate. `stoker checkpoint show` is
measured for two numbers of tensors.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

import numpy as np  # noqa: E402
from peers import report  # noqa: E402
from peers.command import make_parser, publish  # noqa: E402
from peers.report import Row  # noqa: E402

import stoker  # noqa: E402
from json_mutations import xxh3_128  # noqa: E402

FEW = 10
TENSORS = 1000
SHOWN = (100_000, 10_000)
KEEP_LAST = 5000  # a rule that is evaluated and removes nothing

# Prints the peak memory, in MiB, that the first save of a new writer adds.
_MEMORY = """
import re, sys
from pathlib import Path
import numpy as np
import stoker

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

state = {f"t{i:05}": np.full(2, i, np.float32) for i in range(int(sys.argv[2]))}
with stoker.Checkpointer(sys.argv[1], keep_last=5000) as saver:
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    saver.save(int(sys.argv[3]), state=state).wait()
    print((peak() - before) / 1024)
"""


def make_state(count: int) -> dict[str, Any]:
    """Returns tensors of eight bytes."""
    return {f"t{i:05}": np.full(2, i, np.float32) for i in range(count)}


def seal(body: str) -> str:
    """Returns the text of a manifest with its last line, the checksum."""
    return f'{body}"xxh3_128": "{xxh3_128(body.encode())}"}}\n'


def clone(folder: Path, count: int) -> None:
    """Copies the existing checkpoint until there are ``count``."""
    first = folder / "step-000000000001"
    body = (first / "manifest.json").read_text().rpartition('"xxh3_128"')[0]
    files = [path.name for path in first.iterdir() if path.name != "manifest.json"]
    assert '"step": 1,\n"generation": 1,\n' in body
    assert '"parent": null,\n' in body
    for step in range(2, count + 1):
        made = folder / f"step-{step:012}"
        made.mkdir()
        for name in files:
            os.link(first / name, made / name)
        before = step - 1
        text = body.replace(
            '"step": 1,\n"generation": 1,', f'"step": {step},\n"generation": {step},'
        )
        parent = f'"parent": {{"step": {before}, "generation": {before}}},\n'
        text = text.replace('"parent": null,\n', f'{parent}"lineage": [[1, {before}]],\n')
        (made / "manifest.json").write_text(seal(text))


class Directory:
    """A directory with ``count`` checkpoints, and its writer."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count
        with stoker.Checkpointer(path) as saver:
            saver.save(1, state=make_state(TENSORS))
        clone(path, count)
        self.saver = stoker.Checkpointer(path, keep_last=KEEP_LAST)
        self.state = make_state(TENSORS)
        done = self.saver.restore(count, state=self.state)
        assert done == count, done
        self.step = count

    def save(self) -> float:
        """Saves once; returns the milliseconds until it is durable and retention has run."""
        self.step += 1
        for tensor in self.state.values():
            tensor += 1
        begin = time.perf_counter()
        self.saver.save(self.step, state=self.state).wait()
        return (time.perf_counter() - begin) * 1e3


def timed_ms(call: Callable[[], Any]) -> float:
    """Returns the duration of one call in milliseconds."""
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def memory_mib(directory: Directory) -> float:
    """Returns the peak memory of a new writer's first save in MiB."""
    directory.step += 1
    command = [sys.executable, "-c", _MEMORY, str(directory.path), str(TENSORS)]
    ran = subprocess.run(
        [*command, str(directory.step)], check=True, capture_output=True, text=True
    )
    return float(ran.stdout)


def command_ms(command: str, *words: str) -> float:
    """Returns the duration of one of our commands in milliseconds."""
    call = [command, "checkpoint", *words]
    return timed_ms(lambda: subprocess.run(call, check=True, stdout=subprocess.DEVNULL))


def in_turns(rounds: int, calls: list[Callable[[], float]]) -> list[list[float]]:
    """Returns the values of each call; the order alternates from round to round."""
    values: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # not counted
    for number in range(rounds):
        order = range(len(calls)) if number % 2 == 0 else reversed(range(len(calls)))
        for i in order:
            values[i].append(calls[i]())
    return values


def compare(args: argparse.Namespace, folder: Path) -> list[Row]:
    """Returns all rows."""
    many = Directory(folder / "many", args.count)
    few = Directory(folder / "few", FEW)
    os.sync()
    each = f"checkpoints of {TENSORS:,} tensors"
    work = f"save, with {args.count:,} {each} there"
    peer = f"with {FEW}"
    ours, theirs = in_turns(args.rounds, [many.save, few.save])
    rows = [Row("P16", work, peer, "ms", ours, theirs, at_most=1.1)]

    reader = stoker.Checkpointer(many.path)
    for name, call in (("latest", lambda: reader.latest), ("steps()", reader.steps)):
        [times] = in_turns(args.rounds, [lambda call=call: timed_ms(call)])  # type: ignore[misc]
        each_us = [value * 1e3 / (many.step - 1) for value in times]
        rows.append(Row("P16", f"`{name}`, a checkpoint", "", "us", each_us, [], ours_at_most=20))

    def pin(directory: Directory) -> float:
        return timed_ms(lambda: directory.saver.pin(directory.count))

    sides = [lambda: pin(many), lambda: pin(few)]
    rows.append(Row("", "`pin`", peer, "ms", *in_turns(args.rounds, sides)))
    sides = [lambda d=d: command_ms(args.stoker, "ls", str(d.path)) for d in (many, few)]  # type: ignore[misc]
    rows.append(Row("", "`stoker checkpoint ls`", peer, "ms", *in_turns(args.rounds, sides)))
    for directory in (many, few):
        directory.saver.close()
    sides = [lambda: memory_mib(many), lambda: memory_mib(few)]
    taken = in_turns(min(3, args.rounds), sides)
    rows.append(Row("", "memory of a new writer's first save", peer, "MiB", *taken))

    for count in SHOWN:
        with stoker.Checkpointer(folder / str(count)) as saver:
            saver.save(1, state=make_state(count))
    sides = [
        lambda count=count: command_ms(args.stoker, "show", str(folder / str(count)))  # type: ignore[misc]
        for count in SHOWN
    ]
    work = f"`stoker checkpoint show`, {SHOWN[0]:,} tensors"
    taken = in_turns(min(5, args.rounds), sides)
    rows.append(Row("", work, f"{SHOWN[1]:,} tensors", "ms", *taken, at_most=15))
    return rows


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__, "catalog", "200 checkpoints, 5 rounds")
    parser.set_defaults(rounds=20)
    parser.add_argument("--count", type=int, default=2000, help="checkpoints in the directory")
    parser.add_argument(
        "--stoker", default="build/release/stoker", help="path of the stoker command"
    )
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.count = 5, 200
    return args


def main() -> None:
    """Runs the comparison."""
    args = parse_args()
    folder = Path(args.path)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        rows = compare(args, folder)
        facts = {
            **report.machine_facts(folder),
            "command": f"bench/catalog_cost.py --count {args.count} --rounds {args.rounds}",
            "cache": "warm: both directories were written just before",
            "rounds": f"{args.rounds}, interleaved, after one that is not counted",
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    publish("catalog_cost", args, facts, rows)


if __name__ == "__main__":
    main()

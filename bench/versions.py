#!/usr/bin/env python3
"""Compares two builds of Stoker: ``versions.py OLD NEW``, each the folder of a package.

A folder is ``python`` in a checkout, with the native module built into it. The work is that of the
figures P3 to P6 and P10 to P12, without the peers. Every round runs both builds, in alternating
order, each in a process of its own; the result is NEW / OLD within a round. More is better, except
for P11, which is a time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from peers import data, side

Answer = dict[str, float]
IMAGES = (256 << 20, 110 << 10)  # bytes in all, and of a sample


class Checkpoints:
    """Saves and restores of one process."""

    def __init__(self, options: dict[str, Any]) -> None:
        import numpy as np

        import stoker

        self.folder = Path(options["folder"])
        shutil.rmtree(self.folder, ignore_errors=True)
        self.saver = stoker.Checkpointer(self.folder, keep_last=1)
        count = options["bytes"] // 32 // 4
        self.state = {f"w{i}": np.full(count, i, np.float32) for i in range(32)}
        self.step = 0

    def save(self) -> Answer:
        """P10 and P11: everything has changed since the last save."""
        for tensor in self.state.values():
            tensor += 1
        data.settle()
        self.step += 1
        begin = time.perf_counter()
        pending = self.saver.save(self.step, state=self.state)
        blocked = time.perf_counter() - begin
        pending.wait()
        return {"P10 save": 1 / (time.perf_counter() - begin), "P11 blocked": blocked}

    def restore(self, name: str) -> Answer:
        """P12: into the arrays of the state."""
        begin = time.perf_counter()
        self.saver.restore(state=self.state)
        return {name: 1 / (time.perf_counter() - begin)}

    def run(self) -> Answer:
        """Saves, and restores what was saved, cold and warm."""
        answer = self.save()
        self.saver.wait()  # for the removal of the last checkpoint
        data.evict(self.folder)
        return answer | self.restore("P12 cold") | self.restore("P12 warm")


def work_of(name: str, options: dict[str, Any]) -> Callable[[], Answer]:
    """Returns a function that does the work once, in this process."""
    if name == "checkpoints":
        return Checkpoints(options).run
    run = (side.stoker_tokens if name.startswith("P6") else side.stoker_images)(options)
    return lambda: {name: run()["samples_per_s"]}


def make_mds(folder: str) -> None:
    """Writes MDS shards with the samples of the tars, by the package of this process."""
    import stoker

    samples = data.samples_of(*IMAGES)
    stoker.ingest(({"jpg": i, "cls": label} for _, i, label in samples), folder, format="mds")


def be_a_side(name: str, options: dict[str, Any]) -> None:
    """Answers each line of input with one run."""
    run = work_of(name, options)
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(run()), flush=True)


class Side:
    """One build at one work, in a process of its own."""

    def __init__(self, package: str, name: str, options: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--side", name, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": package},
        )
        self._answer()

    def _answer(self) -> Answer:
        assert self.process.stdout is not None
        answer: Answer = json.loads(self.process.stdout.readline())
        return answer

    def run(self) -> Answer:
        """Runs once."""
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()


def compare(packages: list[str], name: str, options: list[dict[str, Any]], rounds: int) -> None:
    """Prints a row for each figure of one work."""
    is_cold = name.startswith("P4")
    sides = [Side(package, name, given) for package, given in zip(packages, options, strict=True)]
    ratios: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        answers: list[Answer] = [{}, {}]
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            if is_cold:
                data.evict(Path(options[which]["data"]))
            answers[which] = sides[which].run()
        if turn > 0:  # the first round warms up
            for figure in answers[0]:
                ratios.setdefault(figure, []).append(answers[1][figure] / answers[0][figure])
    for one in sides:
        one.close()
    for figure, found in ratios.items():
        spread = f"{min(found):.2f} to {max(found):.2f}"
        print(f"| {figure} | {statistics.median(found):.2f} | {spread} |", flush=True)


def main() -> None:
    """Compares, or is one side."""
    if sys.argv[1:2] == ["--side"]:
        be_a_side(sys.argv[2], json.loads(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--mds"]:
        make_mds(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="Folder of the package to compare with.")
    parser.add_argument("new", help="Folder of the package to measure.")
    parser.add_argument("--path", default="build/bench", help="Folder for data.")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    packages, folder = [str(Path(args.old).resolve()), str(Path(args.new).resolve())], args.path
    images, small = Path(folder, "versions-images"), Path(folder, "versions-small")
    mds, tokens = Path(folder, "versions-mds"), Path(folder, "versions-tokens")
    data.make_tars(images, *IMAGES)
    data.make_tars(small, 64 << 20, 2 << 10)
    if not mds.exists():
        command = [sys.executable, __file__, "--mds", str(mds)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": packages[1]})
    data.make_tokens(tokens, 128 << 20)
    print("| figure | new / old, median | spread |\n|---|---|---|")
    for name, place in (("P3", images), ("P3b", small), ("P4 cold", images), ("P5", mds)):
        given = {"data": str(place), "memory": "128MiB"}
        compare(packages, name, [given, given], args.rounds)
    given = {"data": str(tokens / "tokens.npy"), "pinned": False}
    compare(packages, "P6", [given, given], args.rounds)
    places = [{"folder": f"{folder}/versions-{w}", "bytes": 1 << 30} for w in ("old", "new")]
    compare(packages, "checkpoints", places, args.rounds)


if __name__ == "__main__":
    main()

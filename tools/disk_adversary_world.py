"""The disks of disk_adversary.py, what was acknowledged on them, and what must then be true."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from disk_adversary_jobs import SLACK_S, Act, BrokenError, Job, Plan, Told, run

_DISK_BYTES = 48 << 20
_KEEP: list[dict[str, Any]] = [
    {},
    {"keep_last": 1},
    {"keep_last": 2},
    {"keep_last": 3},
    {"keep_last": 1, "keep_best": ("loss", "min", 1)},
    {"keep_every": 3},
]

Id = tuple[int, str]  # generation and line of a checkpoint


class World:
    """Disks, what was acknowledged on them, and which of them belong together.

    Attributes:
        slots: The disk of each node.
        good: The disks of the last acknowledged save.
        acknowledged: The number of that save.
        pinned: Checkpoints, each with the disk that has the note.
        stays: Checkpoints that must be on a disk, because some disk has such a note.
        old: Copies of all disks, of earlier times.
    """

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.random = random.Random(options.seed)
        self.disks = folder / "disks"
        self.disks.mkdir(parents=True)
        (folder / "meeting").mkdir()
        self.mounted: list[Path] = []
        self.count, self.job_count, self.next_id = 0, 0, 1
        self.per_node = self.random.choice([1, 2])
        self.kind = self.random.choice(["all", "part", "same"])
        self.keep = self.random.choice(_KEEP)
        self.in_flight = self.random.choice([1, 1, 2])
        self.late = (
            self.random.choice(["block", "skip", "replace"]) if self.in_flight > 1 else "block"
        )
        self.slots = [self.make_disk() for _ in range(options.nodes)]
        self.good = list(self.slots)  # the disks of the last acknowledged save
        self.acknowledged = 0
        self.pinned: set[tuple[Path, Id]] = set()  # the disk with the note
        self.stays: set[tuple[Path, Id]] = set()  # what must be on a disk, because one has a note
        self.old: list[list[Path]] = []  # copies of all disks, by time
        self.port = 0

    # Disks:

    def make_disk(self, source: Path | None = None) -> Path:
        """Returns a new disk; with what another one has."""
        self.count += 1
        disk = self.disks / f"d{self.count}"
        disk.mkdir()
        if self.options.mount:
            command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "none", str(disk)]
            subprocess.run(command, check=True)
            self.mounted.append(disk)
        if source is not None:
            subprocess.run(["cp", "-a", f"{source}/.", str(disk)], check=True)
        return disk

    def drop(self, disks: list[Path]) -> None:
        """Removes disks."""
        for disk in disks:
            if disk in self.mounted:
                subprocess.run(["umount", "-l", str(disk)], check=True)
                self.mounted.remove(disk)
            shutil.rmtree(disk, ignore_errors=True)

    # Jobs:

    def plan(self, disks: list[Path] | None = None, **changes: Any) -> Plan:
        """Returns the plan of a job that restores, and saves some times."""
        self.job_count += 1
        values: dict[str, Any] = {
            "name": f"job{self.job_count}",
            "disks": self.slots if disks is None else disks,
            "per_node": self.per_node,
            "first_id": self.next_id,
            "saves": self.random.randint(1, 4),
            "kind": self.kind,
            "keep": self.keep,
            "in_flight": self.in_flight,
            "late": self.late,
            "is_torch": self.options.torch,
            "port": _free_port(),
            "deadline_s": self.options.deadline,
        }
        values |= changes
        self.next_id = values["first_id"] + values["saves"]
        return Plan(**values)

    def run(self, plan: Plan, acts: list[Act] | None = None) -> Told:
        """Runs a job, and learns from it."""
        (told,) = run(Job(plan, acts or []))
        self.learn(plan, told, acts or [])
        return told

    def learn(self, plan: Plan, told: Told, acts: Sequence[Act] = ()) -> None:
        """Checks what the ranks have said, and notes what they have acknowledged."""
        restored = told.of("restored")
        stopped = {act.rank for act in acts if act.signal == signal.SIGSTOP}
        for rank in {*range(plan.world)} - stopped:
            lines = [line for other, line in told.lines if other == rank]
            for before, after in itertools.pairwise(lines):
                if after["s"] - before["s"] > plan.deadline_s + SLACK_S:
                    raise BrokenError(f"{plan.name}: rank {rank} took too long: {before} {after}")
        for rank, line in restored:
            if not line["is_same"]:
                raise BrokenError(f"{plan.name}: rank {rank} has restored other bytes: {line}")
        if len({line["id"] for _, line in restored}) > 1:
            raise BrokenError(f"{plan.name}: the ranks have restored different saves: {restored}")
        if restored and told.of("nothing"):
            raise BrokenError(f"{plan.name}: only some ranks have restored")
        saved = told.ids("saved")
        if saved and max(saved) > self.acknowledged:
            self.acknowledged, self.good = max(saved), list(plan.disks)
        for rank, line in told.of("pinned"):
            disk = plan.disks[rank // plan.per_node]
            pinned = {one for one in there(disk) if one[0] == line["generation"]}
            self.pinned |= {(disk, one) for one in pinned}
            self.stays |= {(one, which) for one in plan.disks for which in pinned & there(one)}

    def ask(self, disks: list[Path]) -> tuple[Plan, Told]:
        """Starts a job that only restores; again if a rank was late, on a loaded machine."""
        for _ in range(3):
            plan = self.plan(disks, saves=0)
            (told,) = run(Job(plan, []))
            errors = [line["error"] for _, line in told.of("not restored")]
            if not any("LateError" in error for error in errors):
                break
            print("(late)", end=" ", flush=True)
        self.learn(plan, told)
        return plan, told

    def check(self) -> None:
        """Starts a job with the disks of the last acknowledged save, which must find it."""
        if not self.acknowledged:
            return
        self.slots = list(self.good)
        plan, told = self.ask(self.slots)
        restored = told.of("restored")
        if len(restored) != plan.world:
            raise BrokenError(f"save {self.acknowledged} was acknowledged: {told.lines}")
        if restored[0][1]["id"] < self.acknowledged:
            raise BrokenError(f"save {self.acknowledged} was acknowledged: {restored[0]}")
        if self.options.stoker and self.random.random() < 0.3:
            for disk in self.slots:
                command = [self.options.stoker, "checkpoint", "verify", str(disk / "run")]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise BrokenError(f"verify {disk}: {done.stdout}{done.stderr}")
        # A pin goes with the disk that has the note.
        noted = {one for disk, one in self.pinned if disk in self.good}
        self.stays = {(disk, one) for disk, one in self.stays if one in noted}
        for disk in self.slots:
            if lost := {one for of, one in self.stays if of == disk} - there(disk):
                raise BrokenError(f"{lost} were pinned, and are gone from {disk}")

    def tolerate(self, plan: Plan, told: Told) -> None:
        """Checks what a job with other disks has found."""
        if told.of("nothing") and any(names(disk) for disk in plan.disks):
            raise BrokenError(f"{plan.name}: starts over, although some disk has checkpoints")
        for rank, line in told.of("restored"):
            if line["id"] < self.acknowledged and not line["skipped"]:
                raise BrokenError(
                    f"{plan.name}: rank {rank} restored save {line['id']} and not "
                    f"{self.acknowledged}, and does not say so"
                )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def names(disk: Path) -> set[str]:
    """Names of the checkpoints on a disk."""
    return {path.name for path in (disk / "run").glob("step-*")}


def there(disk: Path) -> set[Id]:
    """Generation and line of the checkpoints on a disk."""
    found = set()
    for path in (disk / "run").glob("step-*/manifest.json"):
        try:
            manifest = json.loads(path.read_text())
            found.add((manifest["generation"], manifest["line"]))
        except (OSError, ValueError, KeyError):
            found.add((0, path.parent.name))
    return found

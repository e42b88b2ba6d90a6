"""An adversary on nodes with private disks: jobs that are killed, stopped and given wrong disks.

    python tools/disk_adversary.py FOLDER [--seed 1] [--rounds 20] [--torch] [--nodes 2]

Each round starts a job of several ranks, forked from this process, which restores and saves; does
something to it or to its disks; then starts a job with the disks of the last acknowledged save, and
asks what it finds. What ``wait()`` acknowledged must come back bit for bit on all ranks, or a newer
save, whole. With other disks a job may fail; it may restore an older save only if it says so, and
must not mix two. No job may last beyond its deadlines. Prints one line a round; exits with 1 after
the first broken promise, and leaves the folder as it was then.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from disk_adversary_jobs import ROWS, Act, BrokenError, Job, run
from disk_adversary_world import World, names, there

_CRASH_POINTS = [
    *(
        "checkpoint." + one
        for one in [
            "staged_dir",
            "written",
            "synced",
            "part_written",
            "staging_synced",
            "manifest_written",
            "place_named",
            "directory_synced",
            "all_sealed",
            "superseded",
            "freed",
            "renamed",
            "parent_synced",
            "all_durable",
            "latest_staged",
            "latest_moved",
            "latest_synced",
            "acknowledged",
        ]
    ),
    *("retention.retired", "retention.condemned", "owner.unlinked", "owner.removed"),
]


class Adversary(World):
    """What can happen to jobs and to their disks. Each attack returns what it did."""

    def _signals(self, world: int, restores: bool = True) -> list[Act]:
        acts = []
        deadline_s = self.options.deadline
        for _ in range(self.random.choice([1, 1, 1, 2])):
            is_kill = self.random.random() < 0.6
            after = self.random.choice(["saving", "saving", "saving", "saved", "restoring"])
            acts.append(
                Act(
                    rank=self.random.randrange(world),
                    after=after if restores else "saving",
                    nth=1 if after == "restoring" else self.random.randint(1, 3),
                    delay_s=self.random.choice([0.0, 0.01, 0.03, 0.06, 0.1]) * self.random.random(),
                    signal=signal.SIGKILL if is_kill else signal.SIGSTOP,
                    stopped_s=self.random.choice([0.1, 1.0, 0.9 * deadline_s, 1.3 * deadline_s]),
                )
            )
        return acts

    def _a_signal(self) -> str:
        plan = self.plan()
        acts = self._signals(plan.world)
        self.run(plan, acts)
        return f"{[(a.rank, a.after, a.nth, a.signal.name) for a in acts]}"  # type: ignore[attr-defined]

    def _a_crash_point(self) -> str:
        world = len(self.slots) * self.per_node
        kill = (
            self.random.randrange(world),
            self.random.choice(_CRASH_POINTS),
            self.random.choice([1, 2]),
        )
        self.run(self.plan(kill=kill, saves=3))
        return f"{kill}"

    def _a_rewind(self) -> str:
        """Restores an older save by name; then as a_crash_point."""
        common = set.intersection(*(names(disk) for disk in self.slots))
        if not common:
            return self._a_crash_point()
        name = self.random.choice(sorted(common))
        kill = None
        if self.random.random() < 0.6:
            world = len(self.slots) * self.per_node
            kill = self.random.randrange(world), self.random.choice(_CRASH_POINTS), 1
        plan = self.plan(restore=name, kill=kill)
        told = self.run(plan)
        return f"{name} {kill} {told.of('not restored')[:1]}"

    def _a_full_disk(self) -> str:
        if not self.options.mount:
            return self._a_crash_point()
        disk = self.random.choice(self.slots)
        filler = disk / "filler"
        left = self.random.choice([0, 4096, 20000, 100000, 300000, 600000])
        free = shutil.disk_usage(disk).free
        with filler.open("wb") as file:
            if free > left:
                os.posix_fallocate(file.fileno(), 0, free - left)
        try:
            told = self.run(self.plan(saves=3))
        finally:
            filler.unlink()
        errors = [line["error"][:90] for _, line in told.of("not saved")]
        return f"{disk.name} {left} {errors[:1]}"

    def _other_disks(self, disks: list[Path], what: str, **changes: Any) -> str:
        plan = self.plan(disks, **{"saves": self.random.choice([0, 0, 2]), **changes})
        (told,) = run(Job(plan, []))
        self.tolerate(plan, told)
        self.learn(plan, told)
        said = told.of("not restored") + told.of("restored") + told.of("nothing")
        text = said[0][1].get("error", said[0][1]) if said else told.lines[-1:]
        return f"{what}: {str(text)[:400]}"

    def _an_old_disk(self) -> str:
        if not self.old:
            return self._a_crash_point()
        old = self.random.choice(self.old)
        node = self.random.randrange(len(self.slots))
        disks = list(self.slots)
        disks[node] = self.make_disk(old[node])
        text = self._other_disks(disks, f"old disk on node {node}")
        named = re.search(r"continue from (step-\S+), which", text)
        if named and self.random.random() < 0.5:  # as the error says, which loses the newer ones
            told = self.run(self.plan(disks, restore=named[1], saves=2))
            text += f"; then {named[1]}: {told.of('not restored')[:1]} {sorted(told.ids('saved'))}"
            if told.ids("saved"):
                text = self._other_disks(self.slots, f"{text}; the disk from before", saves=0)
        return text

    def _an_empty_disk(self) -> str:
        node = self.random.randrange(len(self.slots))
        disks = list(self.slots)
        disks[node] = self.make_disk()
        return self._other_disks(disks, f"empty disk on node {node}", saves=0)

    def _an_empty_disk_and_damage(self) -> str:
        """There is a run, although no checkpoint of it is valid."""
        node = self.random.randrange(len(self.slots))
        disks = [self.make_disk(disk) for disk in self.slots]
        disks[node] = self.make_disk()
        for disk in disks:
            for manifest in disk.rglob("step-*/manifest.json"):
                manifest.unlink()
        return self._other_disks(disks, f"empty disk on node {node}, all else damaged", saves=0)

    def _a_copied_disk(self) -> str:
        one, other = self.random.sample(range(len(self.slots)), 2)
        disks = list(self.slots)
        disks[one] = self.make_disk(self.slots[other])
        return self._other_disks(disks, f"disk of node {other} on node {one}", saves=0)

    def _exchanged_disks(self) -> str:
        disks = [self.make_disk(disk) for disk in self.slots]
        disks = disks[1:] + disks[:1]
        return self._other_disks(disks, "exchanged", saves=0)

    def _a_foreign_disk(self) -> str:
        foreign = [self.make_disk() for _ in self.slots]
        keep = self.acknowledged, list(self.good)
        self.run(self.plan(foreign, saves=2))
        self.acknowledged, self.good = keep
        node = self.random.randrange(len(self.slots))
        disks = [self.make_disk(disk) for disk in self.slots]
        disks[node] = foreign[node]
        return self._other_disks(disks, f"foreign disk on node {node}", saves=0)

    def _a_damaged_disk(self) -> str:
        node = self.random.randrange(len(self.slots))
        disks = list(self.slots)
        disks[node] = self.make_disk(self.slots[node])
        files = [f for f in disks[node].rglob("step-*/*") if f.is_file()]
        newest = max((f.parent.name for f in files), default="")
        if self.random.random() < 0.7:
            files = [f for f in files if f.parent.name == newest]
        if not files:
            return self._a_crash_point()
        hurt = self.random.choice(sorted(files))
        how = self.random.choice(["flip", "cut", "remove", "latest"])
        data = bytearray(hurt.read_bytes())
        hurt.unlink()
        if how == "latest":
            hurt.write_bytes(data)
            latest = disks[node] / "run/latest"
            latest.unlink(missing_ok=True)
            if self.random.random() < 0.5:
                latest.symlink_to("step-000000999999")
        elif how == "flip" and data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
            hurt.write_bytes(data)
        elif how == "cut":
            hurt.write_bytes(data[: self.random.randrange(len(data) + 1)])
        text = f"{how} {hurt.parent.name}/{hurt.name} on node {node}"
        return self._other_disks(disks, text, saves=0)

    def _other_nodes(self) -> str:
        disks = [self.make_disk(disk) for disk in self.slots]
        if self.random.random() < 0.5 and len(disks) > 1:
            disks.pop(self.random.randrange(len(disks)))
        else:
            disks.insert(self.random.randrange(len(disks) + 1), self.make_disk())
        keep = self.acknowledged, list(self.good)
        if ROWS % (len(disks) * self.per_node):
            return self._a_crash_point()
        text = self._other_disks(disks, f"{len(disks)} nodes instead of {len(self.slots)}")
        self.acknowledged, self.good = keep
        return text

    def _a_wrong_setting(self) -> str:
        plan = self.plan(shared=self.random.randrange(len(self.slots) * self.per_node), saves=1)
        told = self.run(plan)
        if plan.world > 1 and (told.of("saved") or told.of("restored")):
            raise BrokenError(f"{plan.name}: a wrong setting on one rank: {told.lines}")
        return str(told.lines[-1])[:300]

    def _a_vanished_disk(self) -> str:
        """The directory of a node is moved away in the middle, and comes back later."""
        disk = self.random.choice(self.slots)
        world = len(self.slots) * self.per_node
        before = self.acknowledged
        plan = self.plan(saves=5, pauses_s=0.02)
        job = Job(plan, [])
        job.calls.append(
            (
                self.random.randrange(world),
                self.random.choice(["saving", "saved", "restored"]),
                self.random.randint(1, 3),
                lambda: (disk / "run").rename(disk / "away"),
            )
        )
        (told,) = run(job)
        self.learn(plan, told)
        if not (disk / "away").exists():
            return "not vanished"
        if not (disk / "run").exists():
            (disk / "away").rename(disk / "run")
            return f"back; {sorted(told.ids('saved'))} {told.of('not saved')[:1]}"
        returned = self.make_disk(disk)
        shutil.rmtree(returned / "run")
        (returned / "away").rename(returned / "run")
        shutil.rmtree(disk / "away")
        disks = [returned if one == disk else one for one in self.slots]
        self.pinned = {(of, one) for of, one in self.pinned if of != disk}
        self.stays = {(of, one) for of, one in self.stays if of != disk}
        is_found = []
        for there_now in (self.slots, disks):
            again, said = self.ask(there_now)
            self.tolerate(again, said)
            is_found.append(min(said.ids("restored"), default=0) >= max(before, self.acknowledged))
        if not any(is_found):
            raise BrokenError(f"save {self.acknowledged} is neither on the new nor on the old disk")
        self.good = list(disks if is_found[1] else self.slots)
        return f"replaced {is_found} {sorted(told.ids('saved'))} {told.of('not saved')[:1]}"

    def _a_read_only_disk(self) -> str:
        if not self.options.mount:
            return self._a_crash_point()
        disk = self.random.choice(self.slots)
        plan = self.plan(saves=3, pauses_s=0.05)
        job = Job(plan, [])

        def remount() -> None:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=False, stderr=-3)

        job.calls.append((self.random.randrange(plan.world), "saving", 2, remount))
        try:
            (told,) = run(job)
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        self.learn(plan, told)
        return f"{disk.name} {sorted(told.ids('saved'))} {told.of('not saved')[:1]}"

    def _a_prune(self) -> str:
        if not self.options.stoker:
            return self._a_crash_point()
        disk = self.random.choice(self.slots)
        command = [
            self.options.stoker,
            "checkpoint",
            "prune",
            str(disk / "run"),
            "--keep-last",
            "1",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if lost := {one for of, one in self.pinned if of == disk} - there(disk):
            raise BrokenError(f"prune has removed pinned ones: {lost}")
        # It does not know what is pinned on other nodes.
        self.stays = {(of, one) for of, one in self.stays if of != disk or one in there(disk)}
        return f"{disk.name}: {done.returncode} {done.stdout[-80:]!r} {done.stderr[-80:]!r}"

    def _two_jobs(self) -> str:
        """Both begin on the same disks. One may wait for the other; what counts is the order."""
        first = self.plan(pauses_s=0.05, is_one_of_two=True)
        second = self.plan(pauses_s=0.05, is_one_of_two=True)
        acts = self._signals(second.world, restores=False)
        both = run(Job(first, []), Job(second, acts))
        saved = [max(told.ids("saved"), default=0) for told in both]
        for plan, told in zip((first, second), both, strict=True):
            self.learn(plan, told, acts)
        self.acknowledged = max([one for one in saved if one], default=self.acknowledged)
        if all(saved):  # the one that was committed last
            self.acknowledged = min(saved)
        return f"saved {saved} {[t.of('not saved')[:1] for t in both]}"

    def _a_pin(self) -> str:
        rank = self.random.randrange(len(self.slots) * self.per_node)
        self.run(self.plan(pin=rank, saves=4))
        return f"by rank {rank}; {len(self.pinned)} pinned"

    def _round(self, number: int) -> None:
        attacks: list[tuple[int, Callable[[], str]]] = [
            (6, self._a_signal),
            (6, self._a_crash_point),
            (3, self._a_rewind),
            (2, self._a_full_disk),
            (2, self._an_old_disk),
            (1, self._an_empty_disk),
            (1, self._an_empty_disk_and_damage),
            (1, self._a_copied_disk),
            (1, self._exchanged_disks),
            (1, self._a_foreign_disk),
            (2, self._a_damaged_disk),
            (1, self._other_nodes),
            (1, self._a_wrong_setting),
            (1, self._two_jobs),
            (1, self._a_pin),
            (1, self._a_prune),
            (1, self._a_vanished_disk),
            (1, self._a_read_only_disk),
        ]
        if self.options.only:
            attacks = [one for one in attacks if one[1].__name__[1:] in self.options.only]
        weights = [weight for weight, _ in attacks]
        (attack,) = self.random.choices([act for _, act in attacks], weights)
        if len(self.slots) == 1 and attack == self._a_copied_disk:
            attack = self._a_crash_point
        begun_s = time.monotonic()
        print(f"{number:4} {attack.__name__[1:]}", end=" ", flush=True)
        text = attack()
        self.check()
        print(f"{time.monotonic() - begun_s:.1f}s save {self.acknowledged}; {text}", flush=True)
        if self.random.random() < 0.3 and self.acknowledged:
            self.old.append([self.make_disk(disk) for disk in self.slots])
            if len(self.old) > 2:
                self.drop(self.old.pop(0))
        used = {*self.slots, *self.good, *(disk for disks in self.old for disk in disks)}
        self.drop([disk for disk in self.disks.iterdir() if disk not in used])

    def run_all(self) -> None:
        """Saves twice, then plays all rounds."""
        text = f"{self.options.nodes} nodes of {self.per_node}, state {self.kind}"
        text += f", {self.keep}, {self.in_flight} in flight, {self.late}"
        print(f"seed {self.options.seed}: {text}", flush=True)
        self.run(self.plan(restore=None, saves=2))
        if not self.acknowledged:
            raise BrokenError("the first save failed")
        for number in range(1, self.options.rounds + 1):
            self._round(number)


def main() -> int:
    """Returns 1 after a broken promise."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=8.0, help="of each call, in seconds")
    parser.add_argument("--torch", action="store_true", help="messages through its TCPStore")
    parser.add_argument("--mount", action="store_true", help="disks of limited size; as root")
    parser.add_argument("--stoker", help="the command")
    parser.add_argument("--only", action="append", help="names of attacks")
    options = parser.parse_args()
    if options.torch:
        import torch.distributed  # noqa: F401 (before the ranks are forked)
    adversary = Adversary(options.folder.absolute(), options)
    try:
        adversary.run_all()
    except BrokenError as broken:
        print(f"\nBROKEN: {broken}", flush=True)
        return 1
    adversary.drop(list(adversary.disks.iterdir()))
    shutil.rmtree(options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

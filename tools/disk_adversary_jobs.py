"""Jobs of ranks on nodes with private disks, for disk_adversary.py: what they do and suffer."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import stoker
from stoker._checkpoint import checkpointer as _checkpointer

SLACK_S = 12.0  # for calls of a rank that nobody has stopped, on a loaded machine
ROWS, _WIDTH = 24, 512


class BrokenError(Exception):
    """A promise that was not kept."""


# The ranks ----------------------------------------------------------------------------------------


@dataclass
class Plan:
    """What the ranks of a job do.

    Attributes:
        disks: The directory of each node.
        first_id: Number of the first save; those of later saves are greater.
    """

    name: str
    disks: list[Path]
    per_node: int
    first_id: int
    saves: int
    restore: int | str | None = "latest"
    kind: str = "all"
    keep: dict[str, Any] = field(default_factory=dict)
    in_flight: int = 1
    late: str = "block"
    is_torch: bool = False
    port: int = 0
    deadline_s: float = 8.0
    pauses_s: float = 0.0
    kill: tuple[int, str, int] | None = None  # rank, crash point, occurrence
    is_one_of_two: bool = False  # at the same time
    shared: int | None = None  # the rank with the wrong setting
    pin: int | None = None  # the rank that pins what it has restored

    @property
    def hang_s(self) -> float:
        """No job lasts so long: some deadlines, and a loaded machine."""
        return 8 * self.deadline_s + 30

    @property
    def world(self) -> int:
        """Number of ranks."""
        return len(self.disks) * self.per_node


def _trees(plan: Plan, rank: int) -> dict[str, Any]:
    rows = ROWS // plan.world
    trees: dict[str, Any] = {
        "id": np.zeros(1, np.int64),
        "same": np.zeros((64, _WIDTH), np.int64),
        "frozen": np.arange(4096),
    }
    if plan.kind != "same":
        part = np.zeros((rows, _WIDTH), np.int64)
        trees["part"] = stoker.Slice(part, [ROWS, _WIDTH], [rank * rows, 0])
    if plan.kind == "all":
        trees["own"] = stoker.PerRank({"w": np.zeros(100, np.int64)})
    return trees


def _fill(trees: dict[str, Any], number: int, rank: int) -> None:
    trees["id"][:] = number
    trees["same"][:] = np.arange(trees["same"].size).reshape(trees["same"].shape) + number * 1009
    if "part" in trees:
        part = trees["part"]
        first = part.offsets[0]
        rows = np.arange(first, first + len(part.array))[:, None]
        part.array[:] = rows * _WIDTH + np.arange(_WIDTH) + number * 2003
    if "own" in trees:
        trees["own"].value["w"][:] = np.arange(100) + number * 4001 + rank * 10**9


def _arrays(trees: dict[str, Any]) -> list[Any]:
    found = [trees["id"], trees["same"], trees["frozen"]]
    if "part" in trees:
        found.append(trees["part"].array)
    if "own" in trees:
        found.append(trees["own"].value["w"])
    return found


def _run_rank(plan: Plan, rank: int, say: Callable[..., None]) -> None:
    os.chdir(plan.disks[rank // plan.per_node])
    if plan.kill and plan.kill[0] == rank:
        _checkpointer._kill_at = plan.kill[1:]
    settings: dict[str, Any] = {}
    if plan.is_torch:
        import torch.distributed as dist

        method = f"tcp://127.0.0.1:{plan.port}"
        dist.init_process_group("gloo", init_method=method, rank=rank, world_size=plan.world)
    else:
        settings = {"meeting": str(plan.disks[0].parent.parent / "meeting")}
        if plan.is_one_of_two:
            settings["job"] = plan.name
    saver = stoker.Checkpointer(
        "/proc/self/cwd/run",
        rank=rank,
        world_size=plan.world,
        disks="shared" if plan.shared == rank else "private",
        in_flight=plan.in_flight,
        late=plan.late,  # type: ignore[arg-type]
        **plan.keep,
        deadline=plan.deadline_s,
        close_timeout=plan.deadline_s,
        **settings,
    )
    trees = _trees(plan, rank)
    step = 0
    if plan.restore is not None:
        say("restoring")
        try:
            done = saver.restore(plan.restore, **trees)
        except Exception as error:
            say("not restored", error=f"{type(error).__name__}: {error}")
            return
        if done is None:
            say("nothing")
        else:
            number = int(trees["id"][0])
            found = [array.copy() for array in _arrays(trees)]
            _fill(trees, number, rank)
            is_same = all(map(np.array_equal, found, _arrays(trees)))
            why = [why for _, why in done.skipped]
            step = int(done)
            say("restored", id=number, step=step, is_same=is_same, skipped=why)
            if plan.pin == rank:
                saver.pin(step)
                say("pinned", generation=done.generation)
    failures = 0
    pending: list[tuple[int, Any]] = []
    for number in range(plan.first_id, plan.first_id + plan.saves):
        step += 1
        _fill(trees, number, rank)
        say("saving", id=number, step=step)
        try:
            pending.append((number, saver.save(step, reference={"loss": number % 5}, **trees)))
        except Exception as error:
            failures += 1
            say("not saved", id=number, error=f"{type(error).__name__}: {error}")
        is_last = number == plan.first_id + plan.saves - 1
        while len(pending) >= plan.in_flight or (is_last and pending):
            of, save = pending.pop(0)
            try:
                if save.wait():
                    say("saved", id=of)
                else:
                    say("skipped", id=of)
            except Exception as error:
                failures += 1
                say("not saved", id=of, error=f"{type(error).__name__}: {error}")
        if failures >= 2:
            break
        time.sleep(plan.pauses_s)
    say("closing")
    saver.close()
    say("closed")


def _start_rank(plan: Plan, rank: int, output: int) -> int:
    process = os.fork()
    if process:
        return process
    code = 1

    def say(what: str, **values: Any) -> None:
        line = {"what": what, "s": round(time.monotonic(), 3), **values}
        os.write(output, (json.dumps(line) + "\n").encode())

    try:
        os.environ["OMP_NUM_THREADS"] = "1"
        log = os.open(plan.disks[0].parent.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _run_rank(plan, rank, say)
        code = 0
    except BaseException as error:
        say("failed", error=f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)


# Jobs ---------------------------------------------------------------------------------------------


@dataclass
class Act:
    """A signal to a rank, some time after it has said something."""

    rank: int
    after: str
    nth: int
    delay_s: float
    signal: int
    stopped_s: float = 0.0


@dataclass
class Told:
    """What the ranks of a job have said."""

    lines: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def of(self, what: str) -> list[tuple[int, dict[str, Any]]]:
        """Returns the lines of a kind, each with its rank."""
        return [(rank, line) for rank, line in self.lines if line["what"] == what]

    def ids(self, what: str) -> set[int]:
        """Returns the saves in lines of a kind."""
        return {line["id"] for _, line in self.of(what)}


class Job:
    """The processes of a plan."""

    def __init__(self, plan: Plan, acts: list[Act]) -> None:
        self.plan, self.acts = plan, acts
        self.told = Told()
        self.begun_s = time.monotonic()
        self.processes: list[int] = []
        self.pipes: dict[int, tuple[int, bytes]] = {}
        self.due: list[tuple[float, int, int]] = []  # when, rank, signal
        self.calls: list[tuple[int, str, int, Callable[[], object]]] = []  # as acts
        self.heard: dict[tuple[int, str], int] = {}
        self.ended: set[int] = set()
        for rank in range(plan.world):
            read, write = os.pipe()
            self.processes.append(_start_rank(plan, rank, write))
            os.close(write)
            self.pipes[read] = (rank, b"")

    def hear(self, read: int) -> bool:
        """Reads what a rank says; False at its end."""
        rank, rest = self.pipes[read]
        data = os.read(read, 65536)
        *lines, rest = (rest + data).split(b"\n")
        self.pipes[read] = (rank, rest)
        for line in lines:
            self._note(rank, json.loads(line))
        return bool(data)

    def _note(self, rank: int, line: dict[str, Any]) -> None:
        self.told.lines.append((rank, line))
        count = self.heard[rank, line["what"]] = self.heard.get((rank, line["what"]), 0) + 1
        for of, after, nth, call in self.calls:
            if (of, after, nth) == (rank, line["what"], count):
                call()
        for act in self.acts:
            if (act.rank, act.after, act.nth) != (rank, line["what"], count):
                continue
            at = time.monotonic() + act.delay_s
            self.due.append((at, act.rank, act.signal))
            if act.signal == signal.SIGSTOP:
                self.due.append((at + act.stopped_s, act.rank, signal.SIGCONT))

    def act(self) -> None:
        """Sends the signals that are due."""
        now = time.monotonic()
        for when, rank, number in sorted(self.due):
            if when > now:
                continue
            self.due.remove((when, rank, number))
            if rank not in self.ended:
                os.kill(self.processes[rank], number)

    def end(self) -> None:
        """Kills what is left."""
        for rank, process in enumerate(self.processes):
            if rank not in self.ended:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                self.ended.add(rank)
        for read in self.pipes:
            os.close(read)
        self.pipes = {}


def run(*jobs: Job) -> list[Told]:
    """Waits for jobs; raises if one hangs."""
    selector = selectors.DefaultSelector()
    for job in jobs:
        for read in job.pipes:
            selector.register(read, selectors.EVENT_READ, job)
    try:
        while selector.get_map():
            for key, _ in selector.select(0.002):
                if not key.data.hear(key.fd):
                    selector.unregister(key.fd)
                    rank, _ = key.data.pipes.pop(key.fd)
                    os.close(key.fd)
                    os.waitpid(key.data.processes[rank], 0)
                    key.data.ended.add(rank)
            for job in jobs:
                job.act()
                if job.pipes and time.monotonic() - job.begun_s > job.plan.hang_s:
                    left = [rank for rank in range(job.plan.world) if rank not in job.ended]
                    last = [[w for r, w in job.told.lines if r == rank][-1:] for rank in left]
                    raise BrokenError(f"{job.plan.name}: ranks {left} hang; they said last {last}")
    finally:
        for job in jobs:
            job.end()
        selector.close()
    return [job.told for job in jobs]

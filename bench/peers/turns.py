"""Runs sides in turns: each round runs all of them, in alternating order."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

SIDE = Path(__file__).parent / "side.py"
Answer = dict[str, float]


class Side(Protocol):
    """One program, ready to run."""

    def run(self) -> Answer:
        """Runs once."""

    def close(self) -> None:
        """Ends the program."""


class SideError(RuntimeError):
    """A side has ended without an answer; the message has its last output."""


class ProcessSide:
    """A side of side.py in its own process, or another ``command`` that answers as it does."""

    def __init__(
        self, name: str, command: Sequence[str] = (), *, side: Path = SIDE, **options: Any
    ) -> None:
        self.name = name
        command = command or [sys.executable, str(side), name, json.dumps(options)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors: list[str] = []
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self._line()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors = [*self.errors[-20:], line.rstrip()]

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.listener.join(5)
            raise SideError(f"{self.name}: " + "\n".join(self.errors))
        return line

    def _ask(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # _line() reports why
            self.process.stdin.write("run\n")
            self.process.stdin.flush()

    def run(self) -> Answer:
        """Runs once."""
        self._ask()
        answer: Answer = json.loads(self._line())
        return answer

    def peak_memory(self) -> Answer:
        """Runs once and samples the memory of the process and its descendants.

        PSS divides shared pages among the processes that share them, so sums are correct; RSS
        counts them several times.
        """
        peak = {"pss_bytes": 0.0, "rss_bytes": 0.0}
        with selectors.DefaultSelector() as selector:
            assert self.process.stdout is not None
            selector.register(self.process.stdout, selectors.EVENT_READ)
            self._ask()
            while not selector.select(0.02):
                now = memory_of(self.process.pid)
                peak = {name: max(peak[name], now[name]) for name in peak}
        self._line()
        return peak

    def close(self) -> None:
        """Ends the process and waits for it."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def descendants(pid: int) -> list[int]:
    """Returns the process and its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text(encoding="utf-8", errors="replace")
            parent = int(text[text.rindex(")") + 1 :].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for process in found:
        found += children.get(process, [])
    return found


def memory_of(pid: int) -> Answer:
    """Returns the memory of a process and its descendants, from smaps_rollup."""
    total = {"pss_bytes": 0.0, "rss_bytes": 0.0}
    names = {"Pss:": "pss_bytes", "Rss:": "rss_bytes"}
    for process in descendants(pid):
        with contextlib.suppress(OSError):  # the process has ended
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                label, *rest = line.split()
                if label in names:
                    total[names[label]] += 1024 * int(rest[0])
    return total


class FreshSide:
    """A side of side.py in a new process each time, for work that a process does only once."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name, self.options = name, options

    def run(self) -> Answer:
        """Starts, runs once, ends."""
        with contextlib.closing(ProcessSide(self.name, **self.options)) as side:
            return side.run()

    def close(self) -> None:
        """Does nothing: the process has ended already."""


class CallSide:
    """A side that is a function of the benchmark itself."""

    def __init__(self, work: Callable[[], Answer]) -> None:
        self.run = work

    def close(self) -> None:
        """Does nothing."""


def memcpy_side(sample_bytes: int, seconds: float = 0.5) -> CallSide:
    """Returns a side that copies samples with two threads: the limit of the memory."""
    source = np.ones(256 << 20, np.uint8)
    ring = [np.ones(32 << 20, np.uint8) for _ in range(2)]

    def copy(number: int, until: threading.Event, done: list[int]) -> None:
        draw = np.random.default_rng(number)
        reads = draw.integers(0, len(source) - sample_bytes, 4096).tolist()
        writes = (np.arange(4096) * sample_bytes % (len(ring[0]) - sample_bytes)).tolist()
        target = ring[number]
        while not until.is_set():
            for read, write in zip(reads, writes, strict=True):
                target[write : write + sample_bytes] = source[read : read + sample_bytes]
            done[number] += len(reads) * sample_bytes

    def run() -> Answer:
        import time

        until, done = threading.Event(), [0, 0]
        threads = [threading.Thread(target=copy, args=(i, until, done)) for i in range(2)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        until.wait(seconds)
        until.set()
        for thread in threads:
            thread.join()
        return {"bytes_per_s": sum(done) / (time.perf_counter() - begin)}

    return CallSide(run)


def in_turns(
    makers: dict[str, Callable[[], Side]],
    rounds: int,
    *,
    before: Callable[[], None] = lambda: None,
    warm_up: bool = True,
) -> dict[str, list[Answer]]:
    """Runs all rounds of all sides; returns the answers by label.

    ``before`` is called before each run; ``warm_up`` adds a run of each side that is not counted.
    """
    answers: dict[str, list[Answer]] = {label: [] for label in makers}
    with contextlib.ExitStack() as stack:
        sides: dict[str, Side] = {}
        for label, make in makers.items():
            sides[label] = stack.enter_context(contextlib.closing(make()))
            if warm_up:
                sides[label].run()
        for label in order_of(list(makers), rounds):
            before()
            answers[label].append(sides[label].run())
    return answers


def order_of(labels: Sequence[str], rounds: int) -> Iterator[str]:
    """Yields the labels in alternating order: A B B A A B ..."""
    for number in range(rounds):
        yield from labels if number % 2 == 0 else reversed(labels)

#!/usr/bin/env python3
"""Compares ``stoker bench disk`` with fio, both in one run.

Figures P1 and P2 of docs/benchmarks.md: a durable sequential write, and reads of a cold file. Each
round runs both programs, in alternating order, on files of the same size that were written in the
same way just before. The result is the ratio within a round, ours divided by fio's; its median and
spread over the rounds are shown.

Writes build/bench/disk.json and prints a Markdown table. Does not fail because of a figure.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- bench_fio: begin -->", "<!-- bench_fio: end -->"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
RATIO_MIN = 0.95
LAYOUT_BLOCK, LAYOUT_DEPTH = 4 << 20, 8


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison: the same work for both programs."""

    figure: str
    name: str  # as in `stoker bench disk --only`
    block_bytes: int
    depth: int
    in_iops: bool = False

    @property
    def title(self) -> str:
        """Returns the title for the table."""
        names = {"seq_write": "durable write", "seq_read": "sequential read"}
        work = names.get(self.name, "random read")
        return f"{work} {size_text(self.block_bytes)}, depth {self.depth}"


@dataclasses.dataclass
class Outcome:
    """The results of the rounds of one case, in bytes or operations per second."""

    case: Case
    ours: list[float] = dataclasses.field(default_factory=list)
    fio: list[float] = dataclasses.field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Ours divided by fio's, round by round."""
        return [a / b for a, b in zip(self.ours, self.fio, strict=True)]


CASES = [
    Case("P1", "seq_write", 4 << 20, 8),
    Case("P2", "seq_read", 4 << 20, 8),
    *(
        Case("P2", "rand_read", block, depth, in_iops=block == 4 << 10)
        for block in (4 << 10, 128 << 10)
        for depth in (1, 32, 128)
    ),
]


def size_text(count: int) -> str:
    """Writes 4194304 as ``4MiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        if count % UNITS[unit] == 0:
            return f"{count // UNITS[unit]}{unit}"
    return str(count)


def parse_size(text: str) -> int:
    """Reads ``4GiB``."""
    match = re.fullmatch(r"(\d+)(KiB|MiB|GiB)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 512MiB or 4GiB")
    return int(match[1]) * UNITS.get(match[2], 1)


def run_json(command: list[str]) -> Any:
    """Runs a program that prints one JSON object."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bench_fio: {' '.join(command)}\n{done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout[done.stdout.index("{") :])  # fio may print a warning first


class Bench:
    """Both programs, and the directory they measure in."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.file = Path(args.path) / f".bench-fio-{os.getpid()}"
        self.report: dict[str, Any] = {}

    def ours(self, case: Case) -> float:
        """Runs one case of `stoker bench disk`."""
        time = "600s" if case.name == "seq_write" else f"{self.args.seconds}s"
        options = f"--json --engine uring --policy direct --only {case.name} --time {time}"
        shape = f"--size {self.args.size} --block {case.block_bytes} --depth {case.depth}"
        self.report = run_json(
            [
                *(self.args.stoker, "bench", "disk", self.args.path),
                *options.split(),
                *shape.split(),
            ]
        )
        (result,) = self.report["results"]
        if result["cache"] != ("n/a" if case.name == "seq_write" else "cold"):
            print(f"bench_fio: {case.title}: the file was {result['cache']}", file=sys.stderr)
        return float(result["iops"] if case.in_iops else result["bytes_per_s"])

    def run_fio(self, mode: str, block_bytes: int, depth: int, *more: str) -> dict[str, Any]:
        """Runs one fio job on the file, with all options that make fio fast."""
        options = "--ioengine=io_uring --direct=1 --registerfiles=1 --output-format=json"
        if self.report["registered_buffers"]:  # otherwise neither may lock that much memory
            options += " --fixedbufs=1"
        shape = f"--rw={mode} --size={self.args.size} --bs={block_bytes} --iodepth={depth}"
        name = ["--name=stoker", f"--filename={self.file}"]
        report = run_json(["fio", *name, *options.split(), *shape.split(), *more])
        side: dict[str, Any] = report["jobs"][0]["write" if mode == "write" else "read"]
        return side

    def fio(self, case: Case) -> float:
        """Runs the same work with fio, on a file it has just written."""
        self.file.unlink(missing_ok=True)
        try:
            if case.name == "seq_write":
                return float(
                    self.run_fio("write", case.block_bytes, case.depth, "--end_fsync=1")["bw_bytes"]
                )
            self.run_fio("write", LAYOUT_BLOCK, LAYOUT_DEPTH, "--end_fsync=1")
            self.evict()
            mode = "read" if case.name == "seq_read" else "randread"
            side = self.run_fio(
                mode, case.block_bytes, case.depth, "--time_based", f"--runtime={self.args.seconds}"
            )
            return float(side["iops"] if case.in_iops else side["bw_bytes"])
        finally:
            self.file.unlink(missing_ok=True)

    def evict(self) -> None:
        """Ensures a cold file, although direct writes leave nothing in the page cache."""
        fd = os.open(self.file, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def compare(self, case: Case) -> Outcome:
        """Runs all rounds of one case."""
        outcome = Outcome(case)
        for number in range(self.args.rounds):
            sides = [(outcome.ours, self.ours), (outcome.fio, self.fio)]
            for values, run in sides if number % 2 == 0 else reversed(sides):
                values.append(run(case))
            print(f"bench_fio: {case.title}: {outcome.ratios[-1]:.2f}", file=sys.stderr)
        return outcome


def value_text(case: Case, value: float) -> str:
    """Formats a rate."""
    return f"{value / 1e3:.1f}k IOPS" if case.in_iops else f"{value / 1e9:.2f} GB/s"


def table_of(outcomes: list[Outcome]) -> str:
    """Writes the figures as a Markdown table."""
    lines = [
        "| # | work | stoker | fio | ratio, median | ratio, min to max | >= 0.95 |",
        "|---|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        case, ratios = outcome.case, outcome.ratios
        ratio = statistics.median(ratios)
        lines.append(
            f"| {case.figure} | {case.title} | {value_text(case, statistics.median(outcome.ours))} "
            f"| {value_text(case, statistics.median(outcome.fio))} | {ratio:.2f} "
            f"| {min(ratios):.2f} to {max(ratios):.2f} | {'yes' if ratio >= RATIO_MIN else 'no'} |"
        )
    return "\n".join(lines)


def machine_of(bench: Bench) -> dict[str, str]:
    """Describes where the figures were taken."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fio = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True)
    args = bench.args
    return {
        "machine": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
        f"{memory / (1 << 30):.0f} GiB of memory",
        "kernel": platform.release(),
        "filesystem": str(bench.report.get("filesystem", "unknown")),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "against": fio.stdout.strip(),
        "command": f"tools/bench_fio.py --size {size_text(args.size)} --rounds {args.rounds} "
        f"--seconds {args.seconds}",
        "cache": "cold: O_DIRECT on files evicted before (ours proven by residency)",
        "rounds": f"{args.rounds}, interleaved",
        "load average": f"{os.getloadavg()[1]:.1f} over the last five minutes, this run included",
    }


def write_docs(page: Path, machine: dict[str, str], table: str) -> None:
    """Replaces the text between the markers."""
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found or not found_end:
        sys.exit(f"bench_fio: {page} has lost its markers {BEGIN} and {END}")
    facts = "\n".join(f"- {key}: {value}" for key, value in machine.items())
    page.write_text(f"{before}{BEGIN}\n{facts}\n\n{table}\n{END}{after}", encoding="utf-8")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="the stoker command (build/bench/stoker)")
    parser.add_argument("--stoker", help="the same, by name")
    parser.add_argument("--path", default="build/bench", help="directory to measure in")
    parser.add_argument("--size", type=parse_size, default=4 << 30, help="size of the files (4GiB)")
    parser.add_argument("--rounds", type=int, default=5, help="at least 5 for publication")
    parser.add_argument("--seconds", type=int, default=2, help="time of one read (2)")
    parser.add_argument("--figure", choices=["P1", "P2"], help="only this one")
    parser.add_argument("--output", default="build/bench/disk.json", help="where the data goes")
    parser.add_argument("--write-docs", action="store_true", help="update docs/benchmarks.md")
    args = parser.parse_args()
    args.stoker = args.stoker or args.program or "build/bench/stoker"
    if not Path(args.stoker).exists():
        parser.error(f"{args.stoker} does not exist: run `make bench`")
    if shutil.which("fio") is None:
        parser.error("fio is not installed: apt-get install fio")
    if args.rounds < 1 or args.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")
    return args


def main() -> None:
    """Runs the comparison."""
    args = parse_args()
    Path(args.path).mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    cases = [case for case in CASES if args.figure in (None, case.figure)]
    outcomes = [bench.compare(case) for case in cases]
    machine, table = machine_of(bench), table_of(outcomes)
    data = {
        **machine,
        "results": [
            {**dataclasses.asdict(o.case), "ours": o.ours, "fio": o.fio, "ratios": o.ratios}
            for o in outcomes
        ],
    }
    output = Path(args.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    print("\n".join(f"{key}: {value}" for key, value in machine.items()), table, sep="\n\n")
    if args.write_docs:
        write_docs(Path(__file__).parent.parent / "docs" / "benchmarks.md", machine, table)


if __name__ == "__main__":
    main()

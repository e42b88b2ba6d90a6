"""Formats the ratios of rounds as a table, and updates its section of docs/benchmarks.md."""

from __future__ import annotations

import dataclasses
import datetime
import os
import platform
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
MISSING = "not run"


@dataclasses.dataclass
class Row:
    """One comparison: our values, those of the peer, and the target."""

    figure: str
    work: str
    peer: str
    unit: str  # "samples/s", "GB/s", "ms", "MiB"
    ours: list[float]
    theirs: list[float]
    at_least: float | None = None  # target for ours divided by theirs
    at_most: float | None = None
    ours_at_most: float | None = None  # target for our own value, in its unit

    @property
    def ratios(self) -> list[float]:
        """Returns ours divided by theirs, round by round."""
        return [a / b for a, b in zip(self.ours, self.theirs, strict=False) if b]

    @property
    def target(self) -> str:
        """Returns the target as text."""
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        if self.at_most is not None:
            return f"<= {self.at_most:.3g}"
        return f"< {self.ours_at_most:g} {self.unit}" if self.ours_at_most is not None else ""

    @property
    def reached(self) -> str:
        """Returns "yes" or "no", "not run" without a value, "" without a target."""
        if self.ours_at_most is not None:
            return verdict(self.ours, lambda value: value < self.ours_at_most)
        if self.at_least is not None:
            return verdict(self.ratios, lambda value: value >= self.at_least)
        if self.at_most is not None:
            return verdict(self.ratios, lambda value: value <= self.at_most)
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return dataclasses.asdict(self) | {"ratios": self.ratios, "reached": self.reached}


def verdict(values: Sequence[float], is_good: Any) -> str:
    """Judges by the median."""
    if not values:
        return MISSING
    return "yes" if is_good(statistics.median(values)) else "no"


def value_text(values: Sequence[float], unit: str) -> str:
    """Formats the median."""
    if not values:
        return MISSING
    value = statistics.median(values)
    digits = 0 if value >= 1000 else 2 if value < 100 else 1
    return f"{value:,.{digits}f} {unit}"


def ratio_text(ratios: Sequence[float]) -> tuple[str, str]:
    """Formats the median and the spread."""
    if not ratios:
        return MISSING, ""
    return f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"


def table_of(rows: Sequence[Row]) -> str:
    """Writes the comparisons as a Markdown table."""
    lines = [
        "| # | work | against | stoker | peer | ratio, median | min to max | to reach | reached |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        middle, spread = ratio_text(row.ratios)
        cells = [
            row.figure,
            row.work,
            row.peer,
            value_text(row.ours, row.unit),
            value_text(row.theirs, row.unit) if row.peer else "",
            middle if row.peer else "",
            spread if row.peer else "",
            row.target,
            row.reached,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def machine_facts(filesystem_of: Path) -> dict[str, str]:
    """Describes the machine on which the figures were measured."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "machine": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
        f"{memory / (1 << 30):.0f} GiB of memory",
        "kernel": platform.release(),
        "filesystem": filesystem_name(filesystem_of),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "load average": f"{os.getloadavg()[1]:.1f} over the last five minutes, this run included",
    }


def filesystem_name(path: Path) -> str:
    """Returns the type of the filesystem of ``path``."""
    best, kind = "", "unknown"
    place = str(path.resolve())
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, name, *_ = line.split()
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def write_docs(marker: str, facts: dict[str, str], table: str, page: Path = PAGE) -> None:
    """Replaces the text between ``<!-- marker: begin -->`` and ``<!-- marker: end -->``."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        sys.exit(f"{marker}: {page} does not have the markers {begin} and {end}")
    lines = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    page.write_text(f"{before}{begin}\n{lines}\n\n{table}\n{end}{after}", encoding="utf-8")

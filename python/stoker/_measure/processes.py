"""CPU time of a process and all its descendants, from /proc."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
# Fields of /proc/PID/stat after the name, which is in parentheses and may contain anything.
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14


@dataclass(frozen=True)
class CpuUse:
    """CPU time of a tree of processes so far."""

    seconds: float
    processes: int


def _stat_of(folder: Path) -> list[str] | None:
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has ended meanwhile
        return None
    return text[text.rindex(")") + 1 :].split()


def _ticks(stat: list[str]) -> int:
    """Includes children that it has waited for: their time must not vanish when they end."""
    return sum(int(stat[i]) for i in (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM))


def cpu_use(pid: int | None = None, proc: Path = _PROC) -> CpuUse:
    """Returns the CPU time of ``pid`` (default: this process) and its descendants.

    Resolution: a hundredth of a second; finer for this process.
    """
    root = os.getpid() if pid is None else pid
    stats: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and (stat := _stat_of(folder)) is not None:
            stats[int(folder.name)] = stat
            children.setdefault(int(stat[_PARENT]), []).append(int(folder.name))
    ticks = count = 0
    seconds = 0.0
    if pid is None and root in stats:
        for place in (_USER, _SYSTEM):
            stats[root][place] = "0"
        seconds = time.process_time()
    waiting = [root]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        if process in stats:
            ticks += _ticks(stats[process])
            count += 1
    return CpuUse(seconds + ticks / os.sysconf("SC_CLK_TCK"), count)

"""A text that identifies a process, from which others on its machine see that it has ended."""

from __future__ import annotations

import os
from pathlib import Path

_ENDED = frozenset("ZXx")  # states of /proc/PID/stat: a zombie answers nobody


def process_mark() -> str:
    """Returns the mark of this process: machine, pid namespace, pid and start time."""
    return f"{_machine()} {os.getpid()} {_start_time(os.getpid())}"


def is_gone(mark: str) -> bool:
    """Whether the process has ended. False if it is on another machine, or in another container."""
    machine, _, process = mark.rpartition(" ")[0].rpartition(" ")
    if machine != _machine() or not process.isdecimal():
        return False
    return _start_time(int(process)) != mark.rpartition(" ")[2]


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 (no file of that name)
    except OSError:
        return os.urandom(16).hex()  # a machine that is no other's: nobody is known to have ended


def _start_time(process: int) -> str:
    """Returns when the process started, in clock ticks; "-" if it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return "-"
    state, *fields = text.rpartition(")")[2].split()  # its name may have spaces and parentheses
    return "-" if state in _ENDED else fields[18]

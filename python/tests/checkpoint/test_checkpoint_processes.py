"""Two writers, forks, Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import stoker

Start = Callable[..., "subprocess.Popen[str]"]

_HOLDER = """
import sys, stoker
saver = stoker.Checkpointer(sys.argv[1])
saver.save(1, state="held").wait()
print("held", flush=True)
sys.stdin.readline()
saver.save(2, state="held").wait()
if sys.stdin.readline() == "close\\n":
    saver.close()
print("free", flush=True)
sys.stdin.readline()
"""


def holder(start: Start, folder: Path) -> subprocess.Popen[str]:
    """Another process that has saved step 1 and holds the lock."""
    process = start([sys.executable, "-c", _HOLDER, folder])
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def test_of_two_writers_one_is_refused_and_named(start: Start, tmp_path: Path) -> None:
    other = holder(start, tmp_path)
    with stoker.Checkpointer(tmp_path, lock="fail") as saver:
        assert saver.restore(state=None) == 1  # reading needs no lock
        for _ in range(2):
            with pytest.raises(stoker.LateError, match=f"another writer holds it.*{other.pid}"):
                saver.save(5, state="mine")
        say(other, "\n")  # and the other one continues
        say(other, "close\n")
        assert other.stdout is not None
        assert other.stdout.readline() == "free\n"
        assert saver.restore() == 2
        assert saver.save(5, state="mine").wait()
        assert saver.steps() == [1, 2, 5]


def test_a_writer_that_dies_frees_the_lock_at_once(start: Start, tmp_path: Path) -> None:
    other = holder(start, tmp_path)
    other.kill()
    other.wait()
    assert len(list(tmp_path.glob("owner-*"))) == 1
    with stoker.Checkpointer(tmp_path, lock="fail") as saver:
        saver.restore()
        assert saver.save(2, state=1).wait()
        assert len(list(tmp_path.glob("owner-*"))) == 1
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir() and not p.is_symlink()) == [
        "step-000000000001",
        "step-000000000002",
    ]


_WAITER = """
import logging, sys, stoker
logging.getLogger("stoker").addHandler(logging.NullHandler())  # what it says of the first one
saver = stoker.Checkpointer(sys.argv[1], lock=sys.argv[2])
try:
    print("waiting", flush=True)
    print(saver.save(5, state=1).wait(), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def waiter(start: Start, folder: Path, lock: str) -> subprocess.Popen[str]:
    process = start([sys.executable, "-c", _WAITER, folder, lock])
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


def test_a_second_writer_waits_for_the_first(start: Start, tmp_path: Path) -> None:
    other = holder(start, tmp_path)
    second = waiter(start, tmp_path, "wait")
    say(other, "\nclose\n")
    out, errors = second.communicate(timeout=60)
    assert (out, errors) == ("True\n", "")


def has_open(pid: int, name: str) -> bool:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            if descriptor.readlink().name == name:
                return True
    return False


def test_ctrl_c_ends_the_wait_for_the_lock(start: Start, tmp_path: Path) -> None:
    holder(start, tmp_path)
    second = waiter(start, tmp_path, "5min")
    while not has_open(second.pid, ".lock"):
        continue  # it does not wait yet
    second.send_signal(signal.SIGINT)
    out, errors = second.communicate(timeout=60)
    assert (out, errors) == ("interrupted\n", "")


_SLOW = """
import sys, numpy, stoker
saver = stoker.Checkpointer(sys.argv[1], rate_limit="1MB/s")
saver.save(1, state={"w": numpy.random.default_rng(0).random(1 << 23)})   # a minute
print("waiting", flush=True)
"""


def test_ctrl_c_while_the_program_waits_for_its_save_does_not_abort(
    start: Start, tmp_path: Path
) -> None:
    process = start([sys.executable, "-c", _SLOW, tmp_path])
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    while process.poll() is None:  # the first may come before the wait
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    assert process.returncode != -signal.SIGABRT, process.communicate()[1]
    assert not list(tmp_path.glob("step-*"))


_ENDING = """
import sys, threading, stoker
pending = stoker.Checkpointer(sys.argv[1]).save(1, state=1)
pending.wait()
ready = threading.Semaphore(0)

def ask():
    while True:
        pending._native.wait(0.0)       # gives the GIL away, and wants it back at once
        ready.release()

for _ in range(8):
    threading.Thread(target=ask, daemon=True).start()
for _ in range(64):
    ready.acquire()
sys.setswitchinterval(100)              # from here on they wait for the GIL
"""


def test_threads_that_wait_for_the_gil_when_the_program_ends_do_not_abort_it(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", _ENDING, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.stderr, ran.returncode) == ("", 0)


_FORKED = """
import os, sys, numpy, stoker
saver = stoker.Checkpointer(sys.argv[1], rate_limit="8MiB/s")
saver.save(1, state={"w": numpy.zeros(10)}).wait()
pending = saver.save(2, state={"w": numpy.zeros(5 << 19)})     # on its way while we fork
child = os.fork()
if child == 0:
    refused = 0
    for work in (lambda: saver.save(3, state=1), saver.wait, saver.close, saver.restore,
                 pending.done, pending.result, lambda: pending.durable):
        try:
            work()
        except RuntimeError as error:
            refused += "fork" in str(error)
    with stoker.Checkpointer(sys.argv[1] + "/own") as own:       # its own is its own
        refused += own.save(1, state=1).wait()
    del saver, pending
    sys.exit(refused)          # through atexit and all destructors
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, pending.wait(), saver.save(3, state=1).wait())
"""


def test_a_forked_child_is_told_so_and_harms_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FORKED, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("8 True True\n", "", 0)
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.steps() == [1, 2, 3]


_HEIR = """
import os, sys, stoker
saver = stoker.Checkpointer(sys.argv[1])
saver.save(1, state=1).wait()
if os.fork() == 0:
    os.write(1, b"forked\\n")               # from here, where what is inherited was closed
    os.close(1)
    os.read(int(sys.argv[2]), 1)           # lives on after the trainer
    os._exit(0)
sys.stdin.readline()
"""


def test_a_child_that_lives_on_does_not_keep_the_lock(start: Start, tmp_path: Path) -> None:
    read, write = os.pipe()
    trainer = start([sys.executable, "-c", _HEIR, tmp_path, read], pass_fds=[read])
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "forked\n"
    trainer.kill()
    trainer.wait()
    with stoker.Checkpointer(tmp_path, lock="fail") as saver:
        saver.restore()
        assert saver.save(2, state=np.zeros(3)).wait()
    os.close(write)  # only now the child ends
    os.close(read)

"""Ctrl-C at any moment of a save, a wait and a restore: nothing hangs, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stoker

_PATIENCE_S = 120.0

# Many interrupts, each wherever the program is then; a handler counts them and ends it.
_STORM = """
import signal, sys
import numpy as np
import stoker
count, most = 0, 300
def interrupt(*_):
    global count
    count += 1
    if count >= most:
        signal.setitimer(signal.ITIMER_REAL, 0)
    raise KeyboardInterrupt
saver = stoker.Checkpointer(sys.argv[1], keep_last=2, in_flight=2)
state = {"w": np.zeros(1000)}
step = 0
def storm():
    global step
    while count < most:
        try:
            step += 1
            saver.save(step, state=state).wait()
            if step % 5 == 0:
                saver.restore(state=state)
        except KeyboardInterrupt:
            pass
        except FileExistsError:
            step += 1
def until_it_is_over():
    while count < most:
        try:
            storm()
        except KeyboardInterrupt:
            pass
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
try:
    until_it_is_over()
except KeyboardInterrupt:
    until_it_is_over()
assert saver.save(step + 100, state=state).wait(60)
print(step + 100)
"""

# What an interrupt between taking the lock and using it left behind.
_LEFT_LOCKED = """
import sys
import stoker
saver = stoker.Checkpointer(sys.argv[1], rate_limit="1MB")
pending = saver.save(1, state=b"x" * 3000000)
pending._condition.acquire()
print(pending.wait())
"""


def _run(program: str, folder: Path) -> str:
    return _ran(program, folder).stdout


def _ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.mark.slow
def test_a_storm_of_interrupts_leaves_a_checkpointer_that_works(tmp_path: Path) -> None:
    last = int(_run(_STORM, tmp_path))
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.latest == last


def test_the_end_of_the_program_waits_for_no_thread_without_a_limit(tmp_path: Path) -> None:
    assert _run(_LEFT_LOCKED, tmp_path) == "True\n"
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.latest == 1


_FORKED = """
import os, sys
import stoker
saver = stoker.Checkpointer(sys.argv[1])
pending = saver.save(1, state=1)
pending.wait()
if os.fork() == 0:
    calls = [lambda: saver.save(2, state=1), lambda: saver.restore(state=None), saver.wait,
             saver.close, lambda: pending.durable]
    for call in calls:
        try:
            call()
            print("done")
        except RuntimeError:
            print("RuntimeError")
    saver.annotate(1, loss=1)
    saver.pin(1)
    print(saver.steps(), saver.latest, flush=True)
    os._exit(0)
os.wait()
"""


def test_what_a_forked_child_can_do_is_what_the_docs_say(tmp_path: Path) -> None:
    assert _run(_FORKED, tmp_path) == "RuntimeError\n" * 5 + "[1] 1\n"


# A handler raises while the state passes through memory that is smaller: the save has begun then.
_RAISED_IN_SAVE = """
import os, signal, sys, threading
import numpy as np
import stoker
class Stop(Exception): pass
def stop(*_): raise Stop
signal.signal(signal.SIGUSR1, stop)
saver = stoker.Checkpointer(sys.argv[1], memory_bytes=16 << 20, rate_limit="10MB")
state = {"w": np.random.default_rng(1).integers(0, 255, 24 << 20, np.uint8)}
saver.save(1, state=state["w"][:8]).wait()
def signal_when_it_copies():
    while saver.progress().staged_bytes == 0 or saver.progress().step != 2:
        pass
    os.kill(os.getpid(), signal.SIGUSR1)
thread = threading.Thread(target=signal_when_it_copies)
thread.start()
try:
    saver.save(2, state=state)
except Stop:
    print("raised")
thread.join()
print(saver.due(2, every_steps=1))
"""


def test_a_save_in_which_a_signal_handler_raised_is_waited_for(tmp_path: Path) -> None:
    restored = _RAISED_IN_SAVE + "print(int(saver.restore(state=state)))"
    assert _run(restored, tmp_path / "a") == "raised\nFalse\n2\n"
    waited = _RAISED_IN_SAVE + "saver.wait(); print(saver.latest, saver.progress().in_flight)"
    assert _run(waited, tmp_path / "b") == "raised\nFalse\n2 0\n"


# Files may not grow from then on: the first save fails, and the second is small.
_FIRST_FAILS = """
import resource, sys
import numpy as np
import stoker
saver = stoker.Checkpointer(sys.argv[1], in_flight=2, rate_limit="2MB")
large = np.random.default_rng(1).integers(0, 255, 24 << 20, np.uint8)
first, second = saver.save(1, state=large), saver.save(2, state=1)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
print(second.wait(), first.outcome)
"""


def test_an_error_of_an_earlier_save_is_printed_at_exit(tmp_path: Path) -> None:
    ran = _ran(_FIRST_FAILS, tmp_path)
    assert ran.stdout == "True failed\n"
    assert "File too large" in ran.stderr
    told = _ran(_FIRST_FAILS + "print(first.exception() is not None)", tmp_path / "told")
    assert (told.stdout, told.stderr) == ("True failed\nTrue\n", "")

"""Runs that end in the middle: kill -9, Ctrl-C, the interpreter's exit, a fork."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker

Start = Callable[..., "subprocess.Popen[str]"]

_TRAINER = """
import json, os, signal, sys
import stoker

shards, state_file, log_file, kill_after = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
loader = stoker.Loader(shards, batch_size=4, seed=3, epochs=None, torch=False, fields=["bin"])
if os.path.exists(state_file):
    loader.load_state_dict(json.load(open(state_file)))
with open(log_file, "a") as log:
    for step, batch in loader.steps():
        print(json.dumps([step, batch["__key__"]]), file=log, flush=True)
        with open(state_file + ".new", "w") as out:
            json.dump(loader.state_dict(), out)
        os.replace(state_file + ".new", state_file)
        if step == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed_again_and_again_sees_what_an_unbroken_one_sees(
    shards: Path, tmp_path: Path
) -> None:
    def train(name: str, kill_after: int) -> None:
        files = [str(tmp_path / f"{name}.state"), str(tmp_path / f"{name}.log")]
        command = [sys.executable, "-c", _TRAINER, str(shards), *files, str(kill_after)]
        ran = subprocess.run(command, timeout=120)
        assert ran.returncode == -signal.SIGKILL

    train("unbroken", 60)
    kills = sorted(random.Random(5).sample(range(1, 60), 4))
    for kill in (*kills, 60):
        train("broken", kill)
    unbroken = (tmp_path / "unbroken.log").read_text().splitlines()
    assert (tmp_path / "broken.log").read_text().splitlines() == unbroken
    assert [json.loads(line)[0] for line in unbroken] == list(range(1, 61))


def run_program(program: str, *arguments: object, timeout: float = 60) -> Any:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


# Batches that never come: of a function that does not return, or for want of memory.
_WAITING = r"""
import os, sys, threading
import stoker

def slow(sample, rng):
    os.write(1, b"waiting\n")
    threading.Event().wait()

def main():
    where = sys.argv[2]
    options = {"map": slow, "map_in": where, "map_workers": 1} if where != "none" else {}
    loader = stoker.Loader(sys.argv[1], batch_size=4, epochs=None, torch=False,
                           memory_bytes="1MiB", **options)
    held = []
    try:
        for batch in loader:
            held.append(batch)          # until the memory is used up, and then it waits
            if len(held) == 1:
                print("waiting", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(7)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("where", ["none", "thread", "process"])
def test_ctrl_c_reaches_a_loader_that_waits(
    start: Start, shards: Path, tmp_path: Path, where: str
) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(_WAITING)
    child = start([sys.executable, script, shards, where], start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
    out, errors = child.communicate(timeout=60)
    assert "interrupted" in out
    assert errors == ""
    assert child.returncode == 7


_LEFT_OPEN = """
import stoker, sys, threading
loader = stoker.Loader(sys.argv[1], batch_size=2, epochs=None, torch=False,
                       map=(lambda sample, rng: sample) if sys.argv[2] == "map" else None)
stream = iter(loader)
batch = next(stream)
column = batch["bin"]
print(batch["__key__"], flush=True)
"""


@pytest.mark.parametrize("kind", ["plain", "map"])
def test_an_interpreter_that_ends_with_a_live_loader_ends_cleanly(shards: Path, kind: str) -> None:
    done = run_program(_LEFT_OPEN, shards, kind)
    assert done.returncode == 0
    assert done.stdout.startswith("['s")
    assert done.stderr == ""


def in_child(work: Any) -> int:
    """The exit code of a forked child that runs ``work`` and then exits as Python does."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)  # a child that hangs is killed, and shows
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused(work: Any) -> bool:
    try:
        work()
    except RuntimeError as error:
        return "cannot be used in its fork" in str(error) and "DataLoader" in str(error)
    return False


def test_a_forked_child_is_told_so_and_harms_nothing(shards: Path) -> None:
    loader = stoker.Loader(shards, batch_size=4, torch=False, fields={"cls": int}, tail="keep")
    stream = iter(loader)
    batch = next(stream)

    def child() -> int:
        good = refused(lambda: next(stream)) and refused(lambda: iter(loader))
        good = good and refused(lambda: loader.load_state_dict(batch.cursor))
        loader.close()
        own = stoker.Loader(shards, batch_size=4, torch=False, fields={"cls": int})
        return 0 if good and batch["cls"].size == 4 and len(list(own)) == 12 else 2

    assert in_child(child) == 0
    seen = sorted([*batch["cls"].tolist(), *(n for b in stream for n in b["cls"].tolist())])
    assert seen == list(range(50))


_FORKED = """
import os, stoker, sys
loader = stoker.Loader(sys.argv[1], batch_size=4, epochs=None, torch=False,
                       map=(lambda sample, rng: sample) if sys.argv[2] == "map" else None)
stream = iter(loader)
batch = next(stream)
child = os.fork()
if child == 0:
    del stream, batch
    sys.exit(3)          # through atexit and all destructors
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for _ in range(100):
    next(stream)
print(code)
"""


@pytest.mark.parametrize("kind", ["plain", "map"])
def test_a_forked_child_that_exits_does_not_hang_and_the_parent_goes_on(
    shards: Path, kind: str
) -> None:
    done = run_program(_FORKED, shards, kind)
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)


def test_a_loader_may_be_closed_from_another_thread_while_one_waits(shards: Path) -> None:
    loader = stoker.Loader(
        shards, batch_size=4, epochs=None, torch=False, memory_bytes="1MiB", fields=None
    )
    held, errors = [], []

    def work() -> None:
        try:
            for batch in loader:
                held.append(batch)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not held:
        thread.join(0.01)
    loader.close()
    thread.join(60)
    assert not thread.is_alive()
    assert "is over" in str(errors[0])
    with pytest.raises(ValueError, match="closed"):
        iter(loader)
    loader.close()


def test_threads_share_an_iteration_and_each_batch_goes_to_one(shards: Path) -> None:
    loader = stoker.Loader(shards, batch_size=2, seed=1, torch=False, fields={"cls": int})
    stream = iter(loader)
    seen: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        while True:
            try:
                batch = next(stream)
            except StopIteration:
                return
            with lock:
                seen.extend(batch["cls"].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == list(range(50))


def test_a_loader_is_not_pickled_but_what_it_is_made_of_is(shards: Path) -> None:
    loader = stoker.Loader(shards, batch_size=2, torch=False)
    with pytest.raises(TypeError, match=r"state_dict\(\)"):
        pickle.dumps(loader)

"""The processes of map_in="process": where they come from, and that they always go."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._loader.map import packets as _packets

Start = Callable[..., "subprocess.Popen[str]"]

_SCRIPT = r"""
import os, sys
import stoker

def named(sample, rng):
    return {"pid": os.getpid(), "n": sample["cls"], "x": sample["bin"].astype("float32")}

def main():
    loader = stoker.Loader(sys.argv[1], batch_size=8, shuffle="off", epochs=None, torch=False,
                           fields={"cls": int, "bin": bytes},
                           map=named, map_in="process", map_workers=2)
    pids = set()
    for step, batch in loader.steps():
        pids |= set(batch["pid"].tolist())
        if step == 1:
            print(batch["n"].tolist(), flush=True)
        if len(pids) == 2:
            child = os.fork()             # which outlives us, and has what we had open
            if child != 0:
                print(*pids, child, flush=True)
            sys.stdin.readline()          # until somebody ends us
            sys.exit()

GUARD
    main()
"""


def run_script(tmp_path: Path, guard: str) -> Path:
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT.replace("GUARD", guard))
    return script


def wait_until_gone(pid: int) -> bool:
    """Whether a process that is not our child ends within a minute."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 60)[0])
    finally:
        os.close(handle)


def test_functions_of_the_main_script_work_and_workers_die_with_a_killed_parent(
    start: Start, shards: Path, tmp_path: Path
) -> None:
    script = run_script(tmp_path, 'if __name__ == "__main__":')
    parent = start([sys.executable, script, shards])
    assert parent.stdin is not None
    assert parent.stdout is not None
    assert parent.stdout.readline() == f"{list(range(8))}\n"
    *workers, child = (int(pid) for pid in parent.stdout.readline().split())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait(60)
    assert len(workers) == 2
    assert all(wait_until_gone(pid) for pid in workers)
    os.kill(child, 0)  # it is still there, so it was not its end that they noticed
    parent.stdin.close()
    assert wait_until_gone(child)


def test_a_script_without_a_guard_is_told_so(shards: Path, tmp_path: Path) -> None:
    script = run_script(tmp_path, "if True:")
    done = subprocess.run(
        [sys.executable, str(script), str(shards)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "if __name__ == '__main__':" in done.stderr


# Says who its workers are, and then does as it is told: waits in a function that never returns, or
# ends without closing anything.
_LIFE = r"""
import os, signal, sys, threading
import stoker

def busy(sample, rng):
    print("worker", os.getpid(), flush=True)
    threading.Event().wait()

def quick(sample, rng):
    return {"pid": os.getpid()}

def main():
    how = sys.argv[2]
    loader = stoker.Loader(sys.argv[1], batch_size=8, epochs=None, torch=False, map_in="process",
                           map=quick if how == "exit" else busy, map_workers=2)
    pids = set()
    for batch in loader:
        pids |= set(batch["pid"].tolist())
        if len(pids) == 2:
            for pid in pids:
                print("worker", pid, flush=True)
            return                    # the loader is left open, and its workers have work

if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(7)
"""


@pytest.mark.parametrize(
    ("how", "end", "code"),
    [("busy", signal.SIGINT, 7), ("busy", signal.SIGKILL, -9), ("exit", None, 0)],
)
def test_workers_are_gone_when_their_parent_is_whatever_they_do(
    start: Start, shards: Path, tmp_path: Path, how: str, end: signal.Signals | None, code: int
) -> None:
    script = tmp_path / "life.py"
    script.write_text(_LIFE)
    parent = start([sys.executable, script, shards, how], start_new_session=True)
    assert parent.stdout is not None
    assert parent.stderr is not None
    workers = {int(parent.stdout.readline().split()[1]) for _ in range(2)}
    assert len(workers) == 2
    handles = [os.pidfd_open(pid) for pid in workers if how == "busy"]
    if end is not None:
        os.kill(parent.pid, end)
    assert parent.wait(60) == code
    assert all(select.select([handle], [], [], 60)[0] for handle in handles)
    assert all(wait_until_gone(pid) for pid in workers)
    assert parent.stderr.read() == ""
    for handle in handles:
        os.close(handle)


def with_pid(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"pid": os.getpid()}


def test_a_worker_that_somebody_kills_is_an_error_at_a_later_batch(shards: Path) -> None:
    loader = stoker.Loader(
        shards, batch_size=4, epochs=None, torch=False, map=with_pid, map_in="process",
        map_workers=2,
    )  # fmt: skip
    stream = iter(loader)
    os.kill(int(next(stream)["pid"][0]), signal.SIGKILL)

    def until_it_shows() -> None:
        for _ in range(100):
            next(stream)

    for _ in range(2):  # and stays
        with pytest.raises(RuntimeError, match=r"map worker \(process \d+\) died: signal 9"):
            until_it_shows()
    loader.close()


_FORKED = r"""
import os, sys
import stoker

def quick(sample, rng):
    return {"n": sample["cls"]}

def main():
    loader = stoker.Loader(sys.argv[1], batch_size=4, epochs=None, torch=False, map=quick,
                           fields={"cls": int}, map_in="process", map_workers=2)
    stream = iter(loader)
    batch = next(stream)
    child = os.fork()
    if child == 0:
        del stream, batch
        loader.close()
        sys.exit(3)          # through atexit and all destructors
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, sum(next(stream).size for _ in range(50)))

if __name__ == "__main__":
    main()
"""


def test_a_forked_child_leaves_its_parents_workers_alone(shards: Path, tmp_path: Path) -> None:
    script = tmp_path / "forked.py"
    script.write_text(_FORKED)
    done = subprocess.run(
        [sys.executable, str(script), str(shards)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3 200\n", "", 0)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize(
    "value",
    [
        {"a": np.arange(12).reshape(3, 4), "b": [1, "two", None]},
        np.arange(12).reshape(3, 4)[:, ::2],
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.empty((0, 3), np.float32),
        np.array(["text", None], object),
        b"x" * 10_000,
        [],
    ],
)
def test_a_packet_brings_back_what_was_put_in(value: Any) -> None:
    gc.collect()  # what other tests have left
    before = descriptors()
    again = _packets.unpack(_packets.pack(value))
    assert descriptors() <= before + 1  # a map keeps one until its arrays are gone
    np.testing.assert_equal(again, value)
    if isinstance(again, np.ndarray) and again.size:
        again[...] = again  # they may be changed
    del again
    assert descriptors() == before


def test_arrays_lie_in_the_packet_and_not_in_the_stream() -> None:
    array = np.random.default_rng(0).integers(0, 255, 1 << 20, np.uint8)
    descriptor = _packets.pack({"a": array, "view": array[::2]})
    size = os.fstat(descriptor).st_size
    assert array.nbytes * 1.5 <= size <= array.nbytes * 1.5 + 4096
    again = _packets.unpack(descriptor)
    assert not again["a"].flags.owndata
    assert np.array_equal(again["view"], array[::2])

"""The processes of map_in="process": where they come from, and that they always go."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker import _packets

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
    shards: Path, tmp_path: Path
) -> None:
    script = run_script(tmp_path, 'if __name__ == "__main__":')
    command = [sys.executable, str(script), str(shards)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == f"{list(range(8))}\n"
        *workers, child = (int(pid) for pid in parent.stdout.readline().split())
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait(60)
        assert len(workers) == 2
        assert all(wait_until_gone(pid) for pid in workers)
        os.kill(child, 0)  # it is still there, so it was not its end that they noticed
    assert wait_until_gone(child)


def test_a_script_without_a_guard_is_told_so(shards: Path, tmp_path: Path) -> None:
    script = run_script(tmp_path, "if True:")
    done = subprocess.run(
        [sys.executable, str(script), str(shards)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "if __name__ == '__main__':" in done.stderr


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

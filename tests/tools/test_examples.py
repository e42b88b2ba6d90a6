"""The Python examples of training: killed, run again, and compared with a whole run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import ForkedPython, torchrun

pytest.importorskip("torch", reason="the examples train models of torch")
EXAMPLES = Path(__file__).parents[2] / "examples"

# Runs an example, which is killed after a step: a save may be in progress then.
DYING = """
import os, runpy, signal, sys
import stoker

at, rank, sys.argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
steps = stoker.Loader.steps

def steps_to_the_end(loader):
    for step, batch in steps(loader):
        yield step, batch
        if step == at and os.environ.get("RANK", "0") == rank:
            os.kill(os.getpid(), signal.SIGKILL)

stoker.Loader.steps = steps_to_the_end
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(params=["language_model", "image_model"])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The name of a program, and its data."""
    name: str = request.param
    random = np.random.default_rng(1)
    if name == "language_model":
        text = bytes(random.choice(list(b"abcdefgh"), 10_000, p=np.arange(1, 9) / 36))
        (tmp_path / "text.txt").write_bytes(text)
        return [str(EXAMPLES / f"{name}.py"), "text.txt", "--epochs=2"]  # 18 steps
    images = pytest.importorskip("PIL.Image", reason="the example decodes with Pillow")
    for label, mean in (("cat", 120), ("dog", 140)):
        (tmp_path / "images" / label).mkdir(parents=True)
        for i in range(40):
            pixels = random.normal(mean, 60, (24, 30, 3)).clip(0, 255).astype(np.uint8)
            images.fromarray(pixels).save(tmp_path / "images" / label / f"{i}.jpg")
    stoker.pack(tmp_path / "images", tmp_path / "shards", shuffle_seed=1)
    return [str(EXAMPLES / f"{name}.py"), "shards", "--epochs=4"]  # 20 steps


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run(
    folder: Path, example: list[str], name: str, ranks: int, die_at: int = 0
) -> tuple[int, list[str]]:
    """Runs the example as a launcher does; returns the status, and the lines with losses.

    The last rank dies after a step, if there is such a step.
    """
    program, data, epochs = example
    words = [die_at, ranks - 1, program, data, name, epochs, "--every=5"]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    processes = []
    for rank in map(str, range(ranks)):
        launched = {"RANK": rank, "LOCAL_RANK": rank, **world} if ranks > 1 else {}
        options: dict[str, Any] = {"cwd": folder, "env": os.environ | launched, "text": True}
        command = [sys.executable, "-c", DYING, *words]
        processes.append(ForkedPython(command, torch=True, stdout=subprocess.PIPE, **options))
    status = processes[-1].wait(timeout=300)
    if status != 0:
        processes[0].kill()  # as a launcher does
    out = processes[0].communicate(timeout=300)[0]
    return status, out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_an_example_that_is_killed_continues_as_if_it_were_not(
    tmp_path: Path, example: list[str], ranks: int
) -> None:
    status, whole = run(tmp_path, example, "whole", ranks)
    assert status == 0
    losses = [float(line.split(": ")[1]) for line in whole]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]), "it learns"
    status, begun = run(tmp_path, example, "killed", ranks, die_at=12)
    assert status == -signal.SIGKILL
    assert begun[:11] == whole[:11]
    if ranks == 1:
        status, rest = run(tmp_path, example, "killed", ranks)
    else:  # the last one as the page says
        program, data, epochs = example
        begin = ("--standalone", "--nproc-per-node=2", program, data, "killed", epochs)
        status, out, errors = torchrun(*begin, cwd=tmp_path)
        rest = out.splitlines()
        assert status == 0, errors
    assert status == 0
    first = int(rest[0].split(":")[0].split()[1])
    assert 5 < first <= 13
    assert rest == whole[first - 1 :]
    expected, found = (stoker.load(tmp_path / name) for name in ("whole", "killed"))
    assert expected.step == found.step == len(whole)
    assert expected.keys() == found.keys()
    for name in expected:
        if ".rng." in f".{name}":  # the generators of NumPy and Python were never seeded
            continue
        assert np.array_equal(expected[name][...], found[name][...]), name
    if ranks == 1:
        assert run(tmp_path, example, "killed", ranks) == (0, []), "nothing is left to do"

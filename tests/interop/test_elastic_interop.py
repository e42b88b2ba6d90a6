"""Trainings that are killed, and continue on the same or on other numbers of ranks.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
pytest.importorskip("torch.distributed.fsdp")
import numpy as np  # noqa: E402

STEPS = 30
Run = tuple[int, int]  # ranks; killed at this step, 0 for never


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Integers, which are exact in every sum."""
    random = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("data") / "shards"
    samples = (
        {
            "__key__": f"{i:04}",
            "x": random.integers(-8, 8, 8).astype(np.float32),
            "y": random.integers(-4, 4, 1).astype(np.float32),
        }
        for i in range(100)
    )
    stoker.ingest(samples, path)
    return path


def train(shards: Path, folder: Path, kind: tuple[str, str], runs: list[Run]) -> list[Any]:
    """Returns the notes of the last time that each step was made."""
    folder.mkdir()
    for ranks, killed_at in runs:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        places = [str(shards), str(folder / "checkpoints"), str(folder / "notes")]
        steps = [str(STEPS), "--killed-at", str(killed_at)]
        program = str(Path(__file__).with_name("elastic.py"))
        ran = subprocess.run(
            [sys.executable, *launcher, program, *places, *kind, *steps],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert (ran.returncode != 0) == (killed_at > 0), ran.stderr[-8000:]
    lines = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
    return list({line["step"]: line for line in lines}.values())


OTHER_NUMBERS = [(4, 12), (2, 23), (4, 0)]


# After its first step DDP sorts gradients into other buckets, and so adds them up in another order,
# which a resumed run repeats: with more than two ranks the last bits may differ.
@pytest.mark.parametrize(("layout", "ranks"), [("ddp", 2), ("fsdp", 4)])
def test_killed_twice_the_weights_are_those_of_an_unbroken_run(
    tmp_path: Path, shards: Path, layout: str, ranks: int
) -> None:
    whole = train(shards, tmp_path / "whole", (layout, "usual"), [(ranks, 0)])
    killed_twice = [(ranks, 12), (ranks, 23), (ranks, 0)]
    broken = train(shards, tmp_path / "broken", (layout, "usual"), killed_twice)
    assert [line["step"] for line in whole] == list(range(1, STEPS + 1))
    assert broken == whole, "to the bit, at every step"


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_on_other_numbers_of_ranks_the_samples_are_the_same(
    tmp_path: Path, shards: Path, layout: str
) -> None:
    whole = train(shards, tmp_path / "whole", (layout, "usual"), [(4, 0)])
    broken = train(shards, tmp_path / "broken", (layout, "usual"), OTHER_NUMBERS)
    assert [line["keys"] for line in broken] == [line["keys"] for line in whole]
    losses = [[line["loss"] for line in lines] for lines in (broken, whole)]
    assert np.allclose(*losses, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_where_sums_are_exact_every_bit_is_the_same_on_any_number_of_ranks(
    tmp_path: Path, shards: Path, layout: str
) -> None:
    whole = train(shards, tmp_path / "whole", (layout, "exact"), [(4, 0)])
    broken = train(shards, tmp_path / "broken", (layout, "exact"), OTHER_NUMBERS)
    assert [_without_ranks(line) for line in broken] == [_without_ranks(line) for line in whole]


def test_a_node_that_joins_and_leaves_changes_no_sample(tmp_path: Path, shards: Path) -> None:
    """With torchrun --nnodes=1:2 on this machine: one node, then two, then one again."""
    whole = train(shards, tmp_path / "whole", ("fsdp", "exact"), [(2, 0)])
    folder = tmp_path / "elastic"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = ["--rdzv-id=one", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]
    settings += ["--max-restarts=5", "--local-addr=127.0.0.1"]
    places = [str(shards), str(folder / "checkpoints"), str(folder / "notes")]
    held = ["--held-at", "12:2", "--held-at", "23:4"]
    program = str(Path(__file__).with_name("elastic.py"))
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=2"]
    conf = "--rdzv-conf=last_call_timeout=2,keep_alive_interval=1,is_host="
    rest = [*settings, program, *places, "fsdp", "exact", str(STEPS), *held]
    with contextlib.ExitStack() as nodes:
        first = nodes.enter_context(_node([*command, conf + "1", *rest], folder / "first"))
        _await_step(first, 11)
        second = nodes.enter_context(_node([*command, conf + "0", *rest], folder / "second"))
        _await_step(first, 22)
        _kill(second)
        assert first.wait(timeout=300) == 0, (folder / "first").read_text()[-8000:]
    lines = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
    assert {line["ranks"] for line in lines} == {2, 4}
    last = list({line["step"]: line for line in lines}.values())
    assert [_without_ranks(line) for line in last] == [_without_ranks(line) for line in whole]


def _without_ranks(line: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in line.items() if name != "ranks"}


@contextlib.contextmanager
def _node(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        # torch 2.13 shares a store between restarts, which nodes that join later never find.
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=out, env=environment)
    try:
        yield node
    finally:
        _kill(node)


def _kill(node: subprocess.Popen[bytes]) -> None:
    """Kills a launcher and its workers, which are in sessions of their own."""
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children")
    workers = children.read_text().split() if node.poll() is None else []
    for process in (node.pid, *map(int, workers)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    node.wait()


def _await_step(node: subprocess.Popen[bytes], step: int) -> None:
    """Waits until the node says that it has made the step."""
    assert node.stdout is not None
    said = b""
    while b"step %d\n" % step not in said:
        assert select.select([node.stdout], [], [], 300)[0], "it did not come to the step"
        more = os.read(node.stdout.fileno(), 4096)
        assert more, "the node has ended"
        said += more

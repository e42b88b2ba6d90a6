"""torchrun restarts a job whose ranks fail or are stopped: it ends as if nothing had happened."""

from __future__ import annotations

import json
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

pytest.importorskip("torch.distributed")

_STEPS = 20
_PATIENCE_S = 120.0

# An ordinary DDP script. `harm` says what happens to rank 1, by attempt: [step, what].
_TRAIN = """
import json, os, signal, sys
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import stoker

folder, harm = sys.argv[1], json.loads(sys.argv[2])
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
harm_at, what = harm[attempt] if rank == 1 and attempt < len(harm) else (None, None)

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
model = DDP(net)
loader = stoker.Loader(f"{folder}/shards", global_batch_size=8, seed=7, epochs=None,
                       fields={"x.npy": np.float32})
state = {"model": net, "optimizer": optimizer, "loader": loader}
with stoker.Preemption(grace="60s") as stop:
    with stoker.Checkpointer(f"{folder}/c", keep_last=2, deadline=60) as saver:
        first = (saver.restore(**state) or 0) + 1
        for step, batch in loader.steps():
            optimizer.zero_grad()
            model(batch["x.npy"]).square().mean().backward()
            optimizer.step()
            if step == harm_at and what == "raise":
                raise ArithmeticError("once")
            if step == harm_at:
                os.kill(os.getpid(), getattr(signal, what))
            is_last = stop.requested(step) or step == 20
            if is_last or saver.due(step, every_steps=3):
                saver.save(step, **state)
            if is_last:
                break
weights = [w.tolist() for w in net.parameters()]
with open(f"{folder}/rank-{rank}", "a") as lines:
    print(json.dumps([attempt, first, step, stop.reason, weights]), file=lines)
dist.destroy_process_group()
"""


def _prepare(folder: Path) -> Path:
    folder.mkdir()
    draw = np.random.default_rng(1)
    rows = ({"x.npy": draw.normal(size=4).astype(np.float32)} for _ in range(50))
    stoker.ingest(rows, folder / "shards")
    return folder


def _environment() -> dict[str, str]:
    launchers = ("RANK", "WORLD_SIZE", "LOCAL", "MASTER", "TORCHELASTIC", "SLURM", "OMPI")
    own = {name: text for name, text in os.environ.items() if not name.startswith(launchers)}
    # With a store that outlives the ranks, torch itself connects to ranks of the attempt before
    # (pytorch issue 135712).
    return {**own, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_ranks(folder: Path, harm: list[Any]) -> list[subprocess.Popen[str]]:
    """Two ranks without a launcher."""
    command = [sys.executable, "-c", _TRAIN, folder, json.dumps(harm)]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2"}
    return [
        ForkedPython(
            command,
            torch=True,
            env={**_environment(), **world, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]


def _end(ranks: list[subprocess.Popen[str]]) -> None:
    said = [rank.communicate(timeout=_PATIENCE_S)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said


def _ends(folder: Path) -> list[list[Any]]:
    """What rank 0 wrote at each of its ends, which rank 1 wrote as well."""
    texts = [(folder / f"rank-{rank}").read_text() for rank in range(2)]
    assert texts[0] == texts[1]
    return [json.loads(line) for line in texts[0].splitlines()]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The weights of a run that nothing happens to."""
    folder = _prepare(tmp_path_factory.mktemp("unbroken") / "run")
    _end(_start_ranks(folder, []))
    ((_, first, last, _, weights),) = _ends(folder)
    assert (first, last) == (1, _STEPS)
    return weights


@pytest.mark.slow
def test_a_rank_that_raises_and_one_that_is_killed_change_nothing(
    tmp_path: Path, unbroken: Any
) -> None:
    folder = _prepare(tmp_path / "run")
    (folder / "train.py").write_text(_TRAIN)
    status, _, errors = torchrun(
        *("--nproc-per-node=2", "--max-restarts=2", "--monitor-interval=0.1"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{_free_port()}"),
        *(folder / "train.py", folder, '[[5, "raise"], [11, "SIGKILL"]]'),
        env=_environment(),
        timeout=_PATIENCE_S,
    )
    assert status == 0, errors
    ((attempt, first, last, reason, weights),) = _ends(folder)
    assert (attempt, last, reason) == (2, _STEPS, "")
    assert first > 5, "it continued where the second attempt had come to"
    assert "ArithmeticError: once" in errors
    assert weights == unbroken


@pytest.mark.slow
def test_a_preempted_job_saves_at_one_step_and_continues_from_there(
    tmp_path: Path, unbroken: Any
) -> None:
    folder = _prepare(tmp_path / "run")
    _end(_start_ranks(folder, [[5, signal.SIGTERM.name]]))
    ((_, _, stopped_at, reason, _),) = _ends(folder)
    assert stopped_at >= 5
    assert reason == "SIGTERM on rank 1"
    assert stoker.load(folder / "c").step == stopped_at
    _end(_start_ranks(folder, []))
    _, (_, first, last, _, weights) = _ends(folder)
    assert (first, last) == (stopped_at + 1, _STEPS)
    assert weights == unbroken

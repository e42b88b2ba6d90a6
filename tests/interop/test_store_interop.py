"""torchrun starts ranks again and keeps its store, with all that ranks have said in it.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
pytest.importorskip("torch.distributed")

# The group has a part of the store that is new for each start: otherwise gloo connects to ranks of
# the start before (pytorch issue 135712). Stoker has all of it.
_PROGRAM = r"""
import os, signal, sys
import torch
import torch.distributed as dist
import stoker
from stoker._checkpoint.ranks import job as _job

start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
group = dist.PrefixStore(f"start-{start}", store)
dist.init_process_group("gloo", store=group, rank=rank, world_size=world)
_job.distributed_store = lambda: store

saver = stoker.Checkpointer(sys.argv[1])  # half an hour is the deadline
w = torch.full((4,), -1.0)
done = saver.restore(state={"w": w}) or 0
assert w.tolist() == [done * 10 + rank if done else -1.0] * 4, (done, w)
for step in range(done + 1, done + 4):
    w.fill_(step * 10 + rank)
    pending = saver.save(step, state={"w": stoker.PerRank(w)})
    # In the middle of the second save of this start.
    if step == done + 2 and (start, rank) in ((0, 1), (1, 0)):
        os.kill(os.getpid(), signal.SIGKILL)
    pending.wait()
dist.destroy_process_group()
saver.close()
print(f"rank {rank} restored {done} at start {start}", flush=True)
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_store_that_torchrun_keeps_misleads_no_start(tmp_path: Path, ranks: int) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("TORCH_")}
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"),
            *("--max-restarts=2", "--monitor-interval=0.1", "--local-addr=127.0.0.1"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"),
            *(str(tmp_path / "program.py"), str(tmp_path / "run")),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment | {"OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr[-8000:]
    said = [line for line in ran.stdout.splitlines() if "restored" in line]
    assert len(said) == ranks, ran.stdout
    assert all(line.endswith("at start 2") for line in said), said
    assert not list((tmp_path / "run").glob(".meeting-*"))

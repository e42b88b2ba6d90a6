"""dcp.save and dcp.load on several ranks of gloo: all of them, or none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from fork_server import ForkedPython
from stoker._commands.torch import main

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")

_HEAD = r"""
import os, signal, sys, warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
import stoker
from stoker.torch import DcpReader, DcpWriter

rank, size, store, run = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{store}", rank=rank, world_size=size)
mesh = dist.init_device_mesh("cpu", (size,))


def build(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(4, 6)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def state_of(seed):
    model, optimizer = get_state_dict(*build(seed))
    return {
        "model": model,
        "optim": optimizer,
        "whole": torch.arange(5.0) + seed,
        "lists": [torch.ones(2) * seed, {"a": seed}, seed],
        "epoch": seed,
        "pair": (1, float(seed)),
        "odd": distribute_tensor(torch.arange(6.0).reshape(3, 2) * seed, mesh, [Shard(0)]),
    }


def whole(tree):
    if isinstance(tree, dict):
        return {key: whole(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [whole(item) for item in tree]
    tensor = tree.full_tensor() if isinstance(tree, DTensor) else tree
    return tensor.tolist() if isinstance(tensor, torch.Tensor) else tensor


def save(state, step, **more):
    dcp.save(state, checkpoint_id=f"{run}/step-{step}", storage_writer=DcpWriter(run, deadline=60),
             **more)


def load(state, step):
    dcp.load(state, checkpoint_id=f"{run}/step-{step}", storage_reader=DcpReader(run))
    return state


def errors_of(call, *given):
    try:
        call(*given)
    except dcp.CheckpointException as error:
        return {rank: one[0] for rank, one in error.failures.items()}
    raise SystemExit("nothing was raised")
"""


def on_ranks(
    size: int, program: str, run: Path, port: int, *more: str
) -> list[tuple[int, str, str]]:
    """Returns status, output and errors of each."""
    started = [
        ForkedPython(
            [sys.executable, "-c", _HEAD + program, rank, size, port, run, *more],
            torch=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    ended = []
    for process in started:
        out, errors = process.communicate(timeout=120)
        ended.append((process.returncode, out, errors))
    return ended


def run_all(size: int, program: str, run: Path, port: int) -> list[str]:
    """Returns the output of ranks that all end well."""
    ended = on_ranks(size, program, run, port)
    for status, _, errors in ended:
        assert status == 0, errors[-4000:]
    return [out for _, out, _ in ended]


@pytest.fixture
def port() -> int:
    """A free one."""
    store = pytest.importorskip("torch.distributed").TCPStore("127.0.0.1", 0, is_master=True)
    number: int = store.port
    del store
    return number


_SAVE = """
state = state_of(1)
save(state, 1)
future = dcp.async_save(state, checkpoint_id=f"{run}/step-2", storage_writer=DcpWriter(run))
future.result()
expected = whole(state)
for step in (1, 2):
    found = load(state_of(2), step)
    assert whole(found) == expected, (whole(found), expected)
print(repr(expected))
"""

_LOAD = """
print(repr(whole(load(state_of(2), 2))))
"""


def test_what_two_ranks_save_any_number_of_ranks_loads_to_the_bit(
    tmp_path: Path, port: int
) -> None:
    run = tmp_path / "run"
    expected = run_all(2, _SAVE, run, port)
    assert run_all(3, _LOAD, run, port) == [expected[0]] * 3
    assert run_all(1, _LOAD, run, port) == [expected[0]]
    with stoker.Checkpointer(run, rank=0, world_size=1) as saver:
        assert saver.steps() == [1, 2]
        model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
        assert saver.restore(model=model, partial=True) == 2
    names = eval(expected[0])["model"]
    assert {name: w.tolist() for name, w in model.state_dict().items()} == names
    assert {"model.0.weight", "optim.state.0.bias.step", "whole", "lists.0"} <= set(
        stoker.load(run)
    ), "no name of a single rank"
    read = stoker.load(run / "1").read()
    assert read["pair"] == (1, 1.0)
    assert [read["lists"][0].tolist(), *read["lists"][1:]] == [[1, 1], {"a": 1}, 1]


_FAIL = """
from torch.distributed.checkpoint import DefaultSavePlanner
from stoker._checkpoint import checkpointer as _checkpointer

save(state_of(1), 1)
state = {"w": torch.ones(2)} | ({"bad": object()} if rank == 1 else {})
errors = errors_of(save, state, 2)
assert set(errors) == {0, 1}, errors
assert "bad: object of type object can't be saved" in str(errors[1]), errors
assert "rank 1" in str(errors[0]) and "bad" in str(errors[0]), errors
save(state_of(1), 3)


class Dies(DefaultSavePlanner):
    def lookup_object(self, index):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().lookup_object(index)


if sys.argv[5] == "early":  # before the ranks meet: the deadline says that one is missing
    planner, deadline = Dies(), 2
else:
    planner, deadline = None, 61  # another Checkpointer than before
    if rank == 1:
        _checkpointer._kill_at = ("checkpoint." + sys.argv[5], 1)
where = f"{run}/step-4"
try:
    dcp.save(state_of(1), checkpoint_id=where, storage_writer=DcpWriter(run, deadline=deadline),
             planner=planner)
except BaseException as error:
    print(type(error).__name__, error)
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.mark.parametrize("moment", ["early", "written", "part_written"])
def test_a_rank_that_fails_or_dies_fails_all_and_nothing_is_committed(
    tmp_path: Path, port: int, moment: str
) -> None:
    run = tmp_path / "run"
    (first, out, errors), (second, _, more) = on_ranks(2, _FAIL, run, port, moment)
    assert first == 0, errors[-4000:]
    assert second == -9, more[-4000:]
    assert out, "the rank that lives on has said why"
    with stoker.Checkpointer(run, rank=0, world_size=1) as saver:
        assert saver.steps() == [1, 3]
        saver.save(5, n=1).wait()
    assert [path.name for path in run.glob("owner-*")] == [], "what was begun is removed"


_DAMAGED = """
errors = errors_of(load, state_of(2), 2)
print(sorted((rank, type(error).__name__, error.path, error.tensor or "")
             for rank, error in errors.items()))
load(state_of(2), 1)
"""


def test_damage_that_one_rank_finds_is_an_error_on_all(tmp_path: Path, port: int) -> None:
    run = tmp_path / "run"
    run_all(2, _SAVE, run, port)
    file = run / "step-000000000002" / "rank-00001.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    said = run_all(2, _DAMAGED, run, port)
    assert said[0] == said[1]
    for _, kind, path, tensor in eval(said[0]):
        assert (kind, path) == ("CorruptError", str(file))
        assert tensor


_THEIRS = """
state = state_of(1)
dcp.save(state, checkpoint_id=f"{run}/theirs")
print(repr(whole(state)))
"""

_EXPORTED = """
found = state_of(2)
dcp.load(found, checkpoint_id=f"{run}/exported")
print(repr(whole(found)))
"""


def test_folders_of_torchs_own_writer_come_and_go(tmp_path: Path, port: int) -> None:
    """Sharded over two ranks, imported, loaded by three, exported, and loaded by two."""
    expected = run_all(2, _THEIRS, tmp_path, port)
    where, theirs = str(tmp_path / "run"), str(tmp_path / "theirs")
    assert main(["import", "--step=2", "--", where, theirs]) == 0
    assert run_all(3, _LOAD, tmp_path / "run", port) == [expected[0]] * 3
    checkpoint, out = f"{where}/step-000000000002", str(tmp_path / "exported")
    assert main(["export", "--dcp", "--", checkpoint, out]) == 0
    assert run_all(2, _EXPORTED, tmp_path, port) == [expected[0]] * 2


_GROUPS = """
groups = [dist.new_group([0]), dist.new_group([1, 2])]
mine = groups[0 if rank == 0 else 1]
where = f"{run}/{0 if rank == 0 else 1}/step-1"
state = {"w": torch.ones(2) * rank, f"of{rank}": rank}
dcp.save(state, checkpoint_id=where, storage_writer=DcpWriter(run, deadline=60),
         process_group=mine)
dcp.save({"n": rank}, checkpoint_id=f"{run}/alone-{rank}", storage_writer=DcpWriter(run),
         no_dist=True)
found = {f"of{rank}": None}
dcp.load(found, checkpoint_id=where, storage_reader=DcpReader(run), process_group=mine)
assert found[f"of{rank}"] == rank
"""


def test_the_ranks_of_a_group_save_and_so_does_each_alone(tmp_path: Path, port: int) -> None:
    run_all(3, _GROUPS, tmp_path, port)
    both = stoker.load(tmp_path / "1" / "1").read()
    assert (both["of1"], both["of2"], both["w"].shape) == (1, 2, (2,))
    assert [stoker.load(tmp_path / f"alone-{n}").read() for n in range(3)] == [
        {"n": n} for n in range(3)
    ]

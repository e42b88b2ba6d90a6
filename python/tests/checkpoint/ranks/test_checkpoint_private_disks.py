"""Nodes with private disks: four ranks, two on each of two nodes."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

# The same path names another directory on each node.
_NODE = """
os.makedirs(f"{folder}/node{rank // 2}", exist_ok=True)
os.chdir(f"{folder}/node{rank // 2}")
folder = "/proc/self/cwd/run"
"""
_INIT = """
import os
os.environ["OMP_NUM_THREADS"] = "1"
import torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{}", rank=rank, world_size=world)
"""
_MAKE = """
same, own = np.arange(5.0), np.arange(3.0) + 10 * rank
part = stoker.Slice(np.arange(2.0) + 100 * rank, [8], [2 * rank])
trees = {"same": same, "own": stoker.PerRank({"w": own}), "part": part}
"""
_CHANGE = "same += 1; own += 1; part.array += 1"
_SAVE = "result = saver.save({}, state=trees).wait()"
_CLEAR = "same[:] = -1; own[:] = -1; part.array[:] = -1"
_RESTORE = """
done = saver.restore({}state=trees)
result = [done, same.tolist(), own.tolist(), part.array.tolist(), [why for _, why in done.skipped]]
"""


def _init() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return _NODE + _INIT.format(probe.getsockname()[1])


@pytest.fixture
def nodes(tmp_path: Path, ranks: Any) -> Any:
    """Starts the ranks, which send files: they need not import torch."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()

    def start(begin: str = "", disks: str = "private", **settings: Any) -> Any:
        settings |= {"disks": disks, "meeting": str(meeting)}
        return ranks(tmp_path, 4, begin=_NODE + begin, **settings)

    return start


def _saved(step: int, rank: int) -> list[list[float]]:
    """What `_MAKE`, changed before each step from the second on, has at a step."""
    return [
        [i + step - 1.0 for i in range(5)],
        [i + step - 1.0 + 10 * rank for i in range(3)],
        [i + step - 1.0 + 100 * rank for i in range(2)],
    ]


def _restored(group: Any, on_all: Any, step: int = 0) -> tuple[int, list[list[str]]]:
    """Restores on all ranks; returns the step, and what each has skipped."""
    on_all(group, _MAKE + _CLEAR)
    said = on_all(group, _RESTORE.format(f"{step}, " if step else ""))
    assert all(isinstance(one, list) for one in said), said
    steps = {one[0] for one in said}
    assert len(steps) == 1
    for rank, one in enumerate(said):
        assert one[1:4] == _saved(one[0], rank)
    return steps.pop(), [one[4] for one in said]


def _save(group: Any, on_all: Any, *steps: int) -> None:
    for step in steps:
        on_all(group, _CHANGE if step > 1 else _MAKE)
        assert on_all(group, _SAVE.format(step)) == [True] * 4


def _steps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def test_every_node_stores_what_its_ranks_have_and_all_restore_the_same(
    tmp_path: Path, nodes: Any, on_all: Any
) -> None:
    with nodes(keep_last=2) as group:
        _save(group, on_all, 1, 2, 3)
        assert _restored(group, on_all) == (3, [[]] * 4)
        on_all(group, "saver.close()")
    folders = [tmp_path / f"node{number}/run" for number in range(2)]
    texts = [(node / "step-000000000003" / "manifest.json").read_bytes() for node in folders]
    assert texts[0] == texts[1]
    manifest = json.loads(texts[0])
    assert [place["ranks"] for place in manifest["places"]] == [[0, 1], [2, 3]]
    assert [tensor["name"] for tensor in manifest["duplicates"]] == ["state.same"]
    for number, node in enumerate(folders):
        assert _steps(node) == ["step-000000000002", "step-000000000003"]
        names = sorted(path.name for path in (node / "step-000000000003").iterdir())
        files = [f"rank-{rank:05}.safetensors" for rank in (2 * number, 2 * number + 1)]
        assert names == ["manifest.json", f"place-{number:05}", *files]
    with pytest.raises(OSError, match=r"state.part.* on the disk of .* \(ranks 2, 3\)"):
        stoker.load(folders[0])["state.part"][:]
    for node in folders:
        shutil.copytree(
            node / "step-000000000003", tmp_path / "all/step-000000000003", dirs_exist_ok=True
        )
    loaded = stoker.load(tmp_path / "all")
    np.testing.assert_array_equal(loaded["state.part"][:], [2, 3, 102, 103, 202, 203, 302, 303])
    with nodes() as group:
        assert _restored(group, on_all) == (3, [[]] * 4)
        shutil.rmtree(folders[1] / "step-000000000003")
        for said in on_all(group, _RESTORE.format("")):
            assert "step-000000000003 was on the disks of all nodes" in said
            assert "not on that of rank 2" in said
        for node in folders:  # as if it had not been acknowledged
            (node / "latest").unlink()
            (node / "latest").symlink_to("step-000000000002")
        step, skipped = _restored(group, on_all)
        assert step == 2
        assert all("step-000000000003: not on the disk of rank 2" in why[0] for why in skipped)
        _save(group, on_all, 3)
        assert _restored(group, on_all)[0] == 3
        shutil.rmtree(folders[0])
        for said in on_all(group, _RESTORE.format("")):
            assert said.startswith("CorruptError")
            assert "no checkpoint is on the disks of all nodes: that of rank 0" in said


def test_a_partial_checkpoint_that_a_restore_has_skipped_is_removed_as_any_other(
    tmp_path: Path, nodes: Any, on_all: Any
) -> None:
    folders = [tmp_path / f"node{number}/run" for number in range(2)]
    with nodes(keep_last=2) as group:
        _save(group, on_all, 1, 2)
        shutil.rmtree(folders[1] / "step-000000000002")
        for node in folders:
            (node / "latest").unlink()
            (node / "latest").symlink_to("step-000000000001")
        assert _restored(group, on_all)[0] == 1
        _save(group, on_all, 3, 4)
        on_all(group, "saver.close()")
    for node in folders:
        assert _steps(node) == ["step-000000000003", "step-000000000004"]


def test_ranks_that_know_different_results_of_the_last_save_go_on_together_after_a_restore(
    tmp_path: Path, nodes: Any, on_all: Any
) -> None:
    with nodes(deadline=20) as group:
        _save(group, on_all, 1)
        # As if it had not heard how the save ended: its outcome is unknown there.
        on_all(group, "saver._writer.in_flight()")  # registers the result
        on_all(group, "if rank == 2: saver._writer._settings.parent = None")
        assert _restored(group, on_all)[0] == 1
        _save(group, on_all, 2)
        on_all(group, "saver.close()")


@pytest.mark.parametrize("rank", [0, 2])
def test_a_node_that_dies_before_its_rename_leaves_what_was_acknowledged_on_all(
    tmp_path: Path, nodes: Any, on_all: Any, rank: int
) -> None:
    kill = f"_checkpointer._kill_at = ('checkpoint.all_sealed', 2) if rank == {rank} else ('', 1)"
    with nodes(kill) as group:
        _save(group, on_all, 1)
        on_all(group, _CHANGE)
        for one in group:
            one.tell(_SAVE.format(2))
        others = [one for number, one in enumerate(group) if number != rank]
        for one in others:
            assert "may be on some nodes only" in one.hear()
        assert group[rank].process.wait(timeout=60) == -9
    other = tmp_path / f"node{1 - rank // 2}/run"
    assert _steps(other) == ["step-000000000001", "step-000000000002"]
    assert _steps(tmp_path / f"node{rank // 2}/run") == ["step-000000000001"]
    with nodes() as group:
        assert _restored(group, on_all)[0] == 1
        _save(group, on_all, 2)
        assert _restored(group, on_all)[0] == 2
        on_all(group, "saver.close()")


def test_a_job_that_cannot_lock_all_nodes_holds_none(
    tmp_path: Path, nodes: Any, on_all: Any
) -> None:
    """Two jobs that began at once each held one, and all their saves failed."""
    mine: dict[str, Any] = {"rank": 0, "world_size": 1, "deadline": 60}
    state = {"w": np.zeros(2)}
    with stoker.Checkpointer(tmp_path / "node1/run", **mine) as second:
        second.save(7, state=state).wait()
        with nodes(deadline=4) as group:
            on_all(group, _MAKE)
            for said in on_all(group, _SAVE.format(1)):
                assert "rank 2: the disk of this node" in said
                assert "another writer holds it" in said
            with stoker.Checkpointer(tmp_path / "node0/run", lock="fail", **mine) as first:
                first.save(8, state=state).wait()
            second.close()
            assert on_all(group, _SAVE.format(2)) == [True] * 4
            on_all(group, "saver.close()")


_TORCH = """
import torch
from torch.distributed.fsdp import fully_shard
torch.manual_seed(3)
ddp, net = torch.nn.Linear(3, 2), torch.nn.Linear(8, 5)
fully_shard(net)
optimizer = torch.optim.AdamW([*ddp.parameters(), *net.parameters()], lr=0.1)
def train():
    x = torch.ones(4, 8)
    loss = net(x).square().mean() + ddp(torch.ones(4, 3)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
def seen():
    state = optimizer.state_dict()["state"]
    found = [*ddp.parameters(), *net.parameters(), *(s["exp_avg"] for s in state.values())]
    return [getattr(one, "_local_tensor", one).detach().clone() for one in found]
train()
"""


def test_replicated_and_sharded_modules_come_back_bit_for_bit(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    pytest.importorskip("torch.distributed")
    with ranks(tmp_path, 4, begin=_init(), disks="private") as group:
        assert on_all(group, _TORCH) == [None] * 4
        save = "result = saver.save(1, ddp=ddp, net=net, optimizer=optimizer).wait()"
        assert on_all(group, save) == [True] * 4
        on_all(group, "before = seen(); train()")
        on_all(group, "saver.restore(ddp=ddp, net=net, optimizer=optimizer)")
        same = "result = all(torch.equal(a, b) for a, b in zip(before, seen()))"
        assert on_all(group, same) == [True] * 4
        on_all(group, "saver.close()")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node0", "node1"]


def test_disks_that_are_not_shared_are_named_with_the_setting(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    pytest.importorskip("torch.distributed")
    with ranks(tmp_path, 4, begin=_init(), deadline=60) as group:
        on_all(group, _MAKE)
        for said in on_all(group, _SAVE.format(1)):
            assert 'use disks="private"' in said


def test_private_disks_need_messages_that_go_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'disks="private": .* torch.distributed'):
        stoker.Checkpointer(tmp_path, rank=0, world_size=2, job="a", disks="private")
    with pytest.raises(ValueError, match='disks=\'local\': it is "shared" or "private"'):
        stoker.Checkpointer(tmp_path, disks="local")  # type: ignore[arg-type]
    with stoker.Checkpointer(tmp_path, disks="private") as saver:  # one rank: as always
        saver.save(1, state={"w": np.zeros(2)}).wait()
    assert not list(tmp_path.glob("step-*/place-*"))

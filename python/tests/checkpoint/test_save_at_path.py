"""stoker.save: one checkpoint at a path, the old one or the new one, and nothing else's."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import ForkedPython


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.glob("step-*"))


def test_a_dict_comes_back_as_it_was(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "model": OrderedDict(w=np.arange(6.0).reshape(2, 3), b=np.float32(2.5)),
        "step": 3,
        "extra": (1, {2: b"x"}),
        "loader": None,
        "a.b": {1, 2},
        "empty": {},
    }
    stoker.save(tmp_path / "last", tree)
    loaded = stoker.load(tmp_path / "last")
    assert loaded["model.w"][1].tolist() == [3, 4, 5]
    found = loaded.read()
    assert found.pop("model")["w"].tolist() == tree["model"]["w"].tolist()
    assert found == {key: item for key, item in tree.items() if key != "model"}
    assert list(tree) == ["model", "step", "extra", "loader", "a.b", "empty"]
    with stoker.Checkpointer(tmp_path / "last") as saver:
        state = OrderedDict(w=np.zeros((2, 3)), b=np.float32(0))
        saver.restore(model=state, partial=True)
    assert state["w"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_state_of_a_module_has_its_own_names(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    stoker.save(tmp_path / "model", model.state_dict())
    assert sorted(stoker.load(tmp_path / "model")) == sorted(model.state_dict())
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    other.load_state_dict(stoker.load(tmp_path / "model", device="cpu"))
    assert torch.equal(other[1].weight, model[1].weight)
    again = stoker.load(tmp_path / "model").read()
    assert torch.equal(again["0.bias"], model[0].bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    stoker.save(tmp_path / "both", {"model": model, "optimizer": optimizer, "epoch": 3})
    assert stoker.load(tmp_path / "both").read()["optimizer"]["param_groups"][0]["lr"] == 0.1


def test_the_next_one_replaces_it(tmp_path: Path) -> None:
    for value in range(4):
        stoker.save(tmp_path, {"w": np.full(3, value)})
        assert stoker.load(tmp_path).read()["w"].tolist() == [value] * 3
        assert len(names(tmp_path)) == 1


def test_a_damaged_one_is_no_reason_not_to_save(tmp_path: Path) -> None:
    stoker.save(tmp_path, {"n": 1})
    manifest = tmp_path / "step-000000000000" / "manifest.json"
    manifest.write_bytes(b"")
    stoker.save(tmp_path, {"n": 2})
    assert stoker.load(tmp_path).read() == {"n": 2}
    assert names(tmp_path) == ["step-000000000000", "step-000000000001"], "damaged ones are kept"


def test_nothing_else_is_replaced(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with stoker.Checkpointer(run) as saver:
        for step in (1, 2, 3):
            saver.save(step, n=step).wait()
    with pytest.raises(ValueError, match="it has the checkpoints of a run"):
        stoker.save(run, {"n": 1})
    assert len(names(run)) == 3
    with pytest.raises(ValueError, match="it is a checkpoint, and no directory of checkpoints"):
        stoker.save(run / "step-000000000001", {"n": 1})
    (tmp_path / "old.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(NotADirectoryError, match=r"old\.pt is a file"):
        stoker.save(tmp_path / "old.pt", {"n": 1})
    stoker.save(tmp_path / "one", {"n": 1})
    with stoker.Checkpointer(tmp_path / "one") as saver:
        saver.save(7, n=7).wait()
    with pytest.raises(ValueError, match="it has the checkpoints of a run"):
        stoker.save(tmp_path / "one", {"n": 1})


def test_what_cannot_be_saved_leaves_the_old_one(tmp_path: Path) -> None:
    stoker.save(tmp_path, {"n": 1})
    for tree, what in (
        ({"n": range(2)}, "n: object of type range can't be saved"),
        ([1, 2], "a dict with strings as keys"),
        ({1: 2}, "a dict with strings as keys"),
    ):
        with pytest.raises(TypeError, match=what):
            stoker.save(tmp_path, tree)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not begin with '!'"):
        stoker.save(tmp_path, {"!tensor": "n"})
    with pytest.raises(TypeError, match="nothing to save"):
        stoker.save(tmp_path, {})
    assert stoker.load(tmp_path).read() == {"n": 1}


_KILLED = """
import sys
import stoker
from stoker._checkpoint import checkpointer as _checkpointer

stoker.save(sys.argv[1], {"n": 1})
_checkpointer._kill_at = (sys.argv[2], 1)
stoker.save(sys.argv[1], {"n": 2})
"""


@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("written", 1),
        ("manifest_written", 1),
        ("directory_synced", 1),
        ("renamed", 2),
        ("latest_moved", 2),
        ("acknowledged", 2),
    ],
)
def test_a_save_that_is_killed_leaves_the_old_one_or_the_new_one(
    tmp_path: Path, point: str, left: int
) -> None:
    command = [sys.executable, "-c", _KILLED, tmp_path, f"checkpoint.{point}"]
    with ForkedPython(command, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -9, errors
    assert stoker.load(tmp_path).read() == {"n": left}
    stoker.save(tmp_path, {"n": 3})
    assert stoker.load(tmp_path).read() == {"n": 3}
    assert len(names(tmp_path)) == 1


_RACE = """
import sys
import stoker

for n in range(5):
    stoker.save(sys.argv[1], {"who": sys.argv[2], "n": n})
"""


def test_two_processes_that_save_at_once_take_turns(tmp_path: Path) -> None:
    racers = [
        ForkedPython([sys.executable, "-c", _RACE, tmp_path, who], stderr=subprocess.PIPE)
        for who in "ab"
    ]
    for racer in racers:
        _, errors = racer.communicate(timeout=60)
        assert racer.returncode == 0, errors
    assert stoker.load(tmp_path).read()["n"] == 4
    stoker.save(tmp_path, {"n": 9})
    assert stoker.load(tmp_path).read() == {"n": 9}

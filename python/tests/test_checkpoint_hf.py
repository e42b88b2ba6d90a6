"""``stoker checkpoint export --hf``: files whose names are those of the module itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
_STOKER = Path(__file__).parents[2] / "build" / "release" / "stoker"
pytestmark = pytest.mark.skipif(not _STOKER.exists(), reason="the command is not built: make build")


class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A model with a head that is its embedding, as those of transformers are."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight


def export(folder: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(_STOKER), "checkpoint", "export", str(folder), "latest", str(out), "--hf"]
    return subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("wrap", [lambda model: model, torch.nn.DataParallel])
def test_a_module_loads_what_was_exported_of_it_by_its_own_names(tmp_path: Path, wrap: Any) -> None:
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters())
    model.body(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    ema = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, model=wrap(model), optimizer=optimizer, ema=ema)
    ran = export(tmp_path / "run", tmp_path / "out", "--json")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert [tree["tree"] for tree in report["left_out"]] == ["ema", "optimizer"]
    found = stoker.load(tmp_path / "out" / "model.safetensors")
    assert set(found) == set(model.state_dict()) - {"head.weight"}, "tied weights are there once"
    state = {name: torch.from_numpy(np.asarray(tensor)) for name, tensor in found.items()}
    again = Tied()
    missing, unexpected = again.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["head.weight"], [])
    for mine, theirs in zip(again.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_model_that_is_stored_as_another_tree_is_not_exported_without_its_weights(
    tmp_path: Path,
) -> None:
    model = torch.nn.Linear(3, 2)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, first=dict(model.state_dict()), model=model)
    ran = export(tmp_path / "run", tmp_path / "out")
    assert ran.returncode == 2
    assert 'the tree `model` shares memory with "first.' in ran.stderr
    assert not (tmp_path / "out").exists()

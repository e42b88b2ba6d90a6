"""``stoker checkpoint export --hf``: files whose names are those of the module itself."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import ForkedPython

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
_STOKER = Path(__file__).parents[4] / "build" / "release" / "stoker"
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


def test_a_model_that_is_stored_as_another_tree_is_exported_whole(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, first={**model.state_dict(), "more": np.ones(5)}, model=model)
    ran = export(tmp_path / "run", tmp_path / "out", "--json")
    assert ran.returncode == 0, ran.stderr
    left_out = json.loads(ran.stdout)["left_out"]
    assert left_out == [{"tree": "first", "tensors": 1, "size_bytes": 40}]
    found = stoker.load(tmp_path / "out" / "model.safetensors")
    assert sorted(found) == ["bias", "weight"]
    assert np.array_equal(found["weight"][...], model.weight.detach().numpy())


_EMBEDDING = np.arange(6, dtype=np.float32)
_SHARED: dict[str, Any] = {
    "ema": {"emb": _EMBEDDING, "head": np.zeros(2)},
    "model": {
        "emb": _EMBEDDING,
        "head": np.ones(2),
        "list": [(_EMBEDDING[:3],), {"a": _EMBEDDING[3:]}],
        "tied": _EMBEDDING,
    },
    "later": collections.OrderedDict(
        {"part": {7: _EMBEDDING[:3], None: _EMBEDDING[3:]}, "x": np.float64(3)}
    ),
}


def export_names(folder: Path, out: Path, *only: str) -> dict[str, list[float]]:
    command = [str(_STOKER), "checkpoint", "export", str(folder), "latest", str(out)]
    for prefix in only:
        command += ["--only", prefix]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "STOKER_PYTHON": sys.executable},
    )
    assert ran.returncode == 0, ran.stderr
    if out.suffix == ".pt":
        return {name: tensor.tolist() for name, tensor in torch.load(out).items()}
    return {name: tensor[...].tolist() for name, tensor in stoker.load(out).items()}


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_what_trees_share_is_exported_under_the_name_that_was_chosen(
    tmp_path: Path, suffix: str
) -> None:
    run, out = tmp_path / "run", tmp_path / f"out.{suffix}"
    with stoker.Checkpointer(run) as saver:
        saver.save(1, **_SHARED)
    front, back, whole = [0.0, 1.0, 2.0], [3.0, 4.0, 5.0], _EMBEDDING.tolist()
    model = {"model.emb": whole, "model.head": [1, 1]}
    model.update({"model.list.0.0": front, "model.list.1.a": back})
    found = export_names(run, out, "model.")
    assert found == model, "what is tied is there once"
    tied = export_names(run, tmp_path / f"tied.{suffix}", "model.tied", "ema.")
    assert tied == {"model.tied": whole, "ema.emb": whole, "ema.head": [0, 0]}
    later = export_names(run, tmp_path / f"later.{suffix}", "later.part")
    assert later == {"later.part.7": front, "later.part.None": back}
    both = export_names(run, tmp_path / f"both.{suffix}", "model.", "ema.")
    assert both == {**model, "ema.emb": whole, "ema.head": [0, 0]}


def test_what_trees_share_is_exported_of_every_rank_alike(tmp_path: Path) -> None:
    program = """
import sys, numpy as np, stoker
w = np.arange(3.0)
with stoker.Checkpointer(sys.argv[1], rank=int(sys.argv[2]), world_size=2) as saver:
    saver.save(1, ema={"w": w}, model={"w": w}).wait()
"""
    folder = str(tmp_path / "run")
    ranks = [ForkedPython([sys.executable, "-c", program, folder, r]) for r in (0, 1)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    ran = export(tmp_path / "run", tmp_path / "out", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["left_out"] == []
    found = stoker.load(tmp_path / "out" / "model.safetensors")
    assert {name: tensor[...].tolist() for name, tensor in found.items()} == {"w": [0, 1, 2]}
    chosen = export(tmp_path / "run", tmp_path / "chosen", "--only", "model.", "--strip", "model.")
    assert chosen.returncode == 0, chosen.stderr


def test_an_export_of_what_each_rank_has_says_how_to_choose(tmp_path: Path) -> None:
    program = """
import sys, numpy as np, stoker
rank = int(sys.argv[2])
with stoker.Checkpointer(sys.argv[1], rank=rank, world_size=2) as saver:
    saver.save(1, model={"w": np.arange(3.0) + rank}).wait()
"""
    folder = str(tmp_path / "run")
    ranks = [ForkedPython([sys.executable, "-c", program, folder, r]) for r in (0, 1)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    refused = export(tmp_path / "run", tmp_path / "no", "--only", "model.", "--strip", "model.")
    advice = "choose one with --rank 0, or give --hf for the model that all ranks share"
    assert f"Each rank has saved its own: {advice}" in refused.stderr


def run_export(folder: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(_STOKER), "checkpoint", "export", str(folder), "1", str(out), *more]
    environment = {**os.environ, "STOKER_PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_an_export_lacks_nothing_that_differs_between_ranks(tmp_path: Path) -> None:
    program = """
import sys, numpy as np, stoker
rank = int(sys.argv[2])
with stoker.Checkpointer(sys.argv[1], rank=rank, world_size=2) as saver:
    saver.save(1, model={"w": np.arange(3.0), "b": np.full(2, rank)}, ema={"w": np.ones(2)}).wait()
"""
    run = tmp_path / "run"
    ranks = [ForkedPython([sys.executable, "-c", program, run, r]) for r in (0, 1)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    out = tmp_path / "out.safetensors"
    for only, told in {
        "model.": 'a tensor would be missing, which each rank has saved its own of: "model.b". '
        'For all tensors of one rank, give --rank 0 --only "model."',
        "rank-00001.model.": 'a tensor would be missing, which all ranks share: "model.w". '
        'For all tensors of one rank, give --rank 1 --only "model."',
    }.items():
        for file in (out, out.with_suffix(".pt")):
            refused = run_export(run, file, "--only", only)
            assert refused.returncode == 2
            assert told in refused.stderr
            assert not file.exists()
    refused = export(run, tmp_path / "no")
    assert "choose the model of one rank: --rank 0" in refused.stderr
    refused = run_export(run, out, "--rank", "2")
    assert "--rank 2: this checkpoint is of 2 ranks, and the first is 0" in refused.stderr

    of_rank = run_export(run, out, "--rank", "1", "--only", "model.", "--strip", "model.")
    assert of_rank.returncode == 0, of_rank.stderr
    of_rank = export(run, tmp_path / "hf", "--rank", "1", "--json")
    assert of_rank.returncode == 0, of_rank.stderr
    assert [tree["tree"] for tree in json.loads(of_rank.stdout)["left_out"]] == ["ema"]
    for file in (out, tmp_path / "hf" / "model.safetensors"):
        found = stoker.load(file)
        values = {name: tensor[...].tolist() for name, tensor in found.items()}
        assert values == {"w": [0, 1, 2], "b": [1, 1]}
    for number, more in enumerate(([], ["--only", "model.", "--only", "ema."])):
        file = tmp_path / f"{number}.pt"
        of_rank = run_export(run, file, "--rank", "1", *more)
        assert of_rank.returncode == 0, of_rank.stderr
        state = torch.load(file, weights_only=True)
        found = state["model.b"] if more else state["model"]["b"]
        assert found.tolist() == [1, 1]
        assert len(state) == (3 if more else 2)
    both = ["--only", "model.", "--only", "rank-00000.model."]
    whole = run_export(run, tmp_path / "both.safetensors", *both)
    assert whole.returncode == 0, whole.stderr
    assert set(stoker.load(tmp_path / "both.safetensors")) == {"model.w", "rank-00000.model.b"}


def test_an_export_names_what_it_has_under_another_name(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, model=Tied())
    out = tmp_path / "out.safetensors"
    command = [str(_STOKER), "checkpoint", "export", str(tmp_path / "run"), "1", str(out)]
    command += ["--only", "model.", "--strip", "model."]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "left out: head.weight, the same as embedding.weight\n" in ran.stdout
    told = export(tmp_path / "run", tmp_path / "hf", "--json")
    assert json.loads(told.stdout)["same"] == {"head.weight": "embedding.weight"}

"""What ``stoker checkpoint export --hf`` writes, read by safetensors and by huggingface_hub.

Run in the environment of peers/requirements.txt; STOKER_COMMAND names the command.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

COMMAND = os.environ.get("STOKER_COMMAND", "")
pytestmark = pytest.mark.skipif(not COMMAND, reason="STOKER_COMMAND names no command")

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors")
huggingface_hub = pytest.importorskip("huggingface_hub")
stoker = pytest.importorskip("stoker")


def model_of(seed: int) -> Any:
    """Layers of several types and sizes, larger and smaller than a file."""
    torch.manual_seed(seed)
    layers = [torch.nn.Embedding(50, 16), torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16)]
    types = (torch.float32, torch.bfloat16, torch.float16)
    layers += [torch.nn.Linear(16, 8, bias=i % 2 == 0).to(types[i]) for i in range(3)]
    model = torch.nn.Sequential(*layers)
    model.register_buffer("empty", torch.zeros(0, 3))
    model.register_buffer("mask", torch.rand(5) < 0.5)
    return model


def same(left: Any, right: Any) -> bool:
    return bool(left.dtype == right.dtype and left.shape == right.shape) and bytes(
        left.contiguous().flatten().view(torch.uint8).numpy()
    ) == bytes(right.contiguous().flatten().view(torch.uint8).numpy())


@pytest.mark.parametrize("shard_size", ["1KiB", "5GiB"])
def test_the_real_packages_load_an_exported_model_by_its_index(
    tmp_path: Path, shard_size: str
) -> None:
    model = model_of(1)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(7, model=model, optimizer=torch.optim.AdamW(model.parameters()))
    out = tmp_path / "out"
    command = [COMMAND, "checkpoint", "export", tmp_path / "run", "latest", out, "--hf"]
    subprocess.run([*command, "--shard-size", shard_size], check=True, timeout=120)
    index = out / "model.safetensors.index.json"
    state = model.state_dict()
    if shard_size == "5GiB":
        assert not index.exists()
        places = dict.fromkeys(state, "model.safetensors")
    else:
        said = json.loads(index.read_text())
        places = said["weight_map"]
        assert said["metadata"]["total_size"] == sum(t.nbytes for t in state.values())
        assert len(set(places.values())) > 3
    assert places.keys() == state.keys()
    for file in set(places.values()):
        with safetensors.safe_open(out / file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}
            assert set(opened.keys()) == {name for name in places if places[name] == file}
            for name in opened.keys():  # noqa: SIM118 (no dict)
                assert same(opened.get_tensor(name), state[name]), name
    again = model_of(2)
    huggingface_hub.load_torch_model(again, out, strict=True)
    for name, tensor in again.state_dict().items():
        assert same(tensor, state[name]), name

"""docs/training.md as a new user follows it: every Python block runs, in order, in one program."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import torchrun
from stoker._loader.map import mapping as _mapping

ROOT = Path(__file__).parents[2]
STOKER = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))
PAGE = ROOT / "docs" / "training.md"
MIGRATING = ROOT / "docs" / "migrating.md"
TUNING = ROOT / "docs" / "tuning.md"


# Blocks that need more than this program has, and what runs them.
RUN_ELSEWHERE = {
    "init_device_mesh(": "test_the_mesh_of_the_training_page_gives_peers_equal_batches",
    "lightning.pytorch": "tests/interop/test_lightning_interop.py",
    "accelerate.Accelerator": "tests/interop/test_lightning_interop.py",
}


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def is_run_elsewhere(block: str) -> bool:
    return any(word in block for word in RUN_ELSEWHERE)


def test_every_block_of_the_training_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="the page trains a model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    names: dict[str, Any] = {"__name__": "training"}
    here = [block for block in blocks(PAGE) if not is_run_elsewhere(block)]
    assert len(here) == len(blocks(PAGE)) - len(RUN_ELSEWHERE)
    for block in here:
        exec(compile(block, PAGE.name, "exec"), names)
    assert "31 [" in capsys.readouterr().out
    assert (tmp_path / "checkpoint.pt").exists()
    assert not (tmp_path / "cache").exists()
    for block in blocks(TUNING):
        exec(compile(block, TUNING.name, "exec"), names)
    assert "'map': 0.0" in capsys.readouterr().out


def test_the_mesh_of_the_training_page_gives_peers_equal_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 64 ranks exist only in name: nothing is ever sent, and no GPU is needed."""
    distributed = pytest.importorskip("torch.distributed", reason="the mesh is torch's")
    fake_pg = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    device_mesh = pytest.importorskip("torch.distributed.device_mesh")
    monkeypatch.chdir(tmp_path)
    stoker.ingest(({"__key__": f"{i:04}", "cls": i % 10} for i in range(1000)), "shards")
    [block] = [block for block in blocks(PAGE) if "init_device_mesh(" in block]

    def on_cpu(_: str, *shape: Any, **options: Any) -> Any:
        return device_mesh.init_device_mesh("cpu", *shape, **options)

    keys = {}
    for rank in (0, 7, 8, 63):  # eight ranks of "tp" have the same part
        try:
            store = fake_pg.FakeStore()
            distributed.init_process_group("fake", rank=rank, world_size=64, store=store)
            names: dict[str, Any] = {"stoker": stoker, "init_device_mesh": on_cpu}
            exec(compile(block, PAGE.name, "exec"), names)
            keys[rank] = next(iter(names["loader"]))["__key__"]
        finally:
            distributed.destroy_process_group()
    assert len(keys[0]) == 512 / 8
    assert keys[0] == keys[7]
    assert not set(keys[0]) & set(keys[8])
    assert not set(keys[8]) & set(keys[63])


@pytest.mark.slow
def test_every_block_of_the_migrating_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the page migrates a program of torch")
    pytest.importorskip("PIL", reason="the page decodes images with Pillow")
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    if not STOKER.exists():
        pytest.skip(f"{STOKER} is not built")
    names: dict[str, Any] = {"__name__": "migrating"}
    found = re.findall(r"```(sh|python)\n(.*?)```", MIGRATING.read_text(), re.DOTALL)
    # Those with other packages: tests/interop/test_migrating_interop.py
    here = [one for one in found if not one[1].startswith(("# before\n", "# after\n"))]
    [program] = [block for _, block in here if block.startswith("# train_ddp.py")]
    environment = os.environ | {
        "PATH": f"{STOKER.parent}:{os.environ['PATH']}",
        "STOKER_PYTHON": sys.executable,
    }
    for language, block in here:
        if block is program:
            continue
        if language == "sh":
            subprocess.run(["bash", "-euc", block], env=environment, check=True, timeout=300)
        else:
            exec(compile(block, MIGRATING.name, "exec"), names)
    samples = names["Images"]("images")
    before = sorted((y, np.ascontiguousarray(x).tobytes()) for x, y in samples)
    unflipped = SimpleNamespace(random=lambda: 1.0)
    decoded = [names["decode"](sample, unflipped) for sample in stoker.Dataset("shards")]
    assert sorted((one["y"], one["x"].tobytes()) for one in decoded) == before
    Path("train_ddp.py").write_text(program)
    for _ in range(2):  # the second one has nothing left to do
        status, _, errors = torchrun("--standalone", "--nproc-per-node=2", "train_ddp.py")
        assert status == 0, errors
    assert stoker.load("run-ddp").step == 10


@pytest.mark.parametrize("page", [PAGE, TUNING, MIGRATING])
def test_every_name_on_the_pages_exists(page: Path) -> None:
    text = page.read_text()
    names = set(re.findall(r"stoker\.([A-Za-z]\w*)", text))
    assert names
    frameworks = {"lightning", "hf", "torchtitan"}  # modules, imported by their names
    assert [name for name in names - frameworks if not hasattr(stoker, name)] == []
    settings = set(inspect.signature(stoker.Loader).parameters)
    settings |= set(inspect.signature(stoker.Mixture).parameters)
    for method in (stoker.Loader.load_state_dict, stoker.Loader.steps, stoker.Checkpointer.restore):
        settings |= set(inspect.signature(method).parameters)
    assert set(re.findall(r"`(\w+)=", text)) - settings == set()


def test_the_tables_have_what_the_loader_has() -> None:
    text = TUNING.read_text()
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))
    stages = {"queue", "memory", "store", "read", "decode", "collate", "map", "copy"}
    assert stages <= rows
    settings = set(inspect.signature(stoker.Loader).parameters)
    assert rows - stages - settings == set()
    assert f"{stoker._native.LoaderSetup.memory_default_bytes >> 20} MiB" in text
    assert f"up to {_mapping._WORKERS_MAX} " in text

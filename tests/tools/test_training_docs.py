"""docs/training.md as a new user follows it: every Python block runs, in order, in one program."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._loader.map import mapping as _mapping

ROOT = Path(__file__).parents[2]
STOKER = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))
PAGE = ROOT / "docs" / "training.md"
MOVING = ROOT / "docs" / "moving.md"
TUNING = ROOT / "docs" / "tuning.md"


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_every_block_of_the_training_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="the page trains a model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    names: dict[str, Any] = {"__name__": "training"}
    for block in blocks(PAGE):
        exec(compile(block, PAGE.name, "exec"), names)
    assert "31 [" in capsys.readouterr().out
    assert (tmp_path / "checkpoint.pt").exists()
    assert not (tmp_path / "cache").exists()
    for block in blocks(TUNING):
        exec(compile(block, TUNING.name, "exec"), names)
    assert "'map': 0.0" in capsys.readouterr().out


def test_every_block_of_the_moving_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the page moves a program of torch")
    pytest.importorskip("PIL", reason="the page decodes images with Pillow")
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    if not STOKER.exists():
        pytest.skip(f"{STOKER} is not built")
    names: dict[str, Any] = {"__name__": "moving"}
    *here, (_, program) = re.findall(r"```(sh|python)\n(.*?)```", MOVING.read_text(), re.DOTALL)
    environment = os.environ | {
        "PATH": f"{STOKER.parent}:{os.environ['PATH']}",
        "STOKER_PYTHON": sys.executable,
    }
    for language, block in here:
        if language == "sh":
            subprocess.run(["bash", "-euc", block], env=environment, check=True, timeout=300)
        else:
            exec(compile(block, MOVING.name, "exec"), names)
    assert program.startswith("# train_ddp.py")
    Path("train_ddp.py").write_text(program)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    for _ in range(2):  # the second one has nothing left to do
        subprocess.run([*torchrun, "--nproc-per-node=2", "train_ddp.py"], check=True, timeout=300)
    assert stoker.load("run-ddp").step == 10


@pytest.mark.parametrize("page", [PAGE, TUNING, MOVING])
def test_every_name_on_the_pages_exists(page: Path) -> None:
    text = page.read_text()
    names = set(re.findall(r"stoker\.([A-Za-z]\w*)", text))
    assert names
    assert [name for name in names if not hasattr(stoker, name)] == []
    settings = set(inspect.signature(stoker.Loader).parameters)
    settings |= set(inspect.signature(stoker.Mixture).parameters)
    for method in (stoker.Loader.load_state_dict, stoker.Loader.steps, stoker.Checkpointer.restore):
        settings |= set(inspect.signature(method).parameters)
    assert set(re.findall(r"`(\w+)=", text)) - settings == set()


def test_the_tables_have_what_the_loader_has() -> None:
    text = TUNING.read_text()
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))
    stages = {"queue", "memory", "read", "decode", "collate", "map", "copy"}
    assert stages <= rows
    settings = set(inspect.signature(stoker.Loader).parameters)
    assert rows - stages - settings == set()
    assert f"{stoker._native.LoaderSetup.memory_default_bytes >> 20} MiB" in text
    assert f"up to {_mapping._WORKERS_MAX} " in text

"""docs/checkpoints.md and preemption.md as a new user follows them: every Python block runs."""

from __future__ import annotations

import inspect
import json
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"
PREEMPTION = Path(__file__).parents[2] / "docs" / "preemption.md"
FORMAT = Path(__file__).parents[2] / "docs" / "formats" / "checkpoint.md"


def test_every_block_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    names: dict[str, Any] = {"__name__": "checkpoints"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert len(blocks) >= 8
    assert "state['metrics'][1]: object of type range can't be saved" in capsys.readouterr().out
    assert sorted(p.name for p in Path("run").iterdir()) == [
        *("asked", "broken", "checkpoints", "copied", "kept", "last", "parts", "random", "ranks"),
        *("replicated", "unbroken"),
    ]


def test_every_block_of_the_preemption_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_JOB_END_TIME"):
        monkeypatch.delenv(name, raising=False)
    names: dict[str, Any] = {"__name__": "preemption"}
    blocks = re.findall(r"```python\n(.*?)```", PREEMPTION.read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, PREEMPTION.name, "exec"), names)
    assert len(blocks) == 3
    assert stoker.load("run/broken").step == 60


def test_every_name_on_the_preemption_page_exists() -> None:
    text = PREEMPTION.read_text()
    names = set(re.findall(r"stoker\.([A-Za-z]\w*)", text))
    assert [name for name in names if not hasattr(stoker, name)] == []
    stop = stoker.Preemption()
    assert [name for name in re.findall(r"stop\.(\w+)", text) if not hasattr(stop, name)] == []
    settings = set(inspect.signature(stoker.Preemption).parameters)
    assert set(re.findall(r"`([a-z_]+)=", text)) - settings == set()


def test_every_name_on_the_page_exists() -> None:
    text = PAGE.read_text()
    names = set(re.findall(r"stoker\.([A-Za-z]\w*)", text))
    assert [name for name in names if not hasattr(stoker, name)] == []
    settings = set(inspect.signature(stoker.Checkpointer).parameters)
    assert set(re.findall(r"^\| `(\w+)=", text, re.MULTILINE)) - settings == set()
    methods = set(re.findall(r"(?:saver|kept)\.(\w+)", text))
    assert [name for name in methods if not hasattr(stoker.Checkpointer, name)] == []
    assert [n for n in re.findall(r"pending\.(\w+)", text) if not hasattr(stoker.Pending, n)] == []


def save_the_example(folder: Path, rank: int) -> None:
    weights = np.arange(16, dtype=np.float32).reshape(4, 4)
    weights[0, 3] = np.inf
    begin = 2 * rank
    mine = stoker.Slice(weights[begin : begin + 2], global_shape=(4, 4), offsets=(begin, 0))
    with stoker.Checkpointer(folder, rank=rank, world_size=2, job="docs") as saver:
        for step in (900, 1000):
            optimizer = {"lr": 0.1, "step": np.int64(step)}
            numbers = {"grad_norm": float("inf"), "loss": 0.1}
            saver.save(step, model={"w": mine}, optimizer=optimizer, reference=numbers).wait()


def test_the_manifest_in_the_description_of_the_format_is_a_true_one(tmp_path: Path) -> None:
    """Its checksums, digests and seal among it; only time and generations are made up."""
    match = re.search(
        r"```\n(\{\n\"format\": \"stoker-checkpoint\".*?)```", FORMAT.read_text(), re.S
    )
    assert match is not None
    ranks = [threading.Thread(target=save_the_example, args=(tmp_path, rank)) for rank in (0, 1)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()
    path = tmp_path / "step-000000001000" / "manifest.json"
    real, told = json.loads(path.read_text()), json.loads(match[1])
    invented = {"time", "time_s", "generation", "line", "parent", "ancestors", "tool", "xxh3_128"}
    assert list(told) == list(real)
    for name in set(real) - invented:
        assert told[name] == real[name], name
    path.chmod(0o644)
    path.write_text(match[1])  # read with the data files of the real one: seal, sizes, checksums
    loaded = stoker.load(tmp_path / "step-000000001000")
    assert loaded["model.w"][3].tolist() == [12, 13, 14, 15]
    assert loaded["optimizer.step"][()] == 1000

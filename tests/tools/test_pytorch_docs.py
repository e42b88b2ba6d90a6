"""docs/pytorch.md as a new user follows it: every Python block runs, in order.

Blocks that begin with the name of a file are programs for torchrun; the others are one program.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import torchrun

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"


def test_every_block_of_the_pytorch_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the page is about it")
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    names: dict[str, Any] = {"__name__": "pytorch"}
    blocks = [block for block in _blocks() if not block.startswith("# ")]
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert len(blocks) >= 2


def _blocks() -> list[str]:
    found: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_the_programs_for_torchrun_resume_after_they_were_killed(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    (program,) = (block for block in _blocks() if block.startswith(f"# {name}.py"))
    samples = (
        {"x": np.random.default_rng(i).normal(size=8).astype(np.float32), "cls": i % 4}
        for i in range(160)
    )
    stoker.ingest(samples, tmp_path / "shards")
    (tmp_path / f"{name}.py").write_text(program)
    head = "for step, batch in loader.steps():\n"
    dying = "    if step == 25 and torch.distributed.get_rank() == 1: os.kill(os.getpid(), 9)\n"
    killed = "import os\n" + program.replace(head, head + dying)
    (tmp_path / "killed.py").write_text(killed)
    assert _run(tmp_path, "killed.py") != 0
    assert _run(tmp_path, f"{name}.py") == 0
    checkpoints = tmp_path / "run" / name
    steps = stoker.Checkpointer(checkpoints, rank=0, world_size=1).steps()
    assert steps == [30, 40, 50], "it continued from step 20, to the end of five epochs"


def _run(folder: Path, program: str) -> int:
    status, _, errors = torchrun("--standalone", "--nproc-per-node=2", program, cwd=folder)
    sys.stderr.write(errors[-4000:])
    return status

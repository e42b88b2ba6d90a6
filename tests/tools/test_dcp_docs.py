"""docs/dcp.md as a new user follows it: the program on two ranks, then every other block.

The program that resumes is killed in tests/interop/frameworks.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from fork_server import torchrun

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dcp.md"
STOKER = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))


def test_every_block_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the page is about it")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program, *others = (block for block in blocks if not block.startswith("# resume.py"))
    assert len(others) == len(blocks) - 2
    Path("train.py").write_text(program)
    status, _, errors = torchrun("--standalone", "--nproc-per-node=2", "train.py", cwd=tmp_path)
    assert status == 0, errors[-4000:]
    assert len(others) == 1
    for block in others:
        exec(compile(block, PAGE.name, "exec"), {"__name__": "dcp"})
    if not STOKER.exists():
        pytest.skip("the command is not built")
    state: dict[str, Any] = {"model": {"0.weight": torch.zeros(16, 8)}, "epoch": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch.distributed is not used
        dcp.save(state, checkpoint_id="theirs", no_dist=True)
        (shell,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
        for line in shell.splitlines():
            command = [str(STOKER), *shlex.split(line)[1:]]
            environment = os.environ | {"STOKER_PYTHON": sys.executable}
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        dcp.load(state, checkpoint_id="ours", no_dist=True)
    assert state["epoch"] == 3
    assert state["model"]["0.weight"].any()

"""Checkpoints of one model in every layout of PyTorch, restored in every other, bit by bit.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
pytest.importorskip("torch.distributed.fsdp")

ANY = ["plain", "pipeline", "interleaved", "sharded", "expert_parallel"]
ALL = [*ANY, "hybrid", "tensor_parallel"]  # on four ranks


def run(ranks: int, *arguments: str) -> None:
    """Runs layouts.py on as many ranks; on one without torch.distributed."""
    program = str(Path(__file__).with_name("layouts.py"))
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [sys.executable, *(launcher if ranks > 1 else []), program, *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env=environment
    )
    assert ran.returncode == 0, ran.stderr[-8000:]
    assert ran.stdout.count("all is well") == ranks


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of four ranks in each layout."""
    folder = tmp_path_factory.mktemp("four")
    run(4, str(folder), "save", *ALL)
    return folder


@pytest.mark.parametrize(("ranks", "layouts"), [(4, ALL), (3, ANY), (2, ANY), (1, ["plain"])])
def test_every_layout_is_restored_in_every_other(
    saved: Path, ranks: int, layouts: list[str]
) -> None:
    run(ranks, str(saved), "restore", *layouts)


@pytest.mark.parametrize(("ranks", "layouts"), [(3, ANY), (2, ANY), (1, ["plain"])])
def test_and_back_on_four_ranks(tmp_path: Path, ranks: int, layouts: list[str]) -> None:
    run(ranks, str(tmp_path), "save", *layouts)
    run(4, str(tmp_path), "restore", *ALL)

"""Trainings that are killed, and continue on the same or on other numbers of ranks.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
pytest.importorskip("torch.distributed.fsdp")
import numpy as np  # noqa: E402

STEPS = 30
Run = tuple[int, int]  # ranks; killed at this step, 0 for never


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Integers, which are exact in every sum."""
    random = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("data") / "shards"
    samples = (
        {
            "__key__": f"{i:04}",
            "x": random.integers(-8, 8, 8).astype(np.float32),
            "y": random.integers(-4, 4, 1).astype(np.float32),
        }
        for i in range(100)
    )
    stoker.ingest(samples, path)
    return path


def train(shards: Path, folder: Path, kind: tuple[str, str], runs: list[Run]) -> list[Any]:
    """Returns the notes of the last time that each step was made."""
    folder.mkdir()
    for ranks, killed_at in runs:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        places = [str(shards), str(folder / "checkpoints"), str(folder / "notes")]
        steps = [str(STEPS), "--killed-at", str(killed_at)]
        program = str(Path(__file__).with_name("elastic.py"))
        ran = subprocess.run(
            [sys.executable, *launcher, program, *places, *kind, *steps],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert (ran.returncode != 0) == (killed_at > 0), ran.stderr[-8000:]
    lines = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
    return list({line["step"]: line for line in lines}.values())


OTHER_NUMBERS = [(4, 12), (2, 23), (4, 0)]


# After its first step DDP sorts gradients into other buckets, and so adds them up in another order,
# which a resumed run repeats: with more than two ranks the last bits may differ.
@pytest.mark.parametrize(("layout", "ranks"), [("ddp", 2), ("fsdp", 4)])
def test_killed_twice_the_weights_are_those_of_an_unbroken_run(
    tmp_path: Path, shards: Path, layout: str, ranks: int
) -> None:
    whole = train(shards, tmp_path / "whole", (layout, "usual"), [(ranks, 0)])
    killed_twice = [(ranks, 12), (ranks, 23), (ranks, 0)]
    broken = train(shards, tmp_path / "broken", (layout, "usual"), killed_twice)
    assert [line["step"] for line in whole] == list(range(1, STEPS + 1))
    assert broken == whole, "to the bit, at every step"


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_on_other_numbers_of_ranks_the_samples_are_the_same(
    tmp_path: Path, shards: Path, layout: str
) -> None:
    whole = train(shards, tmp_path / "whole", (layout, "usual"), [(4, 0)])
    broken = train(shards, tmp_path / "broken", (layout, "usual"), OTHER_NUMBERS)
    assert [line["keys"] for line in broken] == [line["keys"] for line in whole]
    losses = [[line["loss"] for line in lines] for lines in (broken, whole)]
    assert np.allclose(*losses, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_where_sums_are_exact_every_bit_is_the_same_on_any_number_of_ranks(
    tmp_path: Path, shards: Path, layout: str
) -> None:
    whole = train(shards, tmp_path / "whole", (layout, "exact"), [(4, 0)])
    broken = train(shards, tmp_path / "broken", (layout, "exact"), OTHER_NUMBERS)
    assert broken == whole

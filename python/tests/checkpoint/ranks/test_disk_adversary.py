"""An adversary on nodes with private disks: tools/disk_adversary.py says what must be true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[4]
_ROUNDS = int(os.environ.get("STOKER_DISK_ROUNDS", "0"))  # in `make crash`
# What needs neither luck nor a deadline. All else is in `make crash`.
_QUICK = [
    *("a_crash_point", "a_rewind", "an_old_disk", "an_empty_disk", "an_empty_disk_and_damage"),
    *("a_copied_disk", "exchanged_disks", "a_foreign_disk", "a_damaged_disk", "other_nodes"),
    *("a_pin",),
]


def _play(folder: Path, seed: int, rounds: int, *more: str) -> None:
    program = [sys.executable, str(_ROOT / "tools/disk_adversary.py"), str(folder / "disks")]
    words = ["--seed", str(seed), "--rounds", str(rounds), *more]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(("seed", "nodes"), [(3, 2), (8, 3)])
def test_what_was_acknowledged_comes_back_whatever_happens_to_nodes_and_disks(
    tmp_path: Path, seed: int, nodes: int
) -> None:
    only = [word for attack in _QUICK for word in ("--only", attack)]
    _play(tmp_path, seed, 10, "--nodes", str(nodes), "--deadline", "60", *only)


@pytest.mark.skipif(not _ROUNDS, reason="takes minutes: STOKER_DISK_ROUNDS, in make crash")
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_signals_full_disks_and_pairs_of_jobs(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("torch.distributed")
    stoker = _ROOT / "build/release/stoker"
    more = ["--torch", "--nodes", str(2 + seed % 2)]
    more += ["--mount"] if os.getuid() == 0 else []
    more += ["--stoker", str(stoker)] if stoker.exists() else []
    _play(tmp_path, seed, _ROUNDS, *more)

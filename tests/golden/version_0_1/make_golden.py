"""Writes checkpoints, an index and a cursor as version 0.1 wrote them.

The files beside this script were made by commit ec3e70a, and must not be made again by a later
version: they prove that what 0.1 has left on a disk can still be read and continued.

    python make_golden.py        # in a checkout of ec3e70a, with the package built
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import stoker

HERE = Path(__file__).parent
KILLED_WRITER = """
import sys
import numpy as np, stoker, stoker._checkpoint.checkpointer as inner
inner._kill_at = ("checkpoint.part_written", 1)
stoker.Checkpointer(sys.argv[1]).save(60, state={"w": np.zeros(4)}).wait()
"""


def samples(count: int = 50):
    for i in range(count):
        yield {"x": np.full(2, i, np.float32), "y": i}


def make_loader(dataset: Path) -> stoker.Loader:
    fields = {"x.npy": np.float32, "y": int}
    return stoker.Loader(
        str(dataset), batch_size=4, seed=7, epochs=None, torch=False, fields=fields
    )


def state_of(step: int) -> dict:
    """The tree that was saved as this step."""
    return {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3) + step,
        "tied": [np.full(3, step, np.int64)] * 2,
        "complex": np.array([1 + 2j, step - 1j]),
        "time": np.array(["2024-01-01", "2025-06-30"], "M8[D]"),
        "text": np.array(["a", "longer"]),
        "scalar": np.float64(0.5 + step),
        "plain": {"lr": 0.1, 3: (1, "two", None, b"three"), "big": 2**70, "inf": float("inf")},
    }


def make_single(directory: Path, dataset: Path) -> None:
    """Steps 10 to 40, rewound to 20, then 30 and 40 again; and a save of 60 that was killed."""
    loader = make_loader(dataset)
    batches = iter(loader)
    with stoker.Checkpointer(directory) as saver:
        for step in (10, 20, 30, 40):
            next(batches)
            saver.save(step, state=state_of(step), loader=loader, reference={"loss": 1 / step})
            saver.annotate(step, val_loss=float(step))
        saver.pin(20)
        saver.restore(step=20, state=state_of(0))
        for step in (30, 40):
            saver.save(step, state=state_of(step + 1000), extra={"run": "second"})
        saver.wait()
    killed = subprocess.run([sys.executable, "-c", KILLED_WRITER, directory], check=False)
    assert killed.returncode == -signal.SIGKILL
    trash = directory / ".trash-000000000005-0123456789abcdef0123456789abcdef"
    trash.mkdir()
    (trash / "rank-00000.safetensors").write_bytes(b"half removed")


RANK = """
import sys
import numpy as np, stoker
rank = int(sys.argv[2])
saver = stoker.Checkpointer(sys.argv[1], rank=rank, world_size=2)
whole = np.arange(12.0).reshape(6, 2)
part = stoker.Slice(whole[3 * rank : 3 * rank + 3], global_shape=(6, 2), offsets=(3 * rank, 0))
state = {"part": part, "same": np.arange(5), "own": np.full(3, rank), "lr": 0.1, "rank": rank}
saver.save(5, state=state).wait()
saver.close()
"""


def make_ranks(directory: Path) -> None:
    """Two ranks: a slice each, an array that is the same on both, and one that is not."""
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, directory, str(rank)]) for rank in range(2)
    ]
    assert [rank.wait() for rank in ranks] == [0, 0]


def make_dataset(directory: Path) -> None:
    """A dataset with its index, and a cursor: where a loader stood, and which keys came next."""
    stoker.ingest(samples(), directory)
    loader = make_loader(directory)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    cursor = loader.state_dict()
    keys = [list(map(str, next(batches)["__key__"])) for _ in range(20)]
    shards = {path.name: path.stat().st_mtime_ns for path in directory.iterdir() if path.is_file()}
    text = json.dumps({"cursor": cursor, "next_keys": keys, "mtimes_ns": shards}, indent=1)
    (HERE / "cursor.json").write_text(text + "\n")


def main() -> None:
    for name in ("dataset", "single", "ranks"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    os.environ.pop("RANK", None)
    make_dataset(HERE / "dataset")
    make_single(HERE / "single", HERE / "dataset")
    make_ranks(HERE / "ranks")


if __name__ == "__main__":
    main()

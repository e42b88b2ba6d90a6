"""The pairs of docs/migrating.md with the real packages: the samples before are those after.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
lightning = pytest.importorskip("lightning.pytorch")  # before the stand-in for torchvision
PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"
STANDINS = Path(__file__).parent / "peers" / "standins"  # streaming imports names from them
sys.path.append(str(STANDINS))
COUNT = 101  # a short batch at the end
Seen = list[tuple[int, float]]


def sample(number: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(number).random(8, np.float32), "y": number % 4}


WANTED: Seen = sorted((one["y"], float(one["x"].sum())) for one in map(sample, range(COUNT)))


def write_tars(path: Path) -> None:
    """Four shards, as webdataset's ShardWriter names and fills them."""
    path.mkdir()
    for shard in range(4):
        with tarfile.open(path / f"shard-{shard}.tar", "w") as tar:
            for number in range(shard, COUNT, 4):
                one, array = sample(number), BytesIO()
                np.save(array, one["x"])
                fields = {"x.npy": array.getvalue(), "cls": str(one["y"]).encode()}
                for name, data in fields.items():
                    member = tarfile.TarInfo(f"{number:04}.{name}")
                    member.size = len(data)
                    tar.addfile(member, BytesIO(data))


def write_mds(path: Path) -> None:
    streaming = pytest.importorskip("streaming")
    columns = {"x": "ndarray:float32:8", "y": "int"}
    with streaming.MDSWriter(columns=columns, out=str(path), size_limit=2000) as writer:
        for number in range(COUNT):
            writer.write(sample(number))


def write_chunks(path: Path) -> None:
    """What litdata.optimize does, without its processes."""
    path.mkdir()
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter(str(path), chunk_size=30)
    for number in range(COUNT):
        writer.add_item(number, sample(number))
    writer.done()
    writer.merge()


def pair(section: str) -> list[str]:
    """The two blocks of a section."""
    _, _, text = PAGE.read_text().partition(f"# {section}\n")
    found = re.findall(r"```python\n# (before|after)\n(.*?)```", text, re.DOTALL)[:2]
    assert [name for name, _ in found] == ["before", "after"]
    return [block for _, block in found]


# Other packages leave threads, processes and shared memory: each block is a program of its own.
RUNNING = """
import json, sys
seen = []

def train(x, y):
    assert x.dtype.is_floating_point and x.shape[1:] == (8,) and not y.dtype.is_floating_point
    seen.extend(zip(y.tolist(), x.numpy().sum(axis=1).tolist()))

if __name__ == "__main__":
    exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), globals())
    print("\\nseen", json.dumps(sorted(seen)), flush=True)
"""


@pytest.mark.parametrize(
    ("section", "folder", "write"),
    [
        ("webdataset", "tars", write_tars),
        ("MosaicML Streaming", "mds", write_mds),
        ("LitData", "chunks", write_chunks),
    ],
)
def test_each_pair_trains_on_the_same_samples(
    tmp_path: Path, section: str, folder: str, write: Any
) -> None:
    write(tmp_path / folder)
    (tmp_path / "running.py").write_text(RUNNING)
    for name, block in zip(("before", "after"), pair(section), strict=True):
        (tmp_path / f"{name}.py").write_text(block)
        ran = subprocess.run(
            [sys.executable, "running.py", f"{name}.py"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{STANDINS}"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        found = eval(ran.stdout.rpartition("seen ")[2])
        assert [label for label, _ in found] == [label for label, _ in WANTED], name
        assert np.allclose([x for _, x in found], [x for _, x in WANTED], rtol=1e-5), name


def test_lightning_trains_on_the_same_samples(tmp_path: Path, monkeypatch: Any) -> None:
    write_mds(tmp_path / "mds")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"samples": [sample(i) for i in range(COUNT)]}
    for block in pair("Lightning"):
        exec(compile(block, PAGE.name, "exec"), names)
    for name in ("Model", "Migrated"):
        model, seen = names[name](), []
        step = model.training_step

        def noting(batch: Any, number: int, step: Any = step, seen: Seen = seen) -> Any:
            seen += zip(batch["y"].tolist(), batch["x"].sum(dim=1).tolist(), strict=True)
            return step(batch, number)

        model.training_step = noting
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_checkpointing=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(model)
        assert [label for label, _ in sorted(seen)] == [label for label, _ in WANTED], name
        sums = [x for _, x in sorted(seen)]
        assert np.allclose(sums, [x for _, x in WANTED], rtol=1e-5), name

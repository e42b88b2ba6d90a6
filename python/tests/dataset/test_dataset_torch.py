"""stoker.Dataset in torch's DataLoader. Skipped where torch is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed (tools/requirements-torch.txt)")


def numbers(batch: list[dict[str, Any]]) -> list[int]:
    return [int(sample["cls"]) for sample in batch]


@pytest.mark.parametrize(("context", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers_read_every_sample_once(shards: Path, context: str, workers: int) -> None:
    ds = stoker.Dataset(shards)
    assert ds[0]["cls"] == 0  # a shard is open before the fork
    loader = torch.utils.data.DataLoader(
        ds,
        batch_size=7,
        shuffle=True,
        num_workers=workers,
        collate_fn=numbers,
        multiprocessing_context=context,
    )
    assert sorted(n for batch in loader for n in batch) == list(range(50))


def test_an_error_in_a_worker_keeps_its_kind(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    (shards / "train-001.tar").write_bytes(b"")
    loader = torch.utils.data.DataLoader(ds, num_workers=1, collate_fn=numbers)
    with pytest.raises(OSError, match=r"train-001\.tar"):
        list(loader)


def test_samples_become_tensors_and_gather_fills_one(tmp_path: Path) -> None:
    tokens = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.save(tmp_path / "t.npy", tokens)
    ds = stoker.Dataset(tmp_path / "t.npy")
    out = torch.zeros((2, 4), dtype=torch.int32)
    assert ds.gather([2, 1], out) is out
    assert out.tolist() == tokens[[2, 1]].tolist()

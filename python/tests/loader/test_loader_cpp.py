"""C++ programs and Python give the same samples, and each resumes the other (docs/cpp.md)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

ROOT = Path(__file__).parents[3]
TOOL = Path(os.environ.get("STOKER_LOADER_TOOL", ROOT / "build/release/tests/api/loader_tool"))
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built")


def run_tool(*arguments: object) -> list[str]:
    ran = subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpp") / "shards"
    samples = ({"__key__": f"{i:03}", "cls": i, "note": "n" * i} for i in range(60))
    stoker.ingest(samples, folder, samples_per_shard=25)
    return folder


def python_lines(
    shards: Path, batches: int, shuffle: Any, tail: Any, micro: int, state: str | None = None
) -> list[str]:
    loader = stoker.Loader(
        shards,
        global_batch_size=8,
        micro_batch_size=micro or None,
        shuffle=shuffle,
        seed=7,
        epochs=None,
        total_epochs=3,
        tail=tail,
        fields={"cls": int},
        torch=False,
    )
    if state is not None:
        loader.load_state_dict(state)
    lines = []
    for step, batch in loader.steps():
        lines.append(" ".join([str(step), *batch["__key__"]]))
        if len(lines) == batches:
            break
    state_now = json.dumps(loader.state_dict())
    loader.close()
    return [*lines, state_now]


def same(left: list[str], right: list[str]) -> None:
    assert left[:-1] == right[:-1]
    assert json.loads(left[-1]) == json.loads(right[-1])


@pytest.mark.parametrize(
    ("shuffle", "tail", "micro"),
    [("global", "drop", 0), ("block", "wrap", 2), ("off", "keep", 0), ("resampled", "pad", 4)],
)
def test_both_give_the_same_batches_and_resume_each_other(
    shards: Path, shuffle: str, tail: str, micro: int
) -> None:
    arguments = (shuffle, tail, micro)
    per_step = 8 // micro if micro else 1
    whole = run_tool("run", shards, 1000, *arguments)
    same(whole, python_lines(shards, 1000, *arguments))
    for steps in (3, 9):  # in the first epoch and in the second
        cut = steps * per_step
        in_cpp = run_tool("run", shards, cut, *arguments)
        in_python = python_lines(shards, cut, *arguments)
        same(in_cpp, in_python)
        rest = whole[cut:]
        same(python_lines(shards, 1000, *arguments, in_cpp[-1]), rest)
        same(run_tool("run", shards, 1000, *arguments, in_python[-1]), rest)


def test_a_state_under_a_framework_resumes_in_cpp(shards: Path) -> None:
    loader = stoker.Loader(
        shards, global_batch_size=8, seed=7, epochs=None, total_epochs=3, fields={"cls": int}
    )
    loader.sampler.set_epoch(1)
    next(iter(loader))
    state = loader.state_dict()
    loader.close()
    assert state["framework_epoch"] == 1
    resumed = run_tool("run", shards, 1, "global", "drop", 0, json.dumps(state))
    assert resumed[0] == run_tool("run", shards, 9, "global", "drop", 0)[8]


def test_splits_mixtures_and_tokens_are_the_same_data(shards: Path, tmp_path: Path) -> None:
    data = stoker.Dataset(shards)
    assert run_tool("split", shards, 5, 0.5, 0.3, 0.2) == [
        part.fingerprint for part in data.split([0.5, 0.3, 0.2], seed=5)
    ]
    mixture = stoker.Mixture([(data, 0.7), (data, 0.3)])
    assert run_tool("mixture", shards, shards) == [mixture.fingerprint]
    np.save(tmp_path / "a.npy", np.arange(100, dtype=np.uint16))
    np.save(tmp_path / "b.npy", np.arange(30, dtype=np.uint16))
    for window, pack in ((16, None), (None, 40)):
        tokens = stoker.Tokens(tmp_path, dtype="int64", window=window, pack=pack)
        fingerprint, row = run_tool("tokens", tmp_path, window or 0, pack or 0)
        assert fingerprint == tokens.fingerprint
        assert list(map(int, row.split())) == tokens[1]["tokens"].tolist()

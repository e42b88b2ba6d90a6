"""What Python saves, a C++ program restores and saves again: it comes back to Python as it was."""

from __future__ import annotations

import argparse
import collections
import enum
import io
import os
import pathlib
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import stoker

ROOT = Path(__file__).parents[3]
TOOL = Path(os.environ.get("STOKER_EXCHANGE_TOOL", ROOT / "build/release/tests/api/exchange_tool"))


class Color(enum.Enum):
    """Saved by its value."""

    RED = (1, 2)


def exchanged(directory: Path, target: Path) -> None:
    subprocess.run([TOOL, directory, target], check=True)


def state() -> dict[str, Any]:
    default = collections.defaultdict(int, {"a": 1})
    return {
        "none": None,
        "truth": [True, False],
        "numbers": [0, -1, 2**53, 2**63, -(2**63), 2**64 - 1, 2**200, 0.1, -0.0, 1e300],
        "special": [float("inf"), float("-inf"), complex(1, -0.0)],
        "texts": ["", 'ä\n"\\', "\x00"],
        "bytes": [b"", b"\x00\xff", bytes(range(7))],
        "tuple": (1, ("a", (2.5,))),
        "set": [{1, 2}, frozenset({"a"})],
        "keys": {1: "one", (2, 3): "pair", None: 0, "plain": 1},
        "!odd": {"!a": 1, "b": 2},
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
        "counter": collections.Counter("abca"),
        "default": default,
        "space": argparse.Namespace(lr=0.1, names=["a"]),
        "paths": [pathlib.Path("/data"), pathlib.PurePath("a/b")],
        "types": [np.dtype("<f4"), np.dtype("<M8[ns]")],
        "arrays": {
            "f": np.arange(6, dtype=np.float32).reshape(2, 3),
            "empty": np.zeros((0, 3)),
            "scalar": np.int64(7),
            "none": np.float64(2.5),
            "complex": np.array([1 + 2j, 3 - 4j]),
            "time": np.array(["2026-01-01"], "M8[D]"),
            "text": np.array(["ab", "c"]),
            "dimensionless": np.array(3.0),
        },
    }


def same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    else:
        assert repr(left) == repr(right)


def test_everything_that_python_saves_comes_back_through_cpp(tmp_path: Path) -> None:
    shared = np.arange(3.0)
    with stoker.Checkpointer(tmp_path / "python") as saver:
        saver.save(
            5,
            state=state(),
            tied={"a": shared, "b": shared},
            color=Color.RED,
            stream=io.BytesIO(b"abc"),
            reference={"loss": 0.1, "nan": float("nan")},
            extra={"git": "abc", "note": (1, 2)},
        ).wait()
    exchanged(tmp_path / "python", tmp_path / "cpp")
    with stoker.Checkpointer(tmp_path / "cpp") as saver:
        done = saver.restore(state=None, tied=None, color=None, stream=None)
    assert done == 5
    assert done.trees["color"] == (1, 2)
    assert done.trees["stream"].getvalue() == b"abc"
    assert done.trees["tied"]["a"] is done.trees["tied"]["b"]
    assert repr(done.reference) == "{'loss': 0.1, 'nan': nan}"
    assert done.extra == {"git": "abc", "note": (1, 2)}
    same(done.trees["state"], state())
    # The text of the trees is the same, but for the names of tensors that came first elsewhere.
    first, second = (next((tmp_path / name).glob("step-*/manifest.json")).read_text()
                     for name in ("python", "cpp"))  # fmt: skip
    assert [line for line in first.splitlines() if line.startswith('{"state"')] == [
        line for line in second.splitlines() if line.startswith('{"state"')
    ]


def test_the_position_of_a_loader_comes_back_through_cpp(tmp_path: Path) -> None:
    stoker.ingest(({"n": i} for i in range(100)), tmp_path / "shards")

    def loader() -> stoker.Loader:
        return stoker.Loader(tmp_path / "shards", batch_size=7, seed=2**64 - 1, epochs=None,
                             fields={"n": int}, torch=False)  # fmt: skip

    first = loader()
    batches = iter(first)
    for _ in range(20):
        next(batches)
    with stoker.Checkpointer(tmp_path / "python") as saver:
        saver.save(20, state={}, loader=first).wait()
    exchanged(tmp_path / "python", tmp_path / "cpp")
    second = loader()
    with stoker.Checkpointer(tmp_path / "cpp") as saver:
        done = saver.restore(state=None, loader=second)
    assert done is not None
    assert second.state_dict() == first.state_dict()
    step, batch = next(second.steps())
    assert step == 21
    assert batch["n"].tolist() == next(batches)["n"].tolist()
